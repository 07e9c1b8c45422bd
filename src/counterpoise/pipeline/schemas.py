"""Arrow schemas of all tables, written in the DDL of Spark; names and order of columns are stable, because users query them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

__all__ = ["ACTION_PARTS", "ASSIGNMENT", "COLUMNS", "TABLES"]

_SCALARS = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "binary": pa.binary(),
}


def _table(*columns: str) -> pa.Schema:
    return pa.schema(_columns(iter(re.findall(r"\w+|[<>,]", ",".join(columns))), ""))


def _columns(words: Iterator[str], end: str) -> list[pa.Field]:
    fields = []
    for name in words:
        kind, after = _type(words)
        fields.append(pa.field(name, kind))
        if after == end:
            break
    return fields


def _type(words: Iterator[str]) -> tuple[pa.DataType, str]:
    """One type, and the word that follows it."""
    name = next(words)
    if name in _SCALARS:
        return _SCALARS[name], next(words, "")
    assert next(words) == "<", name
    if name == "struct":
        return pa.struct(_columns(words, ">")), next(words, "")
    of = _type(words)[0]
    return (pa.list_(of) if name == "array" else pa.map_(of, _type(words)[0])), next(words, "")


_PARTITIONS = "array<struct<topic string, partitions array<int>>>"
_ASSIGNMENT = f"assignment array<struct<member_id string, client_id string, assigned {_PARTITIONS}>>"
_SKEWED = "skewed_topics array<struct<topic string, most int, fewest int, most_client string, fewest_client string>>"
_RECORD = "cluster string, log_partition int, log_offset bigint, log_ts timestamp"
_STEP = """cluster string, group_id string, incarnation int, generation int, log_partition int, log_offset bigint,
    log_ts timestamp"""

_ERA = """seconds double, rebalances int, rebalances_per_day double, moved int, moved_per_day double, stopped_seconds double,
    stopped_seconds_per_day double, samples int, lag_mean double, lag_peak bigint"""
_SAVED = "saved_seconds double, estimated_seconds double, saved_moves bigint, saved_rebalances bigint, restarts int"
ACTION_PARTS = _table(
    f"cluster string, group_id string, kind string, target string, now string, severity string, score double, {_SAVED}",
    "findings array<string>, saved_moves_per_day double, amount double, lost bigint, members int, full_stop boolean",
    "by_broker boolean",
    "config array<struct<library string, lines string>>",
)
"""What a group contributes to an action; not a table."""

TABLES: dict[str, pa.Schema] = {
    "offset_commits": _table(
        _RECORD,
        """group_id string, topic string, partition int, committed_offset bigint, leader_epoch int, metadata string,
        commit_ts timestamp, expire_ts timestamp, topic_id string, value_version int, deleted boolean""",
    ),
    "group_generations": _table(
        _RECORD,
        f"""group_id string, protocol_type string, protocol string, generation int, leader string, state_ts timestamp,
        value_version int, deleted boolean, members array<struct<
            member_id string, group_instance_id string, client_id string, client_host string,
            rebalance_timeout_ms int, session_timeout_ms int, topics array<string>, owned {_PARTITIONS},
            owned_generation int, rack_id string, subscription_version int, user_data binary,
            assigned {_PARTITIONS}, assignment_version int, library string>>,
        leader_library string""",
    ),
    "modern_group_records": _table(
        _RECORD,
        """group_id string, record_type int, member_id string, epoch int, payload string, deleted boolean,
        client_id string, rebalance_timeout_ms int""",
    ),
    "decode_errors": _table(_RECORD, "record_type int, value_version int, reason string, key binary, value binary"),
    "rebalances": _table(
        _STEP,
        f"""group_type string, protocol_type string, protocol string, protocol_kind string, kind string, cause string,
        joined array<string>, left array<string>, restarted array<string>, missed_generations int,
        sync_latency_ms bigint, n_members int, n_static int, n_idle int, n_partitions int, n_moved int, n_kept int,
        leader string, leader_library string, logical_rebalance int, detail string, {_ASSIGNMENT}, complete boolean,
        settle_ms bigint,
        subscriptions array<struct<member_id string, group_instance_id string, topics array<string>>>,
        n_withheld int, recreated array<string>""",
    ),
    "partition_lag": _table(
        """cluster string, group_id string, topic string, partition int, at timestamp, committed bigint,
        log_start bigint, log_end bigint, lag bigint, owner string, quality string, clamped boolean, time_lag_ms bigint"""
    ),
    "health": _table(
        """cluster string, scope string, group_id string, topic string, partition int, member_id string, client_id string,
        state string, since timestamp, until timestamp, detected timestamp, open boolean, owner string, partitions int,
        lag_begin bigint, lag_end bigint, lag_peak bigint,
        produced_per_second double, consumed_per_second double, seconds_left double"""
    ),
    "replays": _table(_STEP, "strategy string, mode string", _ASSIGNMENT),
    "metrics": _table(
        _STEP,
        """strategy string, mode string, protocol_kind string, declared boolean, leader_library string,
        n_members int, n_partitions int, spread int, kip54_score bigint, jain double, max_topic_spread int,
        moved int, kept int, min_moves int, revoked int, max_member_lag bigint, lag_cv double, makespan_ratio double,
        lag_unknown int, duplicates int, unassigned int, balanced boolean, sticky boolean, matches_observed boolean,
        n_skewed_topics int""",
        _SKEWED,
    ),
    "group_report": _table(
        """cluster string, group_id string, group_type string, protocol_type string, protocol string, protocol_kind string,
        libraries array<string>, leader_libraries array<string>, first_ts timestamp, last_ts timestamp, state string,
        complete boolean, generations int, rebalances int, rebalances_per_day double, followups int,
        failed_generations int, static_replacements int, emptied int, deletions int, causes map<string, int>,
        joins int, leaves int, restarts int,
        storm_rebalances int, storm_start timestamp, storm_seconds double, storm_clients array<string>,
        members_now int, members_peak int, static_now int, distinct_members int,
        idle_now int, idle_peak int, idle_clients array<string>, partitions_now int, topics array<string>,
        sync_latency_ms_p50 double, sync_latency_ms_max bigint, sync_latency_generation int, slow_leader string,
        moved int, commits bigint, commit_tombstones bigint, commits_without_owner bigint, committed_partitions bigint,
        first_commit timestamp, last_commit timestamp,
        stopped_partition_seconds double, longest_stop_seconds double, longest_stop_generation int,
        spread_now int, spread_peak int, topic_spread_now int,
        lag_now bigint, lag_quality string, lag_owner string, lag_owner_share double,
        compared_generations int, replay_fidelity double, fidelity_by_library map<string, double>, fidelity_note string,
        observed_moved int, observed_revoked int, needless_moves int, needless_generation int,
        strategies array<struct<
            strategy string, mode string, moved bigint, revoked bigint, spread_peak int, topic_spread_peak int,
            balanced bigint, generations bigint, lag_peak bigint, makespan_ratio double, stopped_seconds double>>,
        suggested_strategy string, suggestion string, migration_note string,
        poll_kicks int, poll_kick_clients array<string>, poll_kick_generation int, poll_interval_ms int, polled boolean,
        generation_now int, failed_generation int, restart_clients array<string>, leave_clients array<string>,
        partitions_without_owner int, unowned_commits array<struct<topic string, partition int, commits bigint>>,
        unowned_generation int, sync_latency_ts timestamp, failed_ts timestamp, longest_stop_ts timestamp,
        needless_ts timestamp, poll_kick_ts timestamp,
        lag_partitions array<struct<topic string, partition int, lag bigint>>, busiest_clients array<string>,
        n_skewed_topics int""",
        _SKEWED,
        """production_per_second double, production_ts timestamp,
        busiest_partitions array<struct<topic string, partition int, per_second double>>,
        capacity_per_second double, capacity_quality string, capacity_windows int, member_load_per_second double,
        members_needed int, members_useful int, sizing_seconds double""",
        """health string, health_states array<struct<
            state string, seconds double, partitions int, since timestamp, lag bigint, lost bigint,
            produced_per_second double, consumed_per_second double, seconds_left double>>,
        unhealthy array<struct<
            state string, topic string, partition int, client_id string, since timestamp, lag bigint, lost bigint>>,
        stopped_unsampled_seconds double, restart_rebalances int""",
    ),
    "changes": _table(
        "cluster string, group_id string, kind string, at timestamp, began timestamp, state_before string, state_after string",
        f"before struct<{_ERA}>, after struct<{_ERA}>, certainty double, verdict string",
    ),
    "findings": _table(
        """cluster string, rank int, severity string, kind string, group_id string, title string, evidence string,
        cost string, action string, score double, numbers map<string, double>, generation int, at timestamp,
        owner string, accepted_until date, accepted_reason string"""
    ),
    "actions": _table(
        "cluster string, rank int, severity string, kind string, target string, title string, saves string, cost string",
        f"action string, n_groups int, groups array<struct<group_id string, {_SAVED}, findings array<string>>>, {_SAVED}",
        "saved_moves_per_day double",
        "config array<struct<library string, lines string, n_groups int, groups array<struct<group_id string>>>>",
    ),
}
"""Every table by the name of its folder, in the order in which they are written."""
ASSIGNMENT = TABLES["replays"].field("assignment").type
COLUMNS = {name: table.remove(0) for name, table in TABLES.items()}
"""The columns of a table's files: those of `TABLES` without the cluster, which is in the path."""
