"""Fleet: what it does to members that hang through no fault of counterpoise."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.clients.fleet import fleet

STUCK = (
    "%4|1|REQTMOUT|a#consumer-1| [thrd:GroupCoordinator]: GroupCoordinator: Timed out 0 in-flight, 0 retry-queued, 1 out-queue"
)

LOST = "%4|{}|SESSTMOUT|a#consumer-1| [thrd:main]: Consumer group session timed out after 10010 ms (broker -1, last error was ..)"


@pytest.mark.parametrize(
    ("kind", "said", "seconds_ago", "replaced"),
    [
        *(("confluent", STUCK, 0, True), ("confluent", "", 0, False), ("aiokafka", STUCK, 0, False)),
        *(("confluent", LOST, 60, True), ("confluent", LOST, 0, False)),
    ],
    ids=["stuck", "well", "another client", "away", "just lost"],
)
def test_a_librdkafka_member_without_a_coordinator_is_replaced(
    kind: str, said: str, seconds_ago: int, replaced: bool, tmp_path: Path
) -> None:
    broker: Any = SimpleNamespace(bootstrap="127.0.0.1:1")
    with fleet(broker, tmp_path, "g") as members:
        members.start("a", kind, ["CooperativeStickyAssignor"], ["t"])
        first = members.processes["a"]
        (tmp_path / "a.log").write_text(said.format(time.time() - seconds_ago))
        with pytest.warns(UserWarning, match="a of g was started again") if replaced else nullcontext():
            members.replace_stuck()
        assert (members.processes["a"] is not first, first.poll() is not None) == (replaced, replaced)
