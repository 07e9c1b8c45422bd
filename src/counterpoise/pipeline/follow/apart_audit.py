"""What the process of an audit does: `update` as `apart.Apart` asks for it, in a session of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from counterpoise.pipeline.audit import AuditResult
from counterpoise.pipeline.incremental.journal import HandOver, Journal
from counterpoise.pipeline.incremental.update import update, update_session
from counterpoise.pipeline.source.choice import Choice

__all__ = ["audit_for"]


def audit_for(task: Mapping[str, Any], handover: HandOver) -> AuditResult:
    """`update` as the parent has asked for it, with a session of its own."""
    sources, out = {task["cluster"]: Path(task["source"])}, Path(task["out"])
    strategies, choice = None if task["strategies"] is None else tuple(task["strategies"]), Choice(tuple(task["groups"]))
    spark, _ = update_session(sources, {"spark.local.dir": task["scratch"]})
    return update(spark, sources, out, strategies=strategies, choice=choice, held=Journal(out), handover=handover)
