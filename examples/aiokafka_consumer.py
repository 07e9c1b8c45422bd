"""An aiokafka consumer with counterpoise's assignor and listener. In a clone: pip install '.[aiokafka]'

python examples/aiokafka_consumer.py --bootstrap-server localhost:9092 --topic orders

Start it as often as you like: the partitions are shared. Ctrl-C and SIGTERM end one of them in good order: what it has
processed is committed, it leaves the group, and the others take over at once.
"""

import argparse
import asyncio
import logging
import signal

from aiokafka import AIOKafkaConsumer

from counterpoise.clients.aiokafka import StickyAssignor
from counterpoise.clients.rebalance_listener import rebalance_listener


def words(partitions):
    return ", ".join(f"{each.topic}-{each.partition}" for each in partitions)


async def gained(partitions):
    print("gained", words(partitions), flush=True)


async def lost(partitions):
    print("lost", words(partitions), flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, help="end after so many records (default: never)")
    parser.add_argument("--session-timeout-ms", type=int, default=45_000, help="a member that is silent for so long is dead")
    given = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("counterpoise.clients").setLevel(logging.INFO)  # a line for each rebalance
    ending = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, ending.set)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=given.bootstrap_server,
        group_id=f"{given.topic}-aiokafka",  # all members of a group run the same strategies
        partition_assignment_strategy=[StickyAssignor],  # the one line
        session_timeout_ms=given.session_timeout_ms,
        enable_auto_commit=False,  # the listener commits what was processed
        auto_offset_reset="earliest",
    )
    await consumer.start()
    listener = rebalance_listener(consumer, on_gained=gained, on_lost=lost)
    consumer.subscribe([given.topic], listener=listener)
    seen = 0
    try:
        while not ending.is_set() and (given.records is None or seen < given.records):
            for partition, records in (await consumer.getmany(timeout_ms=500)).items():
                for record in records:
                    print(f"{partition.topic}-{partition.partition}: {record.value.decode()}", flush=True)
                    listener.processed(record)
                    seen += 1
            await listener.commit()  # no error when a rebalance is in progress: see docs/listener.md
    finally:
        await listener.commit()
        await consumer.stop()
        await listener.close()


if __name__ == "__main__":
    asyncio.run(main())
