"""Which session an update is given: one that goes on looks at little, however large the capture is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterpoise.pipeline.incremental import update
from counterpoise.pipeline.incremental.saved import Saved
from tests.pipeline.conftest import SHOP


@pytest.mark.parametrize("goes_on", [False, True])
def test_going_on_has_a_session_for_many_small_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: bool) -> None:
    asked: list[tuple[dict[str, str], int]] = []

    def session(settings: dict[str, str] | None = None, *, records: int) -> tuple[Any, bool]:
        asked.append((dict(settings or {}), records))
        return None, True

    monkeypatch.setattr(update, "local_session", session)
    monkeypatch.setattr(update, "WHOLE", 24_173)
    if goes_on:
        (tmp_path / ".since").mkdir()
        (tmp_path / ".since" / "state.json").write_text(Saved(1, {}, {}, {}).text())
    update.update_session({"default": SHOP}, tmp_path, {"spark.local.dir": "x"})
    ((settings, records),) = asked
    assert settings.pop("spark.local.dir") == "x"
    assert ("spark.sql.adaptive.enabled" in settings, records) == (goes_on, 0 if goes_on else 24_174)
