"""The constructor of each assignor, with exactly the settings its strategy reads; the classes of both hosts share them.

Settings that every assignor has: `on_lead` and `on_rebalance`, called with each `counterpoise.planning.lead.Lead` this
member makes as a leader and with each `counterpoise.clients.rebalance_report.Rebalance` it takes part in. They are plain
functions, for logs and metrics; their errors are logged and do not stop the rebalance.
"""

from __future__ import annotations

from counterpoise.clients.host_assignor import HostAssignor
from counterpoise.clients.lag_source import LagAware, LagSource
from counterpoise.clients.rebalance_report import OnLead, OnRebalance

__all__ = ["ConstrainedCooperativeSticky", "CooperativeSticky", "Lag", "LagSticky", "Range", "RoundRobin", "Sticky"]


class Range(HostAssignor):
    """`range`: exactly Kafka's, static members first, racks included.

    Parameters
    ----------
    rack : str, optional
        The member's rack (KIP-881). Default: the consumer's `client_rack` on kafka-python 3. The other clients do not
        show it to assignors: repeat it here.
    on_lead, on_rebalance : callable, optional
    """

    name = "range"

    def __init__(
        self, *, rack: str | None = None, on_lead: OnLead | None = None, on_rebalance: OnRebalance | None = None
    ) -> None:
        super().__init__(rack=rack, on_lead=on_lead, on_rebalance=on_rebalance)


class RoundRobin(HostAssignor):
    """`roundrobin`: exactly Kafka's.

    Parameters
    ----------
    on_lead, on_rebalance : callable, optional
    """

    name = "roundrobin"

    def __init__(self, *, on_lead: OnLead | None = None, on_rebalance: OnRebalance | None = None) -> None:
        super().__init__(on_lead=on_lead, on_rebalance=on_rebalance)


class Sticky(HostAssignor):
    """`sticky`: optimal balance, then as few moves as such balance allows; eager.

    Parameters
    ----------
    rack : str, optional
        As for `Range`.
    capacity : int
        What this member can carry, 1 to 2**31 - 1: a member of capacity 2 gets twice the load of one of capacity 1. Leaders of
        other libraries ignore it.
    racks, evenness : str
        Options of the strategy. The leader's count: give all members the same.
    on_lead, on_rebalance : callable, optional
    """

    name = "sticky"

    def __init__(
        self,
        *,
        rack: str | None = None,
        capacity: int = 1,
        racks: str = "after",
        evenness: str = "near",
        on_lead: OnLead | None = None,
        on_rebalance: OnRebalance | None = None,
    ) -> None:
        super().__init__(rack=rack, capacity=capacity, on_lead=on_lead, on_rebalance=on_rebalance, racks=racks, evenness=evenness)


class CooperativeSticky(Sticky):
    """`cooperative-sticky`: the same targets; under the cooperative protocol only what moves stops (KIP-429).

    Parameters as for `Sticky`.
    """

    name = "cooperative-sticky"


class ConstrainedCooperativeSticky(HostAssignor):
    """`constrained-cooperative-sticky`: KAFKA-9987 and KAFKA-12464; counterpoise members only.

    Parameters
    ----------
    capacity : int
        As for `Sticky`.
    on_lead, on_rebalance : callable, optional
    """

    name = "constrained-cooperative-sticky"

    def __init__(self, *, capacity: int = 1, on_lead: OnLead | None = None, on_rebalance: OnRebalance | None = None) -> None:
        super().__init__(capacity=capacity, on_lead=on_lead, on_rebalance=on_rebalance)


class Lag(LagAware):
    """`lag`: the rule of KAFKA-5337; counterpoise members only.

    Parameters
    ----------
    lag : LagSource
        For example `counterpoise.clients.lag_source.live_lag`; see `LagAware`.
    lag_within_s : float
        How long the leader waits for it, seconds.
    scope : str
        The strategy's own.
    on_lead, on_rebalance : callable, optional
    """

    name = "lag"

    def __init__(
        self,
        *,
        lag: LagSource | None = None,
        lag_within_s: float = 1.0,
        scope: str = "topic",
        on_lead: OnLead | None = None,
        on_rebalance: OnRebalance | None = None,
    ) -> None:
        super().__init__(lag, lag_within_s, on_lead=on_lead, on_rebalance=on_rebalance, scope=scope)


class LagSticky(LagAware):
    """`lag-sticky`: balanced counts, then lag near a proven bound, then few moves; counterpoise members only.

    Parameters
    ----------
    lag, lag_within_s
        As for `Lag`.
    capacity : int
        As for `Sticky`.
    tolerance, min_lag_gain, max_moves, counts
        The strategy's own, see docs/lag.md.
    on_lead, on_rebalance : callable, optional
    """

    name = "lag-sticky"

    def __init__(
        self,
        *,
        lag: LagSource | None = None,
        lag_within_s: float = 1.0,
        capacity: int = 1,
        tolerance: float = 0.1,
        min_lag_gain: int = 0,
        max_moves: int | None = None,
        counts: str | int = "balanced",
        on_lead: OnLead | None = None,
        on_rebalance: OnRebalance | None = None,
    ) -> None:
        super().__init__(
            lag,
            lag_within_s,
            capacity=capacity,
            on_lead=on_lead,
            on_rebalance=on_rebalance,
            tolerance=tolerance,
            min_lag_gain=min_lag_gain,
            max_moves=max_moves,
            counts=counts,
        )
