"""The page docs/benchmarks.md: what a reader wants to know, from the figures of the runs; benchmarks.csv has all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.figures import WARM_UP, Line, missed
from benchmarks.grid import CASES, SCENARIOS
from benchmarks.peers import PEERS
from benchmarks.tables import table, time_text

__all__ = ["page"]

_PEERS = ("java-sticky", "broker-uniform", "franz-go")


def page(machine: dict[str, Any], lines: Sequence[Line]) -> str:
    """docs/benchmarks.md, whole."""
    grid = [line for line in lines if line.case in CASES]
    broken = [(line, words) for line in grid for words in missed(CASES[line.case], line)]
    kept = f"{len(grid) - len({(line.case, line.scenario) for line, _ in broken})} of {len(grid)} lines keep all promises."
    parts = [_INTRODUCTION, "## Times\n\n" + _TIMES + "\n\n" + _overview(grid), "## Promises\n\n" + _PROMISES + "\n" + kept]
    if broken:
        parts[-1] += "\n\n" + table(
            ["case", "scenario", "missed"], [[line.title, line.scenario, words] for line, words in broken]
        )
    parts.append("## How it is measured\n\n" + _METHOD.format(warm_up=WARM_UP, **machine))
    return "\n\n".join(parts) + "\n"


def _overview(lines: Sequence[Line]) -> str:
    """A row per case: our time in each scenario, and the lowest ratio of each peer over the scenarios."""
    rows = []
    for case in dict.fromkeys(line.case for line in lines):
        mine = {line.scenario: line for line in lines if line.case == case}
        ours = [time_text(mine[each].peers["counterpoise"].time("kernel")) if each in mine else "" for each in SCENARIOS]
        rows.append([next(iter(mine.values())).title, *ours, *(_lowest(mine.values(), peer) for peer in _PEERS)])
    return table(["topics x partitions x members", *SCENARIOS, *(PEERS[peer].title for peer in _PEERS)], rows)


def _lowest(lines: Any, peer: str) -> str:
    known = [ratio for line in lines if (ratio := line.ratio("kernel", peer)) is not None]
    if not known:
        return ""
    least, at_least = min(known)
    return ("> " if at_least else "") + (f"{least:,.0f}x" if least >= 10 else f"{least:.1f}x")


_INTRODUCTION = """\
# Benchmarks

How long does a plan take, compared with the assignors that groups use today? On a virtual machine `sticky` plans groups of up
to 500 members in at most 4 ms, a million partitions in 1.5 to 53 ms and ten million in 26 to 88 ms. That is at least 15
times faster than Kafka's sticky assignor, and every plan is proven optimal. [benchmarks.csv](benchmarks.csv) has every figure:
wall clock and CPU time, cold starts, whole leaders, moves, memory, growth with size."""

_TIMES = """\
Milliseconds of our kernel (integers in, owners out) in four scenarios: no partition is owned (*fresh*), one member has left,
one has joined, a tenth has left and another tenth has joined (*churn*). A peer's column says how many times as long it takes
in the scenario that suits it best. The broker's uniform assignor and franz-go do not promise optimal plans, and not all of
theirs are. *Random*: a member subscribes to each topic with probability 1/2. *Nested*: member i subscribes to topics 0 to i.
*Chain*: each member shares one topic with the next. These last two are made to be hard."""

_PROMISES = """\
- At least 10 times faster than Kafka's sticky assignor; 30 times on one topic, four sets and a million partitions. With a
  million partitions the leader (JoinGroup bytes in, assignment bytes out) is also twice as fast as Java's, in at most 300 MB.
- Faster than the broker's uniform assignor and than franz-go, except on the chain. There both are several times faster than
  `sticky`: our augmenting paths get long, so the maximum flow takes many phases.
"""

_METHOD = """\
- Machine: {cpu}, {cores} cores, {memory_gb} GB; load average {load[0]} to {load[1]}. It is a virtual machine:
  trust ratios, not milliseconds.
- Versions: {versions}.
- Each peer runs in a process of its own, one straight after another on each line: {seconds} s or {runs} runs, at least three.
  The first {warm_up} runs are warm-up (of fewer than {twice}, the first half); the median of the others counts. *First run*
  is the cold one. A peer calls its garbage collector before this run, and before no other.
- A peer is stopped {cap} s after its kernel or leader began. Its ratio is then a lower bound (>).
- The history is an optimal plan for the members who were there before, the same for every peer.
- *Leader*: JoinGroup bytes in, assignment bytes out. Java's sticky and franz-go parse the claims inside the kernel; the
  broker's assignor has no leader. kafka-python and aiokafka run on two of the small cases only (minutes elsewhere).
- CPU time is that of the calling thread, without a JVM's compiler and collector.
- *Optimal*: our plan is proven by its certificate, a peer's if its loads and moves are the same. *Peak*: memory of the first
  run above the input.
- Growth with size, in the table of all figures, was measured earlier, on another machine.
- `make bench-full` measures everything again (an hour); `benchmarks/results/*.json` are the figures of the runs above."""
