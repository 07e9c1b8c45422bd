"""The simulator's time: 200 members, 2,000 partitions, 300 events, every strategy.

python -m benchmarks.simulate
"""

from __future__ import annotations

import sys
import time

from counterpoise.simulation import Event, MemberGroup, Scenario, simulate
from counterpoise.simulation.simulate import DEFAULT_STRATEGIES

__all__ = ["fleet", "main"]


def fleet(members: int = 200, events: int = 300) -> Scenario:
    """Hours in which members restart, crash, start again and pause: `events` of them, one a minute."""
    topics = {f"topic-{at:02}": members // 2 for at in range(20)}
    group = MemberGroup("pod", sorted(topics), count=members)
    kinds = ("restart", "crash", "join", "pause")
    names = group.names()
    happens: list[Event] = []
    for at in range(events):
        do = kinds[at % 4]
        who = names[(at - (at % 4 == 2)) * 7 % members]
        pause = 0.0 if do != "pause" else 400.0 if at % 60 == 3 else 5.0
        happens.append(Event(120 + 60.0 * at, do, who, seconds=pause, down=10.0 if do == "restart" else 0.0))
    return Scenario("fleet", topics, [group], happens)


def main() -> None:
    """Print user seconds per strategy and in all."""
    scenario = fleet()
    total = 0.0
    for name in DEFAULT_STRATEGIES:
        begin = time.process_time()
        outcome = simulate(scenario, [name])[name]
        spent = time.process_time() - begin
        total += spent
        sys.stdout.write(f"{name:32} {spent:6.2f} s  {outcome.rounds} rounds, {outcome.moved} moved, settled {outcome.settled}\n")
    sys.stdout.write(f"{'all':32} {total:6.2f} s of CPU time; the bound is 20 s\n")


if __name__ == "__main__":
    main()
