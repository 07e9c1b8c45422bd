"""Schemas of every table the audit reads and writes; names and order are a promise to whoever queries them."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = [
    "COMMON",
    "DECODE_ERRORS",
    "FINDINGS",
    "GROUP_GENERATIONS",
    "GROUP_REPORT",
    "MEASURED_REPLAYS",
    "METRICS",
    "MODERN_GROUP_RECORDS",
    "OFFSET_COMMITS",
    "PARTITION_LAG",
    "REBALANCES",
    "RECORDS",
    "REPLAYS",
    "TABLES",
]

_S, _I, _L, _B, _T, _D = StringType(), IntegerType(), LongType(), BooleanType(), TimestampType(), DoubleType()
_BIN = BinaryType()


def _struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in fields.items()])


def _join(*parts: StructType) -> StructType:
    return StructType([field for part in parts for field in part.fields])


TOPIC_PARTITIONS = ArrayType(_struct(topic=_S, partitions=ArrayType(_I)))
ASSIGNMENT = ArrayType(_struct(member_id=_S, client_id=_S, assigned=TOPIC_PARTITIONS))

RECORDS = _struct(key=_BIN, value=_BIN, topic=_S, partition=_I, offset=_L, timestamp=_T, timestampType=_I)
"""What Spark's Kafka source gives; the input of `decode`."""

COMMON = _struct(cluster=_S, log_partition=_I, log_offset=_L, log_ts=_T)

OFFSET_COMMITS = _join(
    COMMON,
    _struct(
        group_id=_S,
        topic=_S,
        partition=_I,
        committed_offset=_L,
        leader_epoch=_I,
        metadata=_S,
        commit_ts=_T,
        expire_ts=_T,
        topic_id=_S,
        value_version=_I,
        deleted=_B,
    ),
)

MEMBER = _struct(
    member_id=_S,
    group_instance_id=_S,
    client_id=_S,
    client_host=_S,
    rebalance_timeout_ms=_I,
    session_timeout_ms=_I,
    topics=ArrayType(_S),
    owned=TOPIC_PARTITIONS,
    owned_generation=_I,
    rack_id=_S,
    subscription_version=_I,
    user_data=_BIN,
    assigned=TOPIC_PARTITIONS,
    assignment_version=_I,
    library=_S,
)

GROUP_GENERATIONS = _join(
    COMMON,
    _struct(
        group_id=_S,
        protocol_type=_S,
        protocol=_S,
        generation=_I,
        leader=_S,
        state_ts=_T,
        value_version=_I,
        deleted=_B,
        members=ArrayType(MEMBER),
        leader_library=_S,
    ),
)

MODERN_GROUP_RECORDS = _join(
    COMMON,
    _struct(group_id=_S, record_type=_I, member_id=_S, epoch=_I, payload=_S, deleted=_B, client_id=_S, rebalance_timeout_ms=_I),
)

DECODE_ERRORS = _join(COMMON, _struct(record_type=_I, value_version=_I, reason=_S, key=_BIN, value=_BIN))

_GENERATION = _struct(cluster=_S, group_id=_S, incarnation=_I, generation=_I, log_partition=_I, log_offset=_L, log_ts=_T)

REBALANCES = _join(
    _GENERATION,
    _struct(
        group_type=_S,
        protocol_type=_S,
        protocol=_S,
        protocol_kind=_S,
        kind=_S,
        cause=_S,
        joined=ArrayType(_S),
        left=ArrayType(_S),
        restarted=ArrayType(_S),
        missed_generations=_I,
        sync_latency_ms=_L,
        n_members=_I,
        n_static=_I,
        n_idle=_I,
        n_partitions=_I,
        n_moved=_I,
        n_kept=_I,
        leader=_S,
        leader_library=_S,
        logical_rebalance=_I,
        detail=_S,
        assignment=ASSIGNMENT,
        complete=_B,
        settle_ms=_L,
        subscriptions=ArrayType(_struct(member_id=_S, group_instance_id=_S, topics=ArrayType(_S))),
        n_withheld=_I,
        recreated=ArrayType(_S),
    ),
)

PARTITION_LAG = _struct(
    cluster=_S,
    group_id=_S,
    topic=_S,
    partition=_I,
    at=_T,
    committed=_L,
    log_start=_L,
    log_end=_L,
    lag=_L,
    owner=_S,
    quality=_S,
    clamped=_B,
    time_lag_ms=_L,
)

REPLAY_KEY = _join(_GENERATION, _struct(strategy=_S, mode=_S))

REPLAYS = _join(REPLAY_KEY, _struct(assignment=ASSIGNMENT))

FIGURES = _struct(
    n_members=_I,
    n_partitions=_I,
    spread=_I,
    kip54_score=_L,
    jain=_D,
    max_topic_spread=_I,
    moved=_I,
    kept=_I,
    min_moves=_I,
    revoked=_I,
    max_member_lag=_L,
    lag_cv=_D,
    makespan_ratio=_D,
    lag_unknown=_I,
    duplicates=_I,
    unassigned=_I,
    balanced=_B,
    sticky=_B,
    matches_observed=_B,
)

