"""Rows of the table `decode_errors`: records that cannot be decoded, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from counterpoise.pipeline.records.generations import member_faults
from counterpoise.pipeline.records.place import nowhere, place_of
from counterpoise.pipeline.schemas import DECODE_ERRORS
from counterpoise.wire.offsets_topic.records import Record, Tombstone, Undecodable, decode_record

__all__ = ["ERROR_COLUMNS", "error_rows"]

ERROR_COLUMNS = DECODE_ERRORS.remove(0)


def error_rows(raw: Mapping[str, Any], record: Record | Tombstone | Undecodable | None = None) -> Iterator[dict[str, Any]]:
    """Yield the errors of one record: nearly always none. Without `record` the raw record is decoded here."""
    record = decode_record(raw["key"], raw["value"]) if record is None else record
    if isinstance(record, Undecodable):
        kind, version, reasons = record.record_type, record.value_version, [record.reason]
    else:
        kind, version = int(record.record_type), record.version if isinstance(record, Record) else None
        faults = member_faults(record.value) if isinstance(record, Record) else []
        reasons = [reason] if (reason := nowhere(raw)) else faults
    for reason in reasons:
        about = {"record_type": kind, "value_version": version, "reason": reason}
        yield {**place_of(raw), "key": raw["key"], "value": raw["value"], **about}
