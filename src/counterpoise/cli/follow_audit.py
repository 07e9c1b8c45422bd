"""The process of one audit of `counterpoise audit --follow`: tables, and the page."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from counterpoise.pipeline.follow.apart_audit import audit_for
from counterpoise.pipeline.follow.apart_child import serve
from counterpoise.pipeline.incremental.journal import HandOver
from counterpoise.report.render import write_report

__all__ = ["main"]


def main() -> None:
    """``python -m counterpoise.cli.follow_audit END``: see `pipeline.follow.apart`."""
    serve(int(sys.argv[1]), _audit)


def _audit(task: Mapping[str, Any], handover: HandOver) -> None:
    result = audit_for(task, handover)
    if not (result.nothing_new and (result.out / "report.html").exists()):
        write_report(result.out)


if __name__ == "__main__":
    main()
