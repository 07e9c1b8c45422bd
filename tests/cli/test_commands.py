"""The command line: what is printed, exit codes, and one clear line for every wrong use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from threading import Timer
from types import SimpleNamespace

import pytest
from click import unstyle
from click.testing import CliRunner, Result
from tests.report import fleet

from counterpoise.assignors.registry import strategies
from counterpoise.cli import audit_command
from counterpoise.cli.app import app
from counterpoise.cli.render import lag_line
from counterpoise.errors import InvariantError
from counterpoise.planning.assign import assign
from counterpoise.snapshot import Group

CHAIN = {
    "topics": {"t1": 15, "t2": 15},
    "members": [
        {"id": "m1", "topics": ["t1"], "owned": {"t1": list(range(9))}, "generation": 3},
        {"id": "m2", "topics": ["t1", "t2"], "owned": {"t1": list(range(9, 15)), "t2": list(range(4))}, "generation": 3},
        {"id": "m3", "topics": ["t2"], "owned": {"t2": list(range(4, 15))}, "generation": 3},
    ],
    "group": "chain",
}


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "group.json"
    path.write_text(json.dumps(CHAIN))
    return path


def run(*words: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin)


def test_plan_prints_loads_moves_and_the_proof(snapshot: Path) -> None:
    result = run("plan", snapshot)
    assert result.exit_code == 0
    assert "loads 10 to 10, kept 28, moved 2" in result.stdout
    assert "proven: no plan is more balanced" in result.stdout


def test_plan_says_when_a_strategy_is_not_optimal(snapshot: Path) -> None:
    result = run("plan", snapshot, "--strategy", "range")
    assert "not optimal (" in result.stdout


def test_a_json_plan_verifies_and_reads_back(snapshot: Path, tmp_path: Path) -> None:
    result = run("plan", snapshot, "--json", "--strategy", "cooperative-sticky", "--compare", "range,sticky")
    value = json.loads(result.stdout)
    assert value["proven"] == {"balanced_and_sticky": True, "violations": []}
    assert sum(map(len, value["withheld"].values())) == 2
    assert [row["strategy"] for row in value["comparison"]] == ["range", "sticky"]
    plan = tmp_path / "plan.json"
    plan.write_text(result.stdout)
    verified = run("verify", snapshot, plan)
    assert (verified.exit_code, verified.stdout.split(":")[0]) == (0, "proven")


def test_verify_names_a_better_move_and_exits_with_1(snapshot: Path) -> None:
    kept = {member["id"]: deepcopy(member["owned"]) for member in CHAIN["members"]}  # type: ignore[index]
    result = run("verify", snapshot, "-", stdin=json.dumps(kept))
    assert result.exit_code == 1
    assert result.stdout.startswith("balanced: ")
    (found,) = json.loads(run("verify", snapshot, "-", "--json", stdin=json.dumps(kept)).stdout)["violations"]
    for move in found["moves"]:
        kept[move["from"]][move["topic"]].remove(move["partition"])
        kept[move["to"]].setdefault(move["topic"], []).append(move["partition"])
    assert found["law"] == "balanced"
    assert found["gain"] == 2
    assert run("verify", snapshot, "-", "--law", "balanced", stdin=json.dumps(kept)).exit_code == 0


def test_a_plan_for_lag_carries_its_figures_and_false_ones_are_refused(tmp_path: Path) -> None:
    snapshot, plan = tmp_path / "group.json", tmp_path / "plan.json"
    snapshot.write_text(json.dumps({**CHAIN, "lag": {"t1": [900, 800] + [0] * 13, "t2": [0] * 14 + [50]}}))
    shown = run("plan", snapshot, "--strategy", "lag-sticky").stdout
    assert "lag: at most 900 records per capacity (m1), 0.0% above the proven lower bound of 900 for balanced counts" in shown
    assert "proven: no plan is more balanced, and the figures about lag are true" in shown
    value = json.loads(run("plan", snapshot, "--strategy", "lag-sticky", "--json").stdout)
    assert (value["lag"]["largest"], value["lag"]["gap"], value["proven"]["violations"]) == (900, 0.0, [])
    plan.write_text(json.dumps(value))
    verified = run("verify", snapshot, plan)
    assert (verified.exit_code, verified.stdout.split(";")[0]) == (0, "proven: valid, complete")
    assert run("verify", snapshot, plan, "--law", "sticky").exit_code == 1
    value["lag"]["unheard"] = None  # says nothing
    assert run("verify", snapshot, "-", stdin=json.dumps(value)).exit_code == 0
    value["lag"]["bound"] = 899
    refused = run("verify", snapshot, "-", stdin=json.dumps(value))
    assert (refused.exit_code, refused.stdout) == (1, "lag: the plan says bound 899 of its lag, but it is 900\n")


@pytest.mark.parametrize(
    ("capacities", "lag", "words"),
    [
        ((3, 2), [10, 0, 0, 0], "at most 3.33 records per capacity (a), 0.0% above the proven lower bound of 3.33 "),
        ((1, 1), [3, 3, 1, 1, 1, 0], "at most 5 records per capacity (a), 0.0% above the proven lower bound of 5 "),
    ],
)
def test_the_line_about_lag_has_no_more_digits_than_a_person_reads(
    tmp_path: Path, capacities: tuple[int, int], lag: list[int], words: str
) -> None:
    """And its bound is the one that its gap is of: 9 records on two members are 5, not 4.5."""
    members = [{"id": name, "topics": ["t"], "capacity": can} for name, can in zip("ab", capacities, strict=True)]
    (tmp_path / "group.json").write_text(json.dumps({"topics": {"t": len(lag)}, "members": members, "lag": {"t": lag}}))
    assert f"lag: {words}" in run("plan", tmp_path / "group.json", "--strategy", "lag-sticky").stdout


def test_the_line_about_lag_of_a_plan_that_gives_nothing_to_anybody_has_a_bound() -> None:
    nothing = {"largest": 0, "member": "a", "bound": 5, "gap": -1.0, "counts": None, "moves": 0}
    assert lag_line(nothing) == "lag: at most 0 records per capacity (a), -100.0% above the proven lower bound of 5; 0 moved"


def test_what_is_printed_of_one_thing_is_no_plural(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audited = fleet.write(tmp_path, group_report=[fleet.report_row("a")], findings=[fleet.finding(1, "a")])
    assert run("sql", audited, "SELECT * FROM range(101)").stdout.endswith("\n1 more row is not shown; --json prints all\n")
    result = SimpleNamespace(summary=json.loads((audited / "summary.json").read_text()), place=str(audited))
    monkeypatch.setattr(audit_command, "_run", lambda *_, **__: (result, "report.html"))
    shown = run("audit", audited, "--out", tmp_path / "new").stdout
    assert "report   report.html; 1 finding: in the report, or printed with --verbose" in shown


def test_explain_answers_in_a_sentence(snapshot: Path) -> None:
    result = run("explain", snapshot, "t1", 0)
    assert result.exit_code == 0
    assert "m1" in result.stdout
    assert json.loads(run("explain", snapshot, "t1", 0, "--json").stdout)["partition"] == 0


def test_compare_measures_every_strategy(snapshot: Path) -> None:
    rows = json.loads(run("compare", snapshot, "--json").stdout)["comparison"]
    by_name = {row["strategy"]: row for row in rows}
    assert {"range", "roundrobin", "sticky", "cooperative-sticky", "fair", "sticky-first"} <= set(by_name)
    assert (by_name["sticky"]["moved"], by_name["sticky"]["spread"]) == (2, 0)
    assert by_name["sticky-first"]["moved"] == 0
    assert "sticky-first" in run("compare", snapshot).stdout


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
@pytest.mark.parametrize("width", [1, 60, 100])
def test_a_terminal_that_is_too_narrow_loses_no_column_and_no_digit(width: int, terminal: str) -> None:
    """A name of one character may be folded, a number never: half of it would be another number."""
    members = [{"id": "consumer-" + name * 40, "topics": ["t" * 30]} for name in "ab"]
    snapshot = json.dumps({"topics": {"t" * 30: 2468}, "members": members, "lag": {"t" * 30: [7] * 2468}})
    env = {"COLUMNS": str(width), "TERM": terminal, "FORCE_COLOR": "1", "NO_COLOR": "1"}
    result = CliRunner().invoke(app, ["plan", "-", "--compare", "sticky"], input=snapshot, env=env)
    plan, compared = unstyle(result.stdout).split("strategy", 1)
    for member in members:
        assert f"{member['id']}  1234  " in plan
    assert "t" * 12 in plan
    head, row = compared.splitlines()[:2]
    assert head.split()[-3:] == ["unassigned", "balanced", "sticky"]
    assert row.split()[-4:] == ["1", "0", "yes", "yes"]


def test_json_lines_give_one_plan_a_line_and_every_command_takes_them(tmp_path: Path) -> None:
    lines, plans = tmp_path / "groups.jsonl", tmp_path / "plans.jsonl"
    lines.write_text("\n\n".join(json.dumps({**CHAIN, "group": name}) for name in ("east", None)))
    plans.write_text(run("plan", lines, "--json").stdout)
    assert [json.loads(line).get("group") for line in plans.read_text().splitlines()] == ["east", None]
    proof = "proven: valid, complete; no plan is more balanced, and none as balanced keeps more"
    verified = run("verify", lines, plans)
    assert (verified.exit_code, verified.stdout.splitlines()) == (0, [f"east: {proof}", f"group 2: {proof}"])
    assert [json.loads(line) for line in run("verify", lines, plans, "--json").stdout.splitlines()] == [
        {"group": "east", "violations": []},
        {"violations": []},
    ]
    assert run("explain", lines, "t1", 0).stdout.splitlines() == [
        f"{name}: t1-0 stays with m1, which owns it." for name in ("east", "group 2")
    ]
    assert len(run("compare", lines, "--json").stdout.splitlines()) == 2
    good, as_it_is = plans.read_text().splitlines()[0], {member["id"]: member["owned"] for member in CHAIN["members"]}  # type: ignore[index]
    half = run("verify", lines, "-", stdin=f"{good}\n{json.dumps(as_it_is)}\n")
    assert (half.exit_code, half.stdout.splitlines()[1][:18]) == (1, "group 2: balanced:")
    short = run("verify", lines, "-", stdin=good)
    assert (short.exit_code, "1 lines of plans for 2 groups" in short.stderr) == (2, True)
    assert "-: line 2: not JSON: " in run("verify", lines, "-", stdin=f"{good}\nx").stderr


def test_a_name_may_hold_what_ends_a_line_elsewhere(tmp_path: Path) -> None:
    ids = ["a\u2028", "b\u0085", "c"]
    line = json.dumps({"topics": {"t": 3}, "members": [{"id": name, "topics": ["t"]} for name in ids]}, ensure_ascii=False)
    groups, plans = tmp_path / "groups.jsonl", tmp_path / "plans.jsonl"
    groups.write_text(f"{line}\n\n{line}\n", encoding="utf-8")
    planned = run("plan", groups, "--json")
    assert (planned.exit_code, planned.stdout.count("\n")) == (0, 2)
    plans.write_text("".join(f"{json.dumps(json.loads(row), ensure_ascii=False)}\n" for row in planned.stdout.split("\n")[:2]))
    assert run("verify", groups, plans).exit_code == 0
    metadata = "000300000001000174ffffffff00000000ffffffffffff"
    request = {"strategy": "sticky", "topics": {"t": 3}, "members": [{"id": name, "metadata": metadata} for name in ids]}
    answer = run("lead", stdin=json.dumps(request, ensure_ascii=False) + "\n")
    assert (answer.exit_code, list(json.loads(answer.stdout)["assignments"])) == (0, ids)


def test_a_json_plan_lists_its_moves_and_the_numbers_that_prove_it(snapshot: Path) -> None:
    value = json.loads(run("plan", snapshot, "--json").stdout)
    assert value["moves"] == [
        {"topic": "t1", "partition": 9, "from": "m2", "to": "m1"},
        {"topic": "t2", "partition": 4, "from": "m3", "to": "m2"},
    ]
    plan = assign(Group.from_json(json.dumps(CHAIN)), "sticky")
    found, ids = value["certificate"], plan.member_ids
    assert (found["balanced"], found["sticky"]) == (True, True)
    assert [ids.index(found["heaviest"][member]) for member in ids] == plan.certificate.heaviest.tolist()
    assert [found["member_label"][member] for member in ids] == plan.certificate.member_label.tolist()
    assert [found["topic_label"][topic] for topic in ("t1", "t2")] == plan.certificate.topic_label.tolist()


def test_the_mark_that_some_editors_begin_a_file_with_is_no_fault(tmp_path: Path) -> None:
    marked = tmp_path / "group.json"
    marked.write_bytes(b"\xef\xbb\xbf" + json.dumps(CHAIN).encode())
    assert run("explain", marked, "t1", 0).exit_code == 0


def test_the_text_of_kafkas_tool_is_a_snapshot() -> None:
    text = (Path(__file__).parent.parent / "data" / "describe" / "offsets-4.3.1.txt").read_text()
    result = run("plan", "-", "--json", stdin=text)
    assert sorted(json.loads(result.stdout)["loads"].values()) == [1, 1, 2, 2]


def test_lags_that_the_text_of_kafkas_tool_does_not_show_are_one_line_beside_the_plan() -> None:
    text = (Path(__file__).parent.parent / "data" / "describe" / "offsets-4.3.1.txt").read_text()
    line = "the text does not show the lag of 2 partitions; it counts as 0\n"
    assert run("plan", "-", "--json", stdin=text).stderr == f"counterpoise: warning: {line}"
    two = text + text.replace("order-service", "other")
    assert f"counterpoise: warning: other: {line}" in run("plan", "-", "--json", stdin=two).stderr


def test_a_plan_of_an_unknown_protocol_is_one_error_line(snapshot: Path, tmp_path: Path) -> None:
    plan = json.loads(run("plan", snapshot, "--json").stdout)
    for protocol in ("Eager", "foo"):
        (tmp_path / "plan.json").write_text(json.dumps(plan | {"protocol": protocol}))
        result = run("verify", snapshot, tmp_path / "plan.json")
        assert result.stderr.endswith(f"""plan.protocol: expected "eager" or "cooperative", got '{protocol}'\n""")
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_lead_answers_each_line_and_reports_the_bad_one() -> None:
    good = {"strategy": "range", "topics": {"t": 2}, "members": [{"id": "a", "metadata": "000000000001000174ffffffff"}]}
    result = run("lead", stdin=json.dumps(good) + "\n{}\n" + json.dumps(good | {"options": {"members": 1}}))
    first, second, third = map(json.loads, result.stdout.splitlines())
    assert first == {"assignments": {"a": "0003000000010001740000000200000000000000" + "01ffffffff"}}
    assert second["error"].startswith("line 2: request: ")
    assert third["error"].startswith("line 3: strategy 'range' has no option 'members'")
    unknown = run("lead", stdin=json.dumps(good) + "\n" + json.dumps(good | {"topics": {"u": 2}}))
    assert (unknown.exit_code, unknown.stdout.count("\n")) == (0, 2)
    assert unknown.stderr == "counterpoise: line 2: warning: members subscribe to topics that do not exist: t (1 member)\n"
    odd = run("lead", stdin=json.dumps(good | {"x\ny": 1}))
    assert odd.stderr == (
        "counterpoise: line 1: request: Object contains unknown field `x\\u000ay`; its fields are strategy, topics, members, "
        "protocol, options, lag, capacity\n"
    )
    assert result.exit_code == 2


WRONG = [
    ("a file that is not there", ["plan", "no-such.json"], "no-such.json: No such file"),
    ("an unknown strategy", ["plan", "-", "--strategy", "stiky"], "strategy 'stiky' is unknown; there are: "),
    ("an unknown option", ["plan", "-", "--option", "x=1"], "strategy 'sticky' has no option 'x'"),
    ("an option of ours", ["plan", "-", "--option", "protocol=eager"], "strategy 'sticky' has no option 'protocol'"),
    ("an option nested too deep", ["plan", "-", "--option", f"racks={'[' * 100_000}"], "option 'racks'"),
    ("an option without a value", ["plan", "-", "--option", "x"], "--option x: expected NAME=VALUE"),
    ("an unknown strategy to compare with", ["plan", "-", "--compare", "sticky,nope"], "strategy 'nope' is unknown"),
    ("an unknown topic", ["explain", "-", "t9", "0"], "t9"),
    ("a partition beyond the topic", ["explain", "-", "t1", "15"], "15"),
    ("no strategy at all", ["compare", "-", "--strategies", ","], "',' names no strategy; there are: range, "),
    ("no strategy to simulate", ["simulate", "scale-out", "--strategies", ","], "',' names no strategy; there are: range, "),
    ("nothing to export", ["export", "no-such"], "no-such: no such file or folder"),
    ("an empty pattern", ["audit", "x", "--out", "y", "--group", ""], "groups: an empty pattern (an unset variable?)"),
    ("an empty group", ["lag", "--bootstrap-server", "localhost:1", "--group", ""], "--group is empty (an unset variable?)"),
    ("two forms at once", ["export", "x", "--json", "--format", "spark"], "--json with --format spark; give one of them"),
]


@pytest.mark.parametrize(("words", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_wrong_use_is_one_line_and_exit_code_2(words: list[str], message: str) -> None:
    result = run(*words, stdin=json.dumps(CHAIN))
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "x", "--out", ""],
        ["audit", "", "--out", "x"],
        ["capture", "--bootstrap-server", "localhost:1", "--out", ""],
        ["synthesize", "--out="],
        ["sql", "", "SELECT 1"],
        ["simulate", "--audit", "", "--group", "g"],
        ["export", ""],
        ["plan", "-", "--lag-from", ""],
        ["plan", ""],
        ["verify", "-", ""],
        ["lead", ""],
        ["diff", "", "x"],
        ["doctor", "--out", ""],
        ["simulate", "scale-out", "--picture", ""],
        ["capture", "--from-segments", "", "--out", "x"],
        ["capture", "--from-dump", "", "--out", "x"],
        ["export", "x", "--previous", ""],
        ["audit", "x", "--out", "y", "--config", ""],
    ],
    ids=" ".join,
)
def test_an_empty_place_is_wrong_use_and_not_the_working_folder(words: list[str]) -> None:
    result = run(*words)
    assert (result.exit_code, "is empty (an unset variable?)" in result.stderr) == (2, True)


@pytest.mark.parametrize("text", ["Error: Consumer group 'g' does not exist.\n", "\nWarning: Group 'g' is rebalancing.\n"])
def test_what_kafkas_tool_says_instead_of_a_table_is_repeated(text: str) -> None:
    result = run("plan", "-", stdin=text)
    assert result.exit_code == 2
    assert f"no JSON, and no table of kafka-consumer-groups --describe: {text.strip()!r}" in result.stderr


@pytest.mark.parametrize(("column", "line"), [("PARTITION", "g  t  x  1  2  1  c1  h  c"), ("LAG", "g  t  0  1  2  x  c1  h  c")])
def test_a_cell_that_is_no_number_is_named_by_its_column(column: str, line: str) -> None:
    head = "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID"
    assert f"line 2: {column}: 'x' is no whole number" in run("plan", "-", stdin=f"{head}\n{line}\n").stderr


@pytest.mark.parametrize("seconds", ["-1", "0", "1e9", "nan"])
def test_a_time_that_no_request_can_take_is_wrong_use(seconds: str) -> None:
    result = run("lag", "--bootstrap-server", "localhost:1", "--group", "g", "--timeout", seconds)
    assert (result.exit_code, "Invalid value for '--timeout'" in result.stderr) == (2, True)


@pytest.mark.parametrize("seconds", ["nan", "inf"])
def test_a_time_without_end_is_wrong_use(seconds: str) -> None:
    result = run("capture", "--bootstrap-server", "localhost:1", "--out", "x", "--sample-every", seconds)
    assert (result.exit_code, "Invalid value for '--sample-every'" in result.stderr) == (2, True)


def test_what_cannot_be_written_is_one_line_and_exit_code_3(snapshot: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "counterpoise", "plan", snapshot],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (
        3,
        "counterpoise: No space left on device; what was being written is incomplete\n",
    )


@pytest.mark.parametrize("words", [["plan"], ["strategies"], ["--help"], ["--version"]], ids=" ".join)
def test_the_end_of_the_reader_is_141_and_never_that_something_was_found(snapshot: Path, words: list[str]) -> None:
    """Of tables and of the help of all commands, too."""
    reading, writing = os.pipe()
    os.close(reading)
    given = [*words, str(snapshot)] if words == ["plan"] else words
    program = [sys.executable, "-m", "counterpoise", *given]
    ended = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(program, stdout=full, stderr=subprocess.PIPE, check=False).returncode == 3


@pytest.mark.parametrize(("error", "code", "line"), [
    (KeyError("x"), 3, "unexpected error (explain_command.py, line "),
    (InvariantError("contradiction"), 3, "InvariantError: contradiction; please report it with version "),
    (RecursionError("deep\ndeeper"), 3, "RecursionError: deep deeper; please report it"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (BrokenPipeError(), 141, ""),
])  # fmt: skip
def test_what_nobody_expected_is_one_line_and_never_exit_code_1(
    snapshot: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    def counterpoise_fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("counterpoise.cli.app._drop_the_rest", lambda: None)
    monkeypatch.setattr("counterpoise.cli.explain_command.assign", counterpoise_fails)
    result = run("explain", snapshot, "t1", 0)
    assert (result.exit_code, line in result.stderr, len(result.stderr.splitlines())) == (code, True, int(bool(line)))
    if code == 3:
        assert '"counterpoise --debug explain ..." shows the traceback' in result.stderr
        shown = run("--debug", "explain", snapshot, "t1", 0)
        assert (shown.exit_code, "Traceback (most recent call last)" in shown.stderr) == (3, True)
        assert "--debug" not in shown.stderr.splitlines()[-1]


@pytest.mark.parametrize("package", ["numpy", "click"])
def test_a_package_that_cannot_be_imported_is_one_clear_line(package: str) -> None:
    """A damaged installation: Python refuses the package. `--debug` shows where a package of the core was needed."""
    script = f"import sys; sys.modules[{package!r}] = None; from counterpoise.cli import main; main()"

    def ended(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", script, *words], check=False, capture_output=True, text=True, timeout=60)

    shown, debugged = ended("strategies"), ended("--debug", "strategies")
    words = "a package cannot be imported: " if package == "numpy" else "the command line needs click and rich: "
    assert (shown.returncode, shown.stdout, shown.stderr.count("\n")) == (2, "", 1)
    assert shown.stderr.startswith(f"counterpoise: {words}")
    assert ("Traceback" in debugged.stderr) == (package == "numpy")


def test_a_group_leader_answers_each_line_before_the_next_one_is_written() -> None:
    """A process beside it writes a request, and waits for the answer with its end still open."""
    request = {"strategy": "range", "topics": {"t": 2}, "members": [{"id": "a", "metadata": "000000000001000174ffffffff"}]}
    with subprocess.Popen(
        [sys.executable, "-m", "counterpoise", "lead"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        no_answer = Timer(60, process.kill)
        no_answer.start()
        assert process.stdin is not None
        assert process.stdout is not None
        for line in (json.dumps(request), "", "{}", json.dumps(request)):
            process.stdin.write(f"{line}\n")
            if line:
                assert json.loads(process.stdout.readline()).keys() <= {"assignments", "error"}
        process.stdin.close()
        assert process.wait() == 2
        no_answer.cancel()


def test_a_line_that_is_no_text_is_answered_with_an_error(tmp_path: Path) -> None:
    requests = tmp_path / "requests"
    good = {"strategy": "range", "topics": {"t": 2}, "members": [{"id": "a", "metadata": "000000000001000174ffffffff"}]}
    requests.write_bytes(b'{"strategy": "\xff"}\n' + json.dumps(good).encode())
    result = run("lead", requests)
    words = "line 1: request: byte 14 is not UTF-8; save it as UTF-8 text"
    assert (result.exit_code, result.stderr) == (2, f"counterpoise: {words}\n")
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first, second.keys()) == ({"error": words}, {"assignments"})
    assert "No such file" in run("lead", tmp_path / "none").stderr


def test_strategies_are_listed_with_their_options() -> None:
    rows = [json.loads(line) for line in run("strategies", "--json").stdout.splitlines()]
    assert [row["strategy"] for row in rows] == list(strategies())
    by_name = {row["strategy"]: row for row in rows}
    assert by_name["cooperative-sticky"]["protocols"] == ["cooperative", "eager"]
    assert [option["name"] for option in by_name["sticky"]["options"]] == ["racks", "evenness"]
    assert by_name["sticky"]["options"][0]["choices"] == ["after", "before", "ignore"]
    assert all(option["choices"] or option["expected"] for row in rows for option in row["options"])
    shown = run("strategies").stdout
    for row in rows:
        assert row["strategy"] in shown
        assert all(option["name"] in shown for option in row["options"])


def test_subscriptions_to_topics_that_are_not_there_are_one_line_beside_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    path.write_text(json.dumps({"topics": {"t": 1}, "members": [{"id": "a", "topics": ["t", "tt"]}]}))
    result = run("plan", path, "--json")
    assert json.loads(result.stdout)["missing_topics"] == {"tt": 1}
    assert result.stderr == "counterpoise: warning: members subscribe to topics that do not exist: tt (1 member)\n"
    assert result.exit_code == 0


LOGIN = """sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="u" password="hunter2";
sasl.mechanism=PLAIN
security.protocol=SASL_PLAINTEXT
key.deserializer=x
"""


@pytest.mark.parametrize("words", [["lag", "--group", "g"], ["capture", "--out", "OUT"]], ids=["lag", "capture"])
def test_lag_and_capture_read_the_same_properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """Both hand librdkafka what Kafka's own tools would have used."""
    given: list[dict[str, str]] = []

    class NoAdmin:
        def __init__(self, settings: dict[str, str], **_: object) -> None:
            given.append(settings)
            raise ValueError("hunter2 refused")

    monkeypatch.setattr("counterpoise.pipeline.capture.cluster.AdminClient", NoAdmin)
    (tmp_path / "properties").write_text(LOGIN)
    named = [word.replace("OUT", str(tmp_path / "out")) for word in words]
    result = run(*named, "--bootstrap-server", "broker:1", "--command-config", tmp_path / "properties")
    assert (result.exit_code, result.stderr) == (2, "counterpoise: the connection settings do not work: *** refused\n")
    assert (given[0]["sasl.username"], given[0]["sasl.password"]) == ("u", "hunter2")
    assert given[0]["bootstrap.servers"] == "broker:1"
    assert not {"sasl.jaas.config", "key.deserializer"} & given[0].keys()


