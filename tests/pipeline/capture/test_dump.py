"""The text of Kafka's dump tool as a source: byte for byte the records of its segments; what it lacks is reported.

The samples in tests/data/dump were printed by the tools of Kafka 4.3.1 and 3.9.1.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from google_crc32c import value as crc32c

from counterpoise.cli.app import app
from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.backup.dump_folder import DumpCounts, folder_of, from_dump
from counterpoise.pipeline.capture.backup.segments import from_segments
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC
from counterpoise.pipeline.history.steps import steps_of_group
from counterpoise.pipeline.source.capture import read_capture
from tests.java import QUICK, java_home
from tests.kafka_broker import LIBS, SETTINGS, Broker
from tests.pipeline.capture.test_segments import varint
from tests.pipeline.capture.traffic import commit, open_transaction, transact
from tests.pipeline.rows import generation_batches

if TYPE_CHECKING:
    pass

DATA = Path(__file__).parents[2] / "data" / "dump"
NEW = DATA / "decoder-4.3.1.txt"


def rows(folder: Path) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = pq.read_table(folder / "consumer_offsets.parquet").to_pylist()
    return sorted(table, key=lambda row: (row["partition"], row["offset"]))


def raw(tmp_path: Path, version: str) -> Path:
    """The segments that a sample was printed from."""
    folder = tmp_path / f"raw-{version}"
    shutil.unpack_archive(DATA / f"segments-{version}.tar.gz", folder)
    return folder


def both(tmp_path: Path, text: Path, segments: Path) -> tuple[DumpCounts, list[dict[str, Any]], list[dict[str, Any]]]:
    """What was read from the text, its rows, and those of the segments it was made from."""
    found = from_dump(text, tmp_path / "text")
    from_segments(segments, tmp_path / "segments")
    return found, rows(tmp_path / "text"), rows(tmp_path / "segments")


def decoder(*segments: Path) -> str:
    """What the tool of the test broker's version prints."""
    java = [str(Path(java_home()) / "bin" / "java"), "-Xmx512m", *QUICK]
    logging = f"-Dlog4j2.configurationFile={SETTINGS / 'log4j2.properties'}"
    tool = [*java, logging, "-cp", f"{LIBS}/*", "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder"]
    done = subprocess.run([*tool, "--files", ",".join(map(str, segments))], capture_output=True, text=True, check=True)
    return done.stdout


