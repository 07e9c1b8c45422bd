"""Advice for a group: a better strategy, the reason, the migration, and why its replays differ from the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from counterpoise.pipeline.findings.finding import Row
from counterpoise.pipeline.history.replay_fold import CLOSED_LOOP, EPOCH_TYPE, OBSERVED, REPLAY
from counterpoise.pipeline.predicted_stops import runs_of, seconds_of
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
    recommended,
    resolved,
    stops_kept_partitions,
)

__all__ = [
    "Note",
    "advice",
    "assigned_by",
    "by_broker",
    "change_lines",
    "change_notes",
    "config_lines",
    "fidelity_note",
    "lag_lines",
    "migration_notes",
    "seconds_saved",
    "setting_lines",
    "suggested_strategy",
    "usable_strategies",
]


class Note(NamedTuple):
    """How to change the configuration of a client library, and the rolling restarts that it takes."""

    library: str
    restarts: int
    lines: str
    full_stop: bool = False  # Whether all its members must be stopped at one time


COOPERATIVE, COOPERATIVE_KIND = "cooperative-sticky", "cooperative"
STICKY = "sticky"
_JAVA_CLASS = "org.apache.kafka.clients.consumer."
_KNOWN = ("range", "roundrobin", STICKY, COOPERATIVE)
_OURS = dict(zip(_KNOWN, ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"), strict=True))
"""Names of our assignors; Java's are the same."""
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
"""The modules with assignors for each client library."""
_EAGER_ONLY = "aiokafka (eager only): two rolling restarts, first with\n  {}\nthen with {} alone"
_STREAMS_KEEP = "Kafka Streams has its own assignor: keep it"
_GO_NAMES = {name: f"kgo.{given.replace('Assignor', 'Balancer')}()" for name, given in _OURS.items()}
_WITH_SETTINGS = frozenset({JAVA, LIBRDKAFKA, *_MODULES})
_WORTH = 2
"""Minimal saving of a suggested change: partition-seconds, or spread."""
_SURE = 0.8
"""A suggested strategy must be predicted to stop at most this share of the present seconds, because predictions are not exact."""

_SPREADS_ALL, _SPREADS_TOPICS = "uniform", "range"
"""The assignors of brokers: one spreads all partitions, the other one those of each topic."""
_BACK = (
    "back to the classic protocol, one restart at a time (if the brokers' group.consumer.migration.policy is bidirectional "
    "or downgrade), {}with\n  group.protocol=classic"
)


def advice(row: Row) -> dict[str, Any]:
    """``suggested_strategy, suggestion, migration_note`` for one row of `group_report`; empty if no strategy is better.

    The observed figures are compared with those of a closed loop, in which the strategy ran all the time over the same joins,
    leaves and topics. A strategy that is predicted to stop partitions for longer is never suggested. A deleted group gets no
    advice.
    """
    runs = runs_of(row)
    observed = runs.get((OBSERVED, REPLAY))
    known = by_broker(row) or (row["group_type"] == "classic" and row["protocol"])
    target = suggested_strategy(row)
    if observed is None or not known or row["state"] == "deleted" or target is None or not _is_a_change(row, target):
        return {}
    run = runs.get((target, CLOSED_LOOP))
    gains = [] if run is None else _gains(row, observed, run)
    if run is None or not gains:
        return {}
    reason = f"{target} over the same {grouped(run['generations'])} rebalances: " + ", ".join(gains)
    return {"suggested_strategy": target, "suggestion": reason, "migration_note": change_lines(row, target)}


def suggested_strategy(row: Row) -> str | None:
    """The strategy that all client libraries of a group support and that is predicted to stop partitions least.

    None: the libraries have no strategy in common, or all of them are predicted to stop partitions for longer than now.
    """
    candidates = _without_eager(row, recommended(row["libraries"]))
    seconds, _ = seconds_of(row)
    now = seconds.get((OBSERVED, REPLAY))
    if now is None:
        return candidates[0] if candidates else None
    predicted = {name: _predicted(row, name, seconds, now) for name in candidates}
    if row["protocol"] in predicted and not _is_a_change(row, row["protocol"]):
        predicted[row["protocol"]] = now
    fit = {name: then for name, then in predicted.items() if then is not None and then <= now}
    return min(fit, key=lambda name: (fit[name], candidates.index(name)), default=None)


