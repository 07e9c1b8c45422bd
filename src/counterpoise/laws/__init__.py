"""Laws: every guarantee as a named check of a plan, made without trusting the code that made the plan."""

from __future__ import annotations

from counterpoise.laws.certificate import Certificate, certify, check
from counterpoise.laws.check_owners import DEFAULT_LAWS, LAWS, check_owners
from counterpoise.laws.verify import verify
from counterpoise.laws.violation import Move, NamedMove, Violation

__all__ = ["DEFAULT_LAWS", "LAWS", "Certificate", "Move", "NamedMove", "Violation", "certify", "check", "check_owners", "verify"]
