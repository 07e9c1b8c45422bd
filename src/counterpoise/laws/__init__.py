"""Laws: every guarantee as a named check of a plan, made without trusting the code that made the plan."""

from __future__ import annotations

from counterpoise.laws.certificate import Certificate, certify, check
from counterpoise.laws.violation import Move, NamedMove, Violation

__all__ = ["Certificate", "Move", "NamedMove", "Violation", "certify", "check"]