SKEWED_TOPICS = ArrayType(_struct(topic=_S, most=_I, fewest=_I, most_client=_S, fewest_client=_S))

METRICS = _join(
    REPLAY_KEY,
    _struct(protocol_kind=_S, declared=_B, leader_library=_S),
    FIGURES,
    _struct(n_skewed_topics=_I, skewed_topics=SKEWED_TOPICS),
)

MEASURED_REPLAYS = _join(METRICS, _struct(assignment=ASSIGNMENT))
"""Both at once: what the one pass over the generations gives."""

GROUP_REPORT = _struct(
    cluster=_S,
    group_id=_S,
    group_type=_S,
    protocol_type=_S,
    protocol=_S,
    protocol_kind=_S,
    libraries=ArrayType(_S),
    leader_libraries=ArrayType(_S),
    first_ts=_T,
    last_ts=_T,
    state=_S,
    complete=_B,
    generations=_I,
    rebalances=_I,
    rebalances_per_day=_D,
    followups=_I,
    failed_generations=_I,
    static_replacements=_I,
    emptied=_I,
    deletions=_I,
    causes=MapType(_S, _I),
    joins=_I,
    leaves=_I,
    restarts=_I,
    storm_rebalances=_I,
    storm_start=_T,
    storm_seconds=_D,
    storm_clients=ArrayType(_S),
    members_now=_I,
    members_peak=_I,
    static_now=_I,
    distinct_members=_I,
    idle_now=_I,
    idle_peak=_I,
    idle_clients=ArrayType(_S),
    partitions_now=_I,
    topics=ArrayType(_S),
    sync_latency_ms_p50=_D,
    sync_latency_ms_max=_L,
    sync_latency_generation=_I,
    slow_leader=_S,
    moved=_I,
    commits=_L,
    commit_tombstones=_L,
    commits_without_owner=_L,
    committed_partitions=_L,
    first_commit=_T,
    last_commit=_T,
    stopped_partition_seconds=_D,
    longest_stop_seconds=_D,
    longest_stop_generation=_I,
    spread_now=_I,
    spread_peak=_I,
    topic_spread_now=_I,
    lag_now=_L,
    lag_quality=_S,
    lag_owner=_S,
    lag_owner_share=_D,
    judged_generations=_I,
    replay_fidelity=_D,
    fidelity_by_library=MapType(_S, _D),
    fidelity_note=_S,
    observed_moved=_I,
    observed_revoked=_I,
    needless_moves=_I,
    needless_generation=_I,
    strategies=ArrayType(
        _struct(
            strategy=_S,
            mode=_S,
            moved=_L,
            revoked=_L,
            spread_peak=_I,
            topic_spread_peak=_I,
            balanced=_L,
            generations=_L,
            lag_peak=_L,
            makespan_ratio=_D,
            stopped_seconds=_D,
        )
    ),
    suggested_strategy=_S,
    suggestion=_S,
    migration_note=_S,
    poll_kicks=_I,
    poll_kick_clients=ArrayType(_S),
    poll_kick_generation=_I,
    poll_interval_ms=_I,
    polled=_B,
    generation_now=_I,
    failed_generation=_I,
    restart_clients=ArrayType(_S),
    leave_clients=ArrayType(_S),
    partitions_without_owner=_I,
    unowned_commits=ArrayType(_struct(topic=_S, partition=_I, commits=_L)),
    unowned_generation=_I,
    sync_latency_ts=_T,
    failed_ts=_T,
    longest_stop_ts=_T,
    needless_ts=_T,
    poll_kick_ts=_T,
    lag_partitions=ArrayType(_struct(topic=_S, partition=_I, lag=_L)),
    busiest_clients=ArrayType(_S),
    n_skewed_topics=_I,
    skewed_topics=SKEWED_TOPICS,
)

FINDINGS = _struct(
    cluster=_S,
    rank=_I,
    severity=_S,
    kind=_S,
    group_id=_S,
    title=_S,
    evidence=_S,
    cost=_S,
    action=_S,
    score=_D,
    numbers=MapType(_S, _D),
    generation=_I,
    at=_T,
)

TABLES: dict[str, StructType] = {
    "offset_commits": OFFSET_COMMITS,
    "group_generations": GROUP_GENERATIONS,
    "modern_group_records": MODERN_GROUP_RECORDS,
    "decode_errors": DECODE_ERRORS,
    "rebalances": REBALANCES,
    "partition_lag": PARTITION_LAG,
    "replays": REPLAYS,
    "metrics": METRICS,
    "group_report": GROUP_REPORT,
    "findings": FINDINGS,
}
"""Every table by the name of its folder, in the order in which they are made."""
