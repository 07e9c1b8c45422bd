"""A simulated day of one group that reads the whole shop: how far behind it is under each strategy, hour by hour.

python -m benchmarks.lag_day                    # the table
python -m benchmarks.lag_day --picture FILE     # also the picture

Arrival rates are those of the recording in examples/shop, ten times as much, each topic with its own daily wave and a
nightly batch. Members have a limit each; they work on their partitions in proportion to what waits. The group
rebalances when members come and go, and looks every hour whether its strategy wants another assignment.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.chart import Panel, line_chart
from counterpoise.assignors import assignor
from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["Day", "main", "recorded_rates", "simulate_day"]

OFFSETS = Path(__file__).resolve().parent.parent / "examples" / "shop" / "log_offsets.parquet"
STRATEGIES = ("range", "sticky", "lag", "lag-sticky")
VARIANTS: dict[str, dict[str, Any]] = {
    "counts free": {"counts": 1000},
    "every ten minutes": {"look_every_s": 600},
    "every ten minutes, counts within 3": {"look_every_s": 600, "counts": 3},
    "every ten minutes, counts free": {"look_every_s": 600, "counts": 1000},
}
"""Other ways to run `lag-sticky`."""
SCALE = 10
STEP_S, DAY_S = 10, 24 * 3600
EAGER_STOP_S, MOVE_STOP_S = 5, 10
"""An eager rebalance stops everybody for so long; a partition that changes hands rests for so long under any protocol."""
MEMBERS = ((0, 5), (7, 9), (14, 8), (14.5, 9), (22, 5))
"""(hour, members): five at night, nine by day, one of them away for half an hour."""
BATCH = ("inventory", 2, 3, 6.0)
"""A topic that gets so many times its rate between two hours of the night."""
HEADROOM = 0.85
"""Share of the members' limits that the busiest minute of the day needs."""


@dataclass
class Day:
    """What a day was like: one value per step, and counts."""

    total: list[float] = field(default_factory=list)
    largest: list[float] = field(default_factory=list)
    rebalances: int = 0
    moves: int = 0


def recorded_rates(path: Path = OFFSETS) -> tuple[list[str], list[list[float]]]:
    """Topics (without Kafka's own and Connect's) and records per second of each of their partitions in the recording."""
    columns = [("log_end", "min"), ("log_end", "max"), ("sampled_at", "min"), ("sampled_at", "max")]
    found = (
        pq.read_table(path)
        .group_by(["topic", "partition"])
        .aggregate(columns)
        .sort_by([("topic", "ascending"), ("partition", "ascending")])
    )
    rates: dict[str, list[float]] = {}
    for row in found.to_pylist():
        if not row["topic"].startswith(("__", "connect-")):
            seconds = (row["sampled_at_max"] - row["sampled_at_min"]).total_seconds()
            rates.setdefault(row["topic"], []).append((row["log_end_max"] - row["log_end_min"]) / seconds)
    return list(rates), list(rates.values())


class _Shop:
    """Arrivals: the rate of every partition at every time of the day, and the members' limit that follows."""

    def __init__(self) -> None:
        self.topics, rates = recorded_rates()
        self.sizes = [len(each) for each in rates]
        self.base = np.concatenate(rates) * SCALE
        self.topic = np.repeat(np.arange(len(rates)), self.sizes)
        # Each topic has its busiest hour somewhere between 10 and 20 o'clock.
        self.peak = 10 + 10 * (np.arange(len(rates)) * 7 % len(rates)) / len(rates)
        busiest = max(float(self.rate(hour).sum()) / _members_at(hour) for hour in np.arange(0, 24, 1 / 60))
        self.limit = busiest / HEADROOM

    def rate(self, hour: float) -> np.ndarray:
        """Records per second now, per partition."""
        wave = 1 + 0.8 * np.cos((hour - self.peak) * np.pi / 12)
        name, begin, end, times = BATCH
        if begin <= hour < end:
            wave[self.topics.index(name)] *= times
        return self.base * wave[self.topic]

    def problem(self, n_members: int, previous: Int32, lag: Int64) -> Problem:
        """The group now: everybody subscribes to everything."""
        start = np.concatenate(([0], np.cumsum(self.sizes)))
        everybody = np.tile(np.arange(n_members), len(self.sizes))
        gone = np.where(previous < n_members, previous, -1)
        return Problem(n_members, start, np.arange(len(self.sizes) + 1) * n_members, everybody, gone, lag=lag)


