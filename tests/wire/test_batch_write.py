"""Commits written by the million are the bytes that the row-wise encoder writes."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoise.errors import WireError
from counterpoise.wire.offsets_topic import RecordType, encode_value
from counterpoise.wire.offsets_topic.batch_write import commit_values
from counterpoise.wire.offsets_topic.values import OffsetCommitValue

N = 500


def test_every_value_is_the_row_wise_encoder_s() -> None:
    rng = np.random.default_rng(3)
    version = rng.choice([1, 3, 4], N).astype(np.int16)
    offset, commit, expire = (rng.integers(-(2**62), 2**62, N) for _ in range(3))
    epoch = rng.integers(-1, 2**31 - 1, N).astype(np.int32)
    ids = rng.integers(0, 256, (N, 16)).astype(np.uint8)
    ids[rng.random(N) < 0.4] = 0
    starts, data = commit_values(version, offset, commit, epoch, expire, ids)
    assert len(starts) == N + 1
    seen = set()
    for at in range(N):
        number = int(version[at])
        value = OffsetCommitValue(
            offset=int(offset[at]),
            leader_epoch=int(epoch[at]),
            metadata="",
            commit_timestamp=int(commit[at]),
            expire_timestamp=int(expire[at]),
            topic_id=ids[at].tobytes(),
        )
        seen.add((number, ids[at].any()))
        assert data[starts[at] : starts[at + 1]].tobytes() == encode_value(RecordType.OFFSET_COMMIT, value, number), number
    assert len(seen) == 6


def test_other_versions_are_refused() -> None:
    one = np.ones(1, np.int64)
    with pytest.raises(WireError, match="2 is not written here"):
        commit_values(one.astype(np.int16) * 2, one, one, one.astype(np.int32), one, np.zeros((1, 16), np.uint8))
