"""`counterpoise.audit`: an audit with its page, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoise.errors import MissingExtraError
from counterpoise.report.render import write_report

if TYPE_CHECKING:
    from counterpoise.pipeline.audit import AuditResult
    from counterpoise.pipeline.source.scope import AuditScope

__all__ = ["audit"]


def audit(
    source: str | Path | Mapping[str, str | Path],
    out: str | Path,
    *,
    strategies: Sequence[str] | None = None,
    scope: AuditScope | None = None,
    salt: str | None = None,
    since_last: bool = False,
) -> AuditResult:
    """Audit captures with the active Spark session or a new one, which is stopped at the end, and write the page.

    Parameters
    ----------
    source : path, or mapping of cluster names to paths
        A capture folder, or a Parquet file or folder of records of the offsets topic.
    out : path or URI
        Folder of the tables, ``summary.json`` and ``report.html``.
    strategies, scope, salt, since_last
        As for `counterpoise.pipeline.audit.audit`.

    Returns
    -------
    AuditResult
        Its findings, tables (Arrow) and the place of the page.

    Raises
    ------
    CaptureError, OptionError, UnknownStrategyError
        As for `counterpoise.pipeline.audit.audit`.
    MissingExtraError
        Spark or jinja2 is not installed.
    """
    try:
        from counterpoise.pipeline.audit import run_audit
    except ImportError as error:
        raise MissingExtraError(f"an audit needs {error.name}: pip install 'counterpoise[spark,report]'") from error
    result = run_audit(source, out, strategies=strategies, scope=scope, salt=salt, since_last=since_last)
    write_report(result.place)
    return result
