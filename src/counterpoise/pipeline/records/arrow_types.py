"""The Arrow schema of a table, from its one definition in `schemas`."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

__all__ = ["arrow_schema", "arrow_type"]

_SCALARS = {
    "string": pa.string(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_schema(table: StructType) -> pa.Schema:
    """The Arrow schema of the rows of a table."""
    return pa.schema([(field.name, arrow_type(field.dataType)) for field in table.fields])


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a Spark type."""
    if isinstance(kind, StructType):
        return pa.struct([(field.name, arrow_type(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(arrow_type(kind.elementType))
    if isinstance(kind, MapType):
        return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    return _SCALARS[kind.typeName()]
