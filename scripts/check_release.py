"""Checks of a release: ``check_release.py bill BILL LOCK`` and ``check_release.py audit REPORT LOCK``.

The bill of materials (CycloneDX JSON) must list every locked package; the report of pip-audit (JSON) must be about every one.
Exit code 0: so it is. 1: something is missing, or a package is vulnerable. 3: the service did not answer for every package.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["audited", "billed", "locked"]


def locked(text: str) -> set[tuple[str, str]]:
    """Name and version of every package of a lock file."""
    return {(_plain(name), version) for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE)}


def billed(bill: Mapping[str, Any], lock: set[tuple[str, str]]) -> tuple[int, str]:
    """Exit code and line for a bill of materials."""
    listed = {(_plain(each["name"]), each["version"]) for each in bill["components"]}
    missing = sorted(f"{name} {version}" for name, version in lock - listed)
    if missing or not lock:
        return 1, f"the bill of materials lacks {len(missing)} of {len(lock)} packages: {', '.join(missing[:5])}"
    return 0, f"the bill of materials lists all {len(lock)} packages"


def audited(report: str, lock: set[tuple[str, str]]) -> tuple[int, str]:
    """Exit code and line for what pip-audit has printed; empty if it could not reach its service."""
    listed = json.loads(report)["dependencies"] if report.strip() else []
    known = {(_plain(each["name"]), each["version"]) for each in listed if "skip_reason" not in each}
    found = [f"{each['name']} {each['version']}: {flaw['id']}" for each in listed for flaw in each.get("vulns", ())]
    if found:
        return 1, f"{len(found)} known vulnerabilities: {', '.join(sorted(found))}"
    if unknown := sorted(f"{name} {version}" for name, version in lock - known):
        return (
            3,
            f"{len(unknown)} of {len(lock)} packages were not audited: pip-audit has no answer about {unknown[0]}",
        )
    return 0, f"no known vulnerability in {len(lock)} packages"


def _plain(name: str) -> str:
    """A package's name as registries compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(kind: str, file: str, lock_file: str) -> int:
    """Print the line; return the exit code."""
    text, lock = Path(file).read_text(encoding="utf-8"), locked(Path(lock_file).read_text(encoding="utf-8"))
    code, line = billed(json.loads(text), lock) if kind == "bill" else audited(text, lock)
    print(line, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
