"""`counterpoise simulate`: table, JSON, picture, a recorded group, exit codes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from counterpoise.cli.app import app

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


def test_the_list_of_ready_scenarios() -> None:
    assert set(json.loads(run("--list", "--json").stdout)) >= {"zombie-storm", "upgrade-to-cooperative", "autoscale-day"}


def test_a_recorded_group_is_replayed_from_an_audits_tables(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = tmp_path / "tables" / "group_generations"
    table.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(json.loads(gzip.decompress(RECORDED.read_bytes()))), table / "part-0.parquet")
    result = run("--audit", tmp_path, "--group", "order-service", "--strategies", "range,cooperative-sticky")
    assert result.exit_code == 0
    assert "On record under range: 6 generations, 53 partitions revoked." in result.stdout
    unknown = run("--audit", tmp_path, "--group", "nobody")
    assert (unknown.exit_code, unknown.stderr) == (2, "counterpoise: nobody: the audit has no such classic group\n")


def test_exit_code_1_when_partitions_stay_without_an_owner(tmp_path: Path) -> None:
    scenario = tmp_path / "cut.toml"
    scenario.write_text('name = "cut"\nduration = 1\ntopics = { t = 2 }\n[[members]]\nname = "m"\ntopics = ["t"]\n')
    assert run(scenario, "--strategies", "range").exit_code == 1


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
