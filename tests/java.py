"""Where Java is, for the tests that need it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

__all__ = ["java_home", "jdk_home"]

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
