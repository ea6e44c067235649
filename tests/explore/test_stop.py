"""Ctrl-C ends `gedi explore` at once, with exit code 0 and one sentence, whatever is going on."""

import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from gedi.cli import main

PATIENCE = 300  # seconds: a busy machine is not a hanging server


def hear_ctrl_c():
    """As in a terminal: a process that a shell starts in the background ignores Ctrl-C, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def exploring_process(rows_run):
    """The program in its own process, and its URL, once it answers."""
    words = [sys.executable, "-m", "gedi", "explore", str(rows_run), "--no-browser"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, preexec_fn=hear_ctrl_c) as process:
        try:
            assert process.stdout
            url = process.stdout.readline().strip()
            assert urlopen(url, timeout=PATIENCE).status == 200
            yield process, url
        finally:
            process.kill()


@pytest.mark.parametrize("pending", [[], ["", "Content-Length: 10\r\n\r\n1,2"]], ids=["nothing", "parts of requests"])
def test_ctrl_c_ends_it(exploring_process, pending):
    process, url = exploring_process
    there = urlsplit(url)
    with ExitStack() as clients:
        for rest in pending:
            client = clients.enter_context(socket.create_connection((there.hostname, there.port), timeout=PATIENCE))
            client.sendall(f"POST {there.path}answer HTTP/1.1\r\nHost: {there.netloc}\r\n{rest}".encode())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert out == "" and err.endswith("gedi explore has stopped\n") and "Traceback" not in err
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((there.hostname, there.port), timeout=PATIENCE)


def test_ctrl_c_while_the_run_is_being_read_stops_the_program(rows_run, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("gedi.runs.load", stop)
    assert main(["explore", str(rows_run), "--no-browser"]) == 130
    assert capsys.readouterr().err == "gedi: stopped.\n"


def test_an_answer_in_progress_ends_before_the_program(serve, rows_run):
    """Closing the server takes the lock of the answers for good."""
    with serve(rows_run) as server:
        assert not server.answering.locked()
    assert server.answering.locked()
