"""A proxy before the S3-compatible server that answers 503 or 403, is slow, or loses requests and answers, as a test says."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

__all__ = ["Fault", "FaultyStore", "Kind", "faulty_store"]

Kind = Literal["busy", "denied", "slow", "request lost", "answer lost"]
_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_INSTEAD: dict[str | None, tuple[int, dict[str, str], bytes]] = {"busy": (503, {}, _BUSY), "denied": (403, {}, _DENIED)}
_OF_A_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}


@dataclass
class Fault:
    """What happens to requests whose ``METHOD /path?query`` matches: `skip` pass, then `times` (every n-th) are hit."""

    kind: Kind
    request: str
    times: int
    skip: int = 0
    every: int = 1

    def hits(self, request: str) -> bool:
        """Whether it happens to this request, which is counted."""
        if not re.search(self.request, request):
            return False
        self.skip -= 1
        if self.skip >= 0 or self.times <= 0 or -self.skip % self.every:
            return False
        self.times -= 1
        return True


class FaultyStore(ThreadingHTTPServer):
    """The proxy; `faults` may be changed at any time, and the first that hits counts. `hit` has the requests that were hit."""

    daemon_threads = True
    slow_s = 0.1
    slowly: Callable[[], None] | None = None

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind.removeprefix("http://")
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.faults: list[Fault] = []
        self.hit: list[str] = []
        self._guard = threading.Lock()

    def fault_of(self, request: str) -> Kind | None:
        """What happens to a request."""
        with self._guard:
            found = next((fault.kind for fault in self.faults if fault.hits(request)), None)
            if found is not None:
                self.hit.append(request)
            return found

    def handle_error(self, *_: object) -> None:
        """A client that has gone away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyStore

    def _pass_on(self) -> None:
        # Of a connection that is used again curl repeats a lost request itself, whatever it was.
        self.close_connection = True
        body = self._body()
        kind = self.server.fault_of(f"{self.command} {self.path}")
        if kind == "slow":
            (self.server.slowly or partial(time.sleep, self.server.slow_s))()
        if kind == "request lost":
            return
        status, headers, content = _INSTEAD.get(kind) or self._answer(body)
        if kind == "answer lost":
            return
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in _OF_A_CONNECTION or (name.lower() == "content-length" and self.command == "HEAD"):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts: list[bytes] = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        link = HTTPConnection(self.server.behind, timeout=60)
        try:
            given = {name: value for name, value in self.headers.items() if name.lower() not in ("transfer-encoding", "expect")}
            link.request(self.command, self.path, body, {**given, "Content-Length": str(len(body))})
            answer = link.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            link.close()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is logged."""


@contextmanager
def faulty_store(behind: str) -> Iterator[FaultyStore]:
    """The proxy while within; without faults everything passes."""
    with FaultyStore(behind) as store:
        thread = threading.Thread(target=store.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield store
        finally:
            store.shutdown()
            thread.join()
