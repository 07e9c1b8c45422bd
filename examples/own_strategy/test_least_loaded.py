from least_loaded import LEAST_LOADED

from counterpoise.testing import check_strategy


def test_the_strategy_keeps_the_laws():
    check_strategy(LEAST_LOADED)