def dumped(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """The sample of 4.3.1 with words replaced; every replacement must hit."""
    text = NEW.read_text()
    for old, new in changes:
        assert re.search(old, text, re.MULTILINE)
        text = re.sub(old, new, text, flags=re.MULTILINE)
    file = tmp_path / "dump.txt"
    file.write_text(text)
    return file


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_the_text_gives_the_bytes_of_the_segments(tmp_path: Path, version: str) -> None:
    """Of members of all libraries, commits, tombstones; the record of an aborted transaction is left out and counted."""
    found, text, segments = both(tmp_path, DATA / f"decoder-{version}.txt", raw(tmp_path, version))
    assert text == segments
    assert (found.records, found.aborted) == (len(segments), 1)
    assert (found.undecided, found.altered, found.unreadable, found.unnamed) == (0, 0, 0, 0)
    about = json.loads((tmp_path / "text" / "capture.json").read_text())
    assert (about["source"], about["complete"]) == ("dump", False)


def test_the_audit_reads_the_text(tmp_path: Path) -> None:
    """Detected by content, whatever its name; what it lacks is among the notes."""
    renamed = tmp_path / "no-suffix"
    renamed.write_bytes(NEW.read_bytes())
    capture = read_capture(renamed)
    assert pq.read_table(list(capture.files.records)).num_rows == capture.n_records == 31
    assert any("made from the text of kafka-dump-log" in note for note in capture.notes)
    assert any("which version an assignment was written in" in note for note in capture.notes)


def steps(folder: Path) -> list[dict[str, Any]]:
    """The steps of all classic groups' lives in a folder."""
    table = pq.read_table(folder / "consumer_offsets.parquet").sort_by([("partition", "ascending"), ("offset", "ascending")])
    (batch,) = generation_batches(table.combine_chunks().to_batches())
    generations = sorted(batch.to_pylist(), key=lambda row: str(row["group_id"]))
    found = []
    for group, lines in groupby(generations, key=lambda row: row["group_id"]):
        found += [{"group": group, **step} for step in steps_of_group([{**row, "record_type": None} for row in lines])]
    return found


def test_the_text_gives_the_rebalances_of_the_segments(tmp_path: Path) -> None:
    both(tmp_path, NEW, raw(tmp_path, "4.3.1"))
    assert steps(tmp_path / "text") == steps(tmp_path / "segments")


def test_a_text_is_unfolded_once_and_again_when_it_grows(tmp_path: Path) -> None:
    text = dumped(tmp_path)
    first = folder_of(text)
    assert folder_of(text) == first
    text.write_text(text.read_text().split("Dumping /var/lib/kafka/data/__consumer_offsets-2/")[0])
    assert len(rows(folder_of(text))) < len(rows(first))
    assert folder_of(tmp_path) == tmp_path


def test_utf16_as_a_windows_shell_writes_it(tmp_path: Path) -> None:
    (tmp_path / "dump.txt").write_bytes(NEW.read_text().replace("\n", "\r\n").encode("utf-16"))
    assert from_dump(tmp_path / "dump.txt", tmp_path / "a").records == from_dump(NEW, tmp_path / "b").records
    assert rows(tmp_path / "a") == rows(tmp_path / "b")


def test_what_the_text_lacks_is_counted(tmp_path: Path) -> None:
    """A broken checksum, a cut line, an unknown type, a field that is not shown, a foreign file, a segment printed twice."""
    whole = from_dump(NEW, tmp_path / "whole")
    changes = [
        (r"(producerId: -1 .* position: 131 .*isvalid:) true$", r"\1 false"),
        (r'^(\| offset: 2 .*"group":"mixed".*"members":\[).*$', r"\1"),
        (r'"type":"6"', '"type":"99"'),
        (r',"metadataHash":-?\d+', ""),
    ]
    text = dumped(tmp_path, *changes)
    segment = NEW.read_text().split("Dumping ")[3]
    foreign = "Dumping /data/orders-0/00000000000000000000.log\nbaseOffset: 0 what\nsomething else\n"
    text.write_text(text.read_text() + foreign + "Dumping " + segment + "Found 12 invalid bytes at the end of x.log\n")
    found = from_dump(text, tmp_path / "out")
    assert (found.records, found.altered, found.foreign) == (whole.records - 4, 1, 1)
    assert found.repeated == segment.count("baseOffset")
    assert found.unreadable == 5
    faults = "\n".join(found.faults)
    assert "the tool found its checksum wrong" in faults
    assert "not what the decoder prints (JSONDecodeError" in faults
    assert "99 is not known" in faults
    assert "Found 12 invalid bytes" in faults


FIRST = r'^(\| offset: )0( CreateTime: )(\d+)( .*"type":)"2"(.*"group":)"py"(.*"version":)"3"(.*"members":)\[\](.*)$'


@pytest.mark.parametrize(
    "new",
    [
        rf"\g<1>{'9' * 5000}\2\3\4\"2\"\5\"py\"\6\"3\"\7[]\8",
        rf"\g<1>{2**63}\2\3\4\"2\"\5\"py\"\6\"3\"\7[]\8",
        rf"\g<1>0\g<2>{-(2**63) - 1}\4\"2\"\5\"py\"\6\"3\"\7[]\8",
        r'\g<1>0\2\3\g<4>Infinity\5"py"\6"3"\7[]\8',
        r'\g<1>0\2\3\4"2"\g<5>1.5\6"3"\7[]\8',
        r'\g<1>0\2\3\4"2"\5"py"\g<6>1e400\7[]\8',
        r'\g<1>0\2\3\4"2"\5"py"\6"3"\7[[[5]]]\8',
        rf'\g<1>0\2\3\4"2"\5"py"\6"3"\7{"[" * 50_000}\8',
        r'\g<1>0\2\3\4"2"\5"\\ud800"\6"3"\7[]\8',
    ],
    ids=["5,000 digits", "offset", "time", "type", "group", "version", "members", "nesting", "surrogate"],
)
def test_a_field_that_no_log_holds_costs_that_record_only(tmp_path: Path, new: str) -> None:
    whole = from_dump(NEW, tmp_path / "whole")
    text = NEW.read_text()
    assert re.search(FIRST, text, re.MULTILINE)
    (tmp_path / "dump.txt").write_text(re.sub(FIRST, new, text, count=1, flags=re.MULTILINE))
    found = from_dump(tmp_path / "dump.txt", tmp_path / "out")
    assert (found.records, found.unreadable) == (whole.records - 1, 1)


def test_the_last_time_stamp_of_all_costs_nothing(tmp_path: Path) -> None:
    """Beyond what microseconds hold: the record stays, with the nearest time that they do."""
    found = from_dump(dumped(tmp_path, (r"^(\| offset: 0 CreateTime: )\d+", rf"\g<1>{2**63 - 1}")), tmp_path / "out")
    assert found.unreadable == 0
    times = pq.read_table(tmp_path / "out" / "consumer_offsets.parquet")["timestamp"].cast(pa.int64()).to_pylist()
    assert max(times) == (2**63 - 1) // 1000 * 1000


def test_an_open_transaction_is_left_out_and_said(tmp_path: Path) -> None:
    text = dumped(tmp_path, (r"^\| offset: 6 .*endTxnMarker: COMMIT.*\n", ""))
    found = from_dump(text, tmp_path / "out")
    assert (found.undecided, found.aborted) == (1, 1)
    assert "1 records whose transaction has no end" in json.loads((tmp_path / "out" / "capture.json").read_text())["hidden"][1]


def test_segments_without_a_folder_are_numbered(tmp_path: Path) -> None:
    """The tool run inside of the folders: no two records may share a place."""
    text = dumped(tmp_path, (r"Dumping .*/", "Dumping "))
    found = from_dump(text, tmp_path / "out")
    placed = [(row["partition"], row["offset"]) for row in rows(tmp_path / "out")]
    assert (len(set(placed)), found.unnamed) == (found.records, 4)
    assert found.records == from_dump(NEW, tmp_path / "whole").records


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (r"^\| .*\n", "", "it prints no records"),
        (r"key: \{.*$", "key: \x00\x02 payload: \x00\x03", "the decoder printed no fields"),
        (r"^\| offset: .*?key: ", "| key: ", "dump again without --skip-record-metadata"),
        (r"key: \{.*$", "key: offset_commit::group=g,partition=t-0 payload: offset=5", "the tool of Kafka 3.9 or newer"),
    ],
)
def test_text_made_with_other_options_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(words)):
        from_dump(dumped(tmp_path, (old, new)), tmp_path / "out")
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "dump.txt"), "--out", str(tmp_path / "report")])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr
    # Nothing is left that would be taken for a capture: the next text may go to the same folder.
    assert from_dump(NEW, tmp_path / "out").records == 31


