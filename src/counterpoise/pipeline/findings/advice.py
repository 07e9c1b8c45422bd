"""What a group should run instead, why, how to get there, and why replays of it differ from the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.pipeline.findings.broker_advice import broker_lines, by_broker, lag_by_broker, rounds_against
from counterpoise.pipeline.records.libraries import AIOKAFKA, FRANZ_GO, JAVA, KAFKA_PYTHON, LIBRDKAFKA, PYTHON, STREAMS, UNKNOWN
from counterpoise.pipeline.wording import grouped

__all__ = [
    "advice",
    "change_lines",
    "config_lines",
    "fidelity_note",
    "lag_lines",
    "migration_note",
    "setting_lines",
    "wanted_strategy",
]

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
_PYTHON_NAMES = {
    "range": "RangePartitionAssignor",
    "roundrobin": "RoundRobinPartitionAssignor",
    STICKY: "StickyPartitionAssignor",
    COOPERATIVE: "CooperativeStickyAssignor",
}
_OURS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    STICKY: "StickyAssignor",
    COOPERATIVE: "CooperativeStickyAssignor",
}
_EAGER_ONLY = "aiokafka (eager only): two rolling restarts, first with\n  {}\nthen with {} alone"
_NOT_BOTH = "it has no {}, and aiokafka nothing cooperative: bring all members to one client library first"
_GO_NAMES = {
    "range": "RangeBalancer",
    "roundrobin": "RoundRobinBalancer",
    STICKY: "StickyBalancer",
    COOPERATIVE: "CooperativeStickyBalancer",
}
_WITH_SETTINGS = frozenset({JAVA, LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA, PYTHON})
_WORTH = 2
"""A change must save at least so many stops, or so much spread, to be suggested."""


def advice(row: Row) -> dict[str, Any]:
    """``suggested_strategy, suggestion, migration_note`` for one row of `group_report`; empty where nothing is to be gained.

    A group that was deleted gets none.

    The figures are closed loop: what the strategy would have done had it run all the time, over the same joins, leaves
    and topics, against what was observed.
    """
    runs = {(run["strategy"], run["mode"]): run for run in row["strategies"] or ()}
    observed = runs.get(("observed", "replay"))
    known = by_broker(row) or (row["group_type"] == "classic" and row["protocol"])
    if observed is None or not known or row["state"] == "deleted":
        return {}
    wanted = wanted_strategy(row)
    found = runs.get((wanted, "closed_loop"))
    if found is None or (wanted == row["protocol"] and not by_broker(row)):
        return {}
    gains = _gains(observed, found, rounds_against(row))
    if not gains:
        return {}
    reason = f"{wanted} over the same {grouped(found['generations'])} rebalances: " + ", ".join(gains)
    note = change_lines(row)
    return {"suggested_strategy": wanted, "suggestion": reason, "migration_note": note}


def wanted_strategy(row: Row) -> str:
    """The strategy that all client libraries of a group have and that moves least."""
    libraries = set(row["libraries"] or ())
    return STICKY if AIOKAFKA in libraries else COOPERATIVE


def _gains(observed: Row, found: Row, rounds: int) -> list[str]:
    """What is better, in words; `rounds` says how many times longer a stop takes than one that was observed."""
    gains = []
    if observed["revoked"] - rounds * found["revoked"] >= _WORTH:
        gains.append(f"{grouped(found['revoked'])} partitions stopped instead of {grouped(observed['revoked'])}")
    if observed["spread_peak"] - found["spread_peak"] >= _WORTH:
        gains.append(
            f"members at most {grouped(found['spread_peak'])} partitions apart instead of {grouped(observed['spread_peak'])}"
        )
    if gains and observed["moved"] > found["moved"]:
        gains.append(f"{grouped(found['moved'])} moves instead of {grouped(observed['moved'])}")
    return gains


def change_lines(row: Row, wanted: str | None = None) -> str:
    """How a group gets to a strategy, by default `wanted_strategy`; where it runs that already, how to get it from us."""
    wanted, libraries = wanted or wanted_strategy(row), row["libraries"] or ()
    if by_broker(row):
        # Clients that speak KIP-848 leave nothing of their own in its records: these two do.
        lines = [f"{config_lines(library, [wanted])} ({library})" for library in (JAVA, LIBRDKAFKA)]
        return broker_lines(row, lines, by_topic=wanted == "range")
    if wanted != row["protocol"]:
        return migration_note(row["protocol"] or "", wanted, libraries)
    notes = [f"{wanted} as the leader's library has it does not get there. Where counterpoise leads it does"]
    return "\n".join([*notes, *_plugged_in(libraries, _OURS[wanted])])


def lag_lines(row: Row) -> str:
    """How a group is dealt out by lag, for the libraries that can; the others are told what is left to them."""
    if by_broker(row):
        return lag_by_broker()
    return "\n".join(_plugged_in(row["libraries"] or (), "LagStickyAssignor"))


def _plugged_in(libraries: Sequence[str], name: str) -> list[str]:
    """An assignor of ours in each client library that takes one, and what to do in those that take none."""
    modules = {KAFKA_PYTHON: ("kafka_python",), AIOKAFKA: ("aiokafka",), PYTHON: ("kafka_python", "aiokafka")}
    notes = []
    for module in sorted({module for library in libraries for module in modules.get(library, ())}):
        lines = f"  from counterpoise.clients.{module} import {name}\n  partition_assignment_strategy=[{name}]"
        notes.append(f"{module.replace('_', '-')} (every member; docs/clients.md):\n{lines}")
    if not libraries or set(libraries) - set(modules):
        notes.append("Java and librdkafka take no assignor of ours: assign() a plan there (`counterpoise plan`, `export`)")
    return notes


def migration_note(now: str, wanted: str, libraries: Sequence[str]) -> str:
    """How to change the strategy of a running group, per client library."""
    notes = []
    cooperative = wanted == COOPERATIVE and now != COOPERATIVE
    if not libraries or JAVA in libraries:
        both, one = config_lines(JAVA, [wanted, now]), config_lines(JAVA, [wanted])
        notes.append(f"Java: two rolling restarts, first with\n  {both}\nthen with\n  {one}")
    if LIBRDKAFKA in libraries:
        how = "eager and cooperative cannot be mixed: stop all members, then start them" if cooperative else "one rolling restart"
        lines = f"{how} with\n  {config_lines(LIBRDKAFKA, [wanted])}"
        notes.append(f"librdkafka: {_NOT_BOTH.format(wanted) if wanted == STICKY else lines}")
    if {KAFKA_PYTHON, PYTHON} & set(libraries):
        both = _ours(wanted, now) if cooperative else f"  {config_lines(KAFKA_PYTHON, [wanted, now])}"
        notes.append(
            f"kafka-python{' 3' if cooperative else ''}: two rolling restarts, first with\n{both}\nthen with {wanted} alone"
        )
    if AIOKAFKA in libraries:
        notes.append(_EAGER_ONLY.format(config_lines(AIOKAFKA, [wanted, now]), wanted))
    elif PYTHON in libraries and cooperative and now != STICKY:
        notes.append(f"or, should they be {_EAGER_ONLY.format(config_lines(AIOKAFKA, [STICKY, now]), STICKY)}")
    if STREAMS in libraries:
        notes.append("Kafka Streams brings its own assignor: leave it")
    if FRANZ_GO in libraries:
        both, one = (", ".join(f"kgo.{_GO_NAMES.get(name, name)}()" for name in names) for names in ([wanted, now], [wanted]))
        notes.append(f"franz-go: two rolling restarts, first with\n  kgo.Balancers({both})\nthen with\n  kgo.Balancers({one})")
    others = sorted(set(libraries) - {JAVA, LIBRDKAFKA, KAFKA_PYTHON, PYTHON, AIOKAFKA, STREAMS, FRANZ_GO})
    if others:
        who = ", ".join("unknown client libraries" if one == UNKNOWN else one for one in others)
        notes.append(f"{who}: two rolling restarts, first with {wanted} and {now}, then with {wanted} alone")
    return "\n".join(notes)


def _ours(wanted: str, now: str) -> str:
    """What an eager and a cooperative strategy together want on kafka-python: its own classes have no protocol in common."""
    names = [_OURS.get(name, f"<class of {name}>") for name in (wanted, now)]
    known = ", ".join(name for name in names if name in _OURS.values())
    return f"  from counterpoise.clients.kafka_python import {known}\n  partition_assignment_strategy=[{', '.join(names)}]"


def config_lines(library: str, names: Sequence[str]) -> str:
    """The line of configuration that selects strategies in a client library, the preferred one first.

    Of a strategy that the library does not bring only the name is in the record: whoever wrote its class puts it in.
    """
    if library == JAVA:
        listed = [_JAVA_CLASS + _JAVA_NAMES[name] if name in _JAVA_NAMES else f"<class of {name}>" for name in names]
        return "partition.assignment.strategy=" + ",".join(listed)
    if library in (KAFKA_PYTHON, AIOKAFKA, PYTHON):
        return f"partition_assignment_strategy=[{', '.join(_PYTHON_NAMES.get(name, f'<class of {name}>') for name in names)}]"
    return "partition.assignment.strategy=" + ",".join(names)


def setting_lines(libraries: Sequence[str] | None, settings: Mapping[str, str]) -> str:
    """Settings (Java's names) as each client library in use writes them, a line each; those that a library lacks are left out."""
    blocks = []
    for library in sorted(set(libraries or ()) & _WITH_SETTINGS) or [JAVA]:
        known = {name: value for name, value in settings.items() if (library, name) != (LIBRDKAFKA, "max.poll.records")}
        if library in (JAVA, LIBRDKAFKA):
            lines = [f"{name}={value}" for name, value in known.items()]
        else:
            lines = [
                f'{name.replace(".", "_")}="{value}",' if "id" in name else f"{name.replace('.', '_')}={value},"
                for name, value in known.items()
            ]
        blocks.append((library, lines))
    if libraries and not set(libraries) & _WITH_SETTINGS:
        blocks = [("in Java's names", blocks[0][1]), ("", [])]
    if len(blocks) == 1:
        return "\n".join(f"  {line}" for line in blocks[0][1])
    return "\n".join("\n".join([f"  {library}:", *(f"    {line}" for line in lines)]) for library, lines in blocks if lines)


def fidelity_note(judged: int, matched: int, ties: int, worse: int, libraries: Sequence[str]) -> str | None:
    """Why the declared strategy does not reproduce every generation; None where it does, or nothing was judged.

    `ties`: as balanced, and as few moves, as ours; `worse`: the leader's plan was less balanced or moved more.
    """
    if not judged or matched == judged:
        return None
    other = judged - matched - ties - worse
    parts = [f"{grouped(matched)} of {grouped(judged)} generations reproduced"]
    if ties:
        parts.append(f"{grouped(ties)} differ by ties only (equal loads, equally many moves)")
    if worse:
        who = ", ".join(libraries) or "an unknown library"
        parts.append(f"in {grouped(worse)} the leader ({who}) was less balanced or moved more than the strategy needs")
    if other > 0:
        parts.append(
            f"{grouped(other)} differ otherwise: the leader moved fewer partitions or was more even than our plan of that name"
        )
    return "; ".join(parts)