def _without_eager(row: Row, names: Sequence[str]) -> list[str]:
    """`names` without eager strategies, if the group is cooperative and its clients keep consuming during a rebalance.

    The time that eager rebalances stop was measured with members that hear of them at once; otherwise all partitions wait for the
    last member.
    """
    consumes_meanwhile = row["protocol_kind"] == COOPERATIVE_KIND and not stops_kept_partitions(
        row["libraries"], COOPERATIVE_KIND
    )
    return [name for name in names if not consumes_meanwhile or name == COOPERATIVE]


def _predicted(row: Row, name: str, seconds: Mapping[tuple[str, str], float], now: float) -> float | None:
    """Partition-seconds under a strategy; an eager strategy that was not replayed stops as much as any other eager one."""
    eager = name != COOPERATIVE and row["protocol_kind"] == "eager"
    return seconds.get((name, CLOSED_LOOP), now if eager else None)


def usable_strategies(row: Row) -> list[str]:
    """The strategies that all client libraries of a group support and that are not predicted to stop partitions for longer.

    For a group whose assignor is the broker these are all, because brokers have an assignor of each kind.
    """
    names = ["range", "roundrobin", *recommended(row["libraries"])]
    if by_broker(row):
        return names
    seconds, _ = seconds_of(row)
    now = seconds.get((OBSERVED, REPLAY))
    return [name for name in _without_eager(row, names) if now is None or seconds.get((name, CLOSED_LOOP), now) <= now]


def _is_a_change(row: Row, target: str) -> bool:
    """Whether a group does not run a strategy, or runs it in a library whose implementation stops kept partitions (not ours)."""
    stands = row["protocol_kind"] == COOPERATIVE_KIND and KAFKA_PYTHON in (row["libraries"] or ())
    return target != row["protocol"] or by_broker(row) or (stands and target == COOPERATIVE)


def seconds_saved(row: Row, target: str | None) -> tuple[float, float, bool] | None:
    """Partition-seconds stopped now, those predicted for a strategy, and whether commits show the first; None: unknown."""
    seconds, measured = seconds_of(row)
    now, then = seconds.get((OBSERVED, REPLAY)), seconds.get((target or "", CLOSED_LOOP))
    return None if now is None or then is None else (now, then, measured)


def _gains(row: Row, observed: Row, run: Row) -> list[str]:
    """One text per figure of a run that is better than observed."""
    gains = []
    seconds = seconds_saved(row, run["strategy"])
    if seconds is not None and seconds[0] - seconds[1] >= _WORTH and seconds[1] <= _SURE * seconds[0]:
        now, then, measured = seconds
        basis = "instead of the" if measured else "instead of an estimated"
        gains.append(f"about {then:,.0f} partition-seconds stopped {basis} {now:,.0f}")
    if observed["spread_peak"] - run["spread_peak"] >= _WORTH:
        gains.append(
            f"members at most {grouped(run['spread_peak'])} partitions apart instead of {grouped(observed['spread_peak'])}"
        )
    if gains and observed["moved"] > run["moved"]:
        gains.append(f"{grouped(run['moved'])} moves instead of {grouped(observed['moved'])}")
    return gains


def change_lines(row: Row, target: str | None = None) -> str:
    """How to change a group to a strategy, by default `suggested_strategy`; if it runs that already, to our implementation."""
    return "\n".join(note.lines for note in change_notes(row, target)) or _nothing_better(resolved(row["libraries"]))


def change_notes(row: Row, target: str | None = None) -> list[Note]:
    """`change_lines` by client library; empty if there is no better strategy."""
    classic, libraries = suggested_strategy(row), resolved(row["libraries"])
    target = target or classic
    if by_broker(row):
        # KIP-848 records do not show the client library; these two libraries support KIP-848.
        lines = [f"{library}:\n    {config_lines(library, [classic])}" for library in (JAVA, LIBRDKAFKA)] if classic else ()
        text = _broker_lines(row, lines, by_topic=target == "range")
        return [Note("KIP-848", 1, text)] if text else []
    if target is None:
        return []
    if target != row["protocol"]:
        return migration_notes(row["protocol"] or "", target, libraries)
    notes = [f"{target} of the leader's library does not achieve this; that of counterpoise does, if it leads"]
    if KAFKA_PYTHON in libraries and row["protocol_kind"] == COOPERATIVE_KIND:
        notes.append("kafka-python's own stops partitions that stay, too: one rolling restart with")
    return [Note(", ".join(libraries), 1, "\n".join([*notes, *_assignor_lines(libraries, _OURS[target])]))]


