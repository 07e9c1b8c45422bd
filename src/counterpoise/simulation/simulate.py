"""simulate: run a scenario under each strategy, and say what each one costs."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath

from counterpoise.assignors.protocols import client_protocol
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.errors import ScenarioError, check_names
from counterpoise.simulation.outcome import Outcome
from counterpoise.simulation.planner import OnRound
from counterpoise.simulation.play import Play
from counterpoise.simulation.scenario import Scenario
from counterpoise.simulation.scenario_file import load
from counterpoise.snapshot.frozen import frozen

__all__ = ["DEFAULT_STRATEGIES", "simulate"]

DEFAULT_STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "constrained-cooperative-sticky", "sticky-first")
"""The strategies that are compared by default."""


def simulate(
    scenario: Scenario | str | PathLike[str], strategies: Sequence[str] = DEFAULT_STRATEGIES, *, on_round: OnRound | None = None
) -> dict[str, Outcome]:
    """Run a scenario once per strategy.

    Parameters
    ----------
    scenario : Scenario, path of a .toml or .json file, or the name of a ready scenario
    strategies : sequence of str
    on_round : callable, optional
        Called with (problem, target int32[P], handed out int32[P]) at every round.

    Returns
    -------
    dict of strategy to Outcome, in the order asked for.

    Raises
    ------
    ScenarioError, UnknownStrategyError
        The scenario cannot be read or has a fault, or its group never settles; a strategy is not registered.
    OptionError
        One name instead of a list of them.

    Notes
    -----
    Pure and exact: whole milliseconds, no randomness; the same scenario gives the same outcome.
    """
    check_names("strategies", strategies)
    known = load(fspath(scenario)) if isinstance(scenario, str | PathLike) else scenario
    if not isinstance(known, Scenario):
        raise ScenarioError(f"scenario: expected a Scenario, a file or the name of a ready one, not {type(known).__name__}")
    return frozen({name: _outcome(known, name, on_round) for name in strategies})


def _outcome(scenario: Scenario, strategy: str, on_round: OnRound | None) -> Outcome:
    preferred = client_protocol([strategy])
    play = Play(scenario, strategy, on_round)
    play.run()
    horizon = play.world.now
    everything = play.ledger.intervals(horizon)
    members = play.coordinator.members()
    loads = [play.world.count_existing(client.owned) for client in members]
    rounds = play.coordinator.rounds
    spoken = {client.protocol for client in members or play.clients}
    return Outcome(
        strategy=strategy,
        protocol=COOPERATIVE if COOPERATIVE in spoken else next(iter(spoken), preferred),
        duration=horizon / 1000,
        rounds=len(rounds),
        rebalances=sum(not entry.follow_up for entry in rounds),
        failed=play.coordinator.failed,
        refused=play.coordinator.refused,
        moved=sum(entry.moved for entry in rounds),
        revoked=sum(client.revoked for client in play.clients),
        stopped_partition_seconds=everything.time_without_owner(horizon) / 1000,
        double_owned_seconds=everything.double_owned() / 1000,
        spread=max(loads, default=0) - min(loads, default=0),
        settled=play.settled(),
        history=tuple(rounds),
        intervals=everything.of_members(),
        member_names=tuple(client.name for client in play.clients),
        describe=play.world.describe,
    )
