"""The verdict on plans Kafka's own assignors made agrees with SciPy's optimal assignment, and what it names is really better."""

from __future__ import annotations

import os

import pytest

from counterpoise.laws import certify
from counterpoise.laws.verify import owners_or_faults
from tests.laws.oracle import score
from tests.laws.test_certificate import judge
from tests.planning.vectors import cases, group_of
from tests.solver.oracle import optimum

STEP = 1 if os.environ.get("COUNTERPOISE_PROFILE") == "long" else 6


@pytest.mark.parametrize("name", ["sticky", "broker-uniform", "range", "roundrobin"])
def test_certificates_of_javas_plans_agree_with_an_optimal_assignment(name: str) -> None:
    """Balanced, unbalanced, sticky and not: every kind occurs in the recorded plans, and each is recognised."""
    kinds = set()
    for case in cases(name)[::STEP]:
        group = group_of(case)
        owner, faults = owners_or_faults(group, case.get("assignment") or {})
        certificate = certify(group.problem(), owner)
        if faults or any(violation.law in {"valid", "complete"} for violation in certificate.violations):
            continue
        judge(group.problem(), owner, score(group.problem(), optimum(group.problem())))
        kinds.add((certificate.balanced, certificate.sticky))
    loose = set() if name in {"range", "roundrobin"} else {(True, False)}
    assert kinds == {(True, True), (False, False)} | loose, "recorded groups of range and roundrobin claim nothing"
