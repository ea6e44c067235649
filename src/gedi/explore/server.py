"""HTTP on the loopback address. Only requests with the token are answered.

A page from another site could make the user's own browser send requests here. Therefore the Host must be this address,
not just any name that points to 127.0.0.1; requests caused by other origins are refused; and every path starts with a
token that no other page can know.
"""

from __future__ import annotations

import io
import secrets
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from gedi.errors import ConfigError
from gedi.explore.site import Reply, Site, problem
from gedi.explore.uploads import BODY_BYTES

ADDRESS = "127.0.0.1"
NAME_HEADER = "X-File-Name"  # percent-encoded; a custom header also makes browsers ask before a cross-origin request
SILENCE = 30.0  # seconds without data before a request times out
SLOWEST = 60.0  # seconds a body may take; 32 MB on the loopback address take less than one
SAME_ORIGIN = ("same-origin", "none")  # "none": typed or bookmarked, not caused by a page
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}


class ExploreServer(ThreadingHTTPServer):
    """Serves a site to anyone who has the ``url``; ``port`` 0 picks a free port."""

    daemon_threads = True

    def __init__(self, site: Site, *, port: int = 0) -> None:
        self.site = site
        self.token = secrets.token_urlsafe(32)
        self.reading = threading.Lock()  # one body at a time, to bound the memory
        self.answering = threading.Lock()  # one answer at a time, and none while the program ends
        try:
            super().__init__((ADDRESS, port), Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"Port {port} cannot be used ({error}): choose another --port, or leave it out."
            ) from error

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's version would look up the host name
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    def server_close(self) -> None:
        """Wait for an answer in progress: stopping a thread inside torch would abort the program."""
        self.answering.acquire()  # never released
        super().server_close()

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A closed connection is not an error."""


class Handler(BaseHTTPRequestHandler):
    """One request: refused, or handed to the site."""

    server: ExploreServer
    server_version, sys_version = "gedi", ""
    timeout = SILENCE

    @property
    def _home(self) -> str:
        return f"/{self.server.token}/"

    def do_GET(self) -> None:
        self._reply(self._answer())

    do_POST = do_GET

    def _answer(self) -> Reply:
        hosts = self.headers.get_all("Host", [])
        own = [f"{name}:{self.server.server_port}" for name in (ADDRESS, "localhost")]
        if len(hosts) != 1 or hosts[0].lower() not in own:
            return problem(421, "This server does not answer for that host name.")
        origins = self.headers.get_all("Origin", [])
        if any(origin != f"http://{hosts[0].lower()}" for origin in origins):
            return problem(403, "Requests from other pages are refused.")
        if self.headers.get("Sec-Fetch-Site", "none") not in SAME_ORIGIN:
            return problem(403, "Requests from other pages are refused.")
        start, token, path = (*self.path.split("/", 2), "", "")[:3]
        if start or not secrets.compare_digest(token.encode(), self.server.token.encode()):
            return problem(403, "The token is missing or wrong: use the URL printed by gedi explore.")
        return self._get(path) if self.command == "GET" else self._post(path)

    def _get(self, path: str) -> Reply:
        if self.path == self._home.rstrip("/"):  # relative links would be resolved beside the token, not under it
            return Reply(307, "text/plain", b"")
        with self.server.answering:
            return self.server.site.get(path)

    def _post(self, path: str) -> Reply:
        lengths = self.headers.get_all("Content-Length", [])
        length = lengths[0] if len(lengths) == 1 else ""
        if self.headers.get("Transfer-Encoding") or not length:
            return problem(411, "The request must have exactly one Content-Length.")
        if not (length.isascii() and length.isdecimal() and len(length) < 20):
            return problem(400, "The Content-Length is not a number.")
        if int(length) > BODY_BYTES:
            size = f"The file has {int(length):,} bytes, but the limit here is {BODY_BYTES:,}"
            return problem(413, f"{size}: use gedi predict instead.")
        with self.server.reading:
            body = self._body(int(length))
            if len(body) < int(length):
                return problem(400, "The file is shorter than its Content-Length, or arrived too slowly.")
            with self.server.answering:
                return self.server.site.post(path, body, unquote(self.headers.get(NAME_HEADER, ""))[:1000])

    def _body(self, length: int) -> bytes:
        """As much of a body as arrives in time."""
        body, until = io.BytesIO(), time.monotonic() + SLOWEST
        while (left := length - body.tell()) and time.monotonic() < until:
            if not (some := self.rfile.read1(left)):
                break
            body.write(some)
        return body.getvalue()

    def _reply(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", reply.policy)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.body)))
        if reply.status == 307:
            self.send_header("Location", self._home)
        if reply.status == 405:
            self.send_header("Allow", "GET, POST")
        self.end_headers()
        self.wfile.write(reply.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Called by the request parser when it rejects a request; 501 is its code for an unknown method."""
        self.close_connection = True
        if code == 501:
            self._reply(problem(405, "Only GET and POST are supported."))
        else:
            self._reply(problem(code, message or "The request cannot be read."))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged, since URLs contain the token."""
