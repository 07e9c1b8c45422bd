"""What an S3-compatible server on the loopback (moto) costs: a capture read and written, beside the same on the local disk.

    python -m benchmarks.object_store [--records 2000000] [--rounds 3] [--audits 1] [--folder DIR]

One process reads all records with the reader of the audit's tasks and writes them again with the writer of its tables, in turns
on the disk and on the server; then requests without content. CPU time is told apart: of the process, and of the server. The
server is a test double in Python: its figures say what is to be taken off those of an audit that uses it, and nothing of a real
store.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pyarrow.fs as pafs

from benchmarks.audit_scale import ROOT, SETTINGS, made
from benchmarks.process_watch import Watch
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.session import local_session
from counterpoise.pipeline.source.capture import read_capture
from counterpoise.pipeline.source.parquet_rows import RAW_TYPES, read_rows
from counterpoise.pipeline.storage.files import delete, join, list_files, parquet_writer, upload, write_bytes

ROWS = 1 << 17
REQUESTS = 200


@contextmanager
def server() -> Iterator[int]:
    """moto on a free port, in the environment; yields its process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    os.environ.update(keys)
    program = "import logging; logging.disable(); from moto.server import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "-p", port], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            while True:
                with socket.socket() as asked:
                    if not asked.connect_ex(("127.0.0.1", int(port))):
                        break
                time.sleep(0.1)
            pafs.S3FileSystem(endpoint_override=keys["AWS_ENDPOINT_URL"], allow_bucket_creation=True).create_dir("bench")
            yield running.pid
        finally:
            running.terminate()


def cpu_of(pid: int) -> float:
    """CPU seconds of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(act: Callable[[], int], server_pid: int) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds of this process and of the server."""
    before = time.perf_counter(), time.process_time(), cpu_of(server_pid)
    act()
    after = time.perf_counter(), time.process_time(), cpu_of(server_pid)
    return tuple(late - early for early, late in zip(before, after, strict=True))  # type: ignore[return-value]


def read(capture: str) -> int:
    """All records of a capture; how many."""
    files = read_capture(capture).files
    return sum(batch.num_rows for file in files.records for batch in read_rows(file, RAW_TYPES, ROWS))


def copy(capture: str, to: str) -> int:
    """The records once more, as one file."""
    files = read_capture(capture).files
    rows = 0
    first = next(read_rows(files.records[0], RAW_TYPES, ROWS))
    with parquet_writer(to, first.schema) as writer:
        for file in files.records:
            for batch in read_rows(file, RAW_TYPES, ROWS):
                writer.write_batch(batch)
                rows += batch.num_rows
    return rows


def requests(root: str) -> int:
    """Small files put, listed and deleted."""
    names = [join(root, "small", f"{at:03d}") for at in range(REQUESTS)]
    for name in names:
        write_bytes(name, b"x")
    listed = list_files(join(root, "small"))
    for name in names:
        delete(name)
    return len(listed)


def audited(source: str, out: str) -> dict[str, float]:
    """A whole audit in this process: wall seconds, and CPU seconds of the JVM and of all Python processes."""
    watch = Watch()
    spark, _ = local_session(SETTINGS, records=read_capture(source).n_records)
    before = time.perf_counter(), watch.cpu()
    audit(spark, source, out)
    wall, cpu = time.perf_counter() - before[0], watch.cpu()
    found = {"wall": wall, "cpu": sum(cpu[kind] - before[1][kind] for kind in cpu)}
    spark.stop()
    watch.stop()
    return found


def audits(local: str, folder: Path, pid: int, rounds: int) -> None:
    """Audits from and to the disk and the server, each in a process of its own, in turns."""
    sides = {
        "audit, disk to disk": (local, str(folder / "audited")),
        "audit, server to disk": ("s3://bench/capture", str(folder / "audited")),
        "audit, server to server": ("s3://bench/capture", "s3://bench/audited"),
    }
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in sides}
    for number in range(rounds):
        for name, (source, out) in sides.items():
            place, before = f"{out}-{number}", cpu_of(pid)
            words = [sys.executable, "-m", "benchmarks.object_store", "--audit", source, place]
            told = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
            one = json.loads(told.splitlines()[-1])
            found[name].append((one["wall"], one["cpu"], cpu_of(pid) - before))
            shutil.rmtree(place, ignore_errors=True)
    show(found)


def show(found: Mapping[str, Sequence[tuple[float, ...]]]) -> None:
    """Lines of a table in Markdown: medians."""
    for name, rounds in found.items():
        wall, mine, servers = (median(one[at] for one in rounds) for at in range(3))
        print(f"| {name} | {wall:.2f} | {mine:.2f} | {servers:.2f} |", flush=True)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "scale")
    parser.add_argument("--audits", type=int, default=0, help="So many audits of each kind, too.")
    parser.add_argument("--audit", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.audit is not None:
        print(json.dumps(audited(*given.audit)))
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    local = made(given.records, given.folder)
    with server() as pid:
        store = "s3://bench/capture"
        for file in sorted(local.rglob("*")):
            with file.open("rb") as opened:
                upload(join(store, *file.relative_to(local).parts), opened)
        out = given.folder / "copied"
        acts: dict[str, Callable[[], int]] = {
            "read, disk": lambda: read(str(local)),
            "read, server": lambda: read(store),
            "read from the disk and written, disk": lambda: copy(str(local), str(out / "a.parquet")),
            "read from the disk and written, server": lambda: copy(str(local), "s3://bench/copied/a.parquet"),
            f"{REQUESTS} files put and deleted, one listing, disk": lambda: requests(str(out)),
            f"{REQUESTS} files put and deleted, one listing, server": lambda: requests("s3://bench"),
        }
        print(f"| {given.records:,} records | wall s | CPU s | of the server |\n|---|---|---|---|")
        rounds = [{name: timed(act, pid) for name, act in acts.items()} for _ in range(given.rounds)]
        show({name: [one[name] for one in rounds] for name in acts})
        shutil.rmtree(out)
        audits(str(local), given.folder, pid, given.audits)


if __name__ == "__main__":
    main()
