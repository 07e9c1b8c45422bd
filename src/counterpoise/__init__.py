"""counterpoise: who gets which partition in a Kafka consumer group, provably well; and what it has cost so far.

The public names below are loaded on first use, so that ``import counterpoise`` stays cheap and needs no extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterpoise._version import __version__

if TYPE_CHECKING:
    from counterpoise.assignors.registry import assignor, strategies
    from counterpoise.errors import CounterpoiseError
    from counterpoise.explanation import explain
    from counterpoise.laws import Certificate, Violation, certify, verify
    from counterpoise.laws.lag_bound import LagReport, lag_report
    from counterpoise.metrics import Metrics, measure
    from counterpoise.model.lag import PartitionLag, partition_lag
    from counterpoise.model.problem import CONTESTED, UNOWNED, Problem, Racks
    from counterpoise.planning.assign import assign
    from counterpoise.planning.compare import compare
    from counterpoise.planning.lead import lead
    from counterpoise.report.audited import audit
    from counterpoise.simulation.simulate import simulate
    from counterpoise.snapshot.group import Group, Member, Topic
    from counterpoise.snapshot.plan import Plan

_HOME = {
    name: f"counterpoise.{module}"
    for module, names in {
        "assignors.registry": ("assignor", "strategies"),
        "errors": ("CounterpoiseError",),
        "explanation": ("explain",),
        "laws": ("Certificate", "Violation", "certify", "verify"),
        "laws.lag_bound": ("LagReport", "lag_report"),
        "metrics": ("Metrics", "measure"),
        "model.lag": ("PartitionLag", "partition_lag"),
        "model.problem": ("CONTESTED", "UNOWNED", "Problem", "Racks"),
        "planning.assign": ("assign",),
        "planning.compare": ("compare",),
        "planning.lead": ("lead",),
        "report.audited": ("audit",),
        "simulation.simulate": ("simulate",),
        "snapshot.group": ("Group", "Member", "Topic"),
        "snapshot.plan": ("Plan",),
    }.items()
    for name in names
}

__all__ = [
    "CONTESTED",
    "UNOWNED",
    "Certificate",
    "CounterpoiseError",
    "Group",
    "LagReport",
    "Member",
    "Metrics",
    "PartitionLag",
    "Plan",
    "Problem",
    "Racks",
    "Topic",
    "Violation",
    "__version__",
    "assign",
    "assignor",
    "audit",
    "certify",
    "compare",
    "explain",
    "lag_report",
    "lead",
    "measure",
    "partition_lag",
    "simulate",
    "strategies",
    "verify",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'counterpoise' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
