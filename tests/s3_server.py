"""An S3-compatible server on the loopback (moto), for tests that write to an object store and read from it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from counterpoise.pipeline.storage.files import join, write_bytes
from tests.faulty_store import FaultyStore, faulty_store

__all__ = ["s3", "s3_environment", "store", "upload"]

_PROGRAM = """
import logging, socket, sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

logging.disable()
bound = socket.socket(fileno=int(sys.argv[1]))
bound.listen()
app = DomainDispatcherApplication(create_backend_app)
server = make_server(*bound.getsockname(), app, threaded=True, fd=bound.fileno())
threading.Thread(target=server.serve_forever, daemon=True).start()
print("listening", flush=True)
sys.stdin.read()
"""
"""The server says when it listens, however long that takes, and ends with the tests: its standard input is closed then."""
_KEYS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="session")
def _bound() -> Iterator[socket.socket]:
    """A port that nobody else gets meanwhile; nothing listens there yet."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


@pytest.fixture(scope="session", autouse=True)
def s3_environment(_bound: socket.socket) -> Iterator[str]:
    """The endpoint, in the environment of everything that is started from here on."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**_KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{_bound.getsockname()[1]}"}.items():
            patch.setenv(name, value)
        yield os.environ["AWS_ENDPOINT_URL"]


@pytest.fixture(scope="session")
def _server(_bound: socket.socket, s3_environment: str) -> Iterator[str]:
    program = [sys.executable, "-c", _PROGRAM, str(_bound.fileno())]
    pipe, shared = subprocess.PIPE, [_bound.fileno()]
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, pass_fds=shared) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"listening\n", "the S3-compatible server has ended"
            yield s3_environment
        finally:
            server.terminate()


@pytest.fixture
def s3(_server: str) -> str:
    """A bucket of the test's own, as a URI."""
    name = f"bucket-{uuid.uuid4()}"
    # A busy machine may take longer than the three seconds that the client would wait.
    patient = {"request_timeout": 60.0, "connect_timeout": 60.0}
    pafs.S3FileSystem(endpoint_override=_server, allow_bucket_creation=True, **patient).create_dir(name)
    return f"s3://{name}"


@pytest.fixture
def store(_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyStore]:
    """A proxy before the server, through which all requests of the test go; it has no faults yet."""
    with faulty_store(_server) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


def upload(folder: Path, uri: str) -> str:
    """Every file below a folder, to a place of the store; returns the place."""
    for file in folder.rglob("*"):
        if file.is_file():
            write_bytes(join(uri, *file.relative_to(folder).parts), file.read_bytes())
    return uri
