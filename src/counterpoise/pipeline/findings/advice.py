"""What a group should run instead, why, how to get there, and why replays of it differ from the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.pipeline.history.epochs import EPOCH_TYPE
from counterpoise.pipeline.standstill import seconds_of
from counterpoise.pipeline.wording import grouped
from counterpoise.planning.client_libraries import (
    AIOKAFKA,
    COUNTERPOISE,
    FRANZ_GO,
    JAVA,
    KAFKA_PYTHON,
    LIBRDKAFKA,
    PYTHON,
    STREAMS,
    UNKNOWN,
    keeps_standing,
    recommended,
    resolved,
)

__all__ = [
    "advice",
    "assigned_by",
    "by_broker",
    "change_lines",
    "config_lines",
    "fidelity_note",
    "lag_lines",
    "migration_note",
    "offered",
    "seconds_saved",
    "setting_lines",
    "wanted_strategy",
]

Row = Mapping[str, Any]
COOPERATIVE, COOPERATIVE_KIND = "cooperative-sticky", "cooperative"
STICKY = "sticky"
_JAVA_CLASS = "org.apache.kafka.clients.consumer."
_KNOWN = ("range", "roundrobin", STICKY, COOPERATIVE)
_OURS = dict(zip(_KNOWN, ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"), strict=True))
"""Java's names too."""
_PYTHON_NAMES = {name: given.replace("Assignor", "PartitionAssignor") for name, given in _OURS.items()}
_PYTHON_NAMES[COOPERATIVE] = _OURS[COOPERATIVE]
_OURS_KAFKA_PYTHON, _OURS_AIOKAFKA = COUNTERPOISE[KAFKA_PYTHON], COUNTERPOISE[AIOKAFKA]
_MODULES = {
    KAFKA_PYTHON: ("kafka_python",),
    AIOKAFKA: ("aiokafka",),
    PYTHON: ("kafka_python", "aiokafka"),
    _OURS_KAFKA_PYTHON: ("kafka_python",),
    _OURS_AIOKAFKA: ("aiokafka",),
}
"""Where the assignors are that each client library takes."""
_EAGER_ONLY = "aiokafka (eager only): two rolling restarts, first with\n  {}\nthen with {} alone"
_NOT_BOTH = "it has no {}, and aiokafka nothing cooperative: bring all members to one client library first"
_GO_NAMES = {name: given.replace("Assignor", "Balancer") for name, given in _OURS.items()}
_WITH_SETTINGS = frozenset({JAVA, LIBRDKAFKA, *_MODULES})
_WORTH = 2
"""A change must save at least so many partition-seconds, or so much spread, to be suggested."""
_SURE = 0.8
"""A prediction is not exact: what stops less must be predicted to stop at most this share of what is stopped now."""

_SPREADS_ALL, _SPREADS_TOPICS = "uniform", "range"
"""The assignors that brokers bring: one spreads all partitions alike, one those of each topic."""
_BACK = (
    "back to the classic protocol, one restart at a time (where the brokers' group.consumer.migration.policy is bidirectional "
    "or downgrade), with\n  group.protocol=classic"
)


def advice(row: Row) -> dict[str, Any]:
    """``suggested_strategy, suggestion, migration_note`` for one row of `group_report`; empty where nothing is to be gained.

    The figures are closed loop: what the strategy would have done had it run all the time, over the same joins, leaves
    and topics, against what was observed. Nothing is suggested that is predicted to stop partitions for longer. A group that
    was deleted gets no advice.
    """
    runs = {(run["strategy"], run["mode"]): run for run in row["strategies"] or ()}
    observed = runs.get(_AS_SEEN)
    known = by_broker(row) or (row["group_type"] == "classic" and row["protocol"])
    wanted = wanted_strategy(row)
    if observed is None or not known or row["state"] == "deleted" or wanted is None or not _is_a_change(row, wanted):
        return {}
    found = runs.get((wanted, "closed_loop"))
    gains = [] if found is None else _gains(row, observed, found)
    if found is None or not gains:
        return {}
    reason = f"{wanted} over the same {grouped(found['generations'])} rebalances: " + ", ".join(gains)
    return {"suggested_strategy": wanted, "suggestion": reason, "migration_note": change_lines(row, wanted)}


