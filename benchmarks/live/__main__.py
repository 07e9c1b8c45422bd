"""What a consumer feels of a rebalance, per client library and strategy, on a real broker.

    python -m benchmarks.live [--lines TEXT ...] [--phases TEXT ...] [--side-by-side N] [--capture DIR]
        [--json FILE]
    python -m benchmarks.live --from benchmarks/results/live.json --page docs/benchmarks-live.md    # the table again

Each line is a group of three to six processes with their library's default settings (but a session of 10 s, so that a crash
ends soon). It reads 12 partitions at 200 records a second. Counted is the time in which a partition got no record (gaps above
0.25 s), in partition-seconds: in all, and on partitions that stayed with one member through the change.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.java import java_home
from tests.kafka_broker import Broker

from benchmarks.live.figures import Stopped
from benchmarks.live.scenario import LINES, Line, Outcome, Phase, run

__all__ = ["in_page", "main", "merged", "read", "table"]

BEGIN, END = "<!-- live:begin -->", "<!-- live:end -->"


def main() -> int:
    """Measure, or read; print the table."""
    parser = argparse.ArgumentParser(description="Partition-seconds without a record, per client library and strategy.")
    parser.add_argument(
        "--lines", nargs="*", default=[""], help="only lines whose library and strategy contain one of these texts"
    )
    parser.add_argument("--phases", nargs="*", help="only these phases")
    parser.add_argument("--side-by-side", type=int, default=2, help="lines measured at the same time (default 2)")
    parser.add_argument("--capture", type=Path, help="record the groups' history there, for an audit of what was measured")
    parser.add_argument("--json", type=Path, help="write the outcomes there")
    parser.add_argument(
        "--from", type=Path, nargs="*", dest="files", help="read outcomes instead of measuring; a later file wins"
    )
    parser.add_argument("--page", type=Path, help="write the table into this page, between its two marks")
    given = parser.parse_args()
    if given.files:
        outcomes = merged([each for path in given.files for each in read(path)])
    else:
        wanted = [each for each in LINES if any(text in f"{each.library} {each.strategy}" for text in given.lines)]
        outcomes = _measured(wanted, frozenset(given.phases) if given.phases else None, given.side_by_side, given.capture)
    if given.json:
        given.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n", encoding="utf-8")
    print(table(outcomes))
    if given.page:
        text = given.page.read_text(encoding="utf-8")
        given.page.write_text(in_page(text, outcomes), encoding="utf-8")
    return 0


def merged(outcomes: list[Outcome]) -> list[Outcome]:
    """Several runs as one: each phase with the least that stood still, as a busy machine only adds; the worst of each count."""
    found: dict[tuple[str, str], Outcome] = {}
    for each in outcomes:
        before = found.setdefault((each.line.library, each.line.strategy), each)
        phases = {phase.name: phase for phase in before.phases}
        for phase in each.phases:
            best = phases.get(phase.name, phase)
            phases[phase.name] = min(best, phase, key=lambda one: one.stopped.all)
        books = (max(getattr(one, name) for one in (before, each)) for name in ("duplicates", "rewinds", "skipped"))
        found[each.line.library, each.line.strategy] = Outcome(each.line, tuple(phases.values()), *books)
    return list(found.values())


def in_page(text: str, outcomes: list[Outcome]) -> str:
    """The page with the table of these outcomes between its marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(outcomes)}\n{END}{rest.split(END)[1]}"


def _measured(lines: list[Line], phases: frozenset[str] | None, side_by_side: int, capture: Path | None) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as scratch:
        broker = Broker(Path(scratch), Path(java_home()) / "bin" / "java")
        broker.start()
        try:
            with ThreadPoolExecutor(side_by_side) as pool:
                running = [pool.submit(run, line, broker, Path(scratch) / str(at), phases) for at, line in enumerate(lines)]
                outcomes = []
                for line, each in zip(lines, running, strict=True):
                    outcomes.append(each.result())
                    print(f"{line.library}, {line.strategy}: done", file=sys.stderr, flush=True)
                if capture:
                    command = ("capture", "--bootstrap-server", broker.bootstrap, "--out", str(capture))
                    subprocess.run([sys.executable, "-m", "counterpoise", *command], check=True)
                return outcomes
        finally:
            broker.stop()


def read(path: Path) -> list[Outcome]:
    """The outcomes of a file that `--json` has written."""
    return [
        Outcome(
            Line(**each["line"]),
            tuple(Phase(phase["name"], Stopped(**phase["stopped"])) for phase in each["phases"]),
            *(each[name] for name in ("duplicates", "rewinds", "skipped")),
        )
        for each in json.loads(path.read_text(encoding="utf-8"))
    ]


def table(outcomes: list[Outcome]) -> str:
    """The outcomes as Markdown: per phase `all / kept` in partition-seconds, then the longest gap and the books."""
    names = list(dict.fromkeys(phase.name for each in outcomes for phase in each.phases))
    head = ["library", "strategy", *names, "longest gap", "duplicates", "rewinds", "skipped"]
    rows = [head, ["---"] * len(head)]
    for each in outcomes:
        found = {phase.name: phase.stopped for phase in each.phases}
        cells = [f"{found[name].all:.1f} / {found[name].kept:.1f}" if name in found else "" for name in names]
        longest = max(stopped.longest for name, stopped in found.items() if name != "crash") if set(found) - {"crash"} else 0.0
        strategy = f"**{each.line.strategy}**" if each.line.ours else each.line.strategy
        rows.append(
            [each.line.library, strategy, *cells, f"{longest:.1f} s", *map(str, (each.duplicates, each.rewinds, each.skipped))]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
