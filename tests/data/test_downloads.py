import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gedi.cli import main
from gedi.data import downloads, fetch
from gedi.data.downloads import DOWNLOADS, Download
from gedi.data.official import CIFAR
from gedi.data.sources import IMAGES
from gedi.errors import DataError

FILES = {"one.gz": b"first file", "two.gz": b"second file"}


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        self.server.asked.append(self.path)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A mirror on this machine, the only one for MNIST."""
    (tmp_path / "served").mkdir()
    for name, content in FILES.items():
        (tmp_path / "served" / name).write_bytes(content)
    served = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(tmp_path / "served")))
    served.asked = []
    threading.Thread(target=served.serve_forever, daemon=True).start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("GEDI_DATA", str(tmp_path / "data"))
    served.mirror = f"http://127.0.0.1:{served.server_port}/"
    use(monkeypatch, [served.mirror])
    yield served
    served.shutdown()
    served.server_close()


def use(monkeypatch, mirrors, **changed):
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()} | changed
    monkeypatch.setitem(downloads.DOWNLOADS, "mnist", Download(tuple(mirrors), hashes, 1))


def test_files_arrive_once_and_are_checked(server, tmp_path, capfd):
    folder = fetch("MNIST")
    assert folder == tmp_path / "data" / "mnist"
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == FILES
    asked = len(server.asked)
    fetch("mnist")
    assert len(server.asked) == asked  # they were there
    (folder / "one.gz").write_bytes(b"damaged on the disk")
    fetch("mnist")
    assert (folder / "one.gz").read_bytes() == FILES["one.gz"]
    assert "".join(capfd.readouterr()) == ""


def test_a_file_with_another_hash_is_refused(server, tmp_path, monkeypatch):
    use(monkeypatch, [server.mirror], **{"two.gz": "0" * 64})
    with pytest.raises(DataError, match=r"two\.gz serves a different file .*SHA-256 is not 000") as caught:
        fetch("mnist")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "data" / "mnist" / "two.gz").exists()
    assert [p.name for p in (tmp_path / "data" / "mnist").iterdir()] == ["one.gz"]


def test_the_next_mirror_is_tried(server, monkeypatch):
    use(monkeypatch, [server.mirror + "nothing-here/", "http://127.0.0.1:9/", server.mirror])
    assert {p.name for p in fetch("mnist").iterdir()} == set(FILES)


def test_without_a_network(server, monkeypatch, tmp_path):
    use(monkeypatch, ["http://127.0.0.1:9/"])
    with pytest.raises(DataError, match=r"one\.gz cannot be downloaded \(ConnectionError\).*yourself"):
        fetch("mnist")
    (tmp_path / "file").touch()
    monkeypatch.setenv("GEDI_DATA", str(tmp_path / "file"))
    with pytest.raises(DataError, match="Cannot create"):
        fetch("mnist")


def test_names_that_cannot_be_fetched():
    with pytest.raises(DataError, match="comes with gedi"):
        fetch("moons")
    with pytest.raises(DataError, match="did you mean 'cifar10'"):
        fetch("cifar-10")
    with pytest.raises(DataError, match="choose from mnist"):
        fetch("zzzqqq")


def test_the_command(server, capsys, tmp_path):
    assert main(["fetch", "mnist"]) == 0
    assert str(tmp_path / "data" / "mnist") in capsys.readouterr().out.replace("\n", "")
    assert main(["fetch", "mnits"]) == 2
    assert "did you mean 'mnist'" in capsys.readouterr().err


def test_every_named_set_has_files_with_hashes_under_the_names_its_reader_looks_for():
    assert set(DOWNLOADS) == set(IMAGES)
    hashes = [h for download in DOWNLOADS.values() for h in download.sha256.values()]
    assert len(set(hashes)) == len(hashes) == 12 and all(len(h) == 64 and int(h, 16) for h in hashes)
    assert all(url.endswith("/") for d in DOWNLOADS.values() for url in d.mirrors)
    for name, layout in CIFAR.items():
        assert list(DOWNLOADS[name].sha256) == [layout.archive]
    assert set(DOWNLOADS["mnist"].sha256) == set(DOWNLOADS["fashion-mnist"].sha256)
