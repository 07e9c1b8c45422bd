"""The command that installs an extra works from wherever counterpoise was installed from."""

from __future__ import annotations

import importlib.metadata
import json
from types import SimpleNamespace

import pytest

from counterpoise.extras import pip_install


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, "pip install 'counterpoise[cli]'"),
        ({"url": "file:///a/clone", "dir_info": {}}, "pip install 'counterpoise[cli] @ file:///a/clone'"),
        ({"url": "file:///a/b.whl", "archive_info": {}}, "pip install 'counterpoise[cli] @ file:///a/b.whl'"),
        ({"url": "file:///a/clone", "dir_info": {"editable": True}}, "pip install -e '/a/clone[cli]'"),
        ({"url": "https://a.org/b", "vcs_info": {"vcs": "git"}}, "pip install 'counterpoise[cli] @ git+https://a.org/b'"),
        (
            {"url": "https://a.org/b", "vcs_info": {"vcs": "git", "requested_revision": "v1"}, "subdirectory": "py"},
            "pip install 'counterpoise[cli] @ git+https://a.org/b@v1#subdirectory=py'",
        ),
        ([], "pip install 'counterpoise[cli]'"),
    ],
    ids=["an index", "a clone", "a wheel", "an editable clone", "a repository", "a revision and a folder of it", "no object"],
)
def test_an_extra_is_installed_from_where_the_package_came_from(
    origin: dict[str, object] | list[object] | None, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file `direct_url.json` of PEP 610; there is none after an installation from an index."""
    installed = SimpleNamespace(read_text=lambda name: {"direct_url.json": None if origin is None else json.dumps(origin)}[name])
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: {"counterpoise": [installed]}[name])
    assert pip_install("cli") == line


def test_a_damaged_origin_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = SimpleNamespace(read_text=lambda _: "{")
    monkeypatch.setattr(importlib.metadata, "distributions", lambda **_: [installed])
    assert pip_install("cli") == "pip install 'counterpoise[cli]'"


def test_sources_that_are_not_installed_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "distributions", lambda **_: [])
    assert pip_install("cli") == "pip install 'counterpoise[cli]'"
