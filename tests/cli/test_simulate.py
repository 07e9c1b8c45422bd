"""`counterpoise simulate`: table, JSON, picture, a recorded group, exit codes."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from tests.report import fleet

from counterpoise import strategies
from counterpoise.cli.app import app
from counterpoise.cli.ownership_picture import MOST_RIBBONS, draw_outcomes
from counterpoise.pipeline.schemas import COLUMNS, TABLES
from counterpoise.simulation.scenario import MemberGroup, Scenario
from counterpoise.simulation.scenario_file import load
from counterpoise.simulation.simulate import simulate

RECORDED = Path(__file__).parent.parent / "data" / "recorded" / "shop-generations.json.gz"


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["simulate", *(str(word) for word in words)])


def test_a_table_per_strategy() -> None:
    result = run("scale-out", "--strategies", "range,cooperative-sticky")
    assert result.exit_code == 0
    assert "Four members become eight" in result.stdout
    assert [line.split()[2] for line in result.stdout.splitlines() if line.startswith(("range", "coop"))] == ["5", "9"]


def test_json_holds_every_figure_and_round() -> None:
    value = json.loads(run("scale-out", "--strategies", "cooperative-sticky", "--json").stdout)
    outcome = value["outcomes"][0]
    assert (outcome["rounds"], len(outcome["history"]), outcome["double_owned_seconds"]) == (9, 9, 0)


def test_a_picture_on_a_full_disk_is_a_temporary_fault() -> None:
    result = run("static-rolling-restart", "--strategies", "range", "--picture", "/dev/full")
    assert (result.exit_code, result.stderr) == (3, "counterpoise: --picture /dev/full: No space left on device\n")


def test_the_picture_is_one_svg_with_a_ribbon_for_each_partition_and_escaped_names(tmp_path: Path) -> None:
    """Also with characters that XML cannot hold, or that turn text around."""
    member = {"name": '"<i>"\x1b[2J\u202e', "topics": ["a&b\0"], "count": 2}
    scenario = {"name": "<b>\x07", "duration": 60, "topics": {"a&b\0": 3}, "members": [member]}
    path, picture = tmp_path / "s.json", tmp_path / "p.svg"
    path.write_text(json.dumps(scenario))
    assert run(path, "--strategies", "range", "--picture", picture).exit_code == 0
    root = ET.fromstring(picture.read_text())
    titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "<b>\\u0007" in titles
    assert all(title.isprintable() for title in titles if title)
    assert sum('"<i>"\\u001b[2J\\u202e' in (title or "") for title in titles) == 3


def test_one_partition_that_is_not_drawn_is_no_partitions() -> None:
    scenario = Scenario("s", {"t": MOST_RIBBONS + 1}, [MemberGroup("m", ["t"])], duration=10)
    assert ">1 more partition not drawn: moved less often. Red dots" in draw_outcomes("s", simulate(scenario, ["range"]))


def test_the_list_of_ready_scenarios() -> None:
    assert set(json.loads(run("--list", "--json").stdout)) >= {"zombie-storm", "upgrade-to-cooperative", "autoscale-day"}


def test_a_recorded_group_is_replayed_from_an_audits_tables(tmp_path: Path) -> None:
    write_generations(tmp_path / "tables" / "group_generations" / "cluster=default")
    result = run("--audit", tmp_path, "--group", "order-service", "--strategies", "range,cooperative-sticky")
    assert result.exit_code == 0
    assert "Recorded under range: 6 generations, 53 partitions revoked." in result.stdout
    unknown = run("--audit", tmp_path, "--group", "nobody")
    assert (unknown.exit_code, unknown.stderr) == (2, "counterpoise: nobody: the audit has no such classic group\n")


def write_generations(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    rows = json.loads(gzip.decompress(RECORDED.read_bytes()))
    pq.write_table(pa.Table.from_pylist(rows, COLUMNS["group_generations"]), folder / "0.parquet")


def test_a_group_in_two_clusters_is_replayed_from_the_one_that_is_named(tmp_path: Path) -> None:
    for cluster in ("east", "west"):
        write_generations(tmp_path / "tables" / "group_generations" / f"cluster={cluster}")
    words = ("--audit", tmp_path, "--group", "order-service", "--strategies", "range")
    both = run(*words)
    assert (both.exit_code, both.stderr) == (
        2, "counterpoise: group order-service is in the clusters east, west; name one with --cluster\n",
    )  # fmt: skip
    assert "Recorded under range: 6 generations, 53 partitions revoked." in run(*words, "--cluster", "west").stdout
    assert "only with --audit DIR" in run("scale-out", "--cluster", "west").stderr


def test_all_strategies_are_all_that_are_registered() -> None:
    shown = json.loads(run("scale-out", "--strategies", "all", "--json").stdout)["outcomes"]
    assert [one["strategy"] for one in shown] == list(strategies())


def test_exit_code_1_when_partitions_stay_without_an_owner(tmp_path: Path) -> None:
    scenario = tmp_path / "cut.toml"
    scenario.write_text('name = "cut"\nduration = 1\ntopics = { t = 2 }\n[[members]]\nname = "m"\ntopics = ["t"]\n')
    assert run(scenario, "--strategies", "range").exit_code == 1


def test_members_that_are_refused_are_named(tmp_path: Path) -> None:
    """One bounce from range straight to cooperative-sticky: the table alone looks as if nothing had happened."""
    scenario = tmp_path / "bounce.toml"
    scenario.write_text(
        'name = "one bounce"\ntopics = { t = 4 }\n[[members]]\nname = "m"\ntopics = ["t"]\ncount = 3\nstrategies = ["range"]\n'
        '[[events]]\nat = 60\ndo = "reconfigure"\nmembers = "m"\nstrategies = ["cooperative-sticky"]\nevery = 30\ndown = 5\n'
    )
    output = run(scenario, "--strategies", "range").stdout
    assert "range: joins refused, without a strategy in common with the others: 2\n" in output
    assert "refused" not in run("scale-out", "--strategies", "range").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name one SCENARIO, or --audit DIR with --group NAME"),
        (("scale-out", "--audit", "x", "--group", "g"), "name one SCENARIO"),
        (("--audit", "x"), "name one SCENARIO"),
        (("--audit", "nowhere", "--group", "g"), "nowhere/tables/group_generations: no such table"),
        (("scale-out", "--strategies", "best"), "strategy 'best' is unknown"),
        (("nothing",), "nothing: neither a .toml or .json file"),
        (("scale-out", "--strategies", "range", "--picture", "no/such/place.svg"), "--picture no/such/place.svg: No such file"),
    ],
)
def test_wrong_use_is_one_line(words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"counterpoise: {message}")
    assert result.stderr.count("\n") == 1


def lagging(out: Path, capacity: float | None = 50.0, quality: str = "sustained") -> Path:
    """An audit of a group on two partitions with 30 and 10 records a second, sampled every ten seconds for a hundred."""
    at = [datetime(2026, 11, 21, 4, tzinfo=UTC) + timedelta(seconds=second) for second in range(0, 101, 10)]
    rows = [
        {
            **dict.fromkeys(TABLES["partition_lag"].names),
            "cluster": "default",
            "group_id": "g",
            "topic": "t",
            "partition": partition,
            "at": moment,
            "quality": "exact",
            "committed": 0,
            "log_start": 0,
            "log_end": rate * 10 * number,
            "lag": rate * 5 * number,
            "clamped": False,
        }
        for partition, rate in enumerate((30, 10))
        for number, moment in enumerate(at)
    ]
    rows.append(rows[3] | {"quality": "interpolated", "log_end": 10**9, "lag": 10**9})
    report = fleet.report_row("g", capacity_per_second=capacity, capacity_quality=quality)
    return fleet.write(out, group_report=[report, fleet.report_row("other")], partition_lag=rows)


def test_a_recorded_group_with_another_number_of_members(tmp_path: Path) -> None:
    """Forty records a second: one member of 50 keeps up, of 10 not; of two members of 28 one is 2 a second short."""
    out = lagging(tmp_path)
    figures = (
        "members",
        "capacity_per_second",
        "capacity_quality",
        "keeps_up",
        "largest_lag",
        "lag_at_end",
        "recorded_lag_at_end",
    )
    for options, code, expected in (
        (("--members", 1), 0, [1, 50.0, "sustained", True, 0, 0, 2000]),
        (("--members", 1, "--capacity", 10), 1, [1, 10.0, "given", False, 3000, 3000, 2000]),
        (("--members", 2, "--capacity", 28), 0, [2, 28.0, "given", True, 200, 200, 2000]),
        (("--members", 2, "--capacity", 25), 1, [2, 25.0, "given", False, 500, 500, 2000]),
    ):
        result = run("--audit", out, "--group", "g", *options, "--json")
        found = json.loads(result.stdout)
        assert ([found[name] for name in figures], result.exit_code) == (expected, code)
        assert found["series"]["produced"] == [400.0] * 10
        assert found["series"]["recorded_lag"] == [200.0 * number for number in range(11)]
        assert len(found["series"]["at"]) == len(found["series"]["lag"]) == 11
    assert found["largest_lag_at"] == "2026-11-21T04:01:40.000000Z"


def test_in_words_a_lower_bound_of_the_capacity_says_so(tmp_path: Path) -> None:
    result = run("--audit", lagging(tmp_path, 10.0, "lower_bound"), "--group", "g", "--members", 1)
    assert "g: 1 member of 10.0 records/s" in result.stdout
    assert "With 1 member the group does not keep up: largest lag 3,000 at 2026-11-21T04:01:40" in " ".join(result.stdout.split())
    assert "no member was ever behind, so members may do more, and the lag be less" in " ".join(result.stdout.split())
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--group", "other", "--members", 2), "group other has no partitions there"),
        (("--group", "g", "--members", 2), "what a member of group g can do is unknown there; give it with --capacity"),
        (("--group", "g", "--members", 2, "--strategies", "range"), "--members goes with --audit and --group, and with"),
        (("--group", "g", "--capacity", 2), "--capacity goes with --members N"),
    ],
    ids=["no such partitions", "no capacity", "a strategy", "no members"],
)
def test_what_cannot_be_replayed_with_members_is_wrong_use(tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    result = run("--audit", lagging(tmp_path, None), *options)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_a_strategy_that_is_not_safe_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol keeps all of ours safe, so the outcome is made up."""
    outcomes = {name: replace(one, double_owned_seconds=1.0) for name, one in simulate(load("scale-out"), ["range"]).items()}
    monkeypatch.setattr("counterpoise.cli.simulate_command.simulate", lambda *_: outcomes)
    result = run("scale-out", "--strategies", "range")
    assert (result.exit_code, "NO" in result.stdout.split()) == (1, True)
