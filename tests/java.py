"""Where Java is, for the tests that need it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

__all__ = ["QUICK", "java_home", "jdk_home"]

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""For JVMs that live for seconds: the second compiler never pays off, and verifying classes is a fifth of a start."""

FINDER = Path(__file__).resolve().parent.parent / "scripts" / "find_java.sh"


def java_home() -> str:
    """The home of a Java 17 or newer; fails the test in one line where there is none (never skips)."""
    return _home()


def jdk_home() -> str:
    """The same, of one that has a compiler."""
    return _home("--jdk")


def _home(*wanted: str) -> str:
    found = subprocess.run([FINDER, *wanted], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.fail(found.stderr.strip(), pytrace=False)
    return found.stdout.strip()
