"""Findings about the number of members: by what is produced in the busiest ten minutes, and by what a member can do."""

from __future__ import annotations

from counterpoise.pipeline.findings.finding import NOTICE, WARNING, Finding, Row
from counterpoise.pipeline.wording import grouped, times

__all__ = ["hot_partition", "too_few_members", "too_many_members"]

_MINUTE, _PERIOD, _HOUR, _DAY = 60, 600, 3600, 86400
_WINDOWS = 3
"""A capacity that fewer windows show leads to no finding."""
_ERROR = 1.05
"""Production must exceed the capacity by this factor, because windows begin and end between commits."""
_PAIR, _SPARE = 2, 0.2
"""Members that a group keeps in case one dies, and the smallest share of its members that is worth removing."""


def too_few_members(row: Row) -> Finding | None:
    """The fullest member gets more than a member ever consumed, and more members would help."""
    load, capacity, members = row["member_load_per_second"] or 0.0, _capacity(row), row["members_now"] or 0
    goal = row["members_needed"] or row["members_useful"] or 0
    if not capacity or load <= capacity * _ERROR or goal <= members or hot_partition(row) is not None:
        return None
    share = f"{grouped(goal)} can do it, with a reserve" if row["members_needed"] else f"more than {grouped(goal)} do not help"
    return Finding(
        WARNING,
        f"{times(members, 'members')} cannot keep up: {times(goal - members, 'members')} missing",
        f"{_produced(row)}, {_rate(load)} for the fullest of {grouped(members)} members; {_shown(row)}; {share}. "
        f"{_confidence(row)}",
        f"at such times the group falls behind by {_rate(load - capacity)} on the fullest member alone",
        f"start {times(goal - members, 'members')} more, {grouped(goal)} in all; or make processing faster",
        10.0 * (goal - members),
        {"members": members, "needed": goal, "missing": goal - members} | _numbers(load=load, capacity=capacity),
        row["generation_now"],
        row["production_ts"],
    )


def hot_partition(row: Row) -> Finding | None:
    """One partition gets more than a member ever consumed: more members do not help."""
    busiest, capacity = (row["busiest_partitions"] or ({"per_second": 0.0},))[0], _capacity(row)
    rate = busiest["per_second"]
    if not capacity or rate <= capacity * _ERROR:
        return None
    name = f"{busiest['topic']}-{busiest['partition']}"
    return Finding(
        WARNING,
        f"{name} gets more than one member can do",
        f"{_produced(row)}, {_rate(rate)} on {name} alone; {_shown(row)}. More than {grouped(row['members_useful'])} members "
        f"do not help. {_confidence(row)}",
        f"at such times {name} falls behind by {_rate(rate - capacity)}, whatever the number of members",
        f"spread its keys, or give {busiest['topic']} more partitions (records with a key then go to other ones); "
        "process records of one partition in parallel, or faster",
        rate / capacity,
        {"useful": row["members_useful"]} | _numbers(per_second=rate, capacity=capacity),
        row["generation_now"],
        row["production_ts"],
    )


def too_many_members(row: Row) -> Finding | None:
    """Fewer members, of those with partitions, can do what the busiest ten minutes ask for; no partition is in trouble."""
    members, needed = (row["members_now"] or 0) - (row["idle_now"] or 0), row["members_needed"]
    keep = max(needed or 0, _PAIR)
    waits = (row["lag_now"] or 0) > (row["production_per_second"] or 0.0) * _MINUTE
    waits |= (row["health"] or "ok") not in ("ok", "catching_up")
    short = (row["sizing_seconds"] or 0.0) < _PERIOD
    if row["state"] != "stable" or needed is None or waits or short or members - keep < max(1, _SPARE * members):
        return None
    spare = members - keep
    return Finding(
        WARNING if row["sizing_seconds"] >= _DAY else NOTICE,
        f"{grouped(keep)} of {times(members, 'members')} would do",
        f"{_produced(row)}; {_shown(row)}; so {grouped(needed)} would be enough, with the headroom"
        f"{' (two, in case one dies)' if keep > needed else ''}. {_confidence(row)}",
        f"{times(spare, 'members')} paid for without need; each takes part in every rebalance",
        f"stop members one at a time, down to {grouped(keep)}, and watch the lag; see what to expect with\n"
        f"  counterpoise simulate --audit <OUT> --group <group> --members {keep}",
        float(spare),
        {"spare": spare, "members": members, "needed": needed} | _numbers(capacity=row["capacity_per_second"]),
        row["generation_now"],
        row["production_ts"],
    )


def _capacity(row: Row) -> float:
    """What a member can do; 0 if only a lower bound of it is known, or too little shows it."""
    shown = row["capacity_quality"] == "sustained" and row["capacity_windows"] >= _WINDOWS and row["sizing_seconds"] >= _PERIOD
    return row["capacity_per_second"] if shown and row["state"] == "stable" else 0.0


def _numbers(**rates: float) -> dict[str, float]:
    return {name: round(rate, 1) for name, rate in rates.items()}


def _rate(per_second: float) -> str:
    return f"{grouped(round(per_second, 1))} records/s"


def _produced(row: Row) -> str:
    return f"{_rate(row['production_per_second'])} are produced in the busiest ten minutes"


def _shown(row: Row) -> str:
    rate = _rate(row["capacity_per_second"])
    if row["capacity_quality"] == "sustained":
        return f"a member did {rate} while records waited ({times(row['capacity_windows'], 'windows')})"
    return f"no member was ever behind, so it can do at least the {rate} that one did"


def _confidence(row: Row) -> str:
    """How far the recording can be trusted to have seen the busiest time."""
    seconds = row["sizing_seconds"]
    if seconds >= _DAY:
        return f"Confidence: high ({times(int(seconds // _DAY), 'days')} recorded)"
    level = "medium" if seconds >= _HOUR else "low"
    return f"Confidence: {level} (only {times(int(seconds // 60), 'minutes')} recorded, other hours may be busier)"
