"""OpenMetrics over a real request: every figure, its text, names that must be escaped, limits, and groups that go."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from counterpoise.errors import OptionError
from counterpoise.pipeline.follow import openmetrics
from counterpoise.pipeline.follow.gauges import Now

ODD = 'a "b"\\c\nd'
P = openmetrics.PREFIX
Samples = dict[tuple[str, tuple[str, ...]], float]


def step(offset: int, members: dict[str, list[int]], *, kind: str = "rebalance", group: str = "g", **more: Any) -> dict[str, Any]:
    """A row of `rebalances`: member id -> partitions of topic t."""
    rows = [
        {"member_id": name, "client_id": f"client of {name}", "assigned": [{"topic": "t", "partitions": held}] if held else []}
        for name, held in members.items()
    ]
    about = {"cluster": "c", "group_id": group, "log_partition": 1, "log_offset": offset, "kind": kind, "protocol_kind": "eager"}
    about |= {"assignment": rows, "log_ts": datetime(2026, 11, 21, 1, 0, offset, tzinfo=UTC)}
    idle = sum(not held for held in members.values())
    return {**about, "n_members": len(members), "n_idle": idle, "n_moved": 2, "missed_generations": 1, **more}


def commit(partition: int, offset: int | None, *, group: str = "g", topic_id: str | None = None) -> dict[str, Any]:
    """The last commit of a partition of topic t; None: its tombstone."""
    about = {"group_id": group, "topic": "t", "partition": partition, "topic_id": topic_id}
    return {**about, "committed_offset": offset, "deleted": offset is None}


@pytest.fixture
def now() -> Now:
    """One group: two steps, the first of them told twice; commits of its three partitions and log ends of two."""
    found = Now()
    for one in (step(5, {"a": [0, 1], "b": [2]}), step(5, {"a": [0, 1], "b": [2]}), step(9, {"a": [0, 1, 2], "b": [], "d": []})):
        found.step(one)
    for place, offset in ((0, 10), (1, 50), (2, 7)):
        found.commit("c", commit(place, offset))
    found.sampled("c", [("t", 0, 0, 30), ("t", 1, 0, 45)], {"t": "new"})
    return found


@pytest.fixture
def answer(now: Now) -> Iterator[Callable[[str], tuple[int, str, str]]]:
    """What a request for a path gets: status, content type and text."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    end = openmetrics.serve(now, port, "127.0.0.1")

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
    found, group = scrape(), ("c", "g")
    assert found[f"{P}_rebalances_total", group] == 2
    assert found[f"{P}_moved_partitions_total", group] == 4
    assert found[f"{P}_failed_generations_total", group] == 2
    assert found[f"{P}_members", group] == 3
    assert found[f"{P}_idle_members", group] == 2
    assert found[f"{P}_spread_partitions", group] == 3
    # Behind by 20 on one, beyond the end on the other (a topic that was made anew), nothing known of the third.
    assert found[f"{P}_sum_lag", group] == 20
    assert found[f"{P}_max_lag", group] == 20
    assert found[f"{P}_member_sum_lag", ("client of a", "c", "a", "g")] == 20
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
        "members": "members",
        "idle_members": "members",
        "spread_partitions": "partitions",
        "counterpoise_newest_record_timestamp_seconds": "seconds",
    }
    assert answer("/else")[0] == 404


def test_odd_names_come_through(now: Now, scrape: Callable[[], Samples]) -> None:
    now.step(step(1, {ODD: [0]}, group=ODD))
    now.commit("c", commit(0, 3, group=ODD))
    found = scrape()
    assert found[f"{P}_rebalances_total", ("c", ODD)] == 1
    assert found[f"{P}_member_sum_lag", (f"client of {ODD}", "c", ODD, ODD)] == 27


def test_commits_to_a_topic_that_is_gone_have_no_lag(now: Now, scrape: Callable[[], Samples]) -> None:
    now.commit("c", commit(0, 3, group="old", topic_id="old"))
    now.commit("c", commit(1, 3, group="old", topic_id="new"))
    assert scrape()[f"{P}_sum_lag", ("c", "old")] == 42


def test_a_member_of_whose_partitions_nothing_is_known_has_no_lag(now: Now, scrape: Callable[[], Samples]) -> None:
    now.step(step(11, {"a": [0, 1], "b": [2]}))
    found = {labels[0]: value for (name, labels), value in scrape().items() if name == f"{P}_member_sum_lag"}
    assert found == {"client of a": 20}


def test_a_group_that_goes_takes_its_series_with_it_and_comes_back_with_its_counts(
    now: Now, scrape: Callable[[], Samples]
) -> None:
    now.commit("c", commit(0, 3, group="commits only"))
    assert (f"{P}_sum_lag", ("c", "commits only")) in scrape()
    now.step(step(10, {}, kind="deleted"))
    now.commit("c", commit(0, None, group="commits only"))
    for place in range(3):
        now.commit("c", commit(place, None))
    assert {labels for _, labels in scrape()} == {("groups",), ("members",), ()}
    assert list(now.standing()) == []
    now.step(step(11, {"a": [0]}))
    assert scrape()[f"{P}_rebalances_total", ("c", "g")] == 3


def test_more_groups_than_the_limit_are_counted_not_shown(
    now: Now, scrape: Callable[[], Samples], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openmetrics, "MOST_GROUPS", 2)
    monkeypatch.setattr(openmetrics, "MOST_MEMBERS", 2)
    for name in ("h", "i", "j"):
        now.step(step(1, {"m": [0], "n": [1]}, group=name))
        for place in (0, 1):
            now.commit("c", commit(place, 0, group=name))
    found = scrape()
    shown = {labels[1] for name, labels in found if name == f"{P}_spread_partitions"}
    assert shown == {"g", "h"}
    assert sum(name == f"{P}_member_sum_lag" for name, _ in found) == 2
    assert (found["counterpoise_left_out", ("groups",)], found["counterpoise_left_out", ("members",)]) == (2, 1)


def test_partitions_withheld_in_a_first_round_stay_with_their_holder(now: Now) -> None:
    held = {"protocol_kind": "cooperative"}
    now.step(step(12, {"a": [0, 1, 2], "b": []}, **held))
    now.step(step(13, {"a": [0, 1], "b": []}, n_withheld=1, **held))
    owners = now.groups["c", "g"].owners
    assert {place[1]: owner[0] for place, owner in owners.items()} == {0: "a", 1: "a", 2: "a"}
    now.step(step(14, {"a": [0, 1], "b": [2]}, kind="cooperative_followup", **held))
    owners = now.groups["c", "g"].owners
    assert {place[1]: owner[0] for place, owner in owners.items()} == {0: "a", 1: "a", 2: "b"}
    now.step(step(15, {}, kind="emptied", **held))
    assert now.groups["c", "g"].owners == {}


def test_what_a_member_had_that_left_or_that_asks_for_it_no_longer_is_nobodys(now: Now) -> None:
    for how, told in (("cooperative", {"left": ["a"], "n_withheld": 1}), ("cooperative", {"n_withheld": 0}), ("server", {})):
        now.stand(step(12, {"a": [2], "b": [0, 1]}, protocol_kind=how))
        now.stand(step(13, {"b": [0, 1]}, protocol_kind=how, **told))
        owners = now.groups["c", "g"].owners
        assert {place[1]: owner[0] for place, owner in owners.items()} == {0: "b", 1: "b"}


def test_a_port_that_is_taken_is_said_to_be(now: Now) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OptionError, match=r"--metrics-port \d+: .*in use; give another port"):
            openmetrics.serve(now, taken.getsockname()[1], "127.0.0.1")
