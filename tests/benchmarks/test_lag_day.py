"""The simulated day: rates as recorded, limits kept, moves that cost something, and a picture that shows what the table says."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pyarrow.parquet as pq
import pytest
from benchmarks import lag_day
from benchmarks.chart import Panel, line_chart


def test_rates_are_those_of_the_recording() -> None:
    topics, rates = lag_day.recorded_rates()
    assert topics == sorted(topics)
    assert len(topics) == len(rates) == 12
    rows = [row for row in pq.read_table(lag_day.OFFSETS).to_pylist() if (row["topic"], row["partition"]) == ("clicks", 4)]
    grown = max(row["log_end"] for row in rows) - min(row["log_end"] for row in rows)
    seconds = (max(row["sampled_at"] for row in rows) - min(row["sampled_at"] for row in rows)).total_seconds()
    assert rates[topics.index("clicks")][4] == pytest.approx(grown / seconds)


def test_what_arrives_waits_or_has_been_worked_off_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can be faster than the members' limits allow, and nobody idles while something waits for it."""
    monkeypatch.setattr(lag_day, "DAY_S", 9 * 3600)
    shop = lag_day._Shop()
    for name in lag_day.STRATEGIES:
        day = lag_day.simulate_day(name)
        hours = np.arange(len(day.total)) * lag_day.STEP_S / 3600
        arrived = np.array([float(shop.rate(hour).sum()) for hour in hours]) * lag_day.STEP_S
        served = arrived - np.diff(day.total, prepend=0.0)
        allowed = np.array([lag_day._members_at(hour) for hour in hours]) * shop.limit * lag_day.STEP_S
        assert (served > -1e-6).all()
        assert (served < allowed + 1e-6).all()
        assert all(0 <= most <= total + 1e-6 for most, total in zip(day.largest, day.total, strict=True))


def test_without_a_limit_nothing_waits_but_what_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only lag left is that of eager stops and of partitions that change hands."""
    monkeypatch.setattr(lag_day, "DAY_S", 8 * 3600)
    monkeypatch.setattr(lag_day, "HEADROOM", 0.01)
    day = lag_day.simulate_day("sticky")
    assert (day.rebalances, day.moves > 0) == (1, True)
    late = np.flatnonzero(np.array(day.total) > 1e-3) * lag_day.STEP_S
    assert len(late) > 0
    assert 7 * 3600 <= late.min() <= late.max() <= 7 * 3600 + lag_day.MOVE_STOP_S


def test_the_picture_shows_each_line_to_scale() -> None:
    panel = Panel("waits & more", {"a": [0.0, 10.0, 0.0], "b": [5.0, 5.0, 5.0]})
    drawn = ET.fromstring(line_chart("t", "d", [0.0, 1.0, 2.0], [panel], {1.0: "event"}))
    paths = [each.attrib["d"] for each in drawn.iter("{http://www.w3.org/2000/svg}path") if "L" in each.attrib["d"]]
    heights = [[float(point.split()[1]) for point in path[1:].split("L")] for path in paths]
    assert (len(heights), heights[0][0] - heights[0][1]) == (2, 190.0)
    assert heights[1][0] == pytest.approx((heights[0][0] + heights[0][1]) / 2)
    assert {"a", "b", "waits & more", "event", "00:00"} <= {each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")}
