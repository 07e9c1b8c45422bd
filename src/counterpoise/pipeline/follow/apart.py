"""Audits in processes of their own, of low priority: the stream has its session, and the processor first, to itself."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from counterpoise import errors
from counterpoise.pipeline.follow.audits import Job
from counterpoise.pipeline.follow.link import Link
from counterpoise.pipeline.gateway import forward, without_sigterm
from counterpoise.pipeline.incremental.journal import HandOver, Journal
from counterpoise.pipeline.incremental.saved import load

__all__ = ["NICE", "Apart"]

NICE = 10
"""How much an audit beside the stream gives way: it has a tenth of what the stream's threads get, where both want a core."""


class Apart:
    """Audits, each in a process that is started for it (see `apart_child`); of two, one is under way at most.

    Parameters
    ----------
    job : Job
    command : sequence of str
        What is started: a program that calls `apart_child.serve` with its last argument, and does `apart_audit.audit_for`.

    Notes
    -----
    The audit's output folder is locked by the parent. The child inherits the lock, so nobody else writes there as long as one of
    the two lives; it is the child that stores, while the parent holds the live rows still. A child that is alone ends itself,
    and what a killed one had begun to store the parent finishes.
    """

    def __init__(self, job: Job, command: Sequence[str]) -> None:
        self._job, self._command = job, tuple(command)
        self._given_up = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def give_up(self) -> None:
        """As `Audits`; all later ones are given up too."""
        with self._lock:
            self._given_up.set()
            if self._process is not None:
                _kill(self._process)

    def run(self, journal: Journal, handover: HandOver, *, beside: bool) -> None:
        """As `Audits`.

        Raises
        ------
        CounterpoiseError
            What the audit raised; its process has ended.
        """
        scratch = journal.root / "spark"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        job = self._job
        task: dict[str, Any] = {
            "source": str(job.source),
            "out": str(job.out),
            "cluster": job.cluster,
            "groups": list(job.groups),
        }
        task |= {
            "groups": job.groups,
            "strategies": job.strategies,
            "scratch": str(scratch.absolute()),
            "nice": NICE if beside else 0,
        }
        ours, its = socket.socketpair()
        with Link(ours) as link, self._started(its, journal) as process:
            link.send(task)
            self._attend(link, process, journal, handover)

    def _attend(self, link: Link, process: subprocess.Popen[bytes], journal: Journal, handover: HandOver) -> None:
        before = _number(journal)
        while (said := link.receive()) is not None:
            if "done" in said:
                return
            if "error" in said:
                raise _error(said)
            with handover(said["positions"], Path(said["staged"])) as live:
                link.send({"live": [[str(one), str(to)] for one, to in live]})
                answer = link.receive()
                if answer is None or "stored" not in answer:
                    _end(process)
                    journal.recover()
                    if _number(journal) == before:
                        raise self._ended(process, answer)
            if answer is None or "stored" not in answer:
                raise self._ended(process, answer)
        raise self._ended(process, None)

    def _ended(self, process: subprocess.Popen[bytes], said: dict[str, Any] | None) -> errors.CounterpoiseError:
        _end(process)
        if said is not None and "error" in said:
            return _error(said)
        words = f"the process of the audit has ended ({_how(process)})"
        return errors.SourceError(f"{self._job.out}: {words}; start again, nothing is lost")

    @contextmanager
    def _started(self, its: socket.socket, journal: Journal) -> Iterator[subprocess.Popen[bytes]]:
        assert journal.lock is not None, "the journal is not open"
        with its, self._lock:
            if self._given_up.is_set():
                raise errors.SourceError(f"{self._job.out}: the audit was given up")
            with without_sigterm():
                self._process = process = subprocess.Popen(
                    [*self._command, str(its.fileno())],
                    pass_fds=(its.fileno(), journal.lock.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    process_group=0,  # Ctrl-C at a terminal is for the parent alone.
                )
        assert process.stdout is not None
        reader = threading.Thread(target=forward, args=(os.dup(process.stdout.fileno()), _Unless(self._given_up)), daemon=True)
        reader.start()
        try:
            yield process
        finally:
            _end(process)
            process.stdout.close()
            with self._lock:
                self._process = None


class _Unless:
    """Standard error, until the event is set: nobody wants to hear how something ends that was told to."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def write(self, text: str) -> None:
        if not self._event.is_set() and sys.__stderr__ is not None:
            sys.__stderr__.write(text)

    def flush(self) -> None:
        if sys.__stderr__ is not None:
            sys.__stderr__.flush()


def _number(journal: Journal) -> int:
    saved = load(journal.root / "state.json")
    return 0 if saved is None else saved.number


def _error(said: dict[str, Any]) -> errors.CounterpoiseError:
    kind = getattr(errors, said["error"], None)
    known = isinstance(kind, type) and issubclass(kind, errors.CounterpoiseError)
    found: errors.CounterpoiseError = kind(said["words"]) if known else errors.SourceError(said["words"])  # type: ignore[misc]
    return found


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process and what it has started; Spark's Python workers end when the JVM does."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    _kill(process)
    process.wait()


def _how(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
