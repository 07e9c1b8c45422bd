"""World: the clock, the queue of what happens next, and the topics."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64
from counterpoise.wire.primitives import java_order

__all__ = ["World", "milliseconds"]

_TOPIC_STRIDE = 1 << 24
"""Partition key = topic number * stride + partition index; Kafka's topics stay far below 16 million partitions."""


@lru_cache(1024)
def milliseconds(seconds: float) -> int:
    """The clock counts whole milliseconds, so that no result depends on rounding."""
    return round(seconds * 1000)


class World:
    """A discrete-event clock. Events of one millisecond run in the order they were scheduled."""

    def __init__(self, topic_names: Iterable[str], topics: Mapping[str, int]) -> None:
        self.now = self.rest = 0  # `rest`: time of the last event that was not a timer: the end of a run without a fixed length
        self.resized = -1  # when a topic last changed its number of partitions; -1: never
        self.topic_names = java_order(set(topic_names))
        self.topic_number = {name: number for number, name in enumerate(self.topic_names)}
        # int64[T]: partitions of each topic now; topic numbers follow sorted names
        self.counts = np.array([topics.get(name, 0) for name in self.topic_names], np.int64)
        self._queue: list[tuple[int, int, bool, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0
        self._numbers: dict[tuple[str, ...], Int64] = {}

    def after(self, delay: int, happen: Callable[..., None], *arguments: Any, timer: bool = False) -> None:
        """Call `happen(*arguments)` in `delay` milliseconds. A `timer` does not prolong the run: mostly it has nothing to do."""
        self._scheduled += 1
        heapq.heappush(self._queue, (self.now + max(delay, 0), self._scheduled, timer, happen, arguments))

    def run(self, until: int | None) -> None:
        """Run the events up to `until`; None: all events, and the clock then stands at the last one that was not a timer."""
        while self._queue and (until is None or self._queue[0][0] <= until):
            self.now, _, timer, happen, arguments = heapq.heappop(self._queue)
            self.rest = self.rest if timer else self.now
            happen(*arguments)
        self.now = self.rest if until is None else until

    def resize(self, topic: str, partitions: int) -> tuple[Int64, Int64]:
        """A topic grows, is created, or (0) is deleted; the keys that vanish and those that come, ascending."""
        number = self.topic_number[topic]
        before = int(self.counts[number])
        self.counts[number] = partitions
        self.resized = self.now
        base = number * _TOPIC_STRIDE
        return np.arange(base + partitions, base + before), np.arange(base + before, base + partitions)

    def keys(self, topic_start: Int64, partitions: Int64) -> Int64:
        """Partition codes of a problem over `topic_names` to keys that outlive it; ascending if the codes are."""
        topic = np.searchsorted(topic_start, partitions, side="right") - 1
        return np.asarray(topic * _TOPIC_STRIDE + partitions - topic_start[topic])

    def codes(self, topic_start: Int64, keys: Int64) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """The inverse: codes of the keys that exist, and which of the keys those are."""
        topic, index = keys // _TOPIC_STRIDE, keys % _TOPIC_STRIDE
        exists = index < self.counts[topic]
        return np.asarray(topic_start[topic[exists]] + index[exists]), exists

    def count_existing(self, keys: Int64) -> int:
        """How many of the keys exist now."""
        return int(np.count_nonzero(keys % _TOPIC_STRIDE < self.counts[keys // _TOPIC_STRIDE]))

    def numbers(self, topics: tuple[str, ...]) -> Int64:
        """The numbers of these topics."""
        if topics not in self._numbers:
            self._numbers[topics] = np.array([self.topic_number[name] for name in topics], np.int64)
        return self._numbers[topics]

    def on_topics(self, keys: Int64, topics: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Which keys belong to these topics."""
        mask = np.zeros(len(self.topic_names), np.bool_)
        mask[self.numbers(topics)] = True
        return np.asarray(mask[keys // _TOPIC_STRIDE])

    def describe(self, key: int) -> tuple[str, int]:
        """A key as topic name and partition index."""
        number, index = divmod(key, _TOPIC_STRIDE)
        return self.topic_names[number], index
