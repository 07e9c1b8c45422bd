"""The audit's report: one self-contained HTML page, and the actions and findings in words for the terminal."""

from __future__ import annotations

from counterpoise.report.render import write_report
from counterpoise.report.terminal import print_audit

__all__ = ["print_audit", "write_report"]
