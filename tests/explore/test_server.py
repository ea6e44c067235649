"""Who is answered, and who is not."""

import json
import socket

import pytest

from gedi.errors import ConfigError
from gedi.explore import ExploreServer
from gedi.explore import server as server_module


def test_a_client_with_the_url_is_answered(talk):
    status, headers, content = talk()
    assert status == 200 and headers["Content-Type"].startswith("text/html") and b"Drop new data here" in content


def test_a_url_without_its_last_slash_redirects_to_the_one_with_it(talk, server):
    status, headers, _ = talk(target=f"/{server.token}")
    assert status == 307 and headers["Location"] == f"/{server.token}/"
    assert talk(target=f"/{server.token[:-1]}")[0] == 403
    assert talk("POST", target=f"/{server.token}", body=b"1,2\n")[0] == 404


def test_it_listens_on_the_loopback_address_only(server):
    assert server.socket.getsockname()[0] == "127.0.0.1" and server.url.startswith("http://127.0.0.1:")


def test_tokens_are_long_and_never_the_same(server, rows_run, serve):
    with serve(rows_run) as other:
        assert len(server.token) >= 40 and other.token != server.token and other.server_port != server.server_port


@pytest.mark.parametrize("token", ["", "x", "TOKEN"[:-1], "TOKENx", "token", "%00", "%ff"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_wrong_or_missing_token_is_refused(talk, server, token, method):
    wrong = token.replace("TOKE", server.token[:-1]) if token.startswith("TOKE") else token
    status, _, content = talk(
        method, "answer" if method == "POST" else "", b"" if method == "POST" else None, token=wrong
    )
    assert status == 403 and "token" in json.loads(content)["error"]


@pytest.mark.parametrize("target", ["/", "/x/TOKEN/", "http://127.0.0.1/TOKEN/", "/?token=TOKEN", "*"])
def test_the_token_belongs_at_the_start_of_the_path(talk, server, target):
    assert talk(target=target.replace("TOKEN", server.token))[0] == 403


def test_tokens_are_compared_in_constant_time(talk, monkeypatch):
    seen = []
    compare = server_module.secrets.compare_digest
    monkeypatch.setattr(server_module.secrets, "compare_digest", lambda a, b: seen.append(a) or compare(a, b))
    talk(token="wrong")
    assert seen == [b"wrong"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:PORT", "", None]
)
def test_other_hosts_are_refused(talk, server, host):
    """A request through a name that points to 127.0.0.1 carries that name."""
    given = host.replace("PORT", str(server.server_port)) if host else host
    assert talk(headers={"Host": given})[0] == 421


def test_localhost_is_this_host(talk, server):
    assert talk(headers={"Host": f"localhost:{server.server_port}"})[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:PORT", "http://127.0.0.1:1"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_origins_are_refused(talk, server, origin, method):
    origin = origin.replace("PORT", str(server.server_port))
    body = b"1,2\n" if method == "POST" else None
    assert talk(method, "answer" if body else "", body, headers={"Origin": origin})[0] == 403


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_requests_caused_by_other_pages_are_refused(talk, site, status):
    assert talk(headers={"Sec-Fetch-Site": site})[0] == status


def test_the_pages_own_origin_is_answered(talk, server):
    headers = {"Origin": f"http://127.0.0.1:{server.server_port}", "Sec-Fetch-Site": "same-origin"}
    assert talk("POST", "answer", b"1,2\n", headers=headers)[0] == 200


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "BREW"])
def test_other_methods_are_refused(talk, method):
    status, headers, _ = talk(method)
    assert status == 405 and headers["Allow"] == "GET, POST"


@pytest.mark.parametrize(
    "path",
    [
        "../config.yaml",
        "config.yaml",
        "report.html/../config.yaml",
        "..%2fconfig.yaml",
        "%2e%2e/config.yaml",
        "/etc/passwd",
        "//etc/passwd",
        "..\\config.yaml",
        "panel/../../server.py",
        "server.py",
        "report.html%00",
        "example/0.png",
        "example/../about.json",
    ],
)
def test_the_path_of_a_request_is_never_the_path_of_a_file(talk, path):
    status, _, content = talk(path=path)
    assert status == 404 and json.loads(content) == {"error": "Not found."}


def test_a_body_over_the_limit_is_refused_before_it_is_read(talk):
    """The body is never sent, so an answer can only come from the header."""
    status, _, content = talk("POST", "answer", headers={"Content-Length": str(2**40)})
    assert status == 413 and "gedi predict" in json.loads(content)["error"]


def test_a_body_at_the_limit_is_read(talk, monkeypatch):
    monkeypatch.setattr(server_module, "BODY_BYTES", 4)
    assert talk("POST", "answer", b"1,2\n")[0] == 200
    assert talk("POST", "answer", b"1,2\n3")[0] == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 411),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Transfer-Encoding": "chunked", "Content-Length": "4"}, 411),
        ({"Content-Length": "-1"}, 400),
        ({"Content-Length": "+4"}, 400),
        ({"Content-Length": "1_0"}, 400),
        ({"Content-Length": "٤"}, 400),
        ({"Content-Length": "9" * 30}, 400),
        ({"Content-Length": "4", "content-length": "5"}, 411),
    ],
)
def test_a_body_without_a_valid_length_is_refused(talk, headers, status):
    encoded = {name: value.encode() for name, value in headers.items()}
    assert talk("POST", "answer", headers=encoded)[0] == status


