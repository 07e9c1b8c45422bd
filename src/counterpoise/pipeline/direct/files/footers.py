"""Parquet files of this audit, opened again and again: their footers are read once by each worker."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow.parquet as pq

__all__ = ["opened"]


@lru_cache(maxsize=64)
def _footer(file: str) -> Any:
    return pq.read_metadata(file)


def opened(file: str) -> pq.ParquetFile:
    """A file that is never written again once it is told of: with a row group per bucket its footer is long."""
    return pq.ParquetFile(file, metadata=_footer(file))
