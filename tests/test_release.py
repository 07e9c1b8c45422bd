"""The checks of a release: a bill of materials without a package, a vulnerable one, and an audit that did not take place."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from counterpoise._version import __version__

ROOT = Path(__file__).resolve().parents[1]
_SPEC = importlib.util.spec_from_file_location("check_release", ROOT / "scripts" / "check_release.py")
assert _SPEC is not None
assert _SPEC.loader is not None
check_release: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(check_release)

LOCK = {("msgspec", "1.2"), ("typing-extensions", "4.1")}
MSGSPEC = '{"name": "msgspec", "version": "1.2", "vulns": []}'
TYPING = '{"name": "typing_extensions", "version": "4.1", "vulns": []}'
FLAWED = TYPING.replace("[]", '[{"id": "PYSEC-1"}]')
SKIPPED = '{"name": "typing-extensions", "skip_reason": "not found"}'


def test_every_locked_package_is_read() -> None:
    lock = check_release.locked((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    assert {"numpy", "msgspec", "pyspark"} <= {name for name, _ in lock}
    assert check_release.locked("a_b==1.0 ; python_version < '4' \\\n    --hash=sha256:0\nC==2\\\n") == {
        ("a-b", "1.0"),
        ("c", "2"),
    }


@pytest.mark.parametrize(
    ("names", "code", "message"),
    [
        (["msgspec 1.2", "Typing_Extensions 4.1"], 0, "lists all 2 packages"),
        (["msgspec 1.2"], 1, "lacks 1 of 2 packages: typing-extensions 4.1"),
        (["msgspec 1.3", "typing-extensions 4.1"], 1, "lacks 1 of 2 packages: msgspec 1.2"),
    ],
)
def test_a_bill_of_materials_lists_every_locked_package(names: list[str], code: int, message: str) -> None:
    bill = {"components": [dict(zip(("name", "version"), name.split(), strict=True)) for name in names]}
    assert check_release.billed(bill, LOCK) == (code, f"the bill of materials {message}")


@pytest.mark.parametrize(
    ("report", "code", "message"),
    [
        (f'{{"dependencies": [{MSGSPEC}, {TYPING}]}}', 0, "no known vulnerability in 2 packages"),
        (f'{{"dependencies": [{MSGSPEC}, {FLAWED}]}}', 1, "1 known vulnerabilities: typing_extensions 4.1: PYSEC-1"),
        (f'{{"dependencies": [{MSGSPEC}, {SKIPPED}]}}', 3, "1 of 2 packages were not audited"),
        ("", 3, "2 of 2 packages were not audited"),
    ],
)
def test_an_audit_is_about_every_locked_package(report: str, code: int, message: str) -> None:
    found, line = check_release.audited(report, LOCK)
    assert (found, line[: len(message)]) == (code, message)


def steps(workflow: str) -> list[str]:
    """The commands of every job of a workflow."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / workflow).read_text(encoding="utf-8"))["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


def test_workflows_run_what_ci_runs_and_targets_that_exist() -> None:
    assert steps("ci.yml") == [".ci/run", "make test-versions", "make check-deploy"]
    assert steps("release.yml")[:2] == [".ci/run", "make release"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = {target for file in ("ci.yml", "release.yml") for one in steps(file) for target in re.findall(r"^make (\S+)", one)}
    assert asked <= targets


def test_the_citation_and_the_changelog_have_the_version_and_the_licence_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"], citation["cff-version"]) == (__version__, "Apache-2.0", "1.2.0")
    (newest, date), *_ = re.findall(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert (newest, date) == (__version__, citation["date-released"])
    minor = ".".join(__version__.split(".")[:2])
    assert f"| {minor} | yes |" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_supported_python_is_tested() -> None:
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    script = (ROOT / "scripts" / "test_versions.sh").read_text(encoding="utf-8")
    assert named == ["3.11", "3.12", "3.13", "3.14"]
    assert re.findall(r"python(3\.\d+)\)\" lowest|(3\.\d+):3", script) == [("3.11", ""), *(("", one) for one in named[1:])]
