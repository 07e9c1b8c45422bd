"""The chart of what a record costs: all stages are in it, the driver is not, and pieces are as wide as their shares."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from benchmarks.scale_chart import STAGES, bars, scale_chart


def run(records: int, **seconds: float) -> dict[str, Any]:
    stages = [{"stage": name, "java": own / 4, "worker": own * 3 / 4, "driver": own} for name, own in seconds.items()]
    return {"records": records, "stages": stages}


RUNS = [run(1_000_000, scan=2.0, summary=1.0, fold=4.0, store=1.0), run(20_000_000, scan=20.0, fold=60.0)]


def test_stages_without_a_piece_of_their_own_are_together_in_the_last_one() -> None:
    assert bars(RUNS) == [("1 million", [2.0, 4.0, 0.0, 2.0]), ("20 million", [1.0, 3.0, 0.0, 0.0])]
    assert STAGES[-1] == "other"


def test_pieces_are_as_wide_as_their_shares() -> None:
    drawn = ET.fromstring(scale_chart(RUNS, "title", "description"))
    pieces = [
        float(one.attrib["width"]) for one in drawn.iter("{http://www.w3.org/2000/svg}rect") if one.attrib.get("y") != "20"
    ][1:]
    widest = sum(pieces[: len(STAGES)])
    assert [round(8 * piece / widest, 2) for piece in pieces] == [2, 4, 0, 2, 1, 3, 0, 0]
    assert [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")][-2:][0] == "4.0 us"
