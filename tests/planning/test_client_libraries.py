"""The table of what client libraries do while they join, and what follows from it for a group."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoise.planning.client_libraries import (
    BEHAVIOURS,
    HELD,
    MOVED,
    Behaviour,
    behaviour,
    expected_seconds,
    recommended,
    resolved,
    stops_kept_partitions,
)

OURS, OURS_AIO = "counterpoise (kafka-python)", "counterpoise (aiokafka)"


@pytest.mark.parametrize("row", BEHAVIOURS, ids=lambda row: f"{row.library} {row.kind}")
def test_a_row_gives_back_the_seconds_of_its_own_benchmark(row: Behaviour) -> None:
    assert expected_seconds([row.library], row.kind, HELD, MOVED) == pytest.approx(row.all_s)
    assert 0 <= row.kept_s <= row.all_s
    assert (row.kept_s > 0) <= (row.stops_in_first_round or row.stops_in_second_round), (
        "kept partitions without a gap do not stand still"
    )


def test_the_page_of_predictions_has_every_measured_row() -> None:
    page = (Path(__file__).parents[2] / "docs" / "predictions.md").read_text(encoding="utf-8")
    table = page.split("\n## ")[0]
    rows = [tuple(word.strip() for word in line.strip("|").split("|")) for line in table.splitlines() if line.startswith("|")]
    figures = sorted((line[0].removesuffix(" 3"), line[1].split(",")[0], *line[2:]) for line in rows if line[4].endswith(" s"))
    assert figures == sorted(
        (row.library, row.kind, f"{row.all_s:.1f}", f"{row.kept_s:.1f}", f"{row.longest_s:.1f} s")
        for row in BEHAVIOURS
        if row.measured
    )


def test_a_library_and_protocol_has_one_row_and_every_library_is_known_under_the_eager_one() -> None:
    keys = [(row.library, row.kind) for row in BEHAVIOURS]
    assert len(set(keys)) == len(keys)
    assert {library for library, _ in keys} == {library for library, kind in keys if kind == "eager"}


def test_kept_partitions_stand_still_in_kafka_pythons_own_cooperative_rebalances_and_in_no_others() -> None:
    standing = {row.library for row in BEHAVIOURS if stops_kept_partitions([row.library], "cooperative")}
    assert standing == {"kafka-python"}
    assert not stops_kept_partitions(["kafka-python"], "eager")
    assert stops_kept_partitions(["java", "kafka-python"], "cooperative")


def test_more_partitions_that_stay_cost_a_cooperative_group_nothing_unless_they_stand_still() -> None:
    for library in ("java", "librdkafka", OURS):
        assert expected_seconds([library], "cooperative", 1000, 5) == expected_seconds([library], "cooperative", 5, 5)
        assert expected_seconds([library], "cooperative", 1000, 5) < expected_seconds([library], "eager", 1000, 5)
    assert expected_seconds(["kafka-python"], "cooperative", 1000, 5) > expected_seconds(["kafka-python"], "eager", 1000, 5)


def test_who_cannot_cooperate_makes_the_group_eager_and_the_slowest_library_counts() -> None:
    eager = max(expected_seconds([one], "eager", 48, 9) for one in ("java", OURS_AIO))
    assert behaviour("aiokafka", "cooperative") == behaviour("aiokafka", "eager")
    assert expected_seconds(["java", OURS_AIO], "cooperative", 48, 9) == eager
    assert expected_seconds(["java", OURS], "cooperative", 48, 9) == max(
        expected_seconds([one], "cooperative", 48, 9) for one in ("java", OURS)
    )
    assert expected_seconds(None, "server", 48, 9) == expected_seconds(["unknown"], "server", 48, 9)


@pytest.mark.parametrize(
    ("libraries", "offered"),
    [
        (None, {"cooperative-sticky"}),
        (["java"], {"cooperative-sticky", "sticky"}),
        (["librdkafka"], {"cooperative-sticky"}),
        (["kafka-python"], {"cooperative-sticky", "sticky"}),
        ([OURS], {"cooperative-sticky", "sticky"}),
        (["aiokafka"], {"sticky"}),
        ([OURS_AIO, "java"], {"sticky"}),
        (["kafka-python or aiokafka"], {"sticky"}),
        (["kafka-python", "kafka-python or aiokafka"], {"cooperative-sticky", "sticky"}),
        (["aiokafka", "kafka-python", "kafka-python or aiokafka"], {"sticky"}),
        (["aiokafka", "librdkafka"], set()),
        (["unknown"], {"sticky"}),
        (["kafka-go"], set()),
        (["java", "kafka-go"], set()),
        (["java", "unknown"], {"sticky"}),
    ],
)
def test_what_is_recommended_is_what_all_libraries_run_the_least_stopped_first(
    libraries: list[str] | None, offered: set[str]
) -> None:
    found = recommended(libraries)
    assert set(found) == offered
    ours = [{"kafka-python": OURS, "aiokafka": OURS_AIO}.get(one, one) for one in resolved(libraries)]
    kinds = ["cooperative" if name == "cooperative-sticky" else "eager" for name in found]
    seconds = [expected_seconds(ours, kind, HELD, MOVED) for kind in kinds]
    assert seconds == sorted(seconds)
