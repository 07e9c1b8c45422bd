"""One audit that goes on where the last one ended: new records through the stages, tables and states brought up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from counterpoise.pipeline.clusters import samples_of, union
from counterpoise.pipeline.findings.ranking import findings
from counterpoise.pipeline.group_report import finished_report, report_parts
from counterpoise.pipeline.incremental.folded import REPLAY_STATES, STEP_STATES, fold_replays, fold_steps
from counterpoise.pipeline.incremental.journal import HandOver, Journal, left_over, no_one
from counterpoise.pipeline.incremental.news import Looked, last_settled
from counterpoise.pipeline.incremental.saved import ClusterState, Saved, moment, text_of
from counterpoise.pipeline.incremental.spark.groups_at_work import KEY as GROUP_KEY
from counterpoise.pipeline.incremental.spark.groups_at_work import groups_at_work
from counterpoise.pipeline.incremental.spark.lag_news import lag_news
from counterpoise.pipeline.incremental.spark.new_records import Decoded, decode_news
from counterpoise.pipeline.incremental.view import View
from counterpoise.pipeline.lag import BY_SAMPLE
from counterpoise.pipeline.rebalances import group_records
from counterpoise.pipeline.replays import epochs_of, replay_inputs
from counterpoise.pipeline.run import Progress
from counterpoise.pipeline.schemas import METRICS, REBALANCES, REPLAYS, TABLES
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.stops import stops
from counterpoise.pipeline.stored.tables import folder_of
from counterpoise.pipeline.timelines.timeline import KEY, committed

__all__ = ["STAGES", "Increment"]

STAGES = ("new records", "rebalances", "lag", "replays", "report", "findings", "summary", "store")
_PLACE = ["log_partition", "log_offset"]
_NAMES = pa.schema([("topic_id", pa.string()), ("topic", pa.string())])
_STATES = ("steps", "replays", "parts")
_COUNTED = (*KEY, "log_ts", "log_partition", "log_offset", "deleted")
"""Columns of commits that reports are made from."""


class Increment:
    """What is new in the captures, added to the tables of an output folder.

    Parameters
    ----------
    captures : mapping
        Cluster name -> capture.
    journal : Journal
        Of the output folder, open.
    saved : Saved, optional
        What the last audit left; None: everything is new, and what is in the folder is replaced.
    looked : Looked
        What the captures hold.
    choice : Choice
        Patterns of groups only.
    names : sequence of str
        Strategies.
    progress : callable, optional
    handover : callable, optional

    Notes
    -----
    Three things may change after the fact, and are made again: the newest rows of a group (files ``open-*``), everything of a
    group about which something older than expected came in (`AtWork.redone`), and what is said about all (`group_report`,
    `findings`).
    """

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Capture],
        journal: Journal,
        saved: Saved | None,
        looked: Looked,
        choice: Choice,
        names: Sequence[str],
        progress: Progress | None = None,
        handover: HandOver = no_one,
    ) -> None:
        self._handover = handover
        self._spark, self._captures, self._choice, self._names = spark, captures, choice, names
        self._journal, self._saved, self._progress = journal, saved, progress
        self._view = View(spark, journal, fresh=saved is None)
        self._was = {name: saved.clusters[name] if saved is not None else ClusterState() for name in captures}
        self.number = 1 if saved is None else saved.number + 1
        self.now, self._looked = looked.now, looked
        self._kept: list[DataFrame] = []

    @property
    def view(self) -> View:
        """The tables."""
        return self._view

    def run(self, options: Mapping[str, Any], summarize: Any) -> None:
        """All stages, and the commit.

        Parameters
        ----------
        options : mapping
            What `Saved.check` will want to see again.
        summarize : callable
            ``summarize(increment, decoded)`` -> sums to keep; called when all is staged, it stages the summary.
        """
        try:
            found = self._decode()
            self._steps()
            self._lag()
            self._replays()
            self._report()
            self._begin("summary")
            sums = summarize(self, found)
            self._begin("store")
            self._commit(Saved(self.number, dict(options), self.now, sums))
        finally:
            for one in self._kept:
                one.unpersist()

    def _decode(self) -> Decoded:
        found = decode_news(self._spark, self._captures, self._choice, self._view, self._was, self.now)
        self._kept += found.kept
        self.errors, self._generations, self._modern = found.errors, found.generations, found.modern
        for name, last in found.ends.items():
            self._set_end(name, last)
        at_work = groups_at_work(
            self._view, self._journal.out, self._saved, self._captures, self._was, self._looked, self._generations
        )
        self._stepped, self._replayed, self._told = at_work.stepped, at_work.replayed, at_work.told
        self._redone, self._named = at_work.redone, at_work.named
        return found

    def _set_end(self, name: str, last: datetime | None) -> None:
        was, now = self._was[name], self.now[name]
        now.end = text_of(max((one for one in (last, moment(was.end)) if one is not None), default=None))
        now.final_until = text_of(last_settled(self._looked.instants[name], moment(now.end), moment(was.final_until)))

    def _steps(self) -> None:
        self._begin("rebalances")
        classic, modern = (
            self._again_and("group_generations", self._generations),
            self._again_and("modern_group_records", self._modern),
        )
        groups = self._stepped
        states = self._state("steps", STEP_STATES)
        told = None if states is None else self._but_redone(_only(states, groups))
        names = pa.table({"topic_id": list(self._named), "topic": list(self._named.values())}, _NAMES)
        out = self._keep(fold_steps(group_records(classic, modern, self._view.rows_aside("names", names)), told))
        rows = out.where("state is null")
        self._view.stage("rebalances", rows.where("not open").select(*REBALANCES.names))
        self._stage_open("rebalances", rows.where("open").select(*REBALANCES.names), groups)
        self._save("steps", out.where("state is not null").select(*STEP_STATES.names), states, groups)

    def _lag(self) -> None:
        self._begin("lag")
        steps = self._view.whole("rebalances")
        final: list[DataFrame] = []
        unsettled: list[DataFrame] = []
        for name, valid in self.valid().items():
            since, settled = moment(self._was[name].final_until), moment(self.now[name].final_until)
            ends = self._captures[name].log_ends
            mine, topics = self._of(steps, name), self._captures[name].topics
            aside = partial(self._aside, f"lag-{len(final)}")
            rows = self._keep(lag_news(valid, mine, ends, topics, since, self._redone, aside))
            is_final = fn.lit(False) if settled is None or ends is None else fn.col("at") <= fn.lit(settled)
            final.append(rows.where(is_final))
            unsettled.append(rows.where(~is_final))
        self._view.stage("partition_lag", union(final))
        self._view.stage_open("partition_lag", union(unsettled))
        self.sampled = self._view.span("partition_lag", "at")

    def _replays(self) -> None:
        self._begin("replays")
        rows, states = self._again_and("group_generations", self._generations), self._state("replays", REPLAY_STATES)
        told = None
        if states is not None:
            told = self._but_redone(_only(states, self._replayed))
            place = [fn.col("last_partition").alias("log_partition"), fn.col("last_offset").alias("log_offset")]
            places = fn.broadcast(told.select(*GROUP_KEY, *place))
            rows = rows.unionByName(
                self._view.before("group_generations").drop("date").join(places, [*GROUP_KEY, *_PLACE], "left_semi")
            )
        epochs = self._epochs(told)
        if told is not None:
            rows, epochs = self._view.aside("generations-to-replay", rows), self._view.aside("epochs-to-replay", epochs)
        inputs = replay_inputs(rows, epochs, self._view.whole("partition_lag"), self._samples())
        out = self._keep(fold_replays(inputs, told, self._names))
        measured = out.where("state is null")
        for name, schema in (("replays", REPLAYS), ("metrics", METRICS)):
            self._view.stage(name, measured.where("not open").select(*schema.names))
            self._stage_open(name, measured.where("open").select(*schema.names), self._replayed)
        self._save("replays", out.where("state is not null").select(*REPLAY_STATES.names), states, self._replayed)

    def _samples(self) -> DataFrame | None:
        """When log ends were sampled: by the capture, and by rows of lag where it has dropped samples since."""
        there = samples_of(self._captures)
        if there is None or self._saved is None:
            return there
        return there.unionByName(self._view.before("partition_lag").where(BY_SAMPLE).select("cluster", "at"))

    def _epochs(self, told: DataFrame | None) -> DataFrame:
        """The epochs to replay: those of groups with a state from the one on that it stands at, of others all."""
        epochs = epochs_of(self._view.whole("rebalances"))
        if told is None:
            return epochs
        columns, place = epochs.columns, fn.struct(*_PLACE)
        stands = fn.struct(fn.col("last_partition").alias(_PLACE[0]), fn.col("last_offset").alias(_PLACE[1]))
        states = fn.broadcast(told.select(*GROUP_KEY, stands.alias("stands")))
        joined = _only(epochs, self._replayed).join(states, GROUP_KEY, "left")
        return joined.where(fn.col("stands").isNull() | (place >= fn.col("stands"))).select(*columns)

    def _report(self) -> None:
        self._begin("report")
        steps, commits = self._view.whole("rebalances"), union(list(self.valid().values())).select(*_COUNTED)
        named = [self._view.whole(name) for name in ("group_generations", "modern_group_records", "metrics")]
        tables = [steps, *named, commits]
        if self._saved is not None:
            names = ("steps-told", "generations-told", "modern-told", "metrics-told", "commits-told")
            tables = [self._view.aside(name, _only(table, self._told)) for name, table in zip(names, tables, strict=True)]
        mine, generations, modern, figures, said = tables
        parts = report_parts(mine, generations, modern, figures, said, stops(said, mine))
        self._save("parts", parts, self._state("parts", parts.schema), self._told)
        kept = self._spark.read.schema(parts.schema).parquet(str(self._journal.staged / "parts"))
        report = finished_report(kept, self._view.whole("partition_lag"), steps, commits)
        self.report = self._view.stage("group_report", self._as_of(report)).drop("date")
        self._begin("findings")
        self.findings = self._view.stage("findings", self._as_of(findings(self.report))).drop("date")

    def _again_and(self, name: str, new: DataFrame) -> DataFrame:
        """New records, but of groups that are made again all there are."""
        if self._redone is None:
            return new.drop("date")
        return self._but_redone(new.drop("date")).unionByName(_only(self._view.whole(name), self._redone))

    def _but_redone(self, table: DataFrame) -> DataFrame:
        return table if self._redone is None else _but(table, self._redone)

    def _aside(self, stage: str, name: str, table: DataFrame) -> DataFrame:
        return self._view.aside(f"{stage}-{name}", table)

    def _stage_open(self, name: str, rows: DataFrame, groups: DataFrame) -> None:
        """Open rows of these groups, and of all others those that were open before."""
        old = self._view.opened(name)
        self._view.stage_open(name, rows if old is None else rows.unionByName(_but(old.drop("date"), groups)))

    def _commit(self, saved: Saved) -> None:
        root = self._journal.root
        (self._journal.staged / "state.json").write_text(saved.text(), encoding="utf-8")
        for name in TABLES:
            folder_of(self._journal.out, name).mkdir(parents=True, exist_ok=True)  # A table without rows is a folder too.
        moves = [*self._view.moves(self.number)]
        moves += [(self._journal.staged / kind, root / f"{kind}-{self.number:08d}") for kind in _STATES]
        moves.append((self._journal.staged / "summary.json", self._journal.out / "summary.json"))
        moves.append((self._journal.staged / "state.json", root / "state.json"))
        positions = {name: one.positions for name, one in self.now.items()}
        with self._handover(positions, self._journal.staged) as live:
            self._journal.commit([*moves, *live], [*self._view.gone(), *left_over(root)])

    def valid(self) -> dict[str, DataFrame]:
        """Per cluster, the commits that count, of all audits."""
        commits = self._view.whole("offset_commits")
        return {name: committed(self._of(commits, name), one.aborted) for name, one in self._captures.items()}

    def _of(self, table: DataFrame, cluster: str) -> DataFrame:
        return table if len(self._captures) == 1 else table.where(fn.col("cluster") == cluster)

    def _as_of(self, table: DataFrame) -> DataFrame:
        """Dated by the last record of each cluster, as `run.Run` does."""
        day = fn.lit(None).cast("date")
        for name, one in self.now.items():
            end = moment(one.end)
            if end is not None:
                day = fn.when(fn.col("cluster") == name, fn.lit(end.date())).otherwise(day)
        return table.withColumn("date", day)

    def _state(self, kind: str, schema: StructType) -> DataFrame | None:
        if self._saved is None or self._saved.tasks:
            return None
        return self._spark.read.schema(schema).parquet(str(self._journal.root / f"{kind}-{self._saved.number:08d}"))

    def _save(self, kind: str, rows: DataFrame, before: DataFrame | None, groups: DataFrame) -> None:
        """A row per group for the next audit: these, and of groups that are not among `groups` those of the last audit."""
        whole = rows if before is None else rows.unionByName(_but(before, groups))
        whole.write.parquet(str(self._journal.staged / kind))

    def _keep(self, table: DataFrame) -> DataFrame:
        self._kept.append(table.persist())
        return self._kept[-1]

    def _begin(self, stage: str) -> None:
        if self._progress is not None:
            self._progress(stage, STAGES.index(stage), len(STAGES))


def _only(table: DataFrame, groups: DataFrame) -> DataFrame:
    return table.join(fn.broadcast(groups), GROUP_KEY, "left_semi")


def _but(table: DataFrame, groups: DataFrame) -> DataFrame:
    return table.join(fn.broadcast(groups), GROUP_KEY, "left_anti")
