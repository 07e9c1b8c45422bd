"""Findings about the number and the duration of rebalances."""

from __future__ import annotations

from counterpoise.pipeline.findings.advice import by_broker, change_lines, setting_lines
from counterpoise.pipeline.findings.finding import CRITICAL, NOTICE, WARNING, Finding, Row
from counterpoise.pipeline.history.replay_fold import CLOSED_LOOP, OBSERVED, REPLAY
from counterpoise.pipeline.predicted_stops import runs_of, seconds_of
from counterpoise.pipeline.wording import grouped, percent, seconds, times, when
from counterpoise.planning.client_libraries import JAVA, KAFKA_GO, LIBRDKAFKA, stops_kept_partitions

__all__ = [
    "SETTINGS",
    "WARNED_SHARE",
    "eager_stops",
    "failed_generations",
    "flapping",
    "may_be_static",
    "polled_too_late",
    "share_of_time",
    "slow_leader",
    "some_may_be_static",
    "static_lines",
    "static_membership",
    "storm",
]

SETTINGS = {
    "failed_generations": {"session.timeout.ms": "<longer than the longest pause>"},
    "polled_too_late": {"max.poll.records": "<fewer>", "max.poll.interval.ms": "<more than now>"},
}
"""Settings (Java's names) that findings advise."""
_STORM = 5
_SLOW_MS = 200
_RESTARTS = ". Restarts of static members cause no rebalances"
_NOTED_S, _WARNED_S = 2.0, 10.0
_NOTED_SHARE, WARNED_SHARE = 0.0001, 0.001
"""Partition-seconds that could be saved, and their share of the time of all partitions, from which on there is a finding (noted)
or a warning (warned)."""


def storm(row: Row) -> Finding | None:
    """Many rebalances within a minute."""
    n, lasted = row["storm_rebalances"] or 0, row["storm_seconds"] or 0.0
    if n < _STORM:
        return None
    clients = ", ".join(row["storm_clients"] or ()) or "no new ones"
    # Under the broker's own protocols each join is an epoch, and only what moves stops.
    by_broker_only = row["group_type"] not in (None, "classic") and _under_this_protocol(row) == (row["rebalances"] or 0)
    return Finding(
        CRITICAL if n >= 2 * _STORM and not by_broker_only else WARNING,
        f"{grouped(n)} rebalances within {lasted:.0f} s",
        f"{grouped(n)} rebalances from {when(row['storm_start'])} on, within {lasted:.0f} s; clients that joined: {clients}",
        f"{grouped(n)} {'epochs' if by_broker_only else 'rounds of joining'} in {lasted:.0f} s; {_stopping(row)}",
        "look at what these clients have in common: a crash loop, processing slower than max.poll.interval.ms, or a deployment: "
        f"then restart one at a time{_and_static(row, ', and make members static')}",
        float(n),
        {"rebalances": n, "seconds": lasted},
        at=row["storm_start"],
    )


def eager_stops(row: Row) -> Finding | None:
    """An eager group that stops for longer than necessary, by the seconds that commits show, not by partitions."""
    n, revoked, moved = _under_this_protocol(row), row["observed_revoked"] or 0, row["observed_moved"] or 0
    if row["protocol_kind"] != "eager" or n < 3 or revoked - moved < 10:
        return None
    stopped, suggested = row["stopped_partition_seconds"], row["suggested_strategy"]
    advice = "keep the strategy: no other one of its client libraries is predicted to stop less by at least a fifth"
    if suggested is not None:
        advice = row["migration_note"] or change_lines(row, suggested)
    elif row["restarts"]:
        advice += _and_static(row, _RESTARTS)
    stops, measured = seconds_of(row)
    saved = stops[OBSERVED, REPLAY] - stops.get((suggested or "", CLOSED_LOOP), 0.0) if measured else None
    share = 0.0 if saved is None else share_of_time(row, saved)
    if saved is not None and (saved < _NOTED_S or share < _NOTED_SHARE):
        return None
    return Finding(
        WARNING if saved is not None and saved >= _WARNED_S and share >= WARNED_SHARE else NOTICE,
        f"{grouped(revoked)} partitions were stopped to move {grouped(moved)}",
        f"{grouped(n)} rebalances ({row['protocol']}, which is eager) revoked {grouped(revoked)} partitions; {grouped(moved)} "
        "of them went to another living member",
        _silence(row),
        advice,
        (revoked - moved) / 10 if saved is None else saved,
        {"rebalances": n, "revoked": revoked, "moved": moved}
        | ({} if stopped is None else {"stopped_partition_seconds": stopped}),
        row["longest_stop_generation"],
        row["longest_stop_ts"] or row["last_ts"],
    )


