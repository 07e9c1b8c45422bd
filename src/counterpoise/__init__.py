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
    from counterpoise.simulation.simulate import simulate
    from counterpoise.snapshot.group import Group, Member, Topic
    from counterpoise.snapshot.plan import Plan

_HOME = {
    "CONTESTED": "counterpoise.model.problem",
    "Certificate": "counterpoise.laws",
    "CounterpoiseError": "counterpoise.errors",
    "Group": "counterpoise.snapshot.group",
    "LagReport": "counterpoise.laws.lag_bound",
    "Member": "counterpoise.snapshot.group",
    "Metrics": "counterpoise.metrics",
    "PartitionLag": "counterpoise.model.lag",
    "Plan": "counterpoise.snapshot.plan",
    "Problem": "counterpoise.model.problem",
    "Racks": "counterpoise.model.problem",
    "Topic": "counterpoise.snapshot.group",
    "UNOWNED": "counterpoise.model.problem",
    "Violation": "counterpoise.laws",
    "assign": "counterpoise.planning.assign",
    "assignor": "counterpoise.assignors.registry",
    "certify": "counterpoise.laws",
    "compare": "counterpoise.planning.compare",
    "explain": "counterpoise.explanation",
    "lag_report": "counterpoise.laws.lag_bound",
    "lead": "counterpoise.planning.lead",
    "measure": "counterpoise.metrics",
    "partition_lag": "counterpoise.model.lag",
    "simulate": "counterpoise.simulation.simulate",
    "strategies": "counterpoise.assignors.registry",
    "verify": "counterpoise.laws",
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
