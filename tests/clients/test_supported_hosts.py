"""A canary for each supported release of the hosts: what is read from them is there; where it is not, one clear error says so."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.consumer import ConsumerCoordinator

from counterpoise.clients import aiokafka, kafka_python
from counterpoise.errors import HostError

ROOT = Path(__file__).resolve().parent.parent.parent
OLDER = sorted(path.stem for path in (ROOT / "tests" / "clients" / "oldest").glob("*.txt"))
MAKE = """
import sys
from importlib import import_module
module = import_module(sys.argv[1])
for name in module.__all__:
    given = {"lag": dict} if name.startswith("Lag") else {}
    getattr(module, name)(**given)
host = import_module(sys.argv[2])
print(host.__version__, host.__file__)
"""


def made_with(folder: Path | None, ours: str, host: str) -> tuple[str, Path]:
    """The version and the file of the host with which every assignor was made."""
    path = [str(folder)] if folder else []
    done = subprocess.run(
        [sys.executable, "-c", MAKE, ours, host], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*path, str(ROOT / "src")])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found, file = done.stdout.split()
    return found, Path(file)


@pytest.mark.parametrize("release", OLDER)
def test_an_older_release_has_what_is_read_from_it(release: str) -> None:
    name, _, number = release.rpartition("-")
    folder = ROOT / ".oldest" / release
    ours = f"counterpoise.clients.{name.replace('-', '_')}"
    found, file = made_with(folder, ours, "aiokafka" if name == "aiokafka" else "kafka")
    assert found == number
    assert file.is_relative_to(folder)


@pytest.mark.parametrize(("ours", "host", "package"), [("kafka_python", "kafka", "kafka-python"), ("aiokafka",) * 3])
def test_the_newest_release_has_what_is_read_from_it(ours: str, host: str, package: str) -> None:
    assert made_with(None, f"counterpoise.clients.{ours}", host)[0] == version(package)


def nothing(self: Any) -> None: ...


def other_names(self: Any, answer: Any) -> None: ...


GONE = None
DIFFERENT: list[tuple[Any, Any, str, Any, str]] = [
    (aiokafka, GroupCoordinator, "_perform_assignment", GONE, "GroupCoordinator._perform_assignment is gone"),
    (aiokafka, GroupCoordinator, "_perform_assignment", other_names, "GroupCoordinator._perform_assignment has no response"),
    (aiokafka, GroupCoordinator, "_on_join_complete", other_names, "GroupCoordinator._on_join_complete has no generation"),
    (aiokafka, GroupCoordinator, "_start_heartbeat_task", GONE, "GroupCoordinator._start_heartbeat_task is gone"),
    (aiokafka, GroupCoordinator, "__init__", nothing, "GroupCoordinator.__init__ has no generation, member_id, group_id"),
    (kafka_python, BaseCoordinator, "request_rejoin", GONE, "BaseCoordinator.request_rejoin is gone"),
    (kafka_python, BaseCoordinator, "__init__", nothing, "BaseCoordinator.__init__ has no _generation"),
    (kafka_python, ConsumerCoordinator, "__init__", nothing, "__init__ has no _rebalance_protocol, _subscription"),
]


@pytest.mark.parametrize(("ours", "holder", "function", "instead", "said"), DIFFERENT, ids=[each[4] for each in DIFFERENT])
def test_a_release_that_differs_is_one_clear_error(
    ours: Any, holder: Any, function: str, instead: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the assignor is made, before anything is planned."""
    monkeypatch.setattr(holder, function, instead)
    release = "aiokafka 0" if ours is aiokafka else "kafka-python 3"
    with pytest.raises(HostError, match=rf"{release}\.\S+ is not supported: .*{said}.*; install .* to .*, or a newer"):
        ours.StickyAssignor()