_AS_SEEN = ("observed", "replay")


def wanted_strategy(row: Row) -> str | None:
    """Of the strategies that all client libraries of a group run, the one that is predicted to stop partitions least.

    None: they have none in common, or each of them is predicted to stop partitions for longer than they are stopped now.
    """
    candidates = recommended(row["libraries"])
    if row["protocol_kind"] == COOPERATIVE_KIND and not keeps_standing(row["libraries"], COOPERATIVE_KIND):
        # Eager rebalances were measured while heartbeats were in step; out of step all partitions wait for the last one.
        candidates = tuple(name for name in candidates if name == COOPERATIVE)
    seconds, _ = seconds_of(row) if row.get("strategies") else ({}, False)
    now = seconds.get(_AS_SEEN)
    if now is None:
        return candidates[0] if candidates else None
    predicted = {name: _predicted(row, name, seconds, now) for name in candidates}
    if row["protocol"] in predicted and not _is_a_change(row, row["protocol"]):
        predicted[row["protocol"]] = now
    fit = {name: then for name, then in predicted.items() if then is not None and then <= now}
    return min(fit, key=lambda name: (fit[name], candidates.index(name)), default=None)


def _predicted(row: Row, name: str, seconds: Mapping[tuple[str, str], float], now: float) -> float | None:
    """Partition-seconds under a strategy; one eager strategy that was not compared stops what another one does."""
    eager = name != COOPERATIVE and row["protocol_kind"] == "eager"
    return seconds.get((name, "closed_loop"), now if eager else None)


def offered(row: Row) -> list[str]:
    """The strategies that all client libraries of a group run and that are not predicted to stop partitions for longer.

    Of a group whose assignor is the broker: all, because the broker brings one of either kind.
    """
    names = ["range", "roundrobin", *recommended(row["libraries"])]
    if by_broker(row):
        return names
    seconds, _ = seconds_of(row)
    now = seconds.get(_AS_SEEN)
    return [name for name in names if now is None or seconds.get((name, "closed_loop"), now) <= now]


def _is_a_change(row: Row, wanted: str) -> bool:
    """Whether a group does not run a strategy yet, or runs that of a library which stops what stays: ours does not."""
    stands = row["protocol_kind"] == COOPERATIVE_KIND and KAFKA_PYTHON in (row["libraries"] or ())
    return wanted != row["protocol"] or by_broker(row) or (stands and wanted == COOPERATIVE)


def seconds_saved(row: Row, wanted: str | None) -> tuple[float, float, bool] | None:
    """Partition-seconds stopped now, those predicted of a strategy, and whether commits showed the first; None: unknown."""
    seconds, measured = seconds_of(row)
    now, then = seconds.get(_AS_SEEN), seconds.get((wanted or "", "closed_loop"))
    return None if now is None or then is None else (now, then, measured)


def _gains(row: Row, observed: Row, found: Row) -> list[str]:
    """What is better, in words."""
    gains = []
    seconds = seconds_saved(row, found["strategy"])
    if seconds is not None and seconds[0] - seconds[1] >= _WORTH and seconds[1] <= _SURE * seconds[0]:
        now, then, measured = seconds
        basis = "instead of the" if measured else "instead of an estimated"
        gains.append(f"about {then:,.0f} partition-seconds stopped {basis} {now:,.0f}")
    if observed["spread_peak"] - found["spread_peak"] >= _WORTH:
        gains.append(
            f"members at most {grouped(found['spread_peak'])} partitions apart instead of {grouped(observed['spread_peak'])}"
        )
    if gains and observed["moved"] > found["moved"]:
        gains.append(f"{grouped(found['moved'])} moves instead of {grouped(observed['moved'])}")
    return gains


