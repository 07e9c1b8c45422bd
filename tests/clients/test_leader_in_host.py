"""The benchmark of leaders inside their hosts leads a real group, ours and the host's own, and takes no failure for slowness."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks import leader_in_host as bench

from counterpoise.wire.consumer_protocol import decode_assignment, decode_subscription
from counterpoise.wire.user_data import decode_sticky


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("host", bench.HOSTS)
@pytest.mark.parametrize("own", [False, True], ids=["ours", "its own"])
def test_every_partition_is_handed_out_once(host: str, own: bool) -> None:
    answer, members = bench.group(5, 100)
    given = bench.leader(host, own, answer).lead("sticky", 8, members)
    encoded = [data if isinstance(data, bytes) else data.encode() for data in given.values()]
    handed = [(topic, at) for data in encoded for topic, indices in decode_assignment(bytes(data)).partitions for at in indices]
    assert sorted(handed) == [(f"topic-{topic:02}", at) for topic in range(20) for at in range(5)]


@pytest.mark.parametrize("host", bench.HOSTS)
def test_our_leader_moves_no_more_than_the_newcomers_share(host: str) -> None:
    answer, members = bench.group(5, 100)
    given = bench.leader(host, False, answer).lead("sticky", 8, members)
    for member, metadata, _ in members:
        claimed = pairs(decode_sticky(decode_subscription(metadata).user_data).owned)
        owned = pairs(decode_assignment(given[member]).partitions)
        assert len(owned) == 20
        assert len(owned & claimed) == (20 if claimed else 0)


def pairs(partitions: Any) -> set[tuple[str, int]]:
    return {(topic, index) for topic, indices in partitions for index in indices}


def test_a_host_that_fails_is_an_error_and_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise SystemExit(3)

    monkeypatch.setattr(bench, "timed", fails)
    with pytest.raises(EOFError):
        bench.own_within("aiokafka", 5, 100, 60)
