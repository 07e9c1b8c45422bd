"""What commands write has the rights that the umask leaves, for files and folders, and nothing wider."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest
from tests.cli.commands import RUN

DUMP = Path(__file__).parents[1] / "data" / "dump" / "decoder-4.3.1.txt"
SCENARIO = {"name": "s", "duration": 1, "topics": {"t": 1}, "members": [{"name": "m", "topics": ["t"]}]}


@pytest.mark.parametrize(("umask", "file", "folder"), [("077", 0o600, 0o700), ("027", 0o640, 0o750)])
def test_outputs_have_the_rights_of_the_umask(tmp_path: Path, umask: str, file: int, folder: int) -> None:
    """Of a capture with its hidden files, and of a picture."""
    out, scenario = tmp_path / "out", tmp_path / "s.json"
    scenario.write_text(json.dumps(SCENARIO))
    for words in (
        ["capture", "--from-dump", str(DUMP), "--out", str(out / "capture")],
        ["simulate", str(scenario), "--strategies", "range", "--picture", str(out / "p.svg")],
    ):
        shell = ["/bin/sh", "-c", f'umask {umask}; mkdir -p "$0"; exec "$@"', str(out), *RUN, *words]
        assert subprocess.run(shell, capture_output=True, check=False).returncode in (0, 1)
    written = [path for path in out.rglob("*") if not path.is_symlink()]
    assert {"capture.json", "p.svg"} <= {path.name for path in written}
    rights = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in written}
    assert rights <= {(False, file), (True, folder), (False, 0o600), (True, 0o700)}
    assert rights >= {(False, file)}
