"""Figures of every rebalance for OpenTelemetry: a class that is ready to be copied. Needs: pip install opentelemetry-api

    from opentelemetry import metrics

    seen = OpenTelemetryMetrics(metrics.get_meter("counterpoise"))
    StickyAssignor(on_lead=seen.led, on_rebalance=seen.rebalanced)
"""


class OpenTelemetryMetrics:
    """Give its methods to an assignor of either client: `on_lead=metrics.led, on_rebalance=metrics.rebalanced`."""

    def __init__(self, meter):
        self.rebalances = meter.create_counter("counterpoise.rebalances", description="rounds with an assignment for this member")
        self.gained = meter.create_counter("counterpoise.partitions.gained", description="partitions this member got")
        self.lost = meter.create_counter("counterpoise.partitions.lost", description="partitions this member gave up")
        self.owned = meter.create_up_down_counter("counterpoise.partitions.owned", description="partitions this member has now")
        self.joining = meter.create_histogram("counterpoise.join", unit="ms", description="from joining to the assignment")
        self.moved = meter.create_counter("counterpoise.led.moved", description="partitions that plans moved; in the leader")
        self.dropped_claims = meter.create_counter("counterpoise.led.dropped_claims", description="on what does not exist")
        self.planning = meter.create_histogram("counterpoise.led", unit="ms", description="time to plan; in the leader")

    def led(self, lead):
        where = {"group": lead.group, "strategy": lead.strategy}
        self.moved.add(lead.moved, where)
        self.dropped_claims.add(lead.dropped_claims, where)
        self.planning.record(lead.milliseconds, where)

    def rebalanced(self, seen):
        where = {"group": seen.group, "strategy": seen.strategy}
        self.rebalances.add(1, where)
        self.gained.add(len(seen.gained), where)
        self.lost.add(len(seen.lost), where)
        self.owned.add(len(seen.gained) - len(seen.lost), where)
        self.joining.record(seen.milliseconds, where)
