"""Lag-aware strategies side by side: gap to the proven bound, moves when lags drift, time; in one run.

python -m benchmarks.lag --quick        # 10,000 partitions, a minute
python -m benchmarks.lag                # also 100,000 partitions x 1,000 members
python -m benchmarks.lag --seeds 2 3 4  # moves while lags drift in small groups, with other lags
python -m benchmarks.lag --hard         # CPU time where half of the members exceed their limits at once
python -m benchmarks.lag --slow         # CPU time by subscriptions, up to the slowest known
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from benchmarks.lag_minimum import least_moves
from counterpoise.assignors import assignor
from counterpoise.laws.lag_bound import lag_report
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["drift", "drift_by_seed", "gaps", "hard", "longest_first", "main", "slow"]

SHAPES = ("zipf", "lognormal", "mostly zero", "one oversized partition")
SUBSCRIPTIONS = ("equal", "four sets", "random")
TOLERANCE = 0.01


@dataclass(frozen=True)
class Contender:
    """A strategy, and what plans its gap is measured against."""

    name: str
    plan: Callable[[Problem], Int32]
    counts: str | None


def longest_first(problem: Problem) -> Int32:
    """The textbook rule, one partition at a time: the largest lag first, to the subscriber with the least lag."""
    assert problem.lag is not None
    owner = np.full(problem.n_partitions, -1, np.int32)
    load = [0] * problem.n_members
    topic, start = problem.topic_of_partition(), problem.subscriber_start
    if len(np.unique(np.diff(start))) == 1 and int(start[1]) == problem.n_members:
        heap = [(0, member) for member in range(problem.n_members)]
        for partition in np.argsort(-problem.lag, kind="stable").tolist():
            behind, member = heap[0]
            owner[partition] = member
            heapq.heapreplace(heap, (behind + int(problem.lag[partition]), member))
        return owner
    subscribers = [problem.subscriber[a:b].tolist() for a, b in pairwise(start.tolist())]
    for partition in np.argsort(-problem.lag, kind="stable").tolist():
        member = min(subscribers[topic[partition]], key=load.__getitem__)
        owner[partition] = member
        load[member] += int(problem.lag[partition])
    return owner


def contenders(problem: Problem) -> list[Contender]:
    """All of them, for a group of this size."""
    free = problem.n_partitions
    return [
        Contender("lag-sticky, counts free", assignor("lag-sticky", tolerance=TOLERANCE, counts=free), None),
        Contender("lag-sticky", assignor("lag-sticky", tolerance=TOLERANCE), "balanced"),
        Contender("longest first", longest_first, None),
        Contender("lag (KAFKA-5337)", assignor("lag"), None),
        Contender("lag, scope total", assignor("lag", scope="total"), None),
    ]


def lags(shape: str, n: int, rng: np.random.Generator) -> Int64:
    """Records behind, of a given distribution."""
    if shape == "zipf":
        return rng.permutation((1e7 / np.arange(1, n + 1) ** 1.1).astype(np.int64))
    if shape == "lognormal":
        return rng.lognormal(8, 2, n).astype(np.int64)
    if shape == "mostly zero":
        return np.where(rng.random(n) < 0.05, rng.lognormal(8, 2, n), 0).astype(np.int64)
    return rng.permutation(np.concatenate(([10**8], rng.integers(0, 1000, n - 1))))


def group(subscriptions: str, n_topics: int, size: int, n_members: int, lag: Int64, rng: np.random.Generator) -> Problem:
    """Topics of one size; members subscribe to all of them, to those of one of four sets, or to half of them at random."""
    topic, member = np.arange(n_topics)[:, None], np.arange(n_members)[None, :]
    wants = {
        "equal": topic + member >= 0,
        "four sets": (topic % 4 == member % 4) | (topic == 0),
        "random": rng.random((n_topics, n_members)) < 0.5,
    }[subscriptions]
    start = np.concatenate(([0], np.cumsum(wants.sum(axis=1))))
    return Problem(n_members, np.arange(n_topics + 1) * size, start, np.nonzero(wants)[1], lag=lag)


def gaps(sizes: list[tuple[int, int, int]]) -> Iterator[str]:
    """Rows: gap to the bound of a first plan, moves after a drift of 20 %, median time of five."""
    yield "| partitions x members | subscriptions | lags | strategy | gap | moves after 20 % drift | ms |"
    yield "|---|---|---|---|---|---|---|"
    for n_topics, size, n_members in sizes:
        for subscriptions in SUBSCRIPTIONS:
            for shape in SHAPES:
                rng = np.random.default_rng(1)
                n = n_topics * size
                problem = group(subscriptions, n_topics, size, n_members, lags(shape, n, rng), rng)
                drifted = (np.asarray(problem.lag) * rng.uniform(0.8, 1.2, n)).astype(np.int64)
                for one in contenders(problem):
                    owner, spent = _timed(one, problem)
                    report = lag_report(problem, owner, counts=one.counts)
                    later = problem.replace(previous_owner=owner, lag=drifted)
                    moves = int(np.count_nonzero(one.plan(later) != owner))
                    yield (
                        f"| {n:,} x {n_members:,} | {subscriptions} | {shape} | {one.name} | {report.gap:.3%} "
                        f"| {moves:,} | {spent:.1f} |"
                    )


def _timed(one: Contender, problem: Problem) -> tuple[Int32, float]:
    """The plan and the median time in milliseconds; slow contenders run once."""
    spent = []
    owner = np.empty(0, np.int32)
    for _ in range(5):
        begin = time.perf_counter()
        owner = one.plan(problem)
        spent.append((time.perf_counter() - begin) * 1000)
        if spent[0] > 1000:
            break
    return owner, statistics.median(spent)


def times(rounds: int = 9) -> Iterator[str]:
    """Rows: CPU time of 100,000 x 1,000, the best of some rounds and the median; the least and the most over the lags."""
    yield "| subscriptions | counts | first plan, ms | drift, ms | many over, ms |"
    yield "|---|---|---|---|---|"
    n = 100_000
    for subscriptions, free in product(SUBSCRIPTIONS, (True, False)):
        plan = assignor("lag-sticky", tolerance=TOLERANCE, **({"counts": n} if free else {}))
        spent: dict[str, list[tuple[float, float]]] = {"first": [], "drift": [], "many": []}
        for shape in (*SHAPES, "sigma 1"):
            rng = np.random.default_rng(1)
            lag = rng.lognormal(8, 1, n).astype(np.int64) if shape == "sigma 1" else lags(shape, n, rng)
            problem = group(subscriptions, 100, 1000, 1000, lag, rng)
            drifted = (np.asarray(problem.lag) * rng.uniform(0.8, 1.2, n)).astype(np.int64)
            later = problem.replace(previous_owner=plan(problem), lag=drifted)
            if shape != "sigma 1":
                spent["first"].append(_cpu_ms(plan, problem, rounds))
            spent["many" if shape == "sigma 1" else "drift"].append(_cpu_ms(plan, later, rounds))
        cells = [f"{_span(best for best, _ in each)} ({_span(median for _, median in each)})" for each in spent.values()]
        yield f"| {subscriptions} | {'free' if free else 'balanced'} | {' | '.join(cells)} |"


def hard(rounds: int = 5) -> Iterator[str]:
    """Rows: median CPU time of 5,000 partitions whose lags were dealt anew at random, the slowest groups first."""
    yield "| topics x partitions x members, subscriptions, options, sigma of the lags | ms |"
    yield "|---|---|"
    found = []
    for subscriptions, n_topics, n_members, tolerance, band, sigma in product(
        SUBSCRIPTIONS, (10, 20, 1000), (100, 500, 1000), (0.02, 0.1), ("balanced", 3), (0.5, 1)
    ):
        rng = np.random.default_rng(3)
        lag = rng.lognormal(8, sigma, 5000).astype(np.int64)
        problem = group(subscriptions, n_topics, 5000 // n_topics, n_members, lag, rng)
        plan = assignor("lag-sticky", tolerance=tolerance, counts=band)
        later = problem.replace(previous_owner=plan(problem), lag=rng.permutation(lag))
        title = f"{n_topics} x {5000 // n_topics} x {n_members}, {subscriptions}, {tolerance:.0%}, counts {band}, {sigma}"
        found.append((_cpu_ms(plan, later, rounds)[1], title))
    yield from (f"| {title} | {ms:.1f} |" for ms, title in sorted(found, reverse=True))
    yield f"| of {len(found)} so many take more than 50 ms | {sum(ms > 50 for ms, _ in found)} |"


def slow(rounds: int = 3) -> Iterator[str]:
    """Rows: median CPU time of 5,000 partitions and 1,000 members, by subscriptions and capacities."""
    yield "| subscriptions, capacities | first plan, ms | member left, ms | member joined, ms | arbitrary claims, ms |"
    yield "|---|---|---|---|---|"
    plan, members = assignor("lag-sticky"), np.arange(1000)
    shapes: dict[str, Callable[[np.random.Generator], list[Int64]]] = {
        "all alike": lambda _: [members] * 20,
        "2,500 topics, each with random subscribers": lambda rng: [members[rng.random(1000) < 0.3] for _ in range(2500)],
        "5,000 topics, three random subscribers each": lambda rng: [np.sort(rng.choice(1000, 3, False)) for _ in range(5000)],
        "20 topics without a common subscriber": lambda _: np.split(members, 20),
        "2,500 topics, 20 adjacent subscribers each": lambda rng: [
            np.sort((at + members[:20]) % 1000) for at in rng.integers(0, 1000, 2500).tolist()
        ],
        "2,500 topics, nested": lambda rng: [members[at:] for at in rng.integers(0, 1000, 2500).tolist()],
    }
    for (title, shape), most in product(shapes.items(), (1, 4)):
        rng = np.random.default_rng(4)
        topics, capacity = shape(rng), rng.integers(1, most + 1, 1000)
        lag = rng.lognormal(8, 1, 5000).astype(np.int64)

        def problem(topics: list[Int64], claims: Int32 | None = None, capacity: Int64 = capacity, lag: Int64 = lag) -> Problem:
            starts = np.concatenate(([0], np.cumsum([len(one) for one in topics])))
            sizes = np.arange(len(topics) + 1) * (5000 // len(topics))
            return Problem(1000, sizes, starts, np.concatenate(topics), claims, capacity=capacity, lag=lag)

        fewer = [one[one != 500] if len(one) > 1 else one for one in topics]
        claims = np.concatenate([rng.choice(one, 5000 // len(topics)) for one in topics]).astype(np.int32)
        cases = (
            problem(topics),
            problem(fewer, plan(problem(topics))),
            problem(topics, plan(problem(fewer))),
            problem(topics, claims),
        )
        cells = " | ".join(f"{_cpu_ms(plan, one, rounds)[1]:.0f}" for one in cases)
        yield f"| {title}{'' if most == 1 else '; capacities 1 to 4'} | {cells} |"


def _cpu_ms(plan: Callable[[Problem], Int32], problem: Problem, rounds: int) -> tuple[float, float]:
    """The least and the median."""
    spent = []
    for _ in range(rounds):
        begin = time.process_time()
        plan(problem)
        spent.append((time.process_time() - begin) * 1000)
    return min(spent), statistics.median(spent)


def _span(values: Iterable[float]) -> str:
    some = [f"{value:.0f}" for value in sorted(values)]
    return some[0] if some[0] == some[-1] else f"{some[0]} to {some[-1]}"


def drift(sizes: list[tuple[int, int, int]], rebalances: int = 50) -> Iterator[str]:
    """Rows: moves over many rebalances while every lag changes by up to 20 % each time."""
    yield "| group | strategy | tolerance | moves | proven minimum | ratio | largest gap |"
    yield "|---|---|---|---|---|---|---|"
    for (n_topics, size, n_members), subscriptions, tolerance in product(sizes, SUBSCRIPTIONS, (0.02, 0.05)):
        n = n_topics * size
        for name, options, counts in (
            ("lag-sticky", {"tolerance": tolerance, "counts": n}, None),
            ("lag-sticky", {"tolerance": tolerance}, "balanced"),
            ("lag", {}, None),
        ):
            rng = np.random.default_rng(2)
            problem = group(subscriptions, n_topics, size, n_members, rng.lognormal(10, 1, n).astype(np.int64), rng)
            plan = assignor(name, **options)
            moves, needed, worst = _drifted(problem, plan, tolerance, counts, rebalances, rng)
            kind = f"{name}, {'counts balanced' if counts else 'counts free'}" if options else name
            ratio = f"{moves / max(needed, 1):.2f}" if options else ""
            yield (
                f"| {n:,} x {n_members}, {subscriptions} | {kind} | {tolerance:.0%} | {moves:,} "
                f"| {f'{needed:,}' if options else ''} | {ratio} | {worst:.2%} |"
            )


def drift_by_seed(seeds: list[int], rebalances: int = 50) -> Iterator[str]:
    """Rows: the same for small groups, with balanced and with free counts, for lags and subscriptions drawn from other seeds."""
    yield "| partitions, subscriptions, tolerance, counts |" + "".join(f" seed {seed} |" for seed in seeds)
    yield "|---|" + "---|" * len(seeds)
    for size, subscriptions, tolerance, free in product((200, 205), SUBSCRIPTIONS, (0.02, 0.05), (False, True)):
        cells = []
        for seed in seeds:
            moves, needed, worst = drift_of(seed, size, subscriptions, tolerance, rebalances, free)
            missed = "" if worst <= tolerance + 1e-4 else f", a plan {worst:.0%} above the bound"
            cells.append(f"{moves:,} to {needed:,}: {moves / max(needed, 1):.2f}{missed}")
        yield f"| {10 * size:,}, {subscriptions}, {tolerance:.0%}, {'free' if free else 'balanced'} | {' | '.join(cells)} |"


def drift_of(
    seed: int, size: int, subscriptions: str, tolerance: float, rebalances: int, free: bool = False
) -> tuple[int, int, float]:
    """Moves, proven minimum and largest gap to the bound for ten topics of a size and a hundred members."""
    rng = np.random.default_rng(seed)
    problem = group(subscriptions, 10, size, 100, rng.lognormal(10, 1, 10 * size).astype(np.int64), rng)
    plan = assignor("lag-sticky", tolerance=tolerance, **({"counts": 10 * size} if free else {}))
    return _drifted(problem, plan, tolerance, None if free else "balanced", rebalances, rng)


def _drifted(
    problem: Problem, plan: Callable[[Problem], Int32], tolerance: float, counts: str | None, n: int, rng: np.random.Generator
) -> tuple[int, int, float]:
    owner = plan(problem)
    moves = needed = 0
    worst = 0.0
    for _ in range(n):
        lag = (np.asarray(problem.lag) * rng.uniform(0.8, 1.2, problem.n_partitions)).astype(np.int64)
        problem = problem.replace(previous_owner=owner, lag=lag)
        before, owner = owner, plan(problem)
        report = lag_report(problem, owner, counts=counts)
        moves += report.moves
        worst = max(worst, report.gap)
        needed += least_moves(problem, before, float(report.bound) * (1 + tolerance) + 1, fixed=counts == "balanced")
    return moves, needed, worst


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lag", description="Lag-aware strategies side by side.")
    parser.add_argument("--quick", action="store_true", help="only 10,000 partitions x 100 members")
    parser.add_argument("--drift", action="store_true", help="only moves while lags drift")
    parser.add_argument("--times", action="store_true", help="only CPU time at 100,000 partitions")
    parser.add_argument("--hard", action="store_true", help="only CPU time at 5,000 partitions whose lags were dealt anew")
    parser.add_argument(
        "--slow", action="store_true", help="only CPU time at 5,000 partitions by subscriptions, to the slowest known"
    )
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N", help="only moves while lags drift in small groups, by seed")
    parser.add_argument("--rebalances", type=int, default=50, help="with --seeds: so many rebalances (default 50)")
    wanted = parser.parse_args()
    sizes = [(20, 500, 100)] if wanted.quick else [(20, 500, 100), (100, 1000, 1000)]
    moves = drift([(20, 1000, 200), (10, 200, 100), (10, 205, 100)])
    tables: dict[str, Callable[[], Iterator[str]]] = {
        "seeds": lambda: drift_by_seed(wanted.seeds, wanted.rebalances),
        "drift": lambda: moves,
        "times": times,
        "hard": hard,
        "slow": slow,
    }
    alone = next((make() for name, make in tables.items() if getattr(wanted, name)), None)
    for table in (gaps(sizes), moves) if alone is None else (alone,):
        for row in table:
            print(row, flush=True)
        print()


if __name__ == "__main__":
    main()
