"""Parquet files of this audit, opened again and again: their footers are read once by each worker."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow.parquet as pq

__all__ = ["footer", "opened"]


@lru_cache(maxsize=64)
def footer(file: str) -> Any:
    """What a file that is never written again says of its parts."""
    return pq.read_metadata(file)


def opened(file: str) -> pq.ParquetFile:
    """A file that is never written again once it is told of: with a row group per bucket its footer is long."""
    return pq.ParquetFile(file, metadata=footer(file))
