"""Laws: every guarantee as a named check of a plan, made without trusting the code that made the plan."""

from __future__ import annotations

from counterpoise.laws.audit import DEFAULT_LAWS, LAWS, audit
from counterpoise.laws.certificate import Certificate, certify, check
from counterpoise.laws.verify import verify
from counterpoise.laws.violation import Move, NamedMove, Violation

__all__ = ["DEFAULT_LAWS", "LAWS", "Certificate", "Move", "NamedMove", "Violation", "audit", "certify", "check", "verify"]
