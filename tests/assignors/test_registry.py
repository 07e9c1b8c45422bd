"""The registry: names, options, and what it says about mistakes."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoise.assignors import registry
from counterpoise.assignors.registry import assignor, register, strategies, strategy
from counterpoise.assignors.strategy import COOPERATIVE, EAGER, EVERYTHING, Option, Strategy
from counterpoise.errors import OptionError, UnknownStrategyError
from counterpoise.model.problem import Problem, Racks

ONE = Problem(1, [0, 2], [0, 1], [0])


def test_the_sticky_family_is_registered_with_its_protocols():
    wanted = {
        "sticky": (EAGER,),
        "cooperative-sticky": (COOPERATIVE, EAGER),
        "constrained-cooperative-sticky": (COOPERATIVE, EAGER),
        "fair": (EAGER,),
        "sticky-first": (EAGER, COOPERATIVE),
    }
    assert {name: strategy(name).protocols for name in wanted} == wanted


def test_every_strategy_has_a_one_line_guarantee_and_explained_options():
    for name in strategies():
        record = strategy(name)
        assert record.name == name
        assert record.guarantee
        assert "\n" not in record.guarantee
        assert all(option.meaning for option in record.options.values())
        assert record.protocols
        assert set(record.protocols) <= {EAGER, COOPERATIVE}


def test_every_strategy_plans_with_its_default_options_spelled_out():
    for name in strategies():
        options = {key: option.default for key, option in strategy(name).options.items()}
        problem = ONE.replace(lag=np.array([1, 2]))
        assert assignor(name, **options)(problem).tolist() == assignor(name)(problem).tolist() == [0, 0]


def test_an_unknown_name_is_answered_with_the_list():
    with pytest.raises(UnknownStrategyError, match=r"'stickey' is unknown; there are: .*cooperative-sticky"):
        assignor("stickey")


def test_an_unknown_option_is_answered_with_the_list():
    with pytest.raises(OptionError, match=r"no option 'rack'; it has: racks, evenness"):
        assignor("sticky", rack="after")
    with pytest.raises(OptionError, match=r"no option 'x'; it has: none"):
        assignor("constrained-cooperative-sticky", x=1)


def test_a_value_that_does_not_fit_is_answered_with_those_that_do():
    with pytest.raises(OptionError, match=r"'never' does not fit; expected one of 'after', 'before', 'ignore'"):
        assignor("sticky", racks="never")
    with pytest.raises(OptionError, match=r"'tolerance': -1 does not fit; expected 0 or more, below 1000"):
        assignor("lag-sticky", tolerance=-1)
    with pytest.raises(OptionError, match=r"'counts': 'free' does not fit; expected 'balanced' or a whole number"):
        assignor("lag-sticky", counts="free")


def test_a_name_is_registered_once(monkeypatch):
    monkeypatch.setattr(registry, "_BY_NAME", dict(registry._BY_NAME))
    mine = Strategy("first-member", (EAGER,), lambda problem, n=0: np.full(problem.n_partitions, n, np.int32), "n takes all",
                    {"n": Option("who", 0)})  # fmt: skip
    register(mine)
    assert assignor("first-member", n=3)(ONE).tolist() == [3, 3]
    with pytest.raises(OptionError, match="registered already"):
        register(mine)


@pytest.mark.parametrize("name", strategies())
@pytest.mark.parametrize("seed", range(12))
def test_a_plan_depends_on_nothing_its_strategy_does_not_say_it_reads(name, seed):
    rng = np.random.default_rng(seed)
    members, counts = int(rng.integers(1, 7)), rng.integers(0, 9, 3)
    start = np.concatenate(([0], np.cumsum(counts)))
    subscribers = [np.flatnonzero(rng.random(members) < (1.0 if seed % 2 else 0.6)) for _ in counts]
    size, ends = int(start[-1]), np.cumsum([0, *(len(one) for one in subscribers)])
    made = [Problem(members, start, ends, np.concatenate(subscribers), **_drawn(rng, members, size)) for _ in range(2)]
    for unread in sorted(EVERYTHING - strategy(name).reads):
        other = {unread: getattr(made[1], unread)}
        if unread == "previous_owner":
            other["holder"] = made[0].holder
        assert assignor(name)(made[0].replace(**other)).tolist() == assignor(name)(made[0]).tolist(), unread


def _drawn(rng, members, size):
    """All that a problem may hold beside its subscriptions."""
    racks = Racks(rng.integers(-1, 2, members).astype(np.int32), np.arange(size + 1), rng.integers(0, 2, size).astype(np.int32))
    return {
        "previous_owner": rng.integers(-1, members, size),
        "holder": rng.integers(-1, members, size),
        "capacity": rng.integers(1, 4, members),
        "lag": rng.integers(0, 50, size),
        "racks": racks,
        "static_rank": rng.permutation(members),
    }