@pytest.mark.parametrize("text", ["a line without a value", "isolation.level=serializable"])
def test_properties_that_make_no_sense_are_wrong_use(tmp_path: Path, text: str) -> None:
    (tmp_path / "properties").write_text(text)
    result = run("lag", "--bootstrap-server", "a:1", "--group", "g", "--command-config", tmp_path / "properties")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


def test_every_command_has_help_with_an_example() -> None:
    listed = run("--help").stdout
    for name in app.list_commands(None):  # type: ignore[arg-type]
        assert name in listed
        shown = run(name, "--help").stdout
        assert "Example" in shown
        assert f"counterpoise {name}" in shown
        assert "--json " in shown.split("Options:")[1]


def test_lists_that_are_nested_too_deep_to_read_are_one_clear_line(snapshot: Path) -> None:
    deep = "[" * 100_000
    for words in (["plan", "-"], ["verify", snapshot, "-"], ["lead"]):
        result = run(*words, stdin=deep)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


def test_a_synthetic_fleet_prints_its_figures_as_json_and_nothing_else(tmp_path: Path) -> None:
    """The progress bar is for a terminal; there is none here."""
    result = run("synthesize", "--records", 2000, "--groups", 2, "--rebalances", 4, "--out", tmp_path / "fleet", "--json")
    assert json.loads(result.stdout).keys() == {"records", "groups", "rebalances", "out"}
    assert result.stderr == ""


def test_every_command_shows_its_help_without_the_packages_of_the_audit() -> None:
    """A consumer's environment has neither Spark nor PyArrow, and a command is imported when it is called."""
    program = """
import sys
sys.modules.update(dict.fromkeys(("pyarrow", "pyspark", "jinja2", "confluent_kafka", "duckdb"), None))
import click
from counterpoise.cli.app import app
context = click.Context(app)
for name in app.list_commands(context):
    command = app.get_command(context, name)
    print(name, len(command.get_help(click.Context(command))) > 100)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) > 10
    assert all(line.endswith(" True") for line in lines), lines
