"""The peers: how each is built, started and read. A new peer is one entry in PEERS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.group_file import read_owners
from counterpoise.model.problem import Int32

__all__ = ["OURS", "PEERS", "Peer", "Run", "build_peers", "run_peer"]

_PROGRAMS = Path(__file__).parent / "peer_programs"
_JAVA, _GO = _PROGRAMS / "java", _PROGRAMS / "go"


@dataclass(frozen=True)
class Peer:
    """One assignor.

    Attributes
    ----------
    key, title : str
    dialect : str
        Which group file it reads: "sticky" (claims in user data) or "cooperative-sticky" (in owned partitions).
    command : callable
        Partitions of the case to the start of its command line.
    slow : bool
        Only timed where the case allows slow peers: minutes elsewhere.
    leads : bool
        It is timed as a leader, too.
    """

    key: str
    title: str
    dialect: str
    command: Callable[[int], list[str]]
    slow: bool = False
    leads: bool = True


@dataclass
class Run:
    """What one process of a peer reported.

    Attributes
    ----------
    ms, cpu_ms : dict
        Surface to the milliseconds of its runs, in order: wall clock, and CPU time of the calling thread.
    peak_kb : dict
        Surface to the memory its first run needed above what was in use before.
    at_least_ms : float or None
        How long the call had taken when the time was up, if it was.
    pending : str or None
        The surface of that call.
    stopped : bool
        Time was up, in a first call or in a later one.
    owner : int32[P] or None
        The target it decided.
    error : str
        Last words of a peer that failed.
    """

    ms: dict[str, list[float]] = field(default_factory=dict)
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)
    peak_kb: dict[str, int] = field(default_factory=dict)
    at_least_ms: float | None = None
    pending: str | None = None
    stopped: bool = False
    owner: Int32 | None = None
    error: str = ""


def _python(name: str) -> Callable[[int], list[str]]:
    return lambda _: [sys.executable, "-m", "benchmarks.python_peers", name]


def _java(assignor: str) -> Callable[[int], list[str]]:
    def command(partitions: int) -> list[str]:
        heap = "-Xmx4g" if partitions <= 2_000_000 else "-Xmx10g"
        classes = f"{_JAVA}/target/peers.jar:{_JAVA}/target/lib/*"
        return [_java_program(), heap, "-cp", classes, "counterpoise.peers.Main", assignor]

    return command


def _java_program() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


START_S = 300.0
"""A peer may take so long to read the group before its kernel begins."""
OURS = Peer("counterpoise", "counterpoise sticky", "sticky", _python("counterpoise"))
PEERS: dict[str, Peer] = {
    peer.key: peer
    for peer in (
        OURS,
        Peer("java-sticky", "Java sticky", "sticky", _java("sticky")),
        Peer("java-cooperative", "Java cooperative-sticky", "cooperative-sticky", _java("cooperative-sticky")),
        Peer("broker-uniform", "broker's uniform", "cooperative-sticky", _java("uniform"), leads=False),
        Peer("franz-go", "franz-go sticky", "sticky", lambda _: [f"{_GO}/bin/peer", "sticky"]),
        Peer("kafka-python", "kafka-python sticky", "sticky", _python("kafka-python"), slow=True, leads=False),
        Peer("aiokafka", "aiokafka sticky", "sticky", _python("aiokafka"), slow=True, leads=False),
    )
}


def build_peers() -> dict[str, str]:
    """Compile what is written in Java and Go; the peers that could not be built, with the reason and the remedy."""
    missing: dict[str, str] = {}
    java = ("java-sticky", "java-cooperative", "broker-uniform")
    maven = _build(["mvn", "-q", "-B", "package"], _JAVA, "Maven and a JDK 17 or newer (Debian: apt-get install maven)")
    missing |= dict.fromkeys(java, maven) if maven else {}
    go = _build(["go", "build", "-o", "bin/peer", "."], _GO, "Go 1.26 or newer (https://go.dev/dl)")
    missing |= {"franz-go": go} if go else {}
    return missing


def _build(command: list[str], folder: Path, remedy: str) -> str:
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed: install {remedy}"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last_words = (done.stdout + done.stderr).strip()[-300:]
        return f"`{' '.join(command)}` in {folder.relative_to(_PROGRAMS.parent)} failed: {last_words}"
    return ""


def run_peer(peer: Peer, folder: Path, partitions: int, seconds: float, runs: int, cap: float) -> Run:
    """Start the peer on the group files in `folder`; stop it `cap` seconds after a surface began."""
    owners_file = folder / "owners"
    owners_file.unlink(missing_ok=True)
    command = [*peer.command(partitions), str(folder / peer.dialect), str(owners_file), str(seconds), str(runs)]
    run = Run()
    begun: dict[str, float] = {}
    with (
        tempfile.TemporaryFile("w+") as last_words,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=last_words, text=True) as process,
    ):
        stop = _Stop(process, max(cap, START_S))
        for line in process.stdout or ():
            if _note(run, json.loads(line), begun):
                stop.arm(cap)
        code = process.wait()
        stop.cancel()
        last_words.seek(0)
        words = last_words.read().strip()
    pending = next((surface for surface in begun if surface not in run.ms), None)
    if stop.fired:
        run.stopped, run.pending = True, pending
        run.at_least_ms = (time.monotonic() - begun[pending]) * 1e3 if pending else None
    elif code:
        run.error = words.splitlines()[-1] if words else f"exit code {code}"
    if owners_file.exists():
        run.owner = read_owners(owners_file)
    return run


class _Stop:
    """Kills a process so many seconds after it was armed last."""

    def __init__(self, process: subprocess.Popen[str], seconds: float) -> None:
        self._process, self.fired = process, False
        self._timer = threading.Timer(seconds, self._fire)
        self._timer.start()

    def arm(self, seconds: float) -> None:
        """Count anew."""
        self.cancel()
        self._timer = threading.Timer(seconds, self._fire)
        self._timer.start()

    def cancel(self) -> None:
        """Count no more."""
        self._timer.cancel()

    def _fire(self) -> None:
        self.fired = True
        self._process.kill()


def _note(run: Run, said: dict[str, object], begun: dict[str, float]) -> bool:
    """Note what a peer said; whether a surface begins."""
    surface = str(said["surface"])
    match said:
        case {"begins": True}:
            begun[surface] = time.monotonic()
            return True
        case {"ms": float() | int() as ms, "cpu_ms": float() | int() as cpu_ms}:
            run.ms.setdefault(surface, []).append(float(ms))
            run.cpu_ms.setdefault(surface, []).append(float(cpu_ms))
        case {"peak_kb": int() as peak}:
            run.peak_kb[surface] = peak
    return False
