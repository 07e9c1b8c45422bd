"""Figures as Markdown tables: for the terminal and for docs/benchmarks-tables.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.figures import WARM_UP, Figures, Line, missed
from benchmarks.grid import CASES, SWEEP
from benchmarks.peers import PEERS

__all__ = ["details", "promises", "summary", "sweep", "table", "tables", "time_text"]

_RATIOS = ("java-sticky", "java-cooperative", "broker-uniform", "franz-go", "kafka-python", "aiokafka")


def details(lines: Iterable[Line]) -> str:
    """One row per line and peer."""
    head = [
        "case",
        "scenario",
        "peer",
        "kernel ms",
        "cpu ms",
        "first run",
        "as ours",
        "leader ms",
        "as ours",
        "moves",
        "spread",
        "optimal",
        "peak MB",
    ]
    rows = [
        [
            line.title if peer == "counterpoise" else "",
            line.scenario if peer == "counterpoise" else "",
            *_cells(line, peer, figures),
        ]
        for line in lines
        for peer, figures in line.peers.items()
    ]
    return table(head, rows)


def _cells(line: Line, peer: str, figures: Figures) -> list[str]:
    if figures.error:
        return [PEERS[peer].title, f"failed: {figures.error[:80]}", *[""] * 9]
    return [
        PEERS[peer].title,
        time_text(figures.time("kernel")),
        time_text(figures.time("kernel", cpu=True)),
        time_text((figures.first_ms, False) if figures.first_ms is not None else None),
        "" if peer == "counterpoise" else _ratio(line.ratio("kernel", peer)),
        time_text(figures.time("leader")),
        "" if peer == "counterpoise" else _ratio(line.ratio("leader", peer)),
        _count(figures.moves),
        _count(figures.spread),
        "" if figures.optimal is None else ("yes" if figures.optimal else "no"),
        "" if figures.peak_mb is None else f"{figures.peak_mb:,.0f}",
    ]


def summary(lines: Iterable[Line], *, cpu: bool = False) -> str:
    """One row per line: our times, and how many times as long each peer takes; starred where its plan is not optimal."""
    head = [
        "case",
        "scenario",
        "ours, ms",
        *(PEERS[peer].title for peer in _RATIOS),
        "ours, leader ms",
        "Java sticky, leader",
        "moves: ours",
        "Java",
    ]
    rows = []
    for line in lines:
        ours, java = line.peers["counterpoise"], line.peers.get("java-sticky", Figures())
        rows.append(
            [
                line.title,
                line.scenario,
                time_text(ours.time("kernel", cpu=cpu)),
                *(_starred(line, peer, cpu=cpu) for peer in _RATIOS),
                time_text(ours.time("leader", cpu=cpu)),
                _ratio(line.ratio("leader", "java-sticky", cpu=cpu)),
                _count(ours.moves),
                _count(java.moves),
            ]
        )
    return table(head, rows)


def _starred(line: Line, peer: str, *, cpu: bool) -> str:
    not_optimal = line.peers.get(peer, Figures()).optimal is False
    ratio = _ratio(line.ratio("kernel", peer, cpu=cpu))
    return f"{ratio} *" if ratio and not_optimal else ratio


def promises(lines: Iterable[Line]) -> str:
    """Which lines keep what is promised, and which do not."""
    rows = [[line.title, line.scenario, *(_verdict(line, cpu=cpu) for cpu in (False, True))] for line in lines]
    return table(["case", "scenario", "promise, by wall clock", "by CPU time"], rows)


def _verdict(line: Line, *, cpu: bool) -> str:
    return "; ".join(missed((CASES | SWEEP)[line.case], line, cpu=cpu)) or "kept"


def sweep(lines: Iterable[Line]) -> str:
    """One row per size, scenario and peer: how cost grows."""
    head = ["partitions", "scenario", "peer", "kernel ms", "ns per partition", "leader ms", "peak MB"]
    rows = []
    for line in lines:
        for peer, figures in line.peers.items():
            kernel = figures.time("kernel")
            each = "" if kernel is None else f"{'> ' if kernel[1] else ''}{kernel[0] * 1e6 / line.partitions:,.0f}"
            peak = "" if figures.peak_mb is None else f"{figures.peak_mb:,.0f}"
            leader = time_text(figures.time("leader"))
            rows.append([f"{line.partitions:,}", line.scenario, PEERS[peer].title, time_text(kernel), each, leader, peak])
    return table(head, rows)


def tables(machine: dict[str, Any], lines: Sequence[Line]) -> str:
    """docs/benchmarks-tables.md, whole."""
    grid = [line for line in lines if line.case in CASES]
    sizes = [line for line in lines if line.case in SWEEP]
    parts = [_INTRODUCTION.format(warm_up=WARM_UP, **machine)]
    if grid:
        parts += [
            "## Times as long as ours: wall clock\n\nA star: the peer's plan is not optimal.\n\n" + summary(grid),
            "## Promises\n\n" + promises(grid),
        ]
        parts += ["## Times as long as ours: CPU time of the calling thread\n\n" + summary(grid, cpu=True)]
        parts += ["## Every figure\n\n" + details(grid)]
    if sizes:
        parts += [
            "## Growth with size\n\n500 topics, equal subscriptions, as many members as partitions per topic.\n\n" + sweep(sizes)
        ]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """\
