"""Rows of the table `decode_errors`: records that cannot be decoded, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from counterpoise.pipeline.records.generations import member_faults
from counterpoise.pipeline.records.place import nowhere, place_of
from counterpoise.pipeline.schemas import DECODE_ERRORS
from counterpoise.wire.offsets_topic import Record, RecordType, Tombstone, Undecodable, decode_record

__all__ = ["ERROR_COLUMNS", "error_rows"]

ERROR_COLUMNS = DECODE_ERRORS.remove(0)


def error_rows(raw: Mapping[str, Any], record: Record | Tombstone | Undecodable | None = None) -> Iterator[dict[str, Any]]:
    """Yield the errors of one record: nearly always none. Without `record` the raw record is decoded here."""
    record = decode_record(raw["key"], raw["value"]) if record is None else record
    if isinstance(record, Undecodable):
        about = {"record_type": record.record_type, "value_version": record.value_version, "reason": record.reason}
        yield {**_raw_columns(raw), **about}
    elif reason := nowhere(raw):
        version = record.version if isinstance(record, Record) else None
        yield {**_raw_columns(raw), "record_type": int(record.record_type), "value_version": version, "reason": reason}
    elif isinstance(record, Record) and record.record_type == RecordType.GROUP_METADATA:
        for fault in member_faults(record.value):
            yield {**_raw_columns(raw), "record_type": 2, "value_version": record.version, "reason": fault}


def _raw_columns(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {**place_of(raw), "key": raw["key"], "value": raw["value"]}
