"""The command line as processes: started, waited for, ended by a signal; and the processes that they have started."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "RUN", "WITHIN_S", "command", "family", "is_jvm", "python_workers", "started", "wait", "wait_for_the_end", "wait_or_end",
]  # fmt: skip

RUN = (sys.executable, "-m", "counterpoise")
WITHIN_S = 600.0


def command(*options: object) -> subprocess.CompletedProcess[str]:
    """`counterpoise` with these options, to its end."""
    return subprocess.run([*RUN, *map(str, options)], capture_output=True, text=True, check=False)


@contextmanager
def started(log: Path, *options: object) -> Iterator[subprocess.Popen[bytes]]:
    """While within: `counterpoise` with these options; what it says is appended to a file."""
    with log.open("a") as said:
        process = subprocess.Popen([*RUN, *map(str, options)], stdout=said, stderr=said)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait(holds: Callable[[], bool], process: subprocess.Popen[bytes], what: str = "nothing came") -> None:
    """Until it holds; the process must live as long."""
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert process.poll() is None, f"it has ended: {what}"
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def wait_or_end(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Until it holds, or the process has ended."""
    deadline = time.monotonic() + WITHIN_S
    while process.poll() is None and not holds():
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.1)


def wait_for_the_end(pids: list[int]) -> None:
    """Until none of these processes runs any more; one that nobody has asked how it ended does not."""
    deadline = time.monotonic() + WITHIN_S
    while left := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < deadline, f"they live on: {left}"
        time.sleep(0.1)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def family(pid: int) -> list[int]:
    """A process and all that it, and these, have started: what a service manager sends its signal to."""
    parents = _parents()
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _parents() -> dict[int, int]:
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return parents


def _command_line(pid: int) -> bytes:
    """Its command line; empty if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def is_jvm(pid: int) -> bool:
    """Whether it is Spark's JVM."""
    return b"SparkSubmit" in _command_line(pid)


def python_workers(pid: int) -> list[int]:
    """Spark's Python workers in the family of a process: what their daemon has forked."""
    daemons = [one for one in family(pid) if b"pyspark.daemon" in _command_line(one)]
    parents = _parents()
    return [one for one in daemons if parents.get(one) in daemons]