def test_the_command_prints_what_it_found(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["capture", "--from-dump", str(NEW), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0
    assert "31 records from 4 segments; 1 of aborted and 0 of open transactions, 0 unreadable" in done.stdout
    again = CliRunner().invoke(app, ["capture", "--from-dump", str(NEW), "--out", str(tmp_path / "out")])
    assert "holds a capture already" in again.stderr
    other = CliRunner().invoke(app, ["capture", "--from-dump", str(DATA.parents[1] / "java.py"), "--out", str(tmp_path / "x")])
    assert "not the output of kafka-dump-log" in other.stderr


def segment_of(records: list[tuple[int, int, bytes | None, bytes | None]]) -> bytes:
    """A segment with a batch per record."""
    raw = bytearray()
    for offset, time, key, value in records:
        fields = b"".join(varint(-1) if each is None else varint(len(each)) + each for each in (key, value))
        body = b"\x00\x00\x00" + fields + b"\x00"
        payload = varint(len(body)) + body
        summed = struct.pack(">hiqqqhii", 0, 0, time, time, -1, -1, -1, 1) + payload
        raw += struct.pack(">qiibI", offset, len(summed) + 9, 0, 2, crc32c(summed)) + summed
    return bytes(raw)


@pytest.mark.kafka
def test_every_record_of_the_shop_survives_the_tool(shop: Path, tmp_path: Path) -> None:
    """All record types of a whole cluster (of commits every 40th), through segments, the real tool and back: byte for byte."""
    table = pq.read_table(shop / "consumer_offsets.parquet")
    kept = [at % 40 == 0 or key[1] != 1 for at, key in enumerate(table["key"].to_pylist())]
    table = table.filter(pa.array(kept))
    files = []
    for index in sorted(set(table["partition"].to_pylist())):
        mine = table.filter(pa.compute.equal(table["partition"], index)).sort_by("offset").to_pylist()
        file = tmp_path / f"{OFFSETS_TOPIC}-{index}" / f"{0:020d}.log"
        file.parent.mkdir()
        millis = [round(row["timestamp"].timestamp() * 1000) for row in mine]
        file.write_bytes(segment_of([(r["offset"], t, r["key"], r["value"]) for r, t in zip(mine, millis, strict=True)]))
        files.append(file)
    (tmp_path / "dump.txt").write_text(decoder(*files))
    found, text, segments = both(tmp_path, tmp_path / "dump.txt", tmp_path)
    assert (found.records, found.altered, found.unreadable) == (table.num_rows, 0, 0)
    wrong = [a for a, b in zip(text, segments, strict=True) if a != b]
    assert wrong == []


@pytest.mark.kafka
def test_a_running_brokers_files_by_the_tool_and_by_our_reader(broker: Broker, tmp_path: Path) -> None:
    """Commits, a committed, an aborted and an open transaction: both ways give the same records of files as they were at once.

    Groups of other tests on the same broker are left out: the text lacks the versions of their assignments.
    """
    broker.create_topic("dumped")
    commit(broker, "dumper", "dumped", list(range(5)))
    transact(broker, "dumper", "dumped", 1, abort=False)
    transact(broker, "dumper", "dumped", 2, abort=True)
    undecided = open_transaction(broker, "dumper", "dumped", 3)
    logs = sorted((broker.folder / "data").glob(f"{OFFSETS_TOPIC}-*/*.log"))
    copies = [tmp_path / "data" / log.parent.name / log.name for log in logs]
    for log, copy in zip(logs, copies, strict=True):
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, copy)
    undecided.abort_transaction(60)
    (tmp_path / "dump.txt").write_text(decoder(*copies))
    found, text, segments = both(tmp_path, tmp_path / "dump.txt", tmp_path / "data")
    mine, same = ([row for row in way if b"dumper" in row["key"]] for way in (text, segments))
    assert len(mine) >= 6
    assert mine == same
    assert len(text) == len(segments)
    assert (found.undecided, found.altered, found.unreadable) == (1, 0, 0)
    assert found.aborted >= 1