def share_of_time(row: Row, seconds: float) -> float:
    """Partition-seconds as a share of the time of all the group's partitions since its first step; 1 if this time is 0."""
    ends = [moment for moment in (row["last_ts"], row["last_commit"]) if moment is not None]
    lasted = (max(ends) - row["first_ts"]).total_seconds() if row["first_ts"] is not None else 0.0
    whole = lasted * max(row["partitions_now"] or 0, row["committed_partitions"] or 0)
    return seconds / whole if whole > 0 else 1.0


def _under_this_protocol(row: Row) -> int:
    """The number of rebalances under the present protocol, over which `observed_revoked` is summed."""
    rebalances, observed = row["rebalances"] or 0, runs_of(row).get((OBSERVED, REPLAY))
    return rebalances if observed is None else min(rebalances, observed["generations"])


def _silence(row: Row) -> str:
    stopped = row["stopped_partition_seconds"]
    if stopped is None:
        return "how long partitions were stopped is unknown: a commit before or after each stop is missing"
    longest = (
        f", the longest {row['longest_stop_seconds']:,.1f} s in generation {row['longest_stop_generation']}" if stopped else ""
    )
    left_out = row["stopped_unsampled_seconds"]
    more = f"; {left_out:,.0f} more without samples are left out" if left_out else ""
    return f"{stopped:,.0f} partition-seconds without a commit beyond the usual gap{longest}{more}"


def failed_generations(row: Row) -> Finding | None:
    """Generations without an assignment: their number was skipped."""
    failed = row["failed_generations"] or 0
    if failed <= 0 or by_broker(row):
        return None
    share = failed / (failed + (row["generations"] or 0))
    return Finding(
        CRITICAL if share > 0.3 and failed > 2 else WARNING,
        f"{times(failed, 'rebalances')} never finished",
        f"{grouped(failed)} of {grouped(failed + (row['generations'] or 0))} generations ({percent(share)}) have no assignment: "
        f"the leader did not answer, or another join came first; the first one before generation {row['failed_generation']}",
        f"{times(failed, 'rounds')} in which the group stopped and got no assignment",
        "see whether the leader's assignment is slow, and raise the session timeout above the longest pause of a member:\n"
        + setting_lines(row["libraries"], SETTINGS["failed_generations"]),
        10.0 * failed,
        {"failed": failed, "share": share},
        row["failed_generation"],
        row["failed_ts"],
    )


def slow_leader(row: Row) -> Finding | None:
    """A leader that takes long to assign, while all members wait."""
    worst, usual = row["sync_latency_ms_max"] or 0, row["sync_latency_ms_p50"] or 0.0
    if worst < _SLOW_MS or by_broker(row):
        return None
    return Finding(
        WARNING if worst >= 1000 or usual >= _SLOW_MS else NOTICE,
        f"the leader took {grouped(worst)} ms to assign",
        f"generation {row['sync_latency_generation']}, leader {row['slow_leader']}: {grouped(worst)} ms from the end of "
        f"the join to its assignment (usually {usual:,.0f} ms)",
        f"every member waited for {grouped(worst)} ms",
        "look at that host at that time (a cold start, a pause, no CPU); a leader with many topics spends the time on metadata"
        f"{_without_leader(row)}",
        worst / 100,
        {"worst_ms": worst, "p50_ms": usual},
        row["sync_latency_generation"],
        row["sync_latency_ts"],
    )


def _without_leader(row: Row) -> str:
    """The settings that let the broker assign, if all client libraries of the group support it."""
    libraries = set(row["libraries"] or ())
    if not libraries or not libraries <= {JAVA, LIBRDKAFKA}:
        return ""
    lines = setting_lines(sorted(libraries), {"group.protocol": "consumer"})
    refused = "(without partition.assignment.strategy, session.timeout.ms and heartbeat.interval.ms, which clients then refuse)"
    return f"; a broker of Kafka 4.0 or newer assigns by itself {refused}, to members with\n{lines}"


def static_membership(row: Row) -> Finding | None:
    """Members that were restarted: with an instance id the group would not have rebalanced."""
    back, avoided = row["restarts"] or 0, row["restart_rebalances"] or 0
    if back < 2 or not avoided or not may_be_static(row):
        return None
    return Finding(
        NOTICE if avoided < 8 else WARNING,
        f"{times(back, 'restarts')} rebalanced the group",
        f"{times(back, 'times')} a client left and was back within a minute, {times(row['leaves'] or 0, 'leaves')} in all; no "
        f"member is static; most: {', '.join(row['restart_clients'] or ())}",
        f"{times(avoided, 'rebalances')} that static members would have avoided",
        f"give every member a fixed id and more time than a restart takes:\n{static_lines(row)}",
        float(avoided),
        {"restarts": back, "leaves": row["leaves"] or 0},
        at=row["last_ts"],
    )


