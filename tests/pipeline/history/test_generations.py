"""Generations that no broker writes: what is wrong with one is a counted row, and nothing of it is replayed."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from counterpoise.pipeline.history.inputs import replayable
from counterpoise.wire.offsets_topic.keys import RecordType
from counterpoise.wire.offsets_topic.records import Record, decode_record, encode_value
from counterpoise.wire.offsets_topic.values import GroupMetadataValue
from tests.pipeline.rows import errors_in, generation_rows


def test_a_member_that_is_there_twice_costs_its_generation_only(raw: pa.RecordBatch) -> None:
    keys = raw.column("key").to_pylist()
    generations = [at for at, key in enumerate(keys) if key[:2] == b"\0\2"]
    decoded = [(at, decode_record(keys[at], raw.column("value")[at].as_py())) for at in generations]
    sound, found = next(
        (at, record.value)
        for at, record in decoded
        if isinstance(record, Record)
        and isinstance(record.value, GroupMetadataValue)
        and record.value.protocol_type == "consumer"
        and len(record.value.members) > 1
    )
    first, second, *others = found.members
    damaged = replace(found, members=(first, replace(second, member_id=first.member_id), *others))
    batch = raw.slice(sound, 1)
    wrong = batch.set_column(
        batch.schema.get_field_index("value"),
        batch.schema.field("value"),
        pa.array([encode_value(RecordType.GROUP_METADATA, damaged, 3)], pa.binary()),
    )
    (row,), (was,) = generation_rows(wrong), generation_rows(batch)
    assert [row["reason"] for row in errors_in(wrong)] == [f"member {first.member_id}: an earlier member has the same id"]
    assert (replayable(row), replayable(was)) == (False, True)
    assert [member["assigned"] is None for member in row["members"][:2]] == [False, True]
    assert row["members"][0] == was["members"][0]