def test_a_silent_client_is_given_up_on(server, monkeypatch):
    monkeypatch.setattr(server.RequestHandlerClass, "timeout", 0.05)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as client:
        client.sendall(f"POST /{server.token}/answer HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n".encode())
        client.sendall(b"Content-Length: 10\r\n\r\n1,2")
        assert client.recv(100) == b""


def post_head(server, length):
    return (
        f"POST /{server.token}/answer HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def test_a_body_that_drips_is_given_up_on(server, talk, monkeypatch):
    """It is never silent for long and never ends, and would keep everyone else waiting."""
    monkeypatch.setattr(server_module, "SLOWEST", 0.0)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as client:
        client.sendall(post_head(server, 10) + b"1")
        assert client.recv(100).startswith(b"HTTP/1.0 400")
    monkeypatch.undo()
    assert talk("POST", "answer", b"1,2\n")[0] == 200


def test_a_body_longer_than_its_length_is_cut_there(server):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as client:
        client.sendall(post_head(server, 4) + b"1,2\n" + b"GET /../../etc/passwd HTTP/1.1\r\n\r\n")
        said = b"".join(iter(lambda: client.recv(65536), b""))
    assert said.startswith(b"HTTP/1.0 200") and said.count(b'"row":') == 1 == said.count(b"HTTP/1.0")


def test_a_body_that_stops_short_is_refused(server):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as client:
        client.sendall(post_head(server, 10) + b"1,2\n")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100).startswith(b"HTTP/1.0 400")


def test_many_silent_clients_do_not_block_the_page(server, talk):
    silent = [socket.create_connection(("127.0.0.1", server.server_port), timeout=10) for _ in range(50)]
    for client in silent:
        client.sendall(b"GET / HTTP/1.1\r\nHost:")
    assert talk()[0] == 200
    for client in silent:
        client.close()


@pytest.mark.parametrize(
    "raw", [b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n\r\n"]
)
def test_anything_but_http_is_ignored_quietly(server, talk, raw, capfd):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as client:
        client.sendall(raw)
        client.recv(1000)
    assert talk()[0] == 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("path", ["", "panel.js", "panel.css", "about.json", "report.html", "nothing"])
def test_every_reply_forbids_what_a_page_does_not_need(talk, path):
    _, headers, _ = talk(path=path)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "http" not in policy and "*" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store" and "Access-Control-Allow-Origin" not in headers
    assert "Python" not in headers["Server"]
    if path == "report.html":
        assert "sandbox allow-scripts;" in policy and "connect-src" not in policy
    else:
        assert "unsafe" not in policy


def test_a_port_in_use_is_refused(server):
    with pytest.raises(ConfigError, match=f"Port {server.server_port} cannot be used"):
        ExploreServer(server.site, port=server.server_port)


def test_no_name_is_looked_up(rows_run, serve, monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("asked a name server"))
    with serve(rows_run):
        pass
