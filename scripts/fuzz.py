"""Drive every reader by coverage: ``scripts/fuzz.py [--seconds S] [TARGET]...``; prints how many executions each target took.

One process per target (tests/fuzz/targets.py), from the corpus in tests/fuzz/corpus. Atheris changes it, and keeps what reaches
new code (in out/fuzz). A target ends at the first input that breaks the law, takes longer than ten seconds, or needs over 2 GiB.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "fuzz"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
LIMITS = ("-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0")


def drive(name: str, seconds: int) -> tuple[int, bool]:
    """One target for so long: its executions, and whether the law held in all of them; if not, prints how it was broken."""
    (OUT / name).mkdir(parents=True, exist_ok=True)
    longest = max(file.stat().st_size for file in (CORPUS / name).iterdir())
    words = [
        f"-max_total_time={seconds}",
        f"-max_len={max(2 * longest, 1024)}",
        f"-artifact_prefix={OUT / name}-",
        *LIMITS,
        str(OUT / name),
        str(CORPUS / name),
    ]
    called = [sys.executable, __file__, "--inside", name, *words]
    done = subprocess.run(called, cwd=ROOT, capture_output=True, text=True, check=False)
    runs = re.search(r"stat::number_of_executed_units: *(\d+)", done.stderr)
    holds = done.returncode == 0 and runs is not None
    if not holds:
        print(f"{name}: the law is broken; the input is in {OUT}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return int(runs[1]) if runs else 0, holds


def inside(name: str, words: list[str]) -> None:
    """The process of one target: libFuzzer's own loop, which never returns."""
    import atheris  # beside the environment, for this script alone

    with atheris.instrument_imports(include=["counterpoise"]):
        from tests.fuzz.targets import read, seeds

        for seed in seeds(name):  # what is imported on first use must not count as the time of an input
            read(name, seed)

    def once(data: bytes) -> None:
        read(name, data)

    atheris.Setup([sys.argv[0], *words], once)
    atheris.Fuzz()


def main() -> None:
    """All targets, or those named, one after the other; exit 1 if one of them broke the law."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("names", nargs="*", metavar="TARGET")
    given = parser.parse_args()
    total, all_hold = 0, True
    for name in given.names or sorted(folder.name for folder in CORPUS.iterdir()):
        runs, holds = drive(name, given.seconds)
        total, all_hold = total + runs, all_hold and holds
        print(f"{name:20} {runs:>12,} executions", flush=True)
    print(f"{'in all':20} {total:>12,} executions")
    sys.exit(not all_hold)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT)]
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2], sys.argv[3:])
    else:
        main()