def _members_at(hour: float) -> int:
    return next(count for since, count in reversed(MEMBERS) if since <= hour)


def simulate_day(name: str, *, look_every_s: int = 3600, **options: object) -> Day:
    """One day under a strategy that is asked so often whether it wants another assignment."""
    shop, day, plan = _Shop(), Day(), assignor(name, **options)
    cooperative = strategy(name).protocols[0] == COOPERATIVE
    waiting = np.zeros(len(shop.base))
    rests_until = np.zeros(len(shop.base))
    owner = plan(shop.problem(_members_at(0), np.full(len(shop.base), -1, np.int32), waiting.astype(np.int64)))
    members = _members_at(0)
    for now in range(0, DAY_S, STEP_S):
        hour = now / 3600
        if now and (_members_at(hour) != members or now % look_every_s == 0):
            before, members, changed = owner, _members_at(hour), _members_at(hour) != members
            owner = plan(shop.problem(members, before, waiting.astype(np.int64)))
            moved = owner != before
            if changed or moved.any():
                day.rebalances += 1
                day.moves += int(moved.sum())
                rests_until[moved] = now + MOVE_STOP_S
                if not cooperative:
                    rests_until = np.maximum(rests_until, now + EAGER_STOP_S)
        waiting += shop.rate(hour) * STEP_S
        working = np.clip((now + STEP_S - rests_until) / STEP_S, 0, 1)
        at_work = waiting * working
        wanted = np.bincount(owner, weights=at_work, minlength=members)
        share = np.minimum(1, shop.limit * STEP_S / np.maximum(wanted, 1e-9))
        waiting -= at_work * share[owner]
        day.total.append(float(waiting.sum()))
        day.largest.append(float(np.bincount(owner, weights=waiting, minlength=members).max()))
    return day


def table(days: dict[str, Day]) -> Iterator[str]:
    """One row per strategy."""
    yield "| strategy | mean total lag | highest total lag | highest lag of a member | lag at midnight | rebalances | moves |"
    yield "|---|---|---|---|---|---|---|"
    for name, day in days.items():
        yield (
            f"| {name} | {np.mean(day.total):,.0f} | {max(day.total):,.0f} | {max(day.largest):,.0f} | {day.total[-1]:,.0f} "
            f"| {day.rebalances} | {day.moves:,} |"
        )


def picture(days: dict[str, Day]) -> str:
    """Total lag and the largest lag of a member over the day."""

    def every_five_minutes(values: Sequence[float]) -> list[float]:
        size = 300 // STEP_S
        return [0.0] + [max(values[at : at + size]) for at in range(0, len(values), size)]

    hours = [at / 12 for at in range(24 * 12 + 1)]
    panels = [
        Panel("records that wait, all partitions", {name: every_five_minutes(day.total) for name, day in days.items()}),
        Panel(
            "records that wait for the member with the most",
            {name: every_five_minutes(day.largest) for name, day in days.items()},
        ),
    ]
    marks = {hour: f"{count} members" for hour, count in MEMBERS[1:] if hour != 14.5}
    words = "Total and largest lag over a simulated day under " + ", ".join(days)
    return line_chart("A day of lag", words, hours, panels, marks)


def main() -> None:
    """Print the table, draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lag_day", description="A simulated day of lag.")
    parser.add_argument("--picture", type=Path, help="write the picture here (SVG)")
    wanted = parser.parse_args()
    shop = _Shop()
    size = f"{len(shop.base)} partitions, {shop.base.sum():,.0f} records a second on average"
    print(f"{size}, the busiest partition {shop.base.max():,.0f}; a member's limit is {shop.limit:,.0f} a second")
    days = {name: simulate_day(name) for name in STRATEGIES}
    others = {f"lag-sticky, {name}": simulate_day("lag-sticky", **options) for name, options in VARIANTS.items()}
    for row in table(days | others):
        print(row)
    if wanted.picture:
        wanted.picture.write_text(picture(days), encoding="utf-8")


if __name__ == "__main__":
    main()
