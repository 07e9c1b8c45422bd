"""A group of three kafka-python consumers goes from `range` to `cooperative-sticky` in two bounces, without a stop.

python examples/rolling_upgrade.py --bootstrap-server localhost:9092 --topic orders

Each consumer is a thread here; in a deployment each is a process, and a bounce is a rolling restart with new settings:

    before          partition_assignment_strategy=[RangePartitionAssignor]          kafka-python's own
    first bounce    [CooperativeStickyAssignor, RangeAssignor]                      still eager; understood by all
    second bounce   [CooperativeStickyAssignor]                                     cooperative

The group changes over to cooperative-sticky when the last member has made its first bounce. Never skip it: a member that
offers only cooperative-sticky cannot join a group in which somebody offers only range.
"""

import argparse
import threading
import time

from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from counterpoise.clients.kafka_python import CooperativeStickyAssignor, RangeAssignor

STEPS = {
    "before": [RangePartitionAssignor],
    "first bounce": [CooperativeStickyAssignor, RangeAssignor],
    "second bounce": [CooperativeStickyAssignor],
}


class Member(threading.Thread):
    """One consumer, polling until it must end."""

    def __init__(self, given, strategies):
        super().__init__(daemon=True)
        self.consumer = KafkaConsumer(
            given.topic,
            bootstrap_servers=given.bootstrap_server,
            group_id=f"{given.topic}-upgrade",
            partition_assignment_strategy=strategies,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=500,
        )
        self.ending = threading.Event()
        self.owned = set()
        self.start()

    def run(self):
        while not self.ending.is_set():
            self.consumer.poll(timeout_ms=200)
            self.owned = set(self.consumer.assignment())
        self.consumer.close()

    def end(self):
        self.ending.set()
        self.join()


def wait_until_owned(members, count):
    """Until the members own all partitions, each once, and have done so for a second."""
    since = None
    while since is None or time.monotonic() - since < 1:
        time.sleep(0.1)
        owned = [partition for member in members for partition in member.owned]
        whole = len(owned) == len(set(owned)) == count and all(member.owned for member in members)
        since = (since or time.monotonic()) if whole else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True, help="an existing topic of at least three partitions")
    given = parser.parse_args()
    members = [Member(given, STEPS["before"]) for _ in range(3)]
    count = len(members[0].consumer.partitions_for_topic(given.topic))
    wait_until_owned(members, count)
    for step, strategies in STEPS.items():
        if step != "before":
            for at in range(len(members)):
                members[at].end()
                members[at] = Member(given, strategies)
                wait_until_owned(members, count)
        print(f"{step}: {' '.join(each.__name__ for each in strategies)}; {[len(each.owned) for each in members]} partitions each", flush=True)
    for member in members:
        member.end()


if __name__ == "__main__":
    main()
