"""Findings about partitions that make too little progress, or none, at the end of the recording (docs/definitions.md, Health)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.pipeline.findings.finding import CRITICAL, WARNING, Finding, Row
from counterpoise.pipeline.wording import and_more, duration, grouped, times, when

__all__ = ["falling_behind", "losing_data", "stalled_partition", "stopped_partition"]

_DAY = 86400


def losing_data(row: Row) -> Finding | None:
    """Retention deletes records that were not read, or will within an hour."""
    state = _state(row, "losing_data")
    if state is None:
        return None
    lost, left = state["lost"], state["seconds_left"]
    cost = f"{times(lost, 'records')} already lost" if lost else "none of those that wait now is lost"
    return Finding(
        CRITICAL,
        f"retention {'deletes' if lost else 'is about to delete'} records of {times(state['partitions'], 'partitions')}",
        f"{_worst(row, state)}; {_rates(state)}" + (f"; {duration(1000 * left)} left" if left else ""),
        f"{cost}, and the consumer skips what is deleted, or stops with an error if auto.offset.reset is none",
        "raise retention.ms and retention.bytes of these topics now; then let the group catch up",
        1 + lost / 1000,
        _numbers(state) | {"lost": lost},
        at=state["since"],
    )


def stalled_partition(row: Row) -> Finding | None:
    """Commits continue, but the offset stays: a record that fails again and again, or a paused partition."""
    return _blocked(
        row,
        "stalled",
        "without progress although commits continue",
        "read the record at the committed offset: if processing it fails, repair it, skip it or send it to a dead letter topic; "
        "if the application has paused the partition, resume it",
    )


def stopped_partition(row: Row) -> Finding | None:
    """A partition has an owner and records, but no commits."""
    return _blocked(
        row,
        "stopped",
        "stopped: records wait, nothing is committed",
        "look at logs and thread dumps of these clients: they hang, fail before they commit, or have paused the partition; "
        "restart what hangs",
    )


def falling_behind(row: Row) -> Finding | None:
    """More is produced than consumed."""
    state = _state(row, "falling_behind")
    if state is None:
        return None
    produced, consumed, left = state["produced_per_second"], state["consumed_per_second"], state["seconds_left"]
    grows = max(produced - consumed, 0.0)
    double = f"; the lag doubles in {duration(1000 * state['lag'] / grows)}" if grows else ""
    deletes = "retention deletes records before they are read" + (f" in {duration(1000 * left)}" if left else ", in the end")
    return Finding(
        CRITICAL if left is not None and left < _DAY else WARNING,
        f"{times(state['partitions'], 'partitions')} falling behind",
        f"{_worst(row, state)}; {_rates(state)}",
        f"records are read later and later{double}; {deletes}",
        "start more members (too_few_members says how many, hot_partition if they do not help), or make processing faster",
        1 + state["lag"] / 1000,
        _numbers(state),
        at=state["since"],
    )


def _blocked(row: Row, name: str, title: str, action: str) -> Finding | None:
    """A finding about partitions in a state without progress."""
    state = _state(row, name)
    if state is None:
        return None
    return Finding(
        CRITICAL,
        f"{times(state['partitions'], 'partitions')} {title}",
        f"{_worst(row, state)}; {_rates(state)}",
        f"{times(state['lag'], 'records')} wait until somebody acts, and all that follow",
        action,
        1 + state["lag"] / 1000,
        _numbers(state),
        at=state["since"],
    )


def _state(row: Row, name: str) -> Mapping[str, Any] | None:
    """The partitions that are in a state at the end, from `health_states`; None: no partition is, or the group has no members.

    `without_members.dead_groups` reports a group without members, with what was lost.
    """
    if row["state"] == "empty":
        return None
    return next((one for one in row["health_states"] or () if one["state"] == name and one["partitions"]), None)


def _worst(row: Row, state: Mapping[str, Any]) -> str:
    """The partitions with most lag, since when, and the number of the others."""
    listed = [one for one in row["unhealthy"] or () if one["state"] == state["state"]]
    named = [
        f"{one['topic']}-{one['partition']} ({grouped(one['lag'])} records, since {when(one['since'])}"
        f"{', client ' + one['client_id'] if one['client_id'] else ''})"
        for one in listed
    ]
    return and_more(named, state["partitions"], "partitions")


def _rates(state: Mapping[str, Any]) -> str:
    produced, consumed = (grouped(round(state[name], 1)) for name in ("produced_per_second", "consumed_per_second"))
    return f"{times(state['lag'], 'records')} wait in all; {produced} records/s are produced, {consumed} consumed since then"


def _numbers(state: Mapping[str, Any]) -> dict[str, float]:
    names = ("partitions", "lag", "produced_per_second", "consumed_per_second")
    return {name: round(state[name], 1) for name in names}
