"""Simulation: what a change would cost a group - rounds, moves, time without an owner - before it is made."""

from __future__ import annotations

from counterpoise.simulation.outcome import Outcome
from counterpoise.simulation.scenario import Event, MemberGroup, Scenario, Timing
from counterpoise.simulation.simulate import simulate

__all__ = ["Event", "MemberGroup", "Outcome", "Scenario", "Timing", "simulate"]
