"""Two consumers of one process, both given the assignor's class: what each keeps when a third comes and goes."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from typing import Any


def kafka_python(bootstrap: str, topic: str) -> None:
    from kafka import KafkaConsumer

    from counterpoise.clients.kafka_python import StickyAssignor

    owned: dict[str, set[Any]] = {}
    ending = {"one": threading.Event(), "two": threading.Event(), "three": threading.Event()}

    def member(name: str) -> None:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            partition_assignment_strategy=[StickyAssignor],
            heartbeat_interval_ms=500,
        )
        while not ending[name].is_set():
            consumer.poll(timeout_ms=200)
            owned[name] = set(consumer.assignment())
        consumer.close()
        owned.pop(name)

    threads = {name: threading.Thread(target=member, args=(name,)) for name in ending}
    threads["one"].start()
    wait(lambda: counts(owned) == [6])
    threads["two"].start()
    wait(lambda: counts(owned) == [3, 3])
    before = dict(owned)
    threads["three"].start()
    wait(lambda: counts(owned) == [2, 2, 2])
    ending["three"].set()
    threads["three"].join()
    wait(lambda: counts(owned) == [3, 3])
    tell(before, owned)
    for each in ending.values():
        each.set()


def counts(owned: dict[str, set[Any]]) -> list[int]:
    return sorted(len(each) for each in owned.values())


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.1)


def tell(before: dict[str, set[Any]], now: dict[str, set[Any]]) -> None:
    # One of the three went to the newcomer, and may have come back to either.
    kept = {name: len(before[name] & now[name]) for name in ("one", "two")}
    print(", ".join(f"{name} kept {'2 or more' if count >= 2 else count}" for name, count in kept.items()))  # noqa: T201


async def aiokafka(bootstrap: str, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer

    from counterpoise.clients.aiokafka import StickyAssignor

    async def member() -> Any:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            partition_assignment_strategy=[StickyAssignor],
            heartbeat_interval_ms=500,
        )
        await consumer.start()
        return consumer

    consumers: dict[str, Any] = {}

    async def settled(wanted: list[int]) -> None:
        for _ in range(600):
            if counts({name: each.assignment() for name, each in consumers.items()}) == wanted:
                return
            await asyncio.sleep(0.1)
        raise TimeoutError

    consumers["one"] = await member()
    await settled([6])
    consumers["two"] = await member()
    await settled([3, 3])
    before = {name: set(each.assignment()) for name, each in consumers.items()}
    consumers["three"] = await member()
    await settled([2, 2, 2])
    await consumers.pop("three").stop()
    await settled([3, 3])
    tell(before, {name: set(each.assignment()) for name, each in consumers.items()})
    for each in consumers.values():
        await each.stop()


if __name__ == "__main__":
    if sys.argv[1] == "kafka_python":
        kafka_python(*sys.argv[2:])
    else:
        asyncio.run(aiokafka(*sys.argv[2:]))