def change_lines(row: Row, wanted: str | None = None) -> str:
    """How a group gets to a strategy, by default `wanted_strategy`; where it runs that already, how to get it from us."""
    classic, libraries = wanted_strategy(row), resolved(row["libraries"])
    wanted = wanted or classic
    if by_broker(row):
        # Clients that speak KIP-848 leave nothing of their own in its records: these two do.
        lines = [f"{config_lines(library, [classic])} ({library})" for library in (JAVA, LIBRDKAFKA)] if classic else ()
        return _broker_lines(row, lines, by_topic=wanted == "range") or _nothing_better(libraries)
    if wanted is None:
        return _nothing_better(libraries)
    if wanted != row["protocol"]:
        return migration_note(row["protocol"] or "", wanted, libraries)
    notes = [f"{wanted} as the leader's library has it does not get there. Where counterpoise leads it does"]
    if KAFKA_PYTHON in libraries and row["protocol_kind"] == COOPERATIVE_KIND:
        notes.append("kafka-python's own stops partitions that stay, too: one rolling restart with")
    return "\n".join([*notes, *_plugged_in(libraries, _OURS[wanted])])


def _nothing_better(libraries: Sequence[str]) -> str:
    if not recommended(libraries):
        return "its client libraries have no better strategy in common: bring all members to one client library first"
    return "leave the strategy: every other one is predicted to stop partitions for longer than they are stopped now"


def lag_lines(row: Row) -> str:
    """How a group is dealt out by lag, for the libraries that can; the others are told what is left to them."""
    if by_broker(row):
        return _lag_by_broker()
    return "\n".join(_plugged_in(row["libraries"] or (), "LagStickyAssignor"))


def _plugged_in(libraries: Sequence[str], name: str) -> list[str]:
    """An assignor of ours in each client library that takes one, and what to do in those that take none."""
    notes = []
    for module in sorted({module for library in libraries for module in _MODULES.get(library, ())}):
        lines = f"  from counterpoise.clients.{module} import {name}\n  partition_assignment_strategy=[{name}]"
        notes.append(f"{module.replace('_', '-')} (every member; docs/clients.md):\n{lines}")
    if not libraries or set(libraries) - set(_MODULES):
        notes.append("Java and librdkafka take no assignor of ours: assign() a plan there (`counterpoise plan`, `export`)")
    return notes


def migration_note(now: str, wanted: str, libraries: Sequence[str]) -> str:
    """How to change the strategy of a running group, per client library."""
    notes = []
    mixed = (wanted == COOPERATIVE) != (now == COOPERATIVE)
    if not libraries or JAVA in libraries:
        both, one = config_lines(JAVA, [wanted, now]), config_lines(JAVA, [wanted])
        notes.append(f"Java: two rolling restarts, first with\n  {both}\nthen with\n  {one}")
    if LIBRDKAFKA in libraries:
        how = "eager and cooperative cannot be mixed: stop all members, then start them" if mixed else "one rolling restart"
        lines = f"{how} with\n  {config_lines(LIBRDKAFKA, [wanted])}"
        notes.append(f"librdkafka: {_NOT_BOTH.format(wanted) if wanted == STICKY else lines}")
    notes += _python_notes(now, wanted, libraries, mixed=mixed)
    if STREAMS in libraries:
        notes.append("Kafka Streams brings its own assignor: leave it")
    if FRANZ_GO in libraries:
        both, one = (", ".join(f"kgo.{_GO_NAMES.get(name, name)}()" for name in names) for names in ([wanted, now], [wanted]))
        notes.append(f"franz-go: two rolling restarts, first with\n  kgo.Balancers({both})\nthen with\n  kgo.Balancers({one})")
    others = sorted(set(libraries) - {JAVA, LIBRDKAFKA, STREAMS, FRANZ_GO, *_MODULES})
    if others:
        who = ", ".join("unknown client libraries" if one == UNKNOWN else one for one in others)
        notes.append(f"{who}: two rolling restarts, first with {wanted} and {now}, then with {wanted} alone")
    return "\n".join(notes)


