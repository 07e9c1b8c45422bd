"""Groups of ours and of a host's own sticky assignors: who keeps what under whose leader, through the host's real classes.

python -m tests.clients.beside_own HOST COUNT      # a line per strategy, after COUNT random groups of each
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
from importlib import import_module

from counterpoise.clients.member_side import by_topic
from counterpoise.wire.consumer_protocol import Assignment, encode_assignment
from tests.clients.hosts import Answer, host_member
from tests.clients.programs.own import own_assignors
from tests.clients.rounds import STRATEGIES, assignment_bytes, play

__all__ = ["kept_beside_own"]

_GROUPS = 20


def kept_beside_own(host: str, strategy: str) -> dict[str, str]:
    """Whether ours keep all under the host's own leader, and the host's own keep all under ours, when nothing happens."""
    results = {}
    for leader, followers in (("own", "ours"), ("ours", "own")):
        kept = [_kept(host, strategy, leader, followers, random.Random(seed)) for seed in range(_GROUPS)]
        results[f"{followers} under {leader}"] = "keep all" if all(kept) else "lose some"
    return results


def _kept(host: str, strategy: str, leader: str, followers: str, rng: random.Random) -> bool:
    """One group of two of each, after any balanced deal, led by one kind: whether the other kind keeps all it had."""
    answer = Answer({f"t{at}": rng.randint(4, 9) for at in range(3)})
    named = rng.sample("abcdefgh", 4)
    kinds = dict(zip(named, ("own", "own", "ours", "ours"), strict=True))
    members = {}
    for name, kind in kinds.items():
        our = getattr(import_module(f"counterpoise.clients.{host}"), STRATEGIES[strategy])()
        own = type("Own", tuple(own_assignors(host, [STRATEGIES[strategy]])), {})
        members[name] = host_member(host, name, sorted(answer.topics), [own if kind == "own" else our], answer)
    # Neither's own deal: a leader that reads nothing would deal the same again.
    partitions = [(topic, at) for topic, count in answer.topics.items() for at in range(count)]
    rng.shuffle(partitions)
    for place, member in enumerate(members.values()):
        member.join()
        member.complete(strategy, 1, encode_assignment(Assignment(by_topic(partitions[place::4]))))
    before = {name: member.owned() for name, member in members.items()}
    sent = [(name, member.join()[strategy], None) for name, member in members.items()]
    given = members[next(name for name, kind in kinds.items() if kind == leader)].lead(strategy, 2, sent)
    for name, member in members.items():
        member.complete(strategy, 2, assignment_bytes(given[name]))
    return all(members[name].owned() == before[name] for name, kind in kinds.items() if kind == followers)


def shared_with_own(host: str) -> list[str]:
    """The sticky strategies for which the host that is on the path has assignors of its own."""
    found = []
    for name in ("sticky", "cooperative-sticky"):
        with contextlib.suppress(KeyError, ModuleNotFoundError):
            own_assignors(host, [STRATEGIES[name]])
            found.append(name)
    return found


def main(host: str, count: int) -> None:
    """Random groups never have two owners; then who keeps what."""
    for strategy in shared_with_own(host):
        for seed in range(count):
            play(host, strategy, seed, beside_own=True)
        print(f"{strategy}: {json.dumps(kept_beside_own(host, strategy))}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
