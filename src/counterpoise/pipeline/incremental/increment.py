"""One audit that goes on where the last one ended: new records through the stages, tables and states brought up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from counterpoise.pipeline import decode
from counterpoise.pipeline.direct.direct import Direct
from counterpoise.pipeline.direct.tasks import Stretch
from counterpoise.pipeline.group_report import finished_report, report_parts
from counterpoise.pipeline.incremental.folded import REPLAY_STATES, STEP_STATES, fold_replays, fold_steps
from counterpoise.pipeline.incremental.journal import HandOver, Journal, no_one
from counterpoise.pipeline.incremental.lag_news import lag_news
from counterpoise.pipeline.incremental.news import last_sample, last_settled, news, reach, topic_marks
from counterpoise.pipeline.incremental.saved import ClusterState, Saved, moment, text_of
from counterpoise.pipeline.incremental.view import View
from counterpoise.pipeline.ranking import findings
from counterpoise.pipeline.rebalances import group_records, topic_names
from counterpoise.pipeline.replays import replay_inputs
from counterpoise.pipeline.run import Progress
from counterpoise.pipeline.schemas import METRICS, REBALANCES, REPLAYS, TABLES
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.sources import Capture
from counterpoise.pipeline.stops import stops
from counterpoise.pipeline.tables import folder_of
from counterpoise.pipeline.timelines.timeline import KEY, committed, looks_transactional

__all__ = ["STAGES", "Increment"]

STAGES = ("new records", "rebalances", "lag", "replays", "report", "findings", "summary", "store")
_KEY = ["cluster", "group_id"]
_PLACE = ["log_partition", "log_offset"]
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
    choice : Choice
        Patterns of groups only.
    names : sequence of str
        Strategies.
    progress : callable, optional
    handover : callable, optional

    Notes
    -----
    Three things may change after the fact, and are made again: the newest rows of a group (files ``open-*``), everything of a
    group about which something older than expected came in (`_redone`), and what is said about all (`group_report`, `findings`).
    """

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Capture],
        journal: Journal,
        saved: Saved | None,
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
        self.now: dict[str, ClusterState] = {}
        self._kept: list[DataFrame] = []

    @property
    def view(self) -> View:
        """The tables."""
        return self._view

    def look(self, identities: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether any capture has something that the last audit did not see; nothing is decoded for that.

        Raises
        ------
        CaptureError
            A capture is not the one of the last audit, or has lost records that were not read yet.
        """
        self._begin("new records")
        for name, capture in self._captures.items():
            positions, stamps = reach(capture.records, self._was[name], name)
            now = ClusterState(positions, stamps, dict(identities[name]), notes=list(capture.notes))
            now.sampled_to, now.topics = text_of(last_sample(capture.log_ends)), topic_marks(capture.log_ends, capture.topics)
            self.now[name] = now
        return self._saved is None or not all(one.sees(self._was[name]) for name, one in self.now.items())

    def run(self, options: Mapping[str, Any], summarize: Any) -> None:
        """All stages, and the commit.

        Parameters
        ----------
        options : mapping
            What `Saved.check` will want to see again.
        summarize : callable
            ``summarize(increment, counted, rest)`` -> sums to keep; called when all is staged, it stages the summary.
        """
        try:
            counted, rest = self._decode()
            self._steps()
            self._lag()
            self._replays()
            self._report()
            self._begin("summary")
            sums = summarize(self, counted, rest)
            self._begin("store")
            self._commit(Saved(self.number, dict(options), self.now, sums))
        finally:
            for one in self._kept:
                one.unpersist()

    def _decode(self) -> tuple[dict[str, Any], DataFrame]:
        direct = self._direct()
        fresh = {name: news(capture.records, self._was[name].positions) for name, capture in self._captures.items()}
        if direct is None:
            rests = {name: self._keep(records.where(~decode.is_commit())) for name, records in fresh.items()}
        else:
            rests = direct.rests()
        generations = _union([decode.group_generations(rest, name) for name, rest in rests.items()])
        modern = _union([decode.modern_group_records(rest, name) for name, rest in rests.items()])
        if direct is None:
            counted, generations, modern = self._decode_commits(fresh, generations, modern)
            damaged = fresh if counted["errors"] else rests
        else:
            counted, self._commits = self._view.stage_by("offset_commits", direct.decode)
            damaged = direct.suspects(rests)
        errors = _union([decode.decode_errors(records, name) for name, records in damaged.items()])
        self.errors = self._view.stage("decode_errors", errors).count()
        self._generations = self._view.stage("group_generations", generations)
        self._modern = self._view.stage("modern_group_records", modern)
        for at, (name, rest) in enumerate(rests.items()):
            self._set_end(name, counted[f"end{at}"], rest)
        self._find_touched()
        return counted, _union(list(rests.values()))

    def _direct(self) -> Direct | None:
        """Reader of the new records where they lie in local files and all groups are wanted."""
        if self._choice != Choice() or any(capture.local is None for capture in self._captures.values()):
            return None
        stretches = {
            name: Stretch(*({int(index): at for index, at in one.positions.items()} for one in (self._was[name], now)))
            for name, now in self.now.items()
        }
        return Direct(self._spark, self._captures, self._journal.staged / "records", stretches)

    def _decode_commits(
        self, fresh: Mapping[str, DataFrame], generations: DataFrame, modern: DataFrame
    ) -> tuple[dict[str, Any], DataFrame, DataFrame]:
        """The new commits by Spark; what was seen on the way, and the chosen groups' other records."""
        seen = Observation()
        commits = _union([decode.decoded_commits(records, name) for name, records in fresh.items()]).observe(
            seen,
            fn.count(fn.when(fn.col("group_id").isNull(), 1)).alias("errors"),
            fn.count(fn.when(fn.col("deleted"), 1)).alias("tombstones"),
            fn.count("group_id").alias("decoded"),
            fn.count(fn.when(looks_transactional(), 1)).alias("transactional"),
            fn.min("log_ts").alias("first"),
            fn.max("log_ts").alias("last"),
            *(fn.max(fn.when(fn.col("cluster") == name, fn.col("log_ts"))).alias(f"end{at}") for at, name in enumerate(fresh)),
        )
        commits, generations, modern = self._choice.of_groups(commits.where("group_id is not null"), generations, modern)
        self._commits = self._view.stage("offset_commits", commits)
        return seen.get, generations, modern

    def _set_end(self, name: str, last_commit: datetime | None, rest: DataFrame) -> None:
        row = rest.agg(fn.max("timestamp")).first()
        was, now = self._was[name], self.now[name]
        times = (last_commit, None if row is None else row[0], moment(was.end))
        now.end = text_of(max((one.astimezone(UTC) for one in times if one is not None), default=None))
        now.final_until = text_of(last_settled(self._captures[name].log_ends, moment(now.end), moment(was.final_until)))

    def _find_touched(self) -> None:
        """Groups with new records (`_touched`, with the earliest time), those whose newest replays change (`_replayed`), and
        those that must be made again from the start (`_redone`; None: no group).
        """
        parts = [part.select(*_KEY, "log_ts") for part in (self._commits, self._generations, self._modern)]
        self._touched = self._view.aside("touched", _union(parts).groupBy(*_KEY).agg(fn.min("log_ts").alias("since")))
        self._names_known = self._view.aside("names", topic_names(self._view.whole("offset_commits"), self._topics()))
        replayed, stepped = self._state("replays", REPLAY_STATES), self._state("steps", STEP_STATES)
        self._replayed = self._generations.select(*_KEY).distinct()
        self._redone: DataFrame | None = None
        if replayed is None or stepped is None:
            return
        sampled = self._by_cluster({name: self._first_new_sample(name) for name in self._captures})
        settled = self._by_cluster({name: moment(one.final_until) for name, one in self._was.items()})
        late = self._touched.where(fn.col("since") <= settled).select(*_KEY)
        known = replayed.drop("state").join(fn.broadcast(self._touched), _KEY, "left")
        out_of_turn = (fn.col("finished_ts") >= fn.col("since")) | (fn.col("finished_ts") >= sampled)
        unnamed = stepped.select(*_KEY, fn.explode("unnamed").alias("topic_id"))
        named = unnamed.join(fn.broadcast(self._names_known), "topic_id", "left_semi")
        parts = [late, known.where(out_of_turn).select(*_KEY), named.select(*_KEY), *self._of_new_topics()]
        redone = self._view.aside("redone", _union(parts).distinct())
        if redone.count():
            self._redone = redone
            self._view.redo(redone)
        moved = known.where((fn.col("last_ts") >= fn.col("since")) | (fn.col("last_ts") >= sampled)).select(*_KEY)
        self._replayed = self._view.aside("replayed", _union([self._replayed, moved, redone]).distinct())

    def _of_new_topics(self) -> list[DataFrame]:
        """Groups with commits on topics that were made anew since: which of their commits count is to be told again."""
        said, found = self._view.before("offset_commits"), []
        for name, now in self.now.items():
            was = self._was[name].topics
            anew = [topic for topic in {**was, **now.topics} if was.get(topic) != now.topics.get(topic)]
            if anew:
                found.append(said.where((fn.col("cluster") == name) & fn.col("topic").isin(anew)).select(*_KEY))
        return found

    def _first_new_sample(self, name: str) -> datetime | None:
        ends, last = self._captures[name].log_ends, moment(self._was[name].sampled_to)
        if ends is None or last is None:
            return None
        row = ends.where(fn.col("sampled_at") > fn.lit(last)).agg(fn.min("sampled_at")).first()
        return None if row is None or row[0] is None else row[0].astimezone(UTC)

    def _steps(self) -> None:
        self._begin("rebalances")
        classic, modern = (
            self._again_and("group_generations", self._generations),
            self._again_and("modern_group_records", self._modern),
        )
        groups = self._view.aside("stepped", classic.select(*_KEY).union(modern.select(*_KEY)).distinct())
        states = self._state("steps", STEP_STATES)
        told = None if states is None else self._but_redone(_only(states, groups))
        out = self._keep(fold_steps(group_records(classic, modern, self._names_known), told))
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
        self._view.stage("partition_lag", _union(final))
        self._view.stage_open("partition_lag", _union(unsettled))
        row = self._view.whole("partition_lag").agg(fn.min("at"), fn.max("at")).first()
        self.sampled = (None, None) if row is None else (row[0], row[1])

    def _replays(self) -> None:
        self._begin("replays")
        rows, states = self._again_and("group_generations", self._generations), self._state("replays", REPLAY_STATES)
        told = None
        if states is not None:
            told = self._but_redone(_only(states, self._replayed))
            place = [fn.col("last_partition").alias("log_partition"), fn.col("last_offset").alias("log_offset")]
            places = fn.broadcast(told.select(*_KEY, *place))
            rows = rows.unionByName(
                self._view.before("group_generations").drop("date").join(places, [*_KEY, *_PLACE], "left_semi")
            )
        sampled = any(capture.log_ends is not None for capture in self._captures.values())
        if told is not None:
            rows = self._view.aside("generations-to-replay", rows)
        inputs = replay_inputs(rows, self._view.whole("partition_lag") if sampled else None)
        out = self._keep(fold_replays(inputs, told, self._names))
        measured = out.where("state is null")
        for name, schema in (("replays", REPLAYS), ("metrics", METRICS)):
            self._view.stage(name, measured.where("not open").select(*schema.names))
            self._stage_open(name, measured.where("open").select(*schema.names), self._replayed)
        self._save("replays", out.where("state is not null").select(*REPLAY_STATES.names), states, self._replayed)

    def _report(self) -> None:
        self._begin("report")
        steps, commits = self._view.whole("rebalances"), _union(list(self.valid().values())).select(*_COUNTED)
        tables = [steps, self._view.whole("group_generations"), self._view.whole("metrics"), commits]
        touched = self._touched.select(*_KEY).union(self._replayed).distinct()
        if self._saved is not None:
            touched = self._view.aside("told", touched)
            names = ("steps-told", "generations-told", "metrics-told", "commits-told")
            tables = [self._view.aside(name, _only(table, touched)) for name, table in zip(names, tables, strict=True)]
        mine, generations, figures, said = tables
        parts = report_parts(mine, generations, figures, said, stops(said, mine))
        self._save("parts", parts, self._state("parts", parts.schema), touched)
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
        old = [folder for kind in _STATES for folder in root.glob(f"{kind}-*")]
        positions = {name: one.positions for name, one in self.now.items()}
        with self._handover(positions, self._journal.staged) as live:
            self._journal.commit([*moves, *live], [*self._view.gone(), *old])

    def valid(self) -> dict[str, DataFrame]:
        """Per cluster, the commits that count, of all audits."""
        commits = self._view.whole("offset_commits")
        return {name: committed(self._of(commits, name), one.aborted) for name, one in self._captures.items()}

    def _topics(self) -> DataFrame | None:
        found = [capture.topics for capture in self._captures.values() if capture.topics is not None]
        return _union(found) if found else None

    def _of(self, table: DataFrame, cluster: str) -> DataFrame:
        return table if len(self._captures) == 1 else table.where(fn.col("cluster") == cluster)

    def _by_cluster(self, moments: Mapping[str, datetime | None]) -> Column:
        column = fn.lit(None).cast("timestamp")
        for name, one in moments.items():
            if one is not None:
                column = fn.when(fn.col("cluster") == name, fn.lit(one)).otherwise(column)
        return column

    def _as_of(self, table: DataFrame) -> DataFrame:
        """Dated by the last record of each cluster, as `run.Run` does."""
        day = fn.lit(None).cast("date")
        for name, one in self.now.items():
            end = moment(one.end)
            if end is not None:
                day = fn.when(fn.col("cluster") == name, fn.lit(end.date())).otherwise(day)
        return table.withColumn("date", day)

    def _state(self, kind: str, schema: StructType) -> DataFrame | None:
        if self._saved is None:
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


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, parts)


def _only(table: DataFrame, groups: DataFrame) -> DataFrame:
    return table.join(fn.broadcast(groups), _KEY, "left_semi")


def _but(table: DataFrame, groups: DataFrame) -> DataFrame:
    return table.join(fn.broadcast(groups), _KEY, "left_anti")
