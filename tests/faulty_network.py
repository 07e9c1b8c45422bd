"""A TCP proxy before a broker that delays, holds back or cuts connections, as a test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["Proxy", "proxy"]


class Proxy:
    """Passes connections at `address` on to a port of the loopback; `delay_s` is how late each piece of data arrives."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.behind = 0
        self.delay_s = 0.0
        self._flows, self._ended = threading.Event(), threading.Event()
        self._flows.set()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """Close all connections; returns how many there were."""
        ends = list(self._open)
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        return len(ends) // 2

    def hold(self) -> None:
        """From now on nothing arrives, and no connection is closed: what is sent waits for `release`."""
        self._flows.clear()

    def release(self) -> None:
        """What was held back arrives, and everything after it."""
        self._flows.set()

    def close(self) -> None:
        """Cut everything and end."""
        self._ended.set()
        self.release()
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.behind), timeout=10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open |= {near, far}
            for from_, to in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(from_, to), daemon=True).start()

    def _pass_on(self, from_: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := from_.recv(65_536):
                self._flows.wait()
                if self.delay_s:
                    self._ended.wait(self.delay_s)
                to.sendall(data)
        for end in (from_, to):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.discard(from_)
        from_.close()


@contextmanager
def proxy() -> Iterator[Proxy]:
    """A proxy while within; set `behind` to the port that it stands before."""
    made = Proxy()
    try:
        yield made
    finally:
        made.close()
