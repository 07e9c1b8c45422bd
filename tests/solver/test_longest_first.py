"""Longest first in batches equals longest first one by one; idle partitions level the counts."""

from __future__ import annotations

import numpy as np

from counterpoise.solver.lag.longest_first import deal_longest_first, packed, spread_by_count


def one_by_one(weights: list[int], level: list[int], slots: list[int]) -> list[int]:
    level, slots, chosen = list(level), list(slots), []
    for weight in weights:
        bin_ = min((b for b in range(len(level)) if slots[b]), key=lambda b: level[b])
        chosen.append(level[bin_])
        level[bin_] += weight
        slots[bin_] -= 1
    return sorted(level)


def test_batches_end_at_the_levels_of_the_plain_rule() -> None:
    rng = np.random.default_rng(1)
    for number in range(300):
        bins, n = int(rng.integers(1, 80)), int(rng.integers(0, 400))
        weights = -np.sort(-rng.choice([rng.lognormal(5, 2, n), rng.integers(0, 9, n)]).astype(np.int64))
        level = rng.integers(-50, 1000, bins) * int(rng.integers(0, 2))
        slots = np.full(bins, -(-n // bins) + int(rng.integers(0, 9)))
        taker = deal_longest_first(weights, level, slots)
        assert (np.bincount(taker, minlength=bins) <= slots).all(), f"case {number}"
        end = level.copy()
        np.add.at(end, taker, weights)
        assert end.max() <= max(one_by_one(weights.tolist(), level.tolist(), slots.tolist())), f"case {number}"


def test_lags_too_large_to_be_packed_with_a_bin_into_64_bits_go_the_same_way() -> None:
    rng = np.random.default_rng(2)
    for number in range(40):
        bins, n = int(rng.integers(2, 80)), int(rng.integers(1, 400))
        weights, level = -np.sort(-rng.integers(0, 2000, n)), rng.integers(-50, 1000, bins)
        slots = np.full(bins, -(-n // bins) + int(rng.integers(0, 9)))
        large = 2**61 // (int(weights.sum()) + 1050)
        assert packed(level * large, weights * large)[0].dtype == object
        taker = deal_longest_first(weights * large, level * large, slots)
        assert taker.tolist() == deal_longest_first(weights, level, slots).tolist(), f"case {number}"


def test_equal_partitions_level_the_counts_per_capacity() -> None:
    even = spread_by_count(7, np.array([5, 0, 1]), np.array([9, 9, 9]), np.ones(3, np.int64))
    assert even.tolist() == [0, 4, 3]
    assert spread_by_count(9, np.zeros(2, np.int64), np.array([9, 9]), np.array([1, 2])).tolist() == [3, 6]
    assert spread_by_count(6, np.zeros(2, np.int64), np.array([1, 9]), np.ones(2, np.int64)).tolist() == [1, 5]
