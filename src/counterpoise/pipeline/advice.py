"""What a group should run instead, why, how to get there, and why replays of it differ from the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.pipeline.records.libraries import AIOKAFKA, JAVA, KAFKA_PYTHON, LIBRDKAFKA, PYTHON, STREAMS

__all__ = ["advice", "config_lines", "fidelity_note", "migration_note", "setting_lines", "wanted_strategy"]

Row = Mapping[str, Any]
COOPERATIVE = "cooperative-sticky"
STICKY = "sticky"
_JAVA_CLASS = "org.apache.kafka.clients.consumer."
_JAVA_NAMES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    STICKY: "StickyAssignor",
    COOPERATIVE: "CooperativeStickyAssignor",
}
_WORTH = 2
"""A change must save at least so many stops, or so much spread, to be suggested."""


def advice(row: Row) -> dict[str, Any]:
    """``suggested_strategy, suggestion, migration_note`` for one row of `group_report`; empty where nothing is to be gained.

    The figures are closed loop: what the strategy would have done had it run all the time, over the same joins, leaves
    and topics, against what was observed.
    """
    runs = {(run["strategy"], run["mode"]): run for run in row["strategies"] or ()}
    observed = runs.get(("observed", "replay"))
    if observed is None or row["group_type"] != "classic" or not row["protocol"]:
        return {}
    wanted = wanted_strategy(row)
    found = runs.get((wanted, "closed_loop"))
    if found is None or wanted == row["protocol"]:
        return {}
    gains = _gains(observed, found)
    if not gains:
        return {}
    reason = f"{wanted} over the same {found['generations']} rebalances: " + ", ".join(gains)
    note = migration_note(row["protocol"], wanted, row["libraries"] or ())
    return {"suggested_strategy": wanted, "suggestion": reason, "migration_note": note}


def wanted_strategy(row: Row) -> str:
    """The strategy that all client libraries of a group have and that moves least."""
    libraries = set(row["libraries"] or ())
    return STICKY if AIOKAFKA in libraries else COOPERATIVE


def _gains(observed: Row, found: Row) -> list[str]:
    gains = []
    if observed["revoked"] - found["revoked"] >= _WORTH:
        gains.append(f"{found['revoked']} partitions stopped instead of {observed['revoked']}")
    if observed["spread_peak"] - found["spread_peak"] >= _WORTH:
        gains.append(f"members at most {found['spread_peak']} partitions apart instead of {observed['spread_peak']}")
    if gains and observed["moved"] > found["moved"]:
        gains.append(f"{found['moved']} moves instead of {observed['moved']}")
    return gains


def migration_note(now: str, wanted: str, libraries: Sequence[str]) -> str:
    """How to change the strategy of a running group, per client library."""
    notes = []
    cooperative = wanted == COOPERATIVE and now != COOPERATIVE
    if not libraries or JAVA in libraries:
        both, one = config_lines(JAVA, [wanted, now]), config_lines(JAVA, [wanted])
        notes.append(f"Java: two rolling restarts, first with\n  {both}\nthen with\n  {one}")
    if LIBRDKAFKA in libraries:
        how = "eager and cooperative cannot be mixed: stop all members, then start them" if cooperative else "one rolling restart"
        notes.append(f"librdkafka: {how} with\n  {config_lines(LIBRDKAFKA, [wanted])}")
    if {KAFKA_PYTHON, PYTHON} & set(libraries):
        both = config_lines(KAFKA_PYTHON, [wanted, now])
        notes.append(f"kafka-python: two rolling restarts, first with\n  {both}\nthen with {wanted} alone")
    if AIOKAFKA in libraries:
        notes.append(f"aiokafka (eager only): two rolling restarts, first with\n  {config_lines(AIOKAFKA, [wanted, now])}")
    if STREAMS in libraries:
        notes.append("Kafka Streams brings its own assignor: leave it")
    return "\n".join(notes)


def config_lines(library: str, names: Sequence[str]) -> str:
    """The line of configuration that selects strategies in a client library, the preferred one first."""
    if library == JAVA:
        return "partition.assignment.strategy=" + ",".join(_JAVA_CLASS + _JAVA_NAMES.get(name, name) for name in names)
    if library in (KAFKA_PYTHON, AIOKAFKA, PYTHON):
        classes = {
            "range": "RangePartitionAssignor",
            "roundrobin": "RoundRobinPartitionAssignor",
            STICKY: "StickyPartitionAssignor",
            COOPERATIVE: "CooperativeStickyAssignor",
        }
        return f"partition_assignment_strategy=[{', '.join(classes.get(name, name) for name in names)}]"
    return "partition.assignment.strategy=" + ",".join(names)


def setting_lines(libraries: Sequence[str] | None, settings: Mapping[str, str]) -> str:
    """Settings (Java's names) as each client library in use writes them, a line each; those that a library lacks are left out."""
    blocks = []
    for library in sorted(set(libraries or ()) & {JAVA, LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA, PYTHON}) or [JAVA]:
        known = {name: value for name, value in settings.items() if (library, name) != (LIBRDKAFKA, "max.poll.records")}
        if library in (JAVA, LIBRDKAFKA):
            lines = [f"{name}={value}" for name, value in known.items()]
        else:
            lines = [
                f'{name.replace(".", "_")}="{value}",' if "id" in name else f"{name.replace('.', '_')}={value},"
                for name, value in known.items()
            ]
        blocks.append((library, lines))
    if len(blocks) == 1:
        return "\n".join(f"  {line}" for line in blocks[0][1])
    return "\n".join("\n".join([f"  {library}:", *(f"    {line}" for line in lines)]) for library, lines in blocks)


def fidelity_note(judged: int, matched: int, ties: int, worse: int, libraries: Sequence[str]) -> str | None:
    """Why the declared strategy does not reproduce every generation; None where it does, or nothing was judged.

    `ties`: as balanced, and as few moves, as ours; `worse`: the leader's plan was less balanced or moved more.
    """
    if not judged or matched == judged:
        return None
    other = judged - matched - ties - worse
    parts = [f"{matched} of {judged} generations reproduced"]
    if ties:
        parts.append(f"{ties} differ by ties only (equal loads, equally many moves)")
    if worse:
        who = ", ".join(libraries) or "an unknown library"
        parts.append(f"in {worse} the leader ({who}) was less balanced or moved more than the strategy needs")
    if other > 0:
        parts.append(f"{other} differ otherwise: the leader moved fewer partitions or was more even than our plan of that name")
    return "; ".join(parts)
