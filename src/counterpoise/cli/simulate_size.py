"""`counterpoise simulate --members`: the lag of a recorded group over time, with another number of members."""

from __future__ import annotations

import json
from typing import Any

import click
import numpy as np

from counterpoise.cli.render import console, table_of
from counterpoise.errors import OptionError
from counterpoise.pipeline.audited_lag import AuditedProduction, audited_production
from counterpoise.pipeline.tables.paths import rows_of_group
from counterpoise.pipeline.wording import times
from counterpoise.simulation.backlog import backlog

__all__ = ["simulate_size"]

_ROWS = 20
_KEEPS_UP_S = 10
"""A group keeps up if it ends at most this much of its production further behind than it began."""


def simulate_size(audit: str, group: str, cluster: str | None, members: int, capacity: float | None, *, as_json: bool) -> bool:
    """Print the recorded lag and that with `members`; returns whether they keep up. `capacity`: that of the audit if None.

    Raises `OptionError` if no capacity is known, and as `audited_production`.
    """
    known = audited_production(audit, group, cluster)
    per_second, quality = (capacity, "given") if capacity is not None else _capacity(audit, group, cluster)
    lag = backlog(known.produced, known.seconds, known.first, members, per_second)
    mean = float(known.produced.sum() / known.seconds.sum())
    keeps_up = bool(lag[-1] <= lag[0] + _KEEPS_UP_S * mean)
    found = {
        "group": group,
        "members": members,
        "capacity_per_second": per_second,
        "capacity_quality": quality,
        "keeps_up": keeps_up,
        "largest_lag": round(float(lag.max())),
        "largest_lag_at": f"{known.at[lag.argmax()]}Z",
        "lag_at_end": round(float(lag[-1])),
        "recorded_largest_lag": round(float(known.lag.max())),
        "recorded_lag_at_end": round(float(known.lag[-1])),
    }
    if as_json:
        series = {"at": [f"{at}Z" for at in known.at], "lag": np.rint(lag).tolist(), "recorded_lag": known.lag.tolist()}
        click.echo(json.dumps(found | {"series": series | {"produced": known.produced.sum(axis=0).tolist()}}))
    else:
        _print(found, known, lag)
    return keeps_up


def _capacity(audit: str, group: str, cluster: str | None) -> tuple[float, str]:
    """The newest capacity of a member in the audit, and its quality."""
    rows = rows_of_group(audit, "group_report", group, cluster).select(["date", "capacity_per_second", "capacity_quality"])
    newest: dict[str, Any] = max(rows.to_pylist(), key=lambda row: str(row["date"]), default={"capacity_per_second": None})
    if newest["capacity_per_second"] is None:
        raise OptionError(
            f"{audit}: what a member of group {group} can do is unknown there; give it with --capacity RECORDS_PER_SECOND"
        )
    return newest["capacity_per_second"], newest["capacity_quality"]


def _print(found: dict[str, Any], known: AuditedProduction, lag: Any) -> None:
    rate = np.append(known.produced.sum(axis=0) / known.seconds, np.nan)
    shown = np.unique(np.linspace(0, len(lag) - 1, _ROWS).astype(np.int64)).tolist()
    rows = [
        (
            f"{known.at[at].astype('datetime64[s]')}Z",
            "" if at + 1 == len(lag) else f"{rate[at]:,.0f}",
            f"{known.lag[at]:,.0f}",
            f"{lag[at]:,.0f}",
        )
        for at in shown
    ]
    n, capacity, quality = found["members"], found["capacity_per_second"], found["capacity_quality"]
    columns = ["at", "produced/s", "lag recorded", f"lag with {n}"]
    out = console()
    out.print(
        table_of(f"{found['group']}: {times(n, 'members')} of {capacity:,.1f} records/s", columns, rows, numeric=columns[1:])
    )
    bound = "; no member was ever behind, so members may do more, and the lag be less" if quality == "lower_bound" else ""
    words = (
        f"largest lag {found['largest_lag']:,} at {found['largest_lag_at']} (recorded: {found['recorded_largest_lag']:,}), "
        f"{found['lag_at_end']:,} at the end (recorded: {found['recorded_lag_at_end']:,}){bound}"
    )
    out.print(f"With {times(n, 'members')} the group {'keeps' if found['keeps_up'] else 'does not keep'} up: {words}.")
