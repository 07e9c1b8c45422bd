"""A leader's time inside its host - decode, plan, encode - for ours and for the host's own assignor, in one run.

python -m benchmarks.leader_in_host [MEMBERS] [PARTITIONS] [--own-within SECONDS]

The host's own classes do everything (JoinGroup bytes in, SyncGroup bytes out), as in the tests. All members subscribe to
all topics and claim what a balanced plan gave them; then one more joins. The host's own assignor runs in a process of its
own, which is ended after the limit and then shown as "more than".
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import statistics
import time
from importlib import import_module
from typing import Any

from tests.clients.hosts import Answer, Joined, host_member

from counterpoise.wire.consumer_protocol import Subscription, encode_subscription
from counterpoise.wire.user_data import encode_sticky

TOPICS = 20
ROUNDS = 5
OURS = "StickyAssignor"
HOSTS = {
    "kafka_python": "kafka.coordinator.assignors.sticky.sticky_assignor",
    "aiokafka": "aiokafka.coordinator.assignors.sticky.sticky_assignor",
}


def group(n_members: int, n_partitions: int) -> tuple[Answer, list[Joined]]:
    """Topics, and the JoinGroup metadata of the members: all but the last hold equal shares."""
    each = n_partitions // TOPICS
    topics = {f"topic-{at:02}": each for at in range(TOPICS)}
    everything = [(topic, index) for topic in topics for index in range(each)]
    members: list[Joined] = []
    for at in range(n_members):
        held = everything[at :: n_members - 1] if at < n_members - 1 else []
        owned = tuple((topic, tuple(index for name, index in held if name == topic)) for topic in topics)
        data = encode_sticky(tuple(entry for entry in owned if entry[1]), 7)
        members.append((f"member-{at:05}", encode_subscription(Subscription(tuple(topics), data, version=0)), None))
    return Answer(topics), members


def leader(host: str, own: bool, answer: Answer) -> Any:
    """A member of the host with its own sticky assignor, or with ours."""
    if own:
        module = import_module(HOSTS[host])
        assignor = module.StickyPartitionAssignor if host == "aiokafka" else module.StickyPartitionAssignor()
    else:
        assignor = getattr(import_module(f"counterpoise.clients.{host}"), OURS)()
    return host_member(host, "member-00000", sorted(answer.topics), [assignor], answer)


def timed(host: str, own: bool, n_members: int, n_partitions: int, rounds: int) -> list[float]:
    """Seconds of each round of leading."""
    logging.disable(logging.CRITICAL)
    answer, members = group(n_members, n_partitions)
    made = leader(host, own, answer)
    times = []
    for number in range(rounds):
        start = time.perf_counter()
        given = made.lead("sticky", 8 + number, members)
        encoded = [data if isinstance(data, bytes) else data.encode() for data in given.values()]
        times.append(time.perf_counter() - start)
        assert len(encoded) == n_members
    return times


def _own(pipe: Any, *given: Any) -> None:
    pipe.send(timed(*given))


def own_within(host: str, n_members: int, n_partitions: int, limit: float) -> float | None:
    """Seconds of the host's own assignor, once; None when it takes longer than the limit."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_own, args=(send, host, True, n_members, n_partitions, 1), daemon=True)
    process.start()
    send.close()
    # A process that fails closes its end: recv raises, and the failure is not taken for a long time.
    seconds = receive.recv()[0] if receive.poll(limit) else None
    process.kill()
    process.join()
    return seconds


def main() -> None:
    """Print one line per host."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("members", type=int, nargs="?", default=500)
    parser.add_argument("partitions", type=int, nargs="?", default=10_000)
    parser.add_argument("--own-within", type=float, default=300.0, help="seconds the host's own assignor may take")
    given = parser.parse_args()
    print(f"{given.members} members x {given.partitions} partitions in {TOPICS} topics, one joins; milliseconds in the leader")
    print(f"{'host':<14}{'ours (median)':>16}{'ours (first)':>16}{'the host' + chr(39) + 's own':>18}{'times faster':>14}")
    for host in HOSTS:
        ours = timed(host, False, given.members, given.partitions, ROUNDS)
        own = own_within(host, given.members, given.partitions, given.own_within)
        known = given.own_within if own is None else own
        sign = ">" if own is None else ""
        median = statistics.median(ours)
        theirs, ratio = f"{sign}{known * 1e3:,.0f}", f"{sign}{known / median:,.0f}"
        print(f"{host:<14}{median * 1e3:>16.1f}{ours[0] * 1e3:>16.1f}{theirs:>18}{ratio:>14}")


if __name__ == "__main__":
    main()