def some_may_be_static(row: Row) -> bool:
    """Whether any member can have an instance id: those of share groups and of kafka-go cannot."""
    return row["group_type"] in ("classic", "consumer") and row["libraries"] != [KAFKA_GO]


def may_be_static(row: Row) -> bool:
    """Whether no member has an instance id and all could have one."""
    able = some_may_be_static(row) and row["protocol_type"] == "consumer"
    return able and not row["static_now"] and KAFKA_GO not in (row["libraries"] or ())


def _and_static(row: Row, words: str) -> str:
    return f"{words}:\n{static_lines(row)}" if may_be_static(row) else ""


def static_lines(row: Row) -> str:
    """The settings of static members; the session timeout of a KIP-848 group is a setting of the group on the broker."""
    instance, session = {"group.instance.id": "<host or pod name>"}, "<longer than a restart>"
    if row["group_type"] != "consumer":
        return setting_lines(row["libraries"], {**instance, "session.timeout.ms": session})
    line = (
        "  kafka-configs --bootstrap-server <broker> --alter --entity-type groups --entity-name <group> "
        f"--add-config consumer.session.timeout.ms={session}"
    )
    return f"{setting_lines(row['libraries'], instance)}\nand on the broker\n{line}"


def polled_too_late(row: Row) -> Finding | None:
    """Members that were removed because they did not poll within max.poll.interval.ms, and rejoined."""
    n, interval = row["poll_kicks"] or 0, row["poll_interval_ms"] or 0
    if not n:
        return None
    clients = ", ".join((row["poll_kick_clients"] or ())[:8])
    return Finding(
        WARNING,
        f"{times(n, 'times')} a member was expelled because it polled too late",
        f"{times(n, 'times')} a member left after its max.poll.interval.ms (the largest: {seconds(interval)}) without a commit, "
        f"and came back: {clients}; first in generation {row['poll_kick_generation']}",
        f"{grouped(2 * n)} rebalances, and its partitions were stopped for at least that time",
        "process fewer records per poll, or allow more time between polls:\n"
        + setting_lines(row["libraries"], SETTINGS["polled_too_late"] | {"max.poll.interval.ms": f"<more than {interval}>"}),
        float(2 * n),
        {"kicks": n, "interval_ms": interval},
        row["poll_kick_generation"],
        row["poll_kick_ts"],
    )


def flapping(row: Row) -> Finding | None:
    """A group with far more leaves and joins than members; static members that came back do not count."""
    joins, leaves = (max((row[name] or 0) - (row["static_replacements"] or 0), 0) for name in ("joins", "leaves"))
    peak = row["members_peak"] or 0
    if leaves < 4 or not peak or leaves < 2 * peak:
        return None
    return Finding(
        WARNING,
        f"{grouped(leaves)} leaves in a group of at most {grouped(peak)}",
        f"{times(joins, 'joins')} and {grouped(leaves)} leaves, "
        f"{times(row['distinct_members'] or 0, 'member ids')} for at most {times(peak, 'members')}, between "
        f"{when(row['first_ts'])} and {when(row['last_ts'])}; most leaves: {', '.join(row['leave_clients'] or ())}",
        f"{times(row['rebalances'] or 0, 'rebalances')}; {_stopping(row)}",
        "members that come and go are expelled (processing beyond max.poll.interval.ms, pauses beyond session.timeout.ms) or "
        f"restarted: see their logs for the reason{_and_static(row, _RESTARTS)}",
        leaves / peak,
        {"joins": joins, "leaves": leaves, "members_peak": peak},
        at=row["last_ts"],
    )


def _stopping(row: Row) -> str:
    if _under_this_protocol(row) < (row["rebalances"] or 0):
        return "what stopped each time depends on the protocol that the group had then"
    if row["protocol_kind"] == "eager":
        return "all members stop all their work each time"
    if row["protocol_kind"] == "server":
        return "members stop what is moved"
    if stops_kept_partitions(row["libraries"], row["protocol_kind"]):
        return "members on kafka-python read nothing while they join, two rounds each time"
    return "cooperative members continue with the partitions that they keep, two rounds each time"
