"""Our decoders beside Kafka's own on changed real bytes: where Java decodes we give the same fields, where it throws an error.

Where the two differ on purpose, the difference is a rule of this file and of docs/reliability.md: nothing else passes.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import re
import subprocess
from collections import Counter
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from counterpoise.errors import WireError
from counterpoise.pipeline.capture.backup.dump_json import struct_of
from counterpoise.wire.consumer_protocol import decode_assignment, decode_subscription
from counterpoise.wire.offsets_topic.records import VALUES, Record, Tombstone, Undecodable, decode_record
from counterpoise.wire.primitives import Reader
from tests.java import jdk_home
from tests.kafka_broker import LIBS, SETTINGS

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "tests" / "data" / "vectors" / "wire.jsonl.gz"
RECORDED = [ROOT / "examples" / "shop", *(ROOT / "tests" / "data" / "recorded" / name for name in ("kip848", "kafka39"))]
MOST = 200_000 if os.environ.get("COUNTERPOISE_PROFILE") == "long" else 6_000
SEED = 20
TAGGED = re.compile(r"\b(assignment_timestamp|topic_id|metadata_hash|assignment_epochs|classic_member_metadata|tags)\b.*: ")
MEANT = {
    "bytes follow the last field": "Java ignores them; no broker writes them, so the record is damaged",
    "text is not UTF-8": "Java reads U+FFFD; no broker writes it, so the record is damaged",
    "tags do not rise": "KIP-482 demands that they do",
    "a tagged field is not as long as its tag says, or neither there nor absent": "Java does not look at the length",
    "no bytes are an empty assignment": "a member that the leader left out; Java's callers look before they decode",
    "version 1 ends behind the user data": "Java throws; kafka-go writes it, and owns nothing then",
}
"""Where the two differ on purpose: a record of the first four kinds is in the table of decode errors, with its reason."""

Case = tuple[str, bytes, bytes | None]


def java(cases: list[Case]) -> list[Any]:
    """What Kafka's classes read: JSON, or a text that begins with "!"."""
    lines = [" ".join([kind, *("-" if part is None else f"x{part.hex()}" for part in parts)]) for kind, *parts in cases]
    called = [str(Path(jdk_home()) / "bin" / "java"), "-Xmx1g", "-XX:+UseSerialGC"]
    logging = f"-Dlog4j2.configurationFile={SETTINGS / 'log4j2.properties'}"
    program = str(Path(__file__).parent / "programs" / "Decode.java")
    words = [*called, logging, "-cp", f"{LIBS}/*", program]
    done = subprocess.run(words, input="\n".join(lines), capture_output=True, check=False, encoding="utf-8")
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(cases), done.stderr[-2000:]
    return [line if line.startswith("!") else json.loads(line) for line in answers]


