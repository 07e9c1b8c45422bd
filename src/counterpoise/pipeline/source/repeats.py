"""Records that a source holds more than once, where Spark reads it: told by a part of them, lest all be sorted.

Tasks that read files themselves look at all records (`direct.files.places`), at hardly any cost, because a file says where its
records begin and end. Of a stream of rows only a group by place would tell, which is a shuffle of everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from counterpoise.errors import CaptureError
from counterpoise.pipeline.records.place import POLLED

__all__ = ["EVERY", "refuse_repeats"]

EVERY = 1024
"""Of commits one offset in so many is looked at, the same in every recording: of two of one time none is likely to be missed."""
_PLACE = ("cluster", "log_partition", "log_offset")


def refuse_repeats(commits: DataFrame, others: Iterable[DataFrame]) -> None:
    """See that no record is there twice, among all that are no commits and some that are.

    Parameters
    ----------
    commits : DataFrame
        Table `offset_commits`.
    others : iterable of DataFrame
        Tables `group_generations` and `modern_group_records`.

    Raises
    ------
    CaptureError
        One is.
    """
    places = commits.where(fn.pmod("log_offset", fn.lit(EVERY)) == 0).select(*_PLACE)
    for table in others:
        places = places.unionByName(table.select(*_PLACE))
    again = places.where(fn.col("log_partition") != POLLED).groupBy(*_PLACE).count().where("count > 1")
    place = fn.struct(*(fn.col(name) for name in _PLACE))
    row = again.agg(fn.count("*").alias("n"), fn.min(place).alias("first")).first()
    if row is None or row["first"] is None:
        return
    cluster, partition, offset = row["first"]
    told = f"{row['n']:,} of those that were looked at, the first at offset {offset} of log partition {partition}"
    raise CaptureError(
        f"cluster {cluster}: records are there more than once ({told}); "
        "drop the repeats, or give overlapping recordings one by one"
    )
