"""World: the clock, the queue of what happens next, and the topics."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from counterpoise.model.order import java_order
from counterpoise.model.problem import Int64

__all__ = ["World", "milliseconds"]

_TOPIC_STRIDE = 1 << 24
"""Partition key = topic number * stride + partition index; Kafka's topics stay far below 16 million partitions."""


def milliseconds(seconds: float) -> int:
    """The clock counts whole milliseconds, so that no result depends on rounding."""
    return round(seconds * 1000)


class World:
    """A discrete-event clock. Events of one millisecond run in the order they were scheduled."""

    def __init__(self, topic_names: Iterable[str], topics: Mapping[str, int]) -> None:
        self.now = 0
        self.topic_names = java_order(set(topic_names))
        self.topic_number = {name: number for number, name in enumerate(self.topic_names)}
        self.counts = np.array([topics.get(name, 0) for name in self.topic_names], np.int64)
        self.vanished: dict[int, int] = {}
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0

    def after(self, delay: int, happen: Callable[..., None], *arguments: Any) -> None:
        """Call `happen(*arguments)` in `delay` milliseconds."""
        self._scheduled += 1
        heapq.heappush(self._queue, (self.now + max(delay, 0), self._scheduled, happen, arguments))

    def run(self, until: int | None) -> None:
        """Let everything happen up to `until` (None: until nothing is left)."""
        while self._queue and (until is None or self._queue[0][0] <= until):
            self.now, _, happen, arguments = heapq.heappop(self._queue)
            happen(*arguments)
        if until is not None:
            self.now = until

    def resize(self, topic: str, partitions: int) -> None:
        """A topic grows, is created, or (0) is deleted."""
        number = self.topic_number[topic]
        before = int(self.counts[number])
        for index in range(partitions, before):
            self.vanished[number * _TOPIC_STRIDE + index] = self.now
        for index in range(before, partitions):
            self.vanished.pop(number * _TOPIC_STRIDE + index, None)
        self.counts[number] = partitions

    def keys(self, topic_start: Int64, partitions: Int64) -> Int64:
        """Partition codes of a problem over `topic_names` to keys that outlive it."""
        topic = np.searchsorted(topic_start, partitions, side="right") - 1
        return np.asarray(topic * _TOPIC_STRIDE + partitions - topic_start[topic])

    def codes(self, topic_start: Int64, keys: Int64) -> Int64:
        """The inverse; keys of partitions that no longer exist are left out."""
        topic, index = np.divmod(keys, _TOPIC_STRIDE)
        exists = index < self.counts[topic]
        return np.asarray(topic_start[topic[exists]] + index[exists])

    def describe(self, key: int) -> tuple[str, int]:
        """A key as topic name and partition index."""
        number, index = divmod(key, _TOPIC_STRIDE)
        return self.topic_names[number], index
