"""A problem as a group leader would get it: partition counts and JoinGroup metadata, in a file that every peer can read.

Layout, integers big-endian: int32 topics, int32 partition count of each; int32 members, then for each its metadata
(int32 length, bytes). Topic t is named t00000.., member m m00000..: six characters, so that a list of owned partitions
is a whole number of 4-byte words and can be written without a loop over partitions.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem

__all__ = ["GENERATION", "member_name", "read_group", "read_owners", "topic_name", "write_group"]

GENERATION = 1
"""Of every claim."""


def topic_name(code: int) -> str:
    """Six characters, sorted like the codes."""
    return f"t{code:05d}"


def member_name(code: int) -> str:
    """Six characters, sorted like the codes."""
    return f"m{code:05d}"


def write_group(problem: Problem, dialect: str, path: Path) -> None:
    """Write the problem; dialect "sticky" puts claims into user data (eager), "cooperative-sticky" into owned partitions."""
    entries, words, word_start = _owned_lists(problem)
    subscribed = _topics_of_members(problem)
    with path.open("wb") as out:
        counts = np.diff(problem.topic_start)
        out.write(struct.pack(">i", len(counts)) + counts.astype(">i4").tobytes())
        out.write(struct.pack(">i", problem.n_members))
        for member in range(problem.n_members):
            owned = words[word_start[member] : word_start[member + 1]].tobytes()
            metadata = _subscription(subscribed[member], int(entries[member]), owned, dialect)
            out.write(struct.pack(">i", len(metadata)) + metadata)


def read_group(path: Path) -> tuple[dict[str, int], dict[str, bytes]]:
    """Partition counts by topic name, metadata by member name."""
    data = path.read_bytes()
    n_topics = int.from_bytes(data[:4], "big")
    counts = np.frombuffer(data, ">i4", n_topics, 4).tolist()
    at = 4 + 4 * n_topics
    n_members = int.from_bytes(data[at : at + 4], "big")
    at += 4
    metadata: dict[str, bytes] = {}
    for member in range(n_members):
        length = int.from_bytes(data[at : at + 4], "big")
        metadata[member_name(member)] = data[at + 4 : at + 4 + length]
        at += 4 + length
    return {topic_name(topic): count for topic, count in enumerate(counts)}, metadata


def read_owners(path: Path) -> Int32:
    """What a peer decided, int32[P]: UNOWNED where nobody got the partition."""
    return np.fromfile(path, ">i4").astype(np.int32)


def _subscription(topics: bytes, n_entries: int, owned: bytes, dialect: str) -> bytes:
    listed = struct.pack(">i", n_entries) + owned
    generation = struct.pack(">i", GENERATION if n_entries else -1)
    if dialect == "sticky":
        user_data, owned_field = (listed + generation if n_entries else b""), struct.pack(">i", 0)
    else:
        user_data, owned_field = generation, listed
    rack = struct.pack(">h", -1)
    return struct.pack(">h", 3) + topics + struct.pack(">i", len(user_data)) + user_data + owned_field + generation + rack


def _name_words(codes: Int64) -> tuple[Int64, Int64]:
    """The length prefix and the name of each topic, as two words."""
    digit = [codes // 10**place % 10 + ord("0") for place in range(4, -1, -1)]
    return (6 << 16) + (ord("t") << 8) + digit[0], (digit[1] << 24) + (digit[2] << 16) + (digit[3] << 8) + digit[4]


def _topics_of_members(problem: Problem) -> list[bytes]:
    topic = np.repeat(np.arange(problem.n_topics), np.diff(problem.subscriber_start))
    order = np.argsort(problem.subscriber, kind="stable")
    words = np.stack(_name_words(topic[order]), axis=1).astype(">i4")
    start = np.append(0, np.cumsum(np.bincount(problem.subscriber, minlength=problem.n_members)))
    return [
        struct.pack(">i", start[m + 1] - start[m]) + words[start[m] : start[m + 1]].tobytes() for m in range(problem.n_members)
    ]


def _owned_lists(problem: Problem) -> tuple[Int64, np.ndarray, Int64]:
    """Topic entries per member int64[M], all members' entries as words, and where each member's begin int64[M+1]."""
    owned = np.flatnonzero(problem.previous_owner > UNOWNED)
    owned = owned[np.argsort(problem.previous_owner[owned], kind="stable")]
    member = problem.previous_owner[owned].astype(np.int64)
    topic = problem.topic_of_partition()[owned].astype(np.int64)
    first = np.ones(len(owned), np.bool_)
    first[1:] = (np.diff(member) != 0) | (np.diff(topic) != 0)
    entry = np.cumsum(first) - 1
    at = np.flatnonzero(first)
    words = np.empty(len(owned) + 3 * len(at), ">i4")
    words[np.arange(len(owned)) + 3 * (entry + 1)] = owned - problem.topic_start[topic]
    header = at + 3 * np.arange(len(at))
    words[header], words[header + 1] = _name_words(topic[at])
    words[header + 2] = np.diff(np.append(at, len(owned)))
    entries = np.bincount(member[at], minlength=problem.n_members)
    partitions = np.bincount(member, minlength=problem.n_members)
    return entries, words, np.append(0, np.cumsum(partitions + 3 * entries))
