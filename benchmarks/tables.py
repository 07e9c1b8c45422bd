"""Figures as Markdown tables for the terminal, and as CSV (docs/benchmarks.csv)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from benchmarks.figures import Figures, Line, missed
from benchmarks.grid import CASES, SWEEP
from benchmarks.peers import PEERS

__all__ = ["data", "details", "promises", "summary", "sweep", "table", "time_text"]

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


def data(lines: Iterable[Line]) -> str:
    """docs/benchmarks.csv, whole: one row per line and peer; an empty field is unknown."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            *("case", "scenario", "partitions", "peer", "kernel_ms", "kernel_cpu_ms", "kernel_is_lower_bound", "first_run_ms"),
            *("leader_ms", "leader_cpu_ms", "leader_is_lower_bound", "moves", "spread", "optimal", "peak_mb", "error"),
        ]
    )
    for line in lines:
        for peer, each in line.peers.items():
            kernel, leader = each.time("kernel") or (None, None), each.time("leader") or (None, None)
            writer.writerow(
                [
                    *(line.title, line.scenario, line.partitions, PEERS[peer].title),
                    *(_number(kernel[0]), _number(each.kernel_cpu_ms), kernel[1], _number(each.first_ms)),
                    *(_number(leader[0]), _number(each.leader_cpu_ms), leader[1]),
                    *(each.moves, each.spread, each.optimal, _number(each.peak_mb), each.error),
                ]
            )
    return text.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}"


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