# Benchmarks: all tables

Written by `python -m benchmarks.assignors --page docs/benchmarks.md`; [benchmarks.md](benchmarks.md) is the short page and says
which revision was measured.

- Machine: {cpu}, {cores} cores, {memory_gb} GB; load average while running {load[0]} to {load[1]}.
  Other work shares its cores: trust ratios, not milliseconds. Such work stretches a long call more than a short one, so
  ratios of CPU time stand beside those of the wall clock. CPU time is that of the calling thread: a JVM's
  compiler and collector threads are not in it, and of a call that was stopped none is known.
- Versions: {versions}.
- Protocol: {seconds} s or {runs} runs per peer and surface, whichever ends first, and at least three runs; {rounds} round(s);
  each peer in a process of its own, one straight after another on each line. The first {warm_up} runs are warm-up (of fewer than
  {twice}, the first half); the median of the others counts. A peer is stopped {cap} s after its kernel or leader began: "> 30 s"
  is a lower bound, and so is a ratio with ">"; what bounds the kernel bounds the leader. *first run* is the cold one: what a
  leader sees that has just started. A JVM gets faster for hundreds of runs on the smallest groups; no leader plans
  that often.
- *kernel*: integers or objects in and out. *leader*: the members' JoinGroup bytes in, assignment bytes out. Java's sticky
  and franz-go parse the claims inside the kernel; the broker's assignor has no leader. kafka-python and aiokafka run on
  two of the small cases only (minutes elsewhere).
- Scenarios: *fresh*, nobody owns anything; *leaves*, one member has left; *joins*, one has come; *churn*, a tenth has left and
  another tenth has come. The history is an optimal plan for the members who were there before, the same for every peer.
- *moves*: partitions taken from a member who is still there. *optimal*: our plan's balance and stickiness are proven by its
  certificate; a peer's plan is optimal when its loads and moves are the same. Java's cooperative-sticky is measured by
  its second round.
- *peak MB*: what the first run needs above the input. Python and Go: resident memory, with the modules that are loaded on
  first use; JVM: heap, garbage included."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table."""
    width = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * w for w in width], *rows]
    return "\n".join("| " + " | ".join(cell.ljust(w) for cell, w in zip(row, width, strict=True)) + " |" for row in lines)


def time_text(time: tuple[float, bool] | None) -> str:
    """Milliseconds, or the seconds after which a peer was stopped."""
    if time is None:
        return ""
    ms, at_least = time
    if at_least:
        return f"> {ms / 1000:.0f} s"
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def _ratio(ratio: tuple[float, bool] | None) -> str:
    if ratio is None:
        return ""
    times, at_least = ratio
    return f"{'> ' if at_least else ''}{times:,.0f}x" if times >= 10 else f"{'> ' if at_least else ''}{times:.1f}x"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
