"""The law of every reader: bytes that somebody else wrote give a value or a `CounterpoiseError` that names the place."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.errors import CounterpoiseError
from tests.fuzz.targets import TARGETS, read, seeds

ODD = {
    "nothing": b"",
    "a byte order mark": b"\xef\xbb\xbf",
    "broken UTF-8": b"\xff\xfe{",
    "half a surrogate pair, encoded": b'{"a\xed\xa0\x80": 1}',
    "half a surrogate pair, escaped": rb'{"a\ud800": 1}',
    "no number": b"NaN",
    "a number without end": b"-Infinity",
    "more than a float holds": b"1e400",
    "5,000 digits": b"9" * 5_000,
    "deep nesting": b"[" * 20_000,
    "deep objects": b'{"a":' * 20_000,
    "a repeated name": b'{"topics": 3, "topics": {"t": 1}, "members": [], "plan": {}, "plan": 1}',
    "a zero byte": b'{"a\x00": "\x00"}',
    "names that reorder text": '{"\u202egpj.exe\x1b[2J": {"t": ["\u200f"]}}'.encode(),
}
NUMBERS = [b"-1", b"1.5", b"1e400", b"NaN", b"99999999999", b"9223372036854775808", b"-9223372036854775809", b"9" * 5_000]
TOKENS = [*NUMBERS, b"null", b"true", b'"x"', b"[]", b"{}", b"[[[[", b"\xff", b"\xed\xa0\x80", rb"\ud800", b"\0", b"\r\n", b"="]


MOST = 5_000 if os.environ.get("COUNTERPOISE_PROFILE") == "long" else 20


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_read_and_odd_bytes_are_a_value_or_an_error(name: str) -> None:
    found = [read(name, data) for data in seeds(name)]
    assert [value for value in found if not isinstance(value, CounterpoiseError)], "nothing of the corpus can be read"
    for odd in ODD.values():
        read(name, odd)
        read(name, odd + seeds(name)[0])


BATCH = "baseOffset: 0 lastOffset: 0 count: 1 "
MANY = ",".join(f'{{"name":"{n}","topics":[],"count":100000}}' for n in range(2_000))
LONG = [
    ("dump", "Dumping x-0/0.log\n" + BATCH + "producerId: 1 isTransactional: true isControl: false " * 20_000, "[]"),
    ("dump", BATCH + 'producerId: 1 isTransactional: false isControl: false isvalid: true\n| offset: 0 CreateTime: 1 keysize: 1 '
     'valuesize: 1 sequence: 0 headerKeys: [] key: {"type":"2","data":' + '{"a":[' * 50_000 + "\n", "[]"),
    ("describe", "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT\ng m h c 1 " + "t" * 200_000, "line 2: assignment"),
    ("describe", "TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID\nt 99999999 1 1 0 m", "only 1 of 100000000"),
    ("scenario-json", '{"name":"s","topics":{},"members":[' + MANY + "]}", "members[1].count: 200000 members so far"),
    ("segment", ("\x55" * 8 + "\0\x04\x55\x55" + "\x55" * 4 + "\x02" + "\x55" * 3) * 40_000, "[]"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), LONG, ids=[f"{at}-{case[0]}" for at, case in enumerate(LONG)])
def test_time_and_memory_go_by_the_size_of_the_input(name: str, text: str, expected: str) -> None:
    """Each of these took minutes or gigabytes, by a pattern or a number in it; the work is what is tested, nothing is timed."""
    assert expected in str(read(name, text.encode("latin-1")))


@pytest.mark.parametrize("name", TARGETS)
def test_any_change_of_the_corpus_is_a_value_or_an_error(name: str) -> None:
    @settings(max_examples=MOST)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        raw = data.draw(st.sampled_from(seeds(name)))
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(raw)))
            until = data.draw(st.integers(at, min(len(raw), at + 20)))
            raw = raw[:at] + data.draw(st.sampled_from(TOKENS) | st.binary(max_size=8)) + raw[until:]
        read(name, raw)

    check()
