"""OpenMetrics over a real request: every figure, its text, names that must be escaped, limits, and groups that go."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from counterpoise.errors import OptionError
from counterpoise.pipeline.follow import openmetrics
from counterpoise.pipeline.follow.gauges import COUNTS, Gauges, GroupGauges, MemberLag
from tests.kafka_broker import free_ports

ODD = 'a "b"\\c\nd'
P = openmetrics.PREFIX
COUNTED = dict(zip(COUNTS, (2, 4, 1, 7.5, 3, 0, 5), strict=True))
TROUBLE: list[str] = []
Samples = dict[tuple[str, tuple[str, ...]], float]


def group(name: str, *, counts: dict[str, float] | None = None, members: int = 2) -> GroupGauges:
    """A group with some records behind, of two members by default."""
    found = tuple(MemberLag(f"m{at}", f"client of m{at}", 10 + at) for at in range(members))
    return GroupGauges("c", name, COUNTED if counts is None else counts, (21, 11), found, 2.5, {"ok": 2, "stalled": 1})


@pytest.fixture
def gauges() -> Gauges:
    """One group that is read."""
    found = Gauges(("c",))
    found.groups, found.newest = (group("g"),), datetime(2026, 11, 21, 1, 0, 9, tzinfo=UTC)
    found.actions, found.findings = {("c", "steady_members"): 7}, {("c", "storm", "critical"): 2}
    return found


@pytest.fixture
def answer(gauges: Gauges) -> Iterator[Callable[[str], tuple[int, str, str]]]:
    """What a request for a path gets: status, content type and text."""
    (port,) = free_ports(1)
    end = openmetrics.serve(gauges, port, "127.0.0.1", lambda: next(iter(TROUBLE), None))

    def ask(path: str) -> tuple[int, str, str]:
        link = HTTPConnection("127.0.0.1", port, timeout=30)
        link.request("GET", path)
        got = link.getresponse()
        text = got.read().decode()
        link.close()
        return got.status, got.getheader("Content-Type", ""), text

    yield ask
    end()


@pytest.fixture
def scrape(answer: Callable[[str], tuple[int, str, str]]) -> Callable[[], Samples]:
    """The samples that a Prometheus would get: (name, values of its labels in order of their names) -> value."""

    def ask() -> Samples:
        families = list(text_string_to_metric_families(answer("/metrics")[2]))
        samples = [one for family in families for one in family.samples]
        return {(one.name, tuple(value for _, value in sorted(one.labels.items()))): one.value for one in samples}

    return ask


def test_every_figure_of_a_group(scrape: Callable[[], Samples]) -> None:
    found, of_group = scrape(), ("c", "g")
    assert {name.removeprefix(f"{P}_"): value for (name, labels), value in found.items() if labels == of_group} == {
        "rebalances_total": 2,
        "moved_partitions_total": 4,
        "failed_generations_total": 1,
        "stopped_partition_seconds": 7.5,
        "members": 3,
        "idle_members": 0,
        "spread_partitions": 5,
        "sum_lag": 21,
        "max_lag": 11,
        "max_lag_seconds": 2.5,
    }
    assert found[f"{P}_member_sum_lag", ("client of m1", "c", "m1", "g")] == 11
    assert (found[f"{P}_state_partitions", (*of_group, "ok")], found[f"{P}_state_partitions", (*of_group, "stalled")]) == (2, 1)
    assert found["counterpoise_action_groups", ("c", "steady_members")] == 7
    assert found["counterpoise_findings", ("c", "storm", "critical")] == 2
    assert found["counterpoise_newest_record_timestamp_seconds", ()] == datetime(2026, 11, 21, 1, 0, 9, tzinfo=UTC).timestamp()


def test_the_text_is_openmetrics(answer: Callable[[str], tuple[int, str, str]]) -> None:
    status, kind, text = answer("/metrics")
    assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    assert text.endswith("# EOF\n")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert all(family.documentation and family.samples for family in families.values())
    assert families[f"{P}_rebalances"].type == "counter"
    units = {name.removeprefix(f"{P}_"): family.unit for name, family in families.items() if family.unit}
    assert units == {
        "rebalances": "rebalances",
        "moved_partitions": "partitions",
        "failed_generations": "generations",
        "stopped_partition_seconds": "seconds",
        "members": "members",
        "idle_members": "members",
        "spread_partitions": "partitions",
        "state_partitions": "partitions",
        "counterpoise_action_groups": "groups",
        "counterpoise_newest_record_timestamp_seconds": "seconds",
    }
    assert answer("/else")[0] == 404


def test_healthz_says_what_is_wrong(answer: Callable[[str], tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    text = "text/plain; charset=utf-8"
    assert answer("/healthz") == (200, text, "ok\n")
    monkeypatch.setattr("tests.pipeline.follow.test_openmetrics.TROUBLE", ["an update\u2028hangs"])
    assert answer("/healthz?verbose") == (503, text, "an update\u2028hangs\n")


def test_odd_names_come_through(gauges: Gauges, scrape: Callable[[], Samples]) -> None:
    gauges.groups = (GroupGauges("c", ODD, COUNTED, (3, 3), (MemberLag(ODD, ODD, 3),)),)
    found = scrape()
    assert found[f"{P}_rebalances_total", ("c", ODD)] == 2
    assert found[f"{P}_member_sum_lag", (ODD, "c", ODD, ODD)] == 3


def test_what_is_not_known_has_no_series(gauges: Gauges, scrape: Callable[[], Samples]) -> None:
    gauges.groups = (GroupGauges("c", "steps only", {"rebalances": 1}), GroupGauges("c", "commits only", {}, (0, 0)))
    gauges.newest, gauges.actions, gauges.findings = None, {}, {}
    found = {(name.removeprefix(f"{P}_"), labels) for name, labels in scrape() if "c" in labels}
    assert found == {
        ("rebalances_total", ("c", "steps only")),
        ("sum_lag", ("c", "commits only")),
        ("max_lag", ("c", "commits only")),
    }


def test_a_group_that_goes_takes_its_series_with_it(gauges: Gauges, scrape: Callable[[], Samples]) -> None:
    gauges.groups, gauges.actions, gauges.findings = (), {}, {}
    assert {labels for _, labels in scrape()} == {("groups",), ("members",), ()}


def test_more_groups_than_the_limit_are_counted_not_shown(
    gauges: Gauges, scrape: Callable[[], Samples], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openmetrics, "MOST_GROUPS", 2)
    monkeypatch.setattr(openmetrics, "MOST_MEMBERS", 3)
    gauges.groups = tuple(group(name) for name in "ghij")
    found = scrape()
    assert {labels[1] for name, labels in found if name == f"{P}_spread_partitions"} == {"g", "h"}
    assert sum(name == f"{P}_member_sum_lag" for name, _ in found) == 3
    assert (found["counterpoise_left_out", ("groups",)], found["counterpoise_left_out", ("members",)]) == (2, 1)


def test_a_client_that_goes_away_is_not_printed(gauges: Gauges, capfd: pytest.CaptureFixture[str]) -> None:
    """A scrape that is aborted (a reset connection), while the answer is written."""
    (port,) = free_ports(1)
    gauges.groups = tuple(group(f"{number:0500}") for number in range(500))
    end = openmetrics.serve(gauges, port, "127.0.0.1", lambda: None)
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    link = HTTPConnection("127.0.0.1", port, timeout=30)
    link.request("GET", "/healthz")
    assert link.getresponse().read() == b"ok\n"
    link.close()
    time.sleep(1)
    end()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("host", "words"), [("127.0.0.1", "in use"), ("192.0.2.1", "Cannot assign"), ("no such", "not known")])
def test_a_port_that_is_taken_or_a_host_of_others_is_named(gauges: Gauges, host: str, words: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OptionError, match=rf"--metrics-host {host}, --metrics-port \d+: .*{words}.*; give another"):
            openmetrics.serve(gauges, taken.getsockname()[1], host, lambda: None)


def test_metrics_are_served_at_an_address_of_ipv6(gauges: Gauges, monkeypatch: pytest.MonkeyPatch) -> None:
    families = {}

    class Server:
        address_family = socket.AF_INET

        def __init__(self, address: tuple[str, int], _: object) -> None:
            families[address[0]] = self.address_family
            raise OSError(98, "in use")

    monkeypatch.setattr(openmetrics, "ThreadingHTTPServer", Server)
    for host in ("::1", "localhost"):
        with pytest.raises(OptionError, match="in use"):
            openmetrics.serve(gauges, 9308, host, lambda: None)
    assert families == {"::1": socket.AF_INET6, "localhost": socket.AF_INET}