def _nothing_better(libraries: Sequence[str]) -> str:
    if not recommended(libraries):
        if len(libraries) == 1:
            return f"{libraries[0]} has no other strategy worth a change"
        return "its client libraries have no better strategy in common: use one client library for all members first"
    return "keep the strategy: every other one is predicted to stop partitions for longer than they are stopped now"


def lag_lines(row: Row) -> str:
    """How to assign a group's partitions by lag in each client library, or the alternative if a library cannot."""
    if by_broker(row):
        return (
            "no assignor of the broker uses lag; under the classic protocol (group.protocol=classic) kafka-python and "
            "aiokafka take lag-sticky (docs/clients.md), and any client can assign() a plan (`counterpoise plan`, `export`)"
        )
    return "\n".join(_assignor_lines(row["libraries"] or (), "LagStickyAssignor"))


def _assignor_lines(libraries: Sequence[str], name: str) -> list[str]:
    """The lines that configure one of our assignors in each client library, or the alternative if a library cannot."""
    notes = []
    for module in sorted({module for library in libraries for module in _MODULES.get(library, ())}):
        lines = f"  from counterpoise.clients.{module} import {name}\n  partition_assignment_strategy=[{name}]"
        notes.append(f"{module.replace('_', '-')} (every member; docs/clients.md):\n{lines}")
    if STREAMS in libraries:
        notes.append(_STREAMS_KEEP)
    if not libraries or set(libraries) - {*_MODULES, STREAMS}:
        notes.append("Java and librdkafka cannot use our assignors: assign() a plan there (`counterpoise plan`, `export`)")
    return notes


def migration_notes(now: str, target: str, libraries: Sequence[str]) -> list[Note]:
    """How to change the strategy of a running group, per client library."""
    notes = []
    now = now if now.isprintable() else "your strategy"  # A line break would end the line to copy.
    mixed = (target == COOPERATIVE) != (now == COOPERATIVE)
    if not libraries or JAVA in libraries:
        both, one = config_lines(JAVA, [target, now]), config_lines(JAVA, [target])
        notes.append(Note(JAVA, 2, f"Java: two rolling restarts, first with\n  {both}\nthen with\n  {one}"))
    if LIBRDKAFKA in libraries:
        both, one = config_lines(LIBRDKAFKA, [target, now]), config_lines(LIBRDKAFKA, [target])
        others_restart = {*libraries} - {LIBRDKAFKA, STREAMS}
        then = "after the first rolling restart of the others start them" if others_restart else "then start them"
        lines = f"two rolling restarts, first with\n  {both}\nthen with\n  {one}"
        lines = f"eager and cooperative cannot be mixed: stop all its members, {then} with\n  {one}" if mixed else lines
        notes.append(Note(LIBRDKAFKA, 0 if mixed else 2, f"librdkafka: {lines}", mixed))
    notes += _python_notes(now, target, libraries, mixed=mixed)
    if STREAMS in libraries:
        notes.append(Note(STREAMS, 0, _STREAMS_KEEP))
    if FRANZ_GO in libraries:
        old, new = (_GO_NAMES.get(name, f"<balancer of {name}>") for name in (now, target))
        lines = f"two rolling restarts, first with\n  kgo.Balancers({new}, {old})\nthen with\n  kgo.Balancers({new})"
        notes.append(Note(FRANZ_GO, 2, f"franz-go: {lines}"))
    others = sorted(set(libraries) - {JAVA, LIBRDKAFKA, STREAMS, FRANZ_GO, *_MODULES})
    if others:
        who = ", ".join("unknown client libraries" if one == UNKNOWN else one for one in others)
        lines = f"{who}: two rolling restarts, first with {target} and {now}, then with {target} alone"
        notes.append(Note(", ".join(others), 2, lines))
    return notes


