"""The registry: names, options, and what it says about mistakes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from counterpoise.assignors import registry
from counterpoise.assignors.registry import assignor, register, strategies, strategy
from counterpoise.assignors.strategy import COOPERATIVE, EAGER, Option, Strategy
from counterpoise.errors import OptionError, UnknownStrategyError
from counterpoise.model.problem import Problem
from counterpoise.testing import check_strategy

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


def test_a_copied_strategy_does_not_plan_with_the_prepare_of_another_kernel(monkeypatch):
    monkeypatch.setattr(registry, "_BY_NAME", dict(registry._BY_NAME))
    copied = replace(strategy("sticky"), name="mine", kernel=strategy("range").kernel)
    with pytest.raises(OptionError, match="'mine': its prepare is that of 'sticky'; give prepare=None, or its own"):
        register(copied)
    register(replace(copied, prepare=None))


@pytest.mark.parametrize("protocols", [(), ("egaer",)])
def test_a_strategy_is_registered_with_protocols_that_exist(protocols):
    with pytest.raises(OptionError, match=r"'mine': its protocols are .*; give 'eager', 'cooperative' or both"):
        register(replace(strategy("range"), name="mine", protocols=protocols))


def test_a_name_is_registered_once(monkeypatch):
    monkeypatch.setattr(registry, "_BY_NAME", dict(registry._BY_NAME))
    mine = Strategy("first-member", (EAGER,), lambda problem, n=0: np.full(problem.n_partitions, n, np.int32), "n takes all",
                    {"n": Option("who", 0)})  # fmt: skip
    register(mine)
    assert assignor("first-member", n=3)(ONE).tolist() == [3, 3]
    with pytest.raises(OptionError, match="registered already"):
        register(mine)


@pytest.mark.parametrize("name", strategies())
def test_a_built_in_strategy_keeps_what_any_strategy_must_and_what_it_promises(name):
    """Among it: a plan depends on nothing that its strategy does not say it reads."""
    exact = (
        ["balanced", "sticky", "idempotent"] if name in ("sticky", "cooperative-sticky", "constrained-cooperative-sticky") else []
    )
    check_strategy(strategy(name), laws=exact, groups=30)
