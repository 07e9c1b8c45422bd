"""The hosts' own assignors under the names of ours, for members that run without counterpoise's."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["own_assignors"]

_CLASSES = {
    "kafka_python": {
        "StickyAssignor": ("kafka.coordinator.assignors.sticky.sticky_assignor", "StickyPartitionAssignor"),
        "CooperativeStickyAssignor": ("kafka.coordinator.assignors.cooperative_sticky", "CooperativeStickyAssignor"),
    },
    "aiokafka": {"StickyAssignor": ("aiokafka.coordinator.assignors.sticky.sticky_assignor", "StickyPartitionAssignor")},
}


def own_assignors(host: str, names: list[str]) -> list[Any]:
    """The classes of the host that go by the same names on the wire."""
    return [getattr(import_module(module), name) for module, name in (_CLASSES[host][each] for each in names)]
