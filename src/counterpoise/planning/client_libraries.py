"""What each client library does while it joins a group, and how long its partitions stood still in `python -m benchmarks.live`.

The simulator and the audit read this table. After a new run of the benchmark replace the figures here and in docs/predictions.md.
A test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "AIOKAFKA",
    "BEHAVIOURS",
    "CONNECT",
    "COUNTERPOISE",
    "FRANZ_GO",
    "HELD",
    "JAVA",
    "KAFKA_GO",
    "KAFKA_PYTHON",
    "LIBRDKAFKA",
    "MOVED",
    "PYTHON",
    "STREAMS",
    "UNKNOWN",
    "Behaviour",
    "behaviour",
    "expected_seconds",
    "recommended",
    "resolved",
    "stops_kept_partitions",
]

JAVA = "java"
STREAMS = "kafka-streams"
LIBRDKAFKA = "librdkafka"
KAFKA_PYTHON = "kafka-python"
AIOKAFKA = "aiokafka"
PYTHON = "kafka-python or aiokafka"
FRANZ_GO = "franz-go"
KAFKA_GO = "kafka-go"
CONNECT = "connect"
UNKNOWN = "unknown"
COUNTERPOISE = {host: f"counterpoise ({host})" for host in (KAFKA_PYTHON, AIOKAFKA)}
"""The name of members that run our assignors, by the library they run in."""
EAGER, COOPERATIVE, SERVER = "eager", "cooperative", "server"

HELD, MOVED = 46, 7
"""The benchmark has 12 partitions and 3, 4, 5, 6, then 5 members. A partition was held by a member that joined again 46 times; a
sticky strategy moves it in 7 of these."""


@dataclass(frozen=True)
class Behaviour:
    """One client library under one protocol."""

    library: str  # As the audit's column `library` names it
    kind: str  # EAGER, COOPERATIVE or SERVER (KIP-848)
    # all_s, kept_s: Partition-seconds without a record in one benchmark run: all partitions; those that stayed with their member
    all_s: float
    longest_s: float  # The longest time without a record of one partition, in seconds
    kept_s: float = 0.0
    # stops_in_first_round, stops_in_second_round: Whether partitions that stay with their member stop while that round is under
    # way. An eager rebalance and KIP-848 have one round.
    stops_in_first_round: bool = False
    stops_in_second_round: bool = False
    at_once: bool = False  # Whether members hear of a second round as soon as it begins, and not with their next heartbeat
    measured: bool = True  # False: no benchmark yet; a round counts as one second

    @property
    def per_held(self) -> float:
        """Seconds per partition and rebalance, whether it stayed or not: what an eager rebalance costs."""
        return self.all_s / HELD

    @property
    def per_kept(self) -> float:
        """Seconds per partition and rebalance, for partitions that stay with their member."""
        return self.per_held if self.kind == EAGER else self.kept_s / (HELD - MOVED)

    @property
    def per_moved(self) -> float:
        """Seconds per partition that changes hands."""
        return self.per_held if self.kind == EAGER else (self.all_s - self.kept_s) / MOVED


def _eager(library: str, all_s: float, kept_s: float, longest_s: float) -> Behaviour:
    return Behaviour(library, EAGER, all_s, longest_s, kept_s, stops_in_first_round=True)


def _assumed(library: str) -> Behaviour:
    """An eager row without a benchmark: one second per partition."""
    return Behaviour(library, EAGER, 46.0, 1.0, 39.0, stops_in_first_round=True, measured=False)


_OURS = COUNTERPOISE[KAFKA_PYTHON]
BEHAVIOURS = (
    # The phase "heartbeats out of step". An eager rebalance stops the same under every assignor: means of a library's lines.
    # Each join of Java starts a JVM on the benchmark's two cores: gaps of what it keeps (7.6 and 6.1) are left out.
    _eager(JAVA, 66.4, 45.2, 2.9),
    Behaviour(JAVA, COOPERATIVE, 30.5, 3.6),
    Behaviour(JAVA, SERVER, 11.6, 1.5),
    _eager(LIBRDKAFKA, 57.2, 27.5, 2.6),
    Behaviour(LIBRDKAFKA, COOPERATIVE, 17.3, 3.1),
    Behaviour(LIBRDKAFKA, SERVER, 3.8, 1.0),
    _assumed(FRANZ_GO),
    Behaviour(FRANZ_GO, COOPERATIVE, 14.0, 2.0, measured=False),
    _eager(KAFKA_PYTHON, 62.2, 41.0, 4.6),
    # KafkaConsumer._poll_once returns nothing while a join is under way, whatever the protocol.
    Behaviour(KAFKA_PYTHON, COOPERATIVE, 139.0, 5.5, 102.4, stops_in_first_round=True, stops_in_second_round=True),
    _eager(_OURS, 62.2, 41.0, 4.6),
    Behaviour(_OURS, COOPERATIVE, 5.9, 2.6, at_once=True),
    _eager(AIOKAFKA, 60.9, 38.8, 2.7),
    _eager(COUNTERPOISE[AIOKAFKA], 60.9, 38.8, 2.7),
    _assumed(UNKNOWN),
)
_BY_KEY = {(row.library, row.kind): row for row in BEHAVIOURS}
_STRATEGIES = {
    **dict.fromkeys((JAVA, FRANZ_GO, KAFKA_PYTHON, _OURS), ("sticky", "cooperative-sticky")),
    LIBRDKAFKA: ("cooperative-sticky",),
    KAFKA_GO: (),
}
"""The strategies that the audit may suggest for a library, for others `sticky`; in kafka-python the cooperative one is ours."""


def behaviour(library: str, kind: str) -> Behaviour:
    """The row of a library; a library that does not cooperate is eager, one without a row counts as unknown."""
    if kind == SERVER:
        return _BY_KEY.get((library, kind)) or _BY_KEY[JAVA, kind]
    known = library if (library, EAGER) in _BY_KEY else UNKNOWN
    return _BY_KEY.get((known, kind)) or _BY_KEY[known, EAGER]


def expected_seconds(
    libraries: Iterable[str] | None,  # The libraries of its members. None: unknown, counts as Java.
    kind: str,  # The protocol. If one library cannot cooperate the group is eager.
    held: int,  # Partitions held, summed over rebalances
    moved: int,  # Partitions of them that change hands
) -> float:
    """Partition-seconds that a group stands still, by the benchmark; of several libraries the slowest counts."""
    names = [name for library in resolved(libraries) or (JAVA,) for name in _possible(library)]
    rows = [behaviour(name, kind) for name in names]
    if any(row.kind == EAGER for row in rows):
        rows = [behaviour(name, EAGER) for name in names]
    kept = max(held - moved, 0)
    return kept * max(row.per_kept for row in rows) + moved * max(row.per_moved for row in rows)


def resolved(libraries: Iterable[str] | None) -> tuple[str, ...]:
    """The libraries of a group; without `PYTHON` if just one of the two it may be is there: then it is that one."""
    names = tuple(libraries or ())
    present = {KAFKA_PYTHON, AIOKAFKA} & set(names)
    return tuple(name for name in names if name != PYTHON or len(present) != 1)


def stops_kept_partitions(libraries: Iterable[str] | None, kind: str) -> bool:
    """Whether one of these libraries also stops partitions that stay with their member in a cooperative rebalance."""
    rows = [behaviour(name, kind) for library in resolved(libraries) for name in _possible(library)]
    return any(row.kind == COOPERATIVE and (row.stops_in_first_round or row.stops_in_second_round) for row in rows)


def _possible(library: str) -> tuple[str, ...]:
    return (KAFKA_PYTHON, AIOKAFKA) if library == PYTHON else (library,)


def recommended(libraries: Iterable[str] | None) -> tuple[str, ...]:
    """The strategies that all these libraries run, the one that stood still least in the benchmark first; empty: there is none.

    For an unknown library only `sticky` is sure not to stop more than another eager strategy.
    """
    names = resolved(libraries) or (JAVA, LIBRDKAFKA)
    kind_of = {"cooperative-sticky": COOPERATIVE, "sticky": EAGER}
    common = [name for name in kind_of if all(name in _STRATEGIES.get(one, ("sticky",)) for one in names)]
    ours = [COUNTERPOISE.get(name, name) for name in names]
    return tuple(sorted(common, key=lambda name: expected_seconds(ours, kind_of[name], HELD, MOVED)))
