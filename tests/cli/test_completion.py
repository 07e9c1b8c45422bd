"""Shell completion, as docs/operate.md sets it up: commands, options and the values of options, in a real bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = 'eval "$(_COUNTERPOISE_COMPLETE=bash_source counterpoise)"'


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    ask = 'COMP_WORDS=(counterpoise "$@"); COMP_CWORD=$#; _counterpoise_completion counterpoise'
    script = f'{SETUP}\n{ask}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("sim",), ["simulate"]),
        (("audit", "--fail"), ["--fail-on"]),
        (("audit", "--fail-on", ""), ["notice", "warning", "critical", "never"]),
        (("plan", "--protocol", "e"), ["eager"]),
    ],
    ids=" ".join,
)
def test_bash_completes(words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*words) == offered


def test_the_page_has_the_line_that_sets_up_completion() -> None:
    assert f"    {SETUP}" in (Path(__file__).parents[2] / "docs" / "operate.md").read_text(encoding="utf-8")