def real() -> list[Case]:
    """Records of clusters, one of each type, version and length; and subscriptions and assignments of every client library."""
    found: dict[Any, Case] = {}
    for folder in RECORDED:
        for file in sorted(folder.glob("*.parquet")):
            table = pq.read_table(file)
            if {"key", "value"} <= set(table.column_names):
                for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
                    head = value and (value[:2], len(value) // 16)
                    found.setdefault(("record", key[:2], head), ("record", key, value))
    for line in gzip.decompress(VECTORS.read_bytes()).splitlines():
        case = json.loads(line)
        kind = case["kind"].removesuffix("-decode")
        if kind in {"subscription", "assignment"} and "hex" in case:
            raw = bytes.fromhex(case["hex"])
            found.setdefault((kind, raw[:2], len(raw) // 8), (kind, raw, None))
    return list(found.values())


def changed(cases: list[Case], most: int) -> list[Case]:
    """The cases as they are, and with bytes changed, cut out, or put in."""
    dice = random.Random(SEED)
    made = list(cases)
    while len(made) < most:
        kind, *parts = dice.choice(cases)
        at = dice.randrange(2) if kind == "record" and parts[1] is not None and dice.random() < 0.9 else 0
        at = 1 if kind == "record" and parts[1] is not None and dice.random() < 0.7 else at
        raw = bytearray(parts[at] or b"")
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            where = dice.randint(0, len(raw))
            how = dice.randrange(4)
            if how == 0:
                del raw[where : where + dice.choice([1, 1, 2, 4, 400])]
            elif how == 1:
                raw[where:where] = bytes(dice.choice([0, 1, 255, dice.randrange(256)]) for _ in range(dice.choice([1, 2, 4])))
            else:
                raw[where : where + 1] = bytes([dice.choice([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, dice.randrange(256)])])
        parts[at] = bytes(raw)
        made.append((kind, *parts))  # type: ignore[arg-type]
    return made


def plain(value: Any) -> Any:
    """A value of ours without the tags that no version knows: Java's JSON does not show them."""
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__ if name != "unknown_tags"}
    return value


def difference(case: Case, decoded: Any) -> str:
    """The word same, the name of a difference that is meant, or what is wrong."""
    kind, first, second = case
    if kind == "record":
        return record_difference(first, second, decoded)
    try:
        found: Any = decode_subscription(first) if kind == "subscription" else decode_assignment(first)
    except WireError as error:
        return "same" if isinstance(decoded, str) else f"Java reads it, we say {error}: {decoded}"
    if isinstance(decoded, str):
        if kind == "subscription" and ends_behind_user_data(first):
            return "version 1 ends behind the user data"
        return "no bytes are an empty assignment" if not first else f"{decoded}, we read {found}"
    data = None if decoded["userData"] is None else base64.b64decode(decoded["userData"])
    if kind == "assignment":
        ours: Any = (list(found.partitions), found.user_data)
        theirs: Any = (pairs(decoded, "assignedPartitions"), data)
    else:
        ours = (list(found.topics), found.user_data, list(found.owned), found.generation, found.rack)
        generation, rack = max(decoded.get("generationId", -1), -1), decoded.get("rackId") or None
        theirs = (decoded["topics"], data, pairs(decoded, "ownedPartitions"), generation, rack)
    return "same" if ours == theirs else f"{ours} {theirs}"


def ends_behind_user_data(subscription: bytes) -> bool:
    reader = Reader(subscription, lenient_text=True)
    version = reader.int16("version")
    for _ in range(reader.elements("topics")):
        reader.text("topics")
    reader.nullable_raw("user_data")
    return version == 1 and not reader.remaining


def pairs(decoded: dict[str, Any], name: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(each["topic"], tuple(each["partitions"])) for each in decoded.get(name, [])]


def record_difference(key: bytes, value: bytes | None, decoded: Any) -> str:
    found = decode_record(key, value)
    if isinstance(decoded, str):
        return "same" if isinstance(found, Undecodable) else f"{decoded}, we read {found}"
    if isinstance(found, Undecodable):
        if decoded["left"]:
            return "bytes follow the last field"
        if "not UTF-8" in found.reason and "\ufffd" in json.dumps(decoded, ensure_ascii=False):
            return "text is not UTF-8"
        if re.search(r"tag \d+ follows tag", found.reason):
            return "tags do not rise"
        if TAGGED.search(found.reason):
            return "a tagged field is not as long as its tag says, or neither there nor absent"
        return f"Java reads it, we say {found}: {decoded}"
    names = list(asdict(found.key).values())
    if names != list(decoded["key"].values()):
        return f"{found.key} {decoded['key']}"
    if isinstance(found, Tombstone):
        return "same" if "value" not in decoded else f"{found} {decoded}"
    assert isinstance(found, Record)
    theirs = struct_of(VALUES[found.record_type].cls, decoded["value"], decoded["version"])
    same = (found.version, plain(found.value)) == (decoded["version"], plain(theirs))
    return "same" if same else f"{found.value} {decoded}"


@pytest.mark.kafka
def test_what_java_decodes_has_the_same_fields_here_and_what_it_refuses_is_an_error() -> None:
    cases = changed(real(), MOST)
    found = Counter(difference(case, decoded) for case, decoded in zip(cases, java(cases), strict=True))
    wrong = [what[:600] for what in found if what not in {"same", *MEANT}]
    assert wrong == []
    assert found["same"] > 0.9 * len(cases)
