"""Figures of every rebalance for Prometheus, from a live consumer. In a clone: pip install '.[kafka-python]' prometheus-client

python examples/metrics_prometheus.py --bootstrap-server localhost:9092 --topic orders --port 8000

The class is ready to be copied; it works with aiokafka's assignors as well.
"""

import argparse
import signal

from kafka import KafkaConsumer
from prometheus_client import REGISTRY, Counter, Gauge, Histogram, start_http_server

from counterpoise.clients.kafka_python import CooperativeStickyAssignor

LABELS = ("group", "strategy")


class PrometheusMetrics:
    """Give its methods to an assignor: `on_lead=metrics.led, on_rebalance=metrics.rebalanced`."""

    def __init__(self, registry=REGISTRY):
        def made(kind, name, meaning, **more):
            return kind(f"counterpoise_{name}", meaning, LABELS, registry=registry, **more)

        self.rebalances = made(Counter, "rebalances", "rounds in which this member was given an assignment")
        self.gained = made(Counter, "partitions_gained", "partitions this member got")
        self.lost = made(Counter, "partitions_lost", "partitions this member gave up")
        self.owned = made(Gauge, "partitions_owned", "partitions this member has now")
        self.left = made(Gauge, "partitions_left", "partitions of the group that move in the next round")
        self.joining = made(Histogram, "join_seconds", "from joining to the assignment")
        self.led_members = made(Gauge, "led_members", "members of the group; in its leader")
        self.led_spread = made(Gauge, "led_spread", "largest minus smallest load of the plan; in the leader")
        self.led_moved = made(Counter, "led_moved", "partitions that plans moved; in the leader")
        self.led_dropped_claims = made(Counter, "led_dropped_claims", "claims on what does not exist; in the leader")
        self.led_seconds = made(Histogram, "led_seconds", "time to plan; its count: plans; in the leader", buckets=(0.001, 0.01, 0.1, 1, 10))

    def led(self, lead):
        labels = (lead.group, lead.strategy)
        self.led_members.labels(*labels).set(len(lead.loads))
        self.led_spread.labels(*labels).set(lead.spread)
        self.led_moved.labels(*labels).inc(lead.moved)
        self.led_dropped_claims.labels(*labels).inc(lead.dropped_claims)
        self.led_seconds.labels(*labels).observe(lead.milliseconds / 1000)

    def rebalanced(self, seen):
        labels = (seen.group, seen.strategy)
        self.rebalances.labels(*labels).inc()
        self.gained.labels(*labels).inc(len(seen.gained))
        self.lost.labels(*labels).inc(len(seen.lost))
        self.owned.labels(*labels).set(len(seen.owned))
        self.left.labels(*labels).set(seen.left)
        self.joining.labels(*labels).observe(seen.milliseconds / 1000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--port", type=int, default=8000, help="where Prometheus reads")
    given = parser.parse_args()
    ending = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: ending.append(True))
    metrics = PrometheusMetrics()
    start_http_server(given.port)
    consumer = KafkaConsumer(
        given.topic,
        bootstrap_servers=given.bootstrap_server,
        group_id=f"{given.topic}-metrics",
        partition_assignment_strategy=[CooperativeStickyAssignor(on_lead=metrics.led, on_rebalance=metrics.rebalanced)],
    )
    while not ending:
        consumer.poll(timeout_ms=500)
    consumer.close()


if __name__ == "__main__":
    main()
