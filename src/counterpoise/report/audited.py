"""`counterpoise.audit`: an audit with its report, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoise.errors import MissingExtraError
from counterpoise.extras import pip_install
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
    """Audit captures and write the report. Uses the active Spark session; without one, starts a session and stops it at the end.

    Parameters
    ----------
    source : path, or mapping
        A path (cluster name "default"), or cluster name -> path. Each is a capture folder or Parquet of the offsets topic.
    out : path or URI
        Folder of the tables, ``summary.json`` and ``report.html``.
    strategies : sequence of str, optional
        Names of the strategies to replay. Default: all.
    scope : AuditScope, optional
        The groups, topics and times to audit. Default: all.
    salt : str, optional
        Names in tables and report are hashed with it.
    since_last : bool
        Add only the records that are new since the last audit into `out`, which was made in the same way.

    Returns
    -------
    AuditResult
        Findings, tables (Arrow) and the path of the report.

    Raises
    ------
    CaptureError, OptionError, UnknownStrategyError, StorageError
        As for `counterpoise.pipeline.audit.audit`. StorageError: `out` cannot be written.
    MissingExtraError
        Spark or jinja2 is not installed; raised before the audit.
    """
    try:
        import jinja2  # noqa: F401

        from counterpoise.pipeline.audit import audit as run_audit
    except ImportError as error:
        raise MissingExtraError(f"an audit needs {error.name}: {pip_install('spark,report')}") from error
    result = run_audit(None, source, out, strategies=strategies, scope=scope, salt=salt, since_last=since_last)
    write_report(result.place)
    return result
