"""A kafka-python consumer with counterpoise's assignor and listener. In a clone: pip install '.[kafka-python]'

python examples/kafka_python_consumer.py --bootstrap-server localhost:9092 --topic orders

Start it as often as you like: the partitions are shared. Ctrl-C and SIGTERM end one of them in good order: what it has
processed is committed, it leaves the group, and the others take over at once.
"""

import argparse
import logging
import signal

from kafka import KafkaConsumer

from counterpoise.clients.kafka_python import CooperativeStickyAssignor
from counterpoise.clients.rebalance_listener import rebalance_listener


def words(partitions):
    return ", ".join(f"{each.topic}-{each.partition}" for each in partitions)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, help="end after so many records (default: never)")
    parser.add_argument("--session-timeout-ms", type=int, default=45_000, help="a member that is silent for so long is dead")
    given = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("counterpoise.clients").setLevel(logging.INFO)  # a line for each rebalance
    ending = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: ending.append(True))
    consumer = KafkaConsumer(
        bootstrap_servers=given.bootstrap_server,
        group_id=f"{given.topic}-kafka-python",  # all members of a group run the same strategies
        partition_assignment_strategy=[CooperativeStickyAssignor],  # the one line
        session_timeout_ms=given.session_timeout_ms,
        enable_auto_commit=False,  # the listener commits what was processed
        auto_offset_reset="earliest",
    )
    listener = rebalance_listener(
        consumer,
        on_gained=lambda partitions: print("gained", words(partitions), flush=True),
        on_lost=lambda partitions: print("lost", words(partitions), flush=True),
    )
    consumer.subscribe([given.topic], listener=listener)
    seen = 0
    try:
        while not ending and (given.records is None or seen < given.records):
            for partition, records in consumer.poll(timeout_ms=500).items():
                for record in records:
                    print(f"{partition.topic}-{partition.partition}: {record.value.decode()}", flush=True)
                    listener.processed(record)
                    seen += 1
            listener.commit()  # no error when a rebalance is in progress: see docs/listener.md
    finally:
        listener.commit()
        consumer.close()
        listener.close()


if __name__ == "__main__":
    main()
