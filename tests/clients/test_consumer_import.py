"""A consumer's process loads the member's half of an assignor when it starts; the leader's half when it leads."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_MAKE = "StickyAssignor(), CooperativeStickyAssignor(), LagStickyAssignor(lag=print), RangeAssignor()"
_SHOW = "import json, sys; print(json.dumps(sorted(sys.modules)))"
_PACKAGES = {"assignors", "clients", "model", "wire"}
"""All of `assignors` are small: the solver is loaded with the first plan."""
_SINGLE = {"", "_version", "errors", "extras"}


@pytest.mark.parametrize("host", ["kafka_python", "aiokafka"])
def test_a_consumer_that_does_not_lead_loads_neither_solver_nor_laws_nor_snapshots_nor_msgspec(host: str) -> None:
    """Assignors of all strategies are made, too: their options are checked without the solver."""
    program = f"from counterpoise.clients.{host} import *\n{_MAKE}\n{_SHOW}"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = json.loads(answer.splitlines()[-1])
    ours = {name.partition("counterpoise")[2].lstrip(".") for name in loaded if name.split(".")[0] == "counterpoise"}
    assert {name for name in ours if name not in _SINGLE and name.split(".")[0] not in _PACKAGES} == set()
    assert "clients.leader_side" not in ours
    assert "msgspec" not in loaded
    assert "importlib.metadata" not in loaded
    assert f"clients.{host}" in ours
