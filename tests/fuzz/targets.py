"""Every reader of text or bytes that somebody else wrote, as a function of bytes; each gives a value or a `CounterpoiseError`."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.assignors.registry import check_options
from counterpoise.cli.inputs import read_groups, read_options
from counterpoise.cli.lead_command import read_request, write_answer
from counterpoise.errors import CounterpoiseError
from counterpoise.laws import verify
from counterpoise.pipeline.capture.backup.dump_folder import DumpCounts, rows_of
from counterpoise.pipeline.capture.backup.dump_text import is_dump
from counterpoise.pipeline.capture.backup.log_batches import LogBatch, records
from counterpoise.pipeline.capture.backup.segments import SegmentCounts, read_partition
from counterpoise.pipeline.capture.columns import in_batches
from counterpoise.pipeline.capture.settings import Settings, read_properties
from counterpoise.pipeline.export import export_written, read_offsets, read_previous
from counterpoise.pipeline.fold.new_samples import NewSamples
from counterpoise.pipeline.incremental.positions import first_record
from counterpoise.pipeline.source.capture import read_capture
from counterpoise.pipeline.source.parquet_rows import RAW_TYPES, read_rows
from counterpoise.planning.lead import lead
from counterpoise.simulation.scenario_file import load
from counterpoise.snapshot import Group
from counterpoise.snapshot.describe import parts_and_unknown_lags
from counterpoise.snapshot.json_text import text_of
from counterpoise.snapshot.written import read_plan
from counterpoise.wire.consumer_protocol import decode_assignment, decode_subscription
from counterpoise.wire.join_metadata import decode_group
from counterpoise.wire.offsets_topic.records import decode_record
from counterpoise.wire.user_data import claims
from tests.wire.test_batch import assert_equals_row_wise, decode
from tests.wire.test_group import INDEX, assert_equals_member_by_member

__all__ = ["CORPUS", "TARGETS", "read", "seeds"]

CORPUS = Path(__file__).parent / "corpus"
SCRATCH = Path(tempfile.mkdtemp(prefix="counterpoise-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
GROUP = Group.from_json(
    '{"topics":{"t":3,"u":2},"members":[{"id":"a","topics":["t"],"owned":{"t":[0]},"generation":1},{"id":"b","topics":["t","u"]}],'
    '"lag":{"t":[5,0,9]}}'
)
FEW = 10_000
"""A plan is made of groups with no more partitions: a count is no size of the input, and has a limit of its own."""


def read(name: str, data: bytes) -> object:
    """What a target makes of the bytes: its value, or the error; anything else goes through."""
    try:
        return TARGETS[name](data)
    except CounterpoiseError as error:
        message = str(error)
        assert ": " in message, f"names no place: {message}"
        assert len(message) < 2_000, f"{len(message)} characters: {message[:200]}"
        return error


def seeds(name: str) -> list[bytes]:
    """The committed corpus of a target."""
    found = [file.read_bytes() for file in sorted((CORPUS / name).iterdir())]
    assert found, name
    return found


def _file(data: bytes, name: str = "input") -> Path:
    file = SCRATCH / name
    file.write_bytes(data)
    return file


def _snapshot(data: bytes) -> object:
    group = Group.from_json(data)
    assert Group.from_json(group.to_json()) == group
    if sum(known.partitions for known in group.topics.values()) <= FEW:
        group.problem()
    return group


def _plan(data: bytes) -> object:
    return verify(GROUP, read_plan(data))


def _request(data: bytes) -> object:
    asked = read_request(data)
    counts = asked.topics.values() if isinstance(asked.topics, Mapping) else ()
    sizes = [count.get("partitions") if isinstance(count, Mapping) else count for count in counts]
    if sum(size for size in sizes if isinstance(size, int)) > FEW:
        return None
    options = check_options(asked.strategy, asked.options)
    lag, weights, protocol = asked.lag, asked.capacity, asked.protocol
    return write_answer(
        lead(asked.strategy, asked.topics, asked.members, protocol=protocol, lag=lag, capacity=weights, **options)
    )


def _dump(data: bytes) -> object:
    file = _file(data, "dump.txt")
    return list(in_batches(rows_of(file, DumpCounts()))) if is_dump(file) else None


def _ends_arrow(data: bytes) -> bool:
    """Whether size statistics contradict a column: read by its footer alone, such a file ends the process within Arrow."""
    refusals = []
    with contextlib.suppress(pa.ArrowException, OSError, UnicodeDecodeError):
        file = pq.ParquetFile(pa.BufferReader(data))
        for group in range(file.num_row_groups):
            for column in range(len(file.schema.names)):
                try:  # in batches: read_row_group allocates as many rows as the footer says
                    list(file.reader.iter_batches(1_000, row_groups=[group], column_indices=[column], use_threads=False))
                except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                    refusals.append(str(error))
    return any("histogram size mismatch" in refusal or "nencoded byte array data bytes" in refusal for refusal in refusals)


def _capture(name: str) -> Callable[[bytes], object]:
    """A capture folder in which one file is of these bytes; the others are those of the corpus."""
    whole = {
        "consumer_offsets.parquet": "capture-records",
        "topics.json": "capture-topics",
        "aborted_offsets.json": "capture-aborted",
        "log_offsets.parquet": "capture-ends",
    }
    folder = SCRATCH / name
    folder.mkdir()
    for file, target in whole.items():
        (folder / file).write_bytes((CORPUS / target / "whole.bin").read_bytes())

    def read_folder(data: bytes) -> object:
        if name.endswith(".parquet") and _ends_arrow(data):
            return None
        (folder / name).write_bytes(data)
        files = read_capture(folder).files
        rows = sum(batch.num_rows for batch in read_rows(files.records[0], RAW_TYPES, 1_000))
        return rows, NewSamples(files.ends).counts, first_record(files)

    return read_folder


def _segment(data: bytes) -> object:
    folder = SCRATCH / "__consumer_offsets-0"
    folder.mkdir(exist_ok=True)
    (folder / f"{0:020d}.log").write_bytes(data)
    return list(in_batches(read_partition(folder, 0, SegmentCounts())))


def _batch(data: bytes) -> object:
    """The records of one batch: attributes (1 byte), twice its base offset (8), time (8), count (2), payload."""
    head, payload = data[:19].ljust(19, b"\0"), data[19:]
    base, time, count = int.from_bytes(head[1:9]), int.from_bytes(head[9:17], signed=True), int.from_bytes(head[17:19])
    append_time, transactional, control = (bool(head[0] & bit) for bit in (0x08, 0x10, 0x20))
    batch = LogBatch(base >> 1, head[0] & 0x07, append_time, transactional, control, time, time, -1, count, payload)
    return list(in_batches((0, offset, time, 0, key, value) for offset, time, key, value in records(batch)))


def _record(data: bytes) -> object:
    """Rows of a key and a value, each behind its length in one byte (255: null); one by one and all at once."""
    parts: list[bytes | None] = []
    while data:
        size = data[0]
        parts.append(None if size == 255 else data[1 : 1 + size])
        data = data[1:] if size == 255 else data[1 + size :]
    rows = list(zip(parts[::2], parts[1::2], strict=False))
    batch, keys, values = decode(rows)
    assert_equals_row_wise(rows, batch, keys, values)
    return [decode_record(*row) for row in rows]


def _metadata(data: bytes) -> object:
    """Subscriptions, each behind its length in one byte; one by one and all at once."""
    parts: list[bytes] = []
    while data:
        parts.append(data[1 : 1 + data[0]])
        data = data[1 + data[0] :]
    for kind in ("eager", "cooperative"):
        assert_equals_member_by_member(parts, decode_group(parts, INDEX, kind), kind)
    return parts


def _subscription(data: bytes) -> object:
    found = decode_subscription(data)
    return [claims(found, kind) for kind in ("eager", "cooperative")]


TARGETS: dict[str, Callable[[bytes], object]] = {
    "snapshot": _snapshot,
    "groups": lambda data: list(read_groups(text_of(lambda: data, "groups"))),
    "plan": _plan,
    "request": _request,
    "scenario-toml": lambda data: load(str(_file(data, "s.toml"))),
    "scenario-json": lambda data: load(str(_file(data, "s.json"))),
    "describe": lambda data: [Group(**parts) for parts, _ in parts_and_unknown_lags(text_of(lambda: data, "describe"))],
    "options": lambda data: read_options([f"tolerance={text_of(lambda: data, 'option')}"], "lag-sticky"),
    "exported-offsets": lambda data: read_offsets([_file(data)]),
    "exported-previous": lambda data: read_previous(_file(data)),
    "exported-plan": lambda data: export_written(_file(data), previous={"a": {"t": [0]}}, reached={"t": {0: 5}}),
    "properties": lambda data: repr(Settings({"bootstrap.servers": "b:1", **read_properties(_file(data))})),
    "dump": _dump,
    "capture-records": _capture("consumer_offsets.parquet"),
    "capture-topics": _capture("topics.json"),
    "capture-aborted": _capture("aborted_offsets.json"),
    "capture-ends": _capture("log_offsets.parquet"),
    "segment": _segment,
    "batch": _batch,
    "record": _record,
    "metadata": _metadata,
    "subscription": _subscription,
    "assignment": decode_assignment,
}
"""Name -> what reads the bytes. Two of them also hold the readers of many records against those of one."""
