"""The process of one audit that `apart.Apart` has started: told what to do, it does it, stores when it may, and ends."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from counterpoise.errors import CounterpoiseError
from counterpoise.pipeline.follow.link import Link
from counterpoise.pipeline.incremental.journal import HandOver

__all__ = ["serve"]

Said: TypeAlias = dict[str, Any]
Work: TypeAlias = Callable[[Mapping[str, Any], HandOver], object]


def serve(end: int, work: Work) -> None:
    """Do ``work(task, handover)`` for the parent at the other end of a link; without a parent any more, end at once.

    Parameters
    ----------
    end : int
        File descriptor of the socket.
    work : callable
    """
    # The parent ends this process and all it starts; a JVM that is started ignoring a signal leaves it so.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with Link(socket.socket(fileno=end)) as link:
        heard: queue.SimpleQueue[Said] = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(link, heard), name="counterpoise-parent", daemon=True).start()
        task = heard.get()
        os.nice(task["nice"])

        @contextmanager
        def handover(positions: Mapping[str, Mapping[str, int]], staged: Path) -> Iterator[list[tuple[Path, Path]]]:
            link.send({"positions": positions, "staged": str(staged)})
            yield [(Path(one), Path(to)) for one, to in heard.get()["live"]]
            link.send({"stored": True})

        try:
            work(task, handover)
        except CounterpoiseError as error:
            link.send({"error": type(error).__name__, "words": str(error)})
        except Exception as error:  # noqa: BLE001 - the parent raises it
            traceback.print_exc()
            words = next((line for line in str(error).splitlines() if line.strip()), "no words")
            link.send({"error": type(error).__name__, "words": f"{task['source']}: the audit has failed ({words[:300]})"})
        else:
            link.send({"done": True})
        heard.get()  # Until the parent ends this process: it need not tidy up, for its scratch folder goes with it.


def _listen(link: Link, heard: queue.SimpleQueue[Said]) -> None:
    while (said := link.receive()) is not None:
        heard.put(said)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
