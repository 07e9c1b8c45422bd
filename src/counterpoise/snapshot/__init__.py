"""Snapshots: one group by names - JSON, plans, the text of Kafka's own tools - and the way from names to integers."""

from __future__ import annotations

from counterpoise.snapshot.group import Group, Member, Settlement, Topic
from counterpoise.snapshot.plan import Plan, read_assignment

__all__ = ["Group", "Member", "Plan", "Settlement", "Topic", "read_assignment"]