def _python_notes(now: str, wanted: str, libraries: Sequence[str], *, mixed: bool) -> list[str]:
    """The same for kafka-python and aiokafka; whoever runs our assignors gets ours.

    What stays stands still while kafka-python's own cooperative strategy joins, and its own eager and cooperative classes have no
    protocol in common: ours are named where one of the two strategies is cooperative.
    """
    notes, present = [], set(libraries)
    ours = mixed or wanted == COOPERATIVE or not present & {KAFKA_PYTHON, PYTHON}
    if present & {KAFKA_PYTHON, PYTHON, _OURS_KAFKA_PYTHON}:
        both = _ours("kafka_python", wanted, now) if ours else f"  {config_lines(KAFKA_PYTHON, [wanted, now])}"
        version = " 3" if mixed else ""
        notes.append(f"kafka-python{version}: two rolling restarts, first with\n{both}\nthen with {wanted} alone")
    if _OURS_AIOKAFKA in present:
        notes.append(_EAGER_ONLY.format(_ours("aiokafka", wanted, now).strip(), wanted))
    if AIOKAFKA in present:
        notes.append(_EAGER_ONLY.format(config_lines(AIOKAFKA, [wanted, now]), wanted))
    elif PYTHON in present and wanted == COOPERATIVE and now not in (COOPERATIVE, STICKY):
        notes.append(f"or, should they be {_EAGER_ONLY.format(config_lines(AIOKAFKA, [STICKY, now]), STICKY)}")
    return notes


def _ours(module: str, wanted: str, now: str) -> str:
    """The lines that list two strategies of ours in a client library."""
    names = [_OURS.get(name, f"<class of {name}>") for name in (wanted, now)]
    known = ", ".join(name for name in names if name in _OURS.values())
    return f"  from counterpoise.clients.{module} import {known}\n  partition_assignment_strategy=[{', '.join(names)}]"


def config_lines(library: str, names: Sequence[str]) -> str:
    """The line of configuration that selects strategies in a client library, the preferred one first.

    Of a strategy that the library does not bring only the name is in the record: whoever wrote its class puts it in.
    """
    if library == JAVA:
        listed = [_JAVA_CLASS + _OURS[name] if name in _OURS else f"<class of {name}>" for name in names]
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


def by_broker(row: Row) -> bool:
    """Whether a row of `group_report` is about a KIP-848 group."""
    return bool(row["group_type"] == EPOCH_TYPE)


def assigned_by(row: Row) -> str:
    """What shares out the partitions of a group, in words: its strategy, or the broker's assignor."""
    if not by_broker(row):
        return str(row["protocol"])
    return f"the broker's {row['protocol']} assignor" if row["protocol"] else "the broker's assignor"


def _broker_lines(row: Row, classic: Sequence[str], *, by_topic: bool = False) -> str:
    """How a KIP-848 group is shared out otherwise; empty: there is no other way.

    Parameters
    ----------
    row : mapping
        Of `group_report`.
    classic : sequence of str
        The lines that select a strategy under the classic protocol, one per client library; empty: none is better there.
    by_topic : bool
        Wanted is that the partitions of each topic are spread; otherwise all of them together.
    """
    wanted = _SPREADS_TOPICS if by_topic else _SPREADS_ALL
    notes = []
    if row["protocol"] != wanted and (row["protocol"] or by_topic):
        notes.append(f"the broker brings an assignor for that; every member with\n  group.remote.assignor={wanted}")
    if classic:
        notes += [f"{'or ' if notes else ''}{_BACK}", *(f"  {line}" for line in classic)]
    return "\n".join(notes)


def _lag_by_broker() -> str:
    """What is left to a KIP-848 group that is to be dealt out by lag."""
    return (
        "no assignor that brokers bring looks at lag; under the classic protocol (group.protocol=classic) kafka-python and "
        "aiokafka take lag-sticky (docs/clients.md), and any client can assign() a plan (`counterpoise plan`, `export`)"
    )
