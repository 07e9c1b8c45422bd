"""Who held which partition from when to when, in arrays, from rows of `rebalances`.

A member has a partition until it is handed out again or the group takes its next step; what a cooperative round withholds is held
until the step after it, unless its owner left. The broker's members commit what they give up after the step that takes it, so
there commits are nobody's only after the step that follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.commits.sums import NEVER

__all__ = ["STEP_COLUMNS", "Handed", "Steps", "coded", "departed", "handed", "recoded", "steps_of"]

STEP_COLUMNS = (
    *("group_id", "log_partition", "log_offset", "log_ts", "kind", "protocol_kind", "generation", "assignment"),
    *("recreated", "left", "n_withheld"),
)
_ENDS = ("emptied", "deleted", "migrated")
_REPLACED = "static_replacement"


@dataclass(frozen=True)
class Steps:
    """Steps of some groups, each group's in the order of the log.

    Attributes
    ----------
    group : int64
        A code.
    time, offset : int64
    following : int64
        When the group's next step came; NEVER: it never did. Who left with that step holds nothing from then on.
    until, nobody_from : int64
        The same for whoever stayed (see above).
    eager : bool
        A rebalance that stops everything.
    generation : int64
        -1 = none.
    """

    group: Int64
    time: Int64
    offset: Int64
    following: Int64
    until: Int64
    nobody_from: Int64
    eager: npt.NDArray[np.bool_]
    generation: Int64


def steps_of(table: pa.Table, group: Int64) -> Steps:
    """Rows sorted by group, log partition and log offset, with a code of their group each."""
    n = len(table)
    time = table["log_ts"].cast(pa.int64()).to_numpy()
    protocol, kind = table["protocol_kind"].to_pylist(), table["kind"].to_pylist()
    ends = np.array([one in _ENDS for one in kind], np.bool_)
    withheld = table["n_withheld"].fill_null(0).to_numpy() > 0
    one, two = _following(group, time, n, 1), _following(group, time, n, 2)
    ended, waits = (np.append(told[1:], False)[:n] & (one != NEVER) for told in (ends, withheld))
    waits &= np.array([told == "cooperative" for told in protocol], np.bool_)
    lingers = waits | (np.array([told == "server" for told in protocol], np.bool_) & ~ended)
    eager = np.array([told == "eager" and what != _REPLACED for told, what in zip(protocol, kind, strict=True)], np.bool_)
    until, nobody_from = np.where(waits, two, one), np.where(lingers, two, one)
    generation = table["generation"].fill_null(-1).to_numpy().astype(np.int64)
    return Steps(group, time, table["log_offset"].to_numpy(), one, until, nobody_from, eager, generation)


def departed(left: pa.ListArray, out: Handed, following: Int64) -> npt.NDArray[np.bool_]:
    """For each row of `out` whether its member left with the group's next step; `left` is that column of all steps."""
    code = {name: at for at, name in enumerate(out.members)}
    gone = np.array([code.get(name, -1) for name in left.flatten().to_pylist()], np.int64)
    before = left.value_parent_indices().to_numpy().astype(np.int64) - 1
    known = (gone >= 0) & (before >= 0)
    wide = len(code) + 1
    found: npt.NDArray[np.bool_] = np.isin(out.step * wide + out.member, before[known] * wide + gone[known])
    there: npt.NDArray[np.bool_] = following[out.step] != NEVER  # else the step after it is another group's
    return np.logical_and(found, there)


def _following(group: Int64, time: Int64, n: int, by: int) -> Int64:
    """The time of the step that comes so many later in the same group."""
    after = np.full(n, NEVER, np.int64)
    same = group[by:] == group[:-by]
    after[: max(n - by, 0)][same] = time[by:][same]
    return after


@dataclass(frozen=True)
class Handed:
    """One row per step and partition it hands out: places and names as codes into the lists."""

    step: Int64
    topic: Int64
    partition: Int64
    member: Int64
    topics: list[str]
    members: list[str]


def handed(assignment: pa.ListArray) -> Handed:
    """The column `assignment` of some steps, flat."""
    members, step_of_member = assignment.flatten(), assignment.value_parent_indices().to_numpy()
    assigned = members.field("assigned")
    entries, member_of_entry = assigned.flatten(), assigned.value_parent_indices().to_numpy()
    listed = entries.field("partitions")
    entry = listed.value_parent_indices().to_numpy()
    member = member_of_entry[entry]
    topic, topics = coded(entries.field("topic"))
    name, names = coded(members.field("member_id"))
    partition = listed.flatten().to_numpy().astype(np.int64)
    return Handed(step_of_member[member].astype(np.int64), topic[entry], partition, name[member], topics, names)


def coded(texts: Any) -> tuple[Int64, list[str]]:
    """Texts as codes into a list of the different ones."""
    encoded = texts.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            return np.zeros(0, np.int64), []
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()


def recoded(code: Int64, names: list[str], known: dict[str, int]) -> Int64:
    """Codes into one list for all."""
    return np.array([*(known.setdefault(name, len(known)) for name in names), 0], np.int64)[code]
