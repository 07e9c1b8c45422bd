"""Current figures as OpenMetrics over HTTP, for Prometheus, with the names and labels of common lag exporters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from counterpoise.errors import OptionError
from counterpoise.pipeline.follow.gauges import Gauges, GroupGauges

__all__ = ["MOST_GROUPS", "MOST_MEMBERS", "PREFIX", "Figures", "serve"]

MOST_GROUPS = 2_000
"""Maximal number of groups with series; the first ones by name."""
MOST_MEMBERS = 10_000
"""Maximal number of members with a series."""
PREFIX = "kafka_consumergroup_group"
_GROUP = ["cluster_name", "group"]
_COUNTERS = {
    "rebalances": ("rebalances", "rebalances", "Rebalances since the recording began."),
    "moved_partitions": ("partitions", "moved", "Partitions that went from one living member to another."),
    "failed_generations": ("generations", "failed_generations", "Generations that never got an assignment."),
}
_GAUGES = {
    # No counter: a later commit can show that a partition stopped for less.
    "stopped_partition_seconds": (
        "seconds",
        "stopped_partition_seconds",
        "Partition-seconds without a commit because of rebalances.",
    ),
    "members": ("members", "members_now", "Members as of the last generation."),
    "idle_members": ("members", "idle_now", "Members without a partition as of the last generation."),
    "spread_partitions": ("partitions", "spread_now", "Partitions between the member with most and the one with fewest."),
}
"""Name after the prefix -> its unit (the last word of the name), the column of `group_report`, and the help text."""


class Figures(Collector):
    """The figures of `Gauges` at the time of a scrape; a deleted group has no series."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families, samples sorted by group."""
        groups = self._gauges.groups
        shown = groups[:MOST_GROUPS]
        for families, kind in ((_COUNTERS, CounterMetricFamily), (_GAUGES, GaugeMetricFamily)):
            for name, (unit, figure, words) in families.items():
                family = kind(f"{PREFIX}_{name}", words, labels=_GROUP, unit=unit)
                for one in shown:
                    if figure in one.counts:
                        family.add_metric([one.cluster, one.group], one.counts[figure])
                yield family
        yield from self._lag(shown)
        yield from self._states(shown)
        yield from self._findings_and_actions()
        yield from self._about(len(groups) - len(shown), sum(len(one.members) for one in shown) - MOST_MEMBERS)

    def _lag(self, shown: Sequence[GroupGauges]) -> Iterator[Metric]:
        # Without a unit: it would have to end the name, and dashboards expect these names.
        total = GaugeMetricFamily(f"{PREFIX}_sum_lag", "Records behind, all partitions.", labels=_GROUP)
        most = GaugeMetricFamily(f"{PREFIX}_max_lag", "Lag in records of the partition with the largest one.", labels=_GROUP)
        late = GaugeMetricFamily(
            f"{PREFIX}_max_lag_seconds", "Time lag in seconds of the partition with the largest one.", labels=_GROUP
        )
        labels = [*_GROUP, "consumer_id", "client_id"]
        each = GaugeMetricFamily(f"{PREFIX}_member_sum_lag", "Records behind, the partitions of one member.", labels=labels)
        left = MOST_MEMBERS
        for one in shown:
            if one.lag is not None:
                total.add_metric([one.cluster, one.group], one.lag[0])
                most.add_metric([one.cluster, one.group], one.lag[1])
            if one.lag_seconds is not None:
                late.add_metric([one.cluster, one.group], one.lag_seconds)
            named = one.members[:left]
            left -= len(named)
            for member in named:
                each.add_metric([one.cluster, one.group, member.member_id, member.client_id], member.lag)
        yield from (total, most, late, each)

    def _states(self, shown: Sequence[GroupGauges]) -> Iterator[Metric]:
        words = "Partitions of a group in a state of the table health, now."
        states = GaugeMetricFamily(f"{PREFIX}_state_partitions", words, labels=[*_GROUP, "state"], unit="partitions")
        for one in shown:
            for state, partitions in sorted(one.states.items()):
                states.add_metric([one.cluster, one.group, state], partitions)
        yield states

    def _findings_and_actions(self) -> Iterator[Metric]:
        words = "Groups that an action of the audit concerns, by kind of action."
        family = GaugeMetricFamily("counterpoise_action_groups", words, labels=["cluster_name", "kind"], unit="groups")
        for (cluster, kind), groups in sorted(self._gauges.actions.items()):
            family.add_metric([cluster, kind], groups)
        yield family
        labels = ["cluster_name", "kind", "severity"]
        found = GaugeMetricFamily("counterpoise_findings", "Findings that are not accepted.", labels=labels)
        for key, number in sorted(self._gauges.findings.items()):
            found.add_metric(list(key), number)
        yield found

    def _about(self, groups: int, members: int) -> Iterator[Metric]:
        words = "Groups and members beyond the limits, which have no series."
        left_out = GaugeMetricFamily("counterpoise_left_out", words, labels=["what"])
        left_out.add_metric(["groups"], groups)
        left_out.add_metric(["members"], max(0, members))
        yield left_out
        words = "Time of the newest group record that is in the tables."
        newest = GaugeMetricFamily("counterpoise_newest_record_timestamp_seconds", words, unit="seconds")
        if self._gauges.newest is not None:
            newest.add_metric([], self._gauges.newest.timestamp())
        yield newest


def serve(gauges: Gauges, port: int, host: str, trouble: Callable[[], str | None]) -> Callable[[], None]:
    """Serve ``/metrics`` and ``/healthz`` at ``http://host:port`` in daemon threads; returns a function that stops the server.

    ``/healthz`` answers 200, or 503 with the words that `trouble` returns.
    Raises `OptionError` if the port is taken, or `host` is no address of this machine.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures(gauges))
    try:
        server = ThreadingHTTPServer((host, port), _handler(registry, trouble))
    except OSError as error:
        raise OptionError(f"--metrics-host {host}, --metrics-port {port}: {error.strerror}; give another host or port") from None
    thread = threading.Thread(target=server.serve_forever, name="counterpoise-metrics", daemon=True)
    thread.start()

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join(10)

    return end


def _handler(registry: CollectorRegistry, trouble: Callable[[], str | None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            kind, words, code = "text/plain; charset=utf-8", "only /metrics and /healthz are here", 404
            if path == "/healthz":
                found = trouble()
                words, code = found or "ok", 503 if found else 200
            body = f"{words}\n".encode()
            if path in ("/", "/metrics"):
                kind, body, code = CONTENT_TYPE_LATEST, generate_latest(registry), 200  # type: ignore[no-untyped-call]
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Scrapes every few seconds are not logged."""

    return Handler
