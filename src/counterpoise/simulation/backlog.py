"""The lag of a group over time, if a number of members had to do the recorded production at a given rate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from counterpoise.errors import ScenarioError

__all__ = ["backlog"]

Float = npt.NDArray[np.float64]


def backlog(
    produced: Float,  # float64[P, T]: records of each partition in each interval
    seconds: Float,  # float64[T]: lengths of the intervals
    lag: Float,  # float64[P]: records behind at the begin
    members: int,  # Partitions are dealt out to them in turn and stay where they are
    capacity: float,  # Records per second of a member, whichever of its partitions they are in
) -> Float:
    """Records behind at each of T + 1 times.

    Raises `ScenarioError` if there is no member, or a member can do nothing.

    A queue per member, exact if production is even within an interval. Rebalances, start-up and the limits of what members share
    (a database, the network) are not simulated. O(P T).

    Examples
    --------
    >>> backlog(np.array([[60.0, 0.0]] * 2), np.array([1.0, 1.0]), np.zeros(2), members=2, capacity=50).tolist()
    [0.0, 20.0, 0.0]
    """
    if members < 1 or not capacity > 0:
        raise ScenarioError(f"{members} members of {capacity:g} records/s: expected at least one, and more than 0 records/s")
    most = min(members, len(lag))  # others have no partition
    work, behind = np.zeros((most, len(seconds))), np.zeros(most)
    owner = np.arange(len(lag)) % most
    np.add.at(work, owner, produced)
    np.add.at(behind, owner, lag)
    total = [behind.sum()]
    for done, length in zip(work.T, seconds.tolist(), strict=True):
        behind = np.maximum(behind + done - capacity * length, 0.0)
        total.append(behind.sum())
    return np.array(total)
