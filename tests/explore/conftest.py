"""Runs of a few iterations, and a server for each on a free port."""

import http.client
import json
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from gedi import GEDI, runs
from gedi.explore import ExploreServer, Site, find_examples

TINY = {"step1.iterations": 3, "step2.iterations": 3, "sampler.steps": 1, "dam.steps": 1, "start.nodes": 5}
rng = np.random.default_rng(0)
ROWS = np.vstack([rng.normal(-3, 0.4, (20, 2)), rng.normal(3, 0.4, (20, 2))])
IMAGES = rng.integers(0, 256, (30, 8, 8, 3)).astype(np.float64)


def fitted(folder, x, **options):
    GEDI(n_clusters=2, preset="smoke", training=TINY, random_state=0, **options).fit(x).save(folder)
    return folder


@pytest.fixture(scope="session")
def rows_run(tmp_path_factory):
    """A run on rows of two features."""
    return fitted(tmp_path_factory.mktemp("rows") / "run", ROWS)


@pytest.fixture(scope="session")
def image_run(tmp_path_factory):
    """A run on colour images of 8 x 8 pixels."""
    return fitted(tmp_path_factory.mktemp("images") / "run", IMAGES)


@contextmanager
def serving(folder, data=None):
    examples = find_examples(runs.load(folder), folder, data)
    with ExploreServer(Site(folder, examples)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def serve():
    """A context manager: a running server for a run's folder."""
    return serving


@pytest.fixture(scope="session")
def server(rows_run):
    with serving(rows_run) as server:
        yield server


@pytest.fixture(scope="session")
def image_server(image_run):
    with serving(image_run) as server:
        yield server


class Talk:
    """Requests to a server, any part of which can be made wrong."""

    def __init__(self, server):
        self.server = server

    def __call__(self, method="GET", path="", body=None, *, token=None, target=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=10)
        token = self.server.token if token is None else token
        connection.putrequest(method, target or f"/{token}/{path}", skip_host=True, skip_accept_encoding=True)
        given = {"Host": f"127.0.0.1:{self.server.server_port}"} | dict(headers)
        if body is not None:
            given = {"Content-Length": str(len(body))} | given
        for name, value in given.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body)
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply.status, dict(reply.getheaders()), content

    def ask(self, body, name="rows.csv"):
        status, _, content = self("POST", "answer", body, headers={"X-File-Name": name})
        return status, json.loads(content)


@pytest.fixture
def talk(server):
    return Talk(server)


@pytest.fixture
def talk_images(image_server):
    return Talk(image_server)
