"""Which session an update is given: one for tasks where these may do it, else one for many small plans where Spark goes on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import OptionError
from counterpoise.pipeline.incremental import update
from counterpoise.pipeline.incremental.saved import Saved
from counterpoise.pipeline.source.choice import Choice
from tests.pipeline.conftest import SHOP


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("groups", [(), ("orders*",)])
def test_a_session_is_for_tasks_or_for_many_small_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: bool, groups: tuple[str, ...]
) -> None:
    asked: list[tuple[dict[str, str], int, bool]] = []

    def session(settings: dict[str, str] | None = None, *, records: int, by_tasks: bool = False) -> tuple[Any, bool]:
        asked.append((dict(settings or {}), records, by_tasks))
        return None, True

    monkeypatch.setattr(update, "local_session", session)
    if goes_on:
        (tmp_path / ".since").mkdir()
        (tmp_path / ".since" / "state.json").write_text(Saved(1, {}, {}, {}).text())
    update.update_session({"default": SHOP}, tmp_path, {"spark.local.dir": "x"}, Choice(groups))
    ((settings, records, by_tasks),) = asked
    assert settings.pop("spark.local.dir") == "x"
    many_plans = goes_on and bool(groups)
    assert ("spark.sql.adaptive.enabled" in settings, records) == (many_plans, 0 if many_plans else 24_174)
    assert by_tasks == (not groups)


@pytest.mark.parametrize(
    "choice", [Choice(topics=("t",)), Choice(until=datetime(2026, 1, 1, tzinfo=UTC)), Choice(reset="latest")], ids=str
)
def test_of_what_is_chosen_only_groups_can_be_kept_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: Choice) -> None:
    monkeypatch.setattr(update, "local_session", None)
    with pytest.raises(OptionError, match="leave out --topic, --from, --to and --reset"):
        update.run_update({"default": SHOP}, tmp_path / "out", choice=choice)