def _python_notes(now: str, target: str, libraries: Sequence[str], *, mixed: bool) -> list[Note]:
    """The migration notes for kafka-python and aiokafka.

    Groups with our assignors keep them. Ours are named also if one of the two strategies is cooperative: kafka-python's own
    cooperative strategy stops kept partitions while members join, and its own eager and cooperative classes have no protocol in
    common.
    """
    notes, present = [], set(libraries)
    ours = mixed or target == COOPERATIVE or not present & {KAFKA_PYTHON, PYTHON}
    if present & {KAFKA_PYTHON, PYTHON, _OURS_KAFKA_PYTHON}:
        both = _ours("kafka_python", target, now) if ours else f"  {config_lines(KAFKA_PYTHON, [target, now])}"
        version = " 3" if mixed else ""
        lines = f"kafka-python{version}: two rolling restarts, first with\n{both}\nthen with {target} alone"
        notes.append(Note(KAFKA_PYTHON, 2, lines))
    if _OURS_AIOKAFKA in present:
        notes.append(Note(AIOKAFKA, 2, _EAGER_ONLY.format(_ours("aiokafka", target, now).strip(), target)))
    if AIOKAFKA in present:
        notes.append(Note(AIOKAFKA, 2, _EAGER_ONLY.format(config_lines(AIOKAFKA, [target, now]), target)))
    elif PYTHON in present and target == COOPERATIVE and now not in (COOPERATIVE, STICKY):
        lines = _EAGER_ONLY.format(config_lines(AIOKAFKA, [STICKY, now]), STICKY)
        notes.append(Note(AIOKAFKA, 2, f"or, if they are {lines}"))
    return notes


def _ours(module: str, target: str, now: str) -> str:
    """The lines that list two strategies of ours in a client library."""
    names = [_OURS.get(name, f"<class of {name}>") for name in (target, now)]
    known = ", ".join(name for name in names if name in _OURS.values())
    return f"  from counterpoise.clients.{module} import {known}\n  partition_assignment_strategy=[{', '.join(names)}]"


def config_lines(library: str, names: Sequence[str]) -> str:
    """The line of configuration that selects strategies in a client library, the preferred one first.

    The class of a strategy that is not part of the library is unknown, so the line has a placeholder.
    """
    if library in (KAFKA_PYTHON, AIOKAFKA, PYTHON):
        return f"partition_assignment_strategy=[{', '.join(_PYTHON_NAMES.get(name, f'<class of {name}>') for name in names)}]"
    if library == JAVA:
        names = [_JAVA_CLASS + _OURS[name] if name in _OURS else f"<class of {name}>" for name in names]
    return "partition.assignment.strategy=" + ",".join(names)


def setting_lines(libraries: Sequence[str] | None, settings: Mapping[str, str]) -> str:
    """Settings (Java's names) in the syntax of each client library, a line each; unsupported ones are omitted."""
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


def fidelity_note(compared: int, matched: int, ties: int, worse: int, libraries: Sequence[str]) -> str | None:
    """Why the declared strategy does not reproduce every generation; None: it does, or no generation was compared.

    `ties`: as balanced, and as few moves, as ours; `worse`: the leader's plan was less balanced or moved more.
    """
    if not compared or matched == compared:
        return None
    other = compared - matched - ties - worse
    parts = [f"{grouped(matched)} of {grouped(compared)} generations reproduced"]
    if ties:
        parts.append(f"{grouped(ties)} differ by ties only (equal loads, equally many moves)")
    if worse:
        who = ", ".join(libraries) or "an unknown library"
        parts.append(f"in {grouped(worse)} the leader ({who}) was less balanced or moved more than the strategy needs")
    if other > 0:
        parts.append(f"{grouped(other)} differ in another way: the leader moved fewer partitions or was more even than our plan")
    return "; ".join(parts)


def by_broker(row: Row) -> bool:
    """Whether a row of `group_report` is about a KIP-848 group."""
    return bool(row["group_type"] == EPOCH_TYPE)


def assigned_by(row: Row) -> str:
    """The name of the assignor of a group: its strategy, or the broker's assignor."""
    if not by_broker(row):
        return str(row["protocol"])
    return f"the broker's {row['protocol']} assignor" if row["protocol"] else "the broker's assignor"


def _broker_lines(row: Row, classic: Sequence[str], *, by_topic: bool) -> str:
    """How to change the assignor of a KIP-848 group; empty: there is no better one.

    `classic`: the lines that select a strategy under the classic protocol, one per client library; empty: none is better there.
    `by_topic`: the partitions of each topic shall be spread; otherwise all partitions together.
    """
    target = _SPREADS_TOPICS if by_topic else _SPREADS_ALL
    notes = []
    if row["protocol"] != target and (row["protocol"] or by_topic):
        notes.append(f"the broker has an assignor for that; every member with\n  group.remote.assignor={target}")
    if classic:
        # Java refuses this setting under the classic protocol.
        without = "without group.remote.assignor, " if row["protocol"] else ""
        notes += [f"{'or ' if notes else ''}{_BACK.format(without)}", *(f"  {line}" for line in classic)]
    return "\n".join(notes)
