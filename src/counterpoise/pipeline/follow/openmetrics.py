"""Current figures as OpenMetrics over HTTP, for Prometheus, with the names and labels of common lag exporters."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from counterpoise.errors import OptionError
from counterpoise.pipeline.follow.gauges import Gauges

__all__ = ["MOST_GROUPS", "MOST_MEMBERS", "PREFIX", "Figures", "serve"]

MOST_GROUPS = 2_000
"""Maximal number of groups with series; the first ones by name."""
MOST_MEMBERS = 10_000
"""Maximal number of members with a series."""
PREFIX = "kafka_consumergroup_group"
_GROUP = ["cluster_name", "group"]
_COUNTERS = {
    "rebalances": ("rebalances", "Rebalances since the recording began."),
    "moved_partitions": ("moved", "Partitions that went from one living member to another."),
    "failed_generations": ("failed_generations", "Generations that never got an assignment."),
}
_GAUGES = {
    # No counter: a later commit can show that a partition stopped for less.
    "stopped_partition_seconds": ("stopped_partition_seconds", "Partition-seconds without a commit because of rebalances."),
    "members": ("members_now", "Members as of the last generation."),
    "idle_members": ("idle_now", "Members without a partition as of the last generation."),
    "spread_partitions": ("spread_now", "Partitions between the member with most and the one with fewest."),
}
"""Name after the prefix, of which the last word is the unit -> the column of `group_report`, and the help text."""


class Figures(Collector):
    """The figures of `Gauges` at the time of a scrape; a deleted group has no series."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families, samples sorted by group."""
        every = self._gauges.groups
        groups = [([one.cluster, one.group], one) for one in every[:MOST_GROUPS]]
        for families, kind in ((_COUNTERS, CounterMetricFamily), (_GAUGES, GaugeMetricFamily)):
            for name, (figure, words) in families.items():
                known = [(at, one.counts[figure]) for at, one in groups if figure in one.counts]
                yield _family(f"{PREFIX}_{name}", words, _GROUP, known, name.rpartition("_")[2], kind)
        lag = [(at, one.lag) for at, one in groups if one.lag is not None]
        late = [(at, one.lag_seconds) for at, one in groups if one.lag_seconds is not None]
        members = [([*at, each.member_id, each.client_id], each.lag) for at, one in groups for each in one.members]
        states = [([*at, state], number) for at, one in groups for state, number in sorted(one.states.items())]
        # Without a unit: it would have to end the name, and dashboards expect these names.
        yield _family(f"{PREFIX}_sum_lag", "Records behind, all partitions.", _GROUP, [(at, total) for at, (total, _) in lag])
        words = "Lag in records of the partition with the largest one."
        yield _family(f"{PREFIX}_max_lag", words, _GROUP, [(at, most) for at, (_, most) in lag])
        yield _family(f"{PREFIX}_max_lag_seconds", "Time lag in seconds of the partition with the largest one.", _GROUP, late)
        labels, words = [*_GROUP, "consumer_id", "client_id"], "Records behind, the partitions of one member."
        yield _family(f"{PREFIX}_member_sum_lag", words, labels, members[:MOST_MEMBERS])
        words = "Partitions of a group in a state of the table health, now."
        yield _family(f"{PREFIX}_state_partitions", words, [*_GROUP, "state"], states, "partitions")
        words, labels = "Groups that an action of the audit concerns, by kind of action.", ["cluster_name", "kind"]
        yield _family("counterpoise_action_groups", words, labels, sorted(self._gauges.actions.items()), "groups")
        words, labels = "Findings that are not accepted.", ["cluster_name", "kind", "severity"]
        yield _family("counterpoise_findings", words, labels, sorted(self._gauges.findings.items()))
        words = "Groups and members beyond the limits, which have no series."
        beyond = (("groups", len(every) - len(groups)), ("members", max(0, len(members) - MOST_MEMBERS)))
        yield _family("counterpoise_left_out", words, ["what"], [([what], number) for what, number in beyond])
        words, newest = "Time of the newest group record that is in the tables.", self._gauges.newest
        known = [] if newest is None else [([], newest.timestamp())]
        yield _family("counterpoise_newest_record_timestamp_seconds", words, [], known, "seconds")


def _family(
    name: str,
    words: str,
    labels: list[str],
    known: Sequence[tuple[Sequence[str], float]],
    unit: str = "",
    kind: type[CounterMetricFamily | GaugeMetricFamily] = GaugeMetricFamily,
) -> Metric:
    family = kind(name, words, labels=labels, unit=unit)
    for values, figure in known:
        family.add_metric(list(values), figure)
    return family


def serve(gauges: Gauges, port: int, host: str, trouble: Callable[[], str | None]) -> Callable[[], None]:
    """Serve ``/metrics`` and ``/healthz`` at ``http://host:port`` in daemon threads; returns a function that stops the server.

    ``/healthz`` answers 200, or 503 with the words that `trouble` returns.
    Raises `OptionError` if the port is taken, or `host` is no address of this machine.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures(gauges))

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that goes away is no error of the server."""
            if not isinstance(sys.exception(), ConnectionError | TimeoutError):
                super().handle_error(request, client_address)

    try:
        server = Server((host, port), _handler(registry, trouble))
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
        timeout = 30  # Seconds without a request after which a connection is closed

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
