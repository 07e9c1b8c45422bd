"""Options of `counterpoise audit` that do not go together, and the file counterpoise.toml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterpoise.errors import OptionError

if TYPE_CHECKING:
    from counterpoise.pipeline.findings.policy import Policy

__all__ = ["check_together", "policy_of"]

_NEEDS = {
    **dict.fromkeys(("--metrics-port", "--trigger", "--report-every"), "--follow"),
    "--metrics-host": "--metrics-port",
    "--table-prefix": "--into",
    "--salt": "--anonymize",
}
"""Option -> the one that it needs."""
_FOLLOW_EXCLUDES = {
    "--since": "following always begins where the last audit into OUT ended",
    "--json": "it has no end; read OUT/summary.json",
    "--fail-on": "it ends only when it is stopped; use the metrics",
}
_OF_TEXT = ("--verbose", "--severity", "--top")


def check_together(given: Mapping[str, Any]) -> None:
    """Raise an `OptionError` if an option is given without the one that it needs, or with one that it excludes.

    `given`: each option of the command, such as ``--follow``, with its value; and its sources as ``sources``.
    """
    for name, needed in _NEEDS.items():
        if given[name] is not None and not given[needed]:
            raise OptionError(f"{name} goes with {needed}; give both, or none")
    live = given["--bootstrap-server"] is not None or given["--command-config"] is not None
    if live == bool(given["sources"]):
        raise OptionError("give the folder of a capture (SOURCE), or a cluster with --bootstrap-server; not both, not none")
    if given["--since"] not in (None, "last"):
        raise OptionError(f"--since {given['--since']}: only last is known; for a time give --from")
    if given["--salt"] == "":
        raise OptionError("--salt is empty (an unset variable?); give a text, or leave it out for a random salt")
    if given["--anonymize"] and given["--salt"] is None and (live or given["--follow"] or given["--since"]):
        raise OptionError("--anonymize: the next audit must hash names alike; give --salt too, the same each time")
    for name in _OF_TEXT:
        if given[name] and (given["--follow"] or given["--json"]):
            raise OptionError(f"{name}: text is printed neither with --follow nor with --json; give one of them")
    for name, why in _FOLLOW_EXCLUDES.items():
        if given[name] and given["--follow"]:
            raise OptionError(f"{name} does not go with --follow: {why}")


def policy_of(file: Path | None) -> Policy:
    """The policy of ``--config``, or else of ``counterpoise.toml`` in the working folder, if there is one."""
    from counterpoise.pipeline.findings import RULES
    from counterpoise.pipeline.findings.policy import NO_POLICY, read_policy

    found = file or Path("counterpoise.toml")
    return read_policy(found, (rule.__name__ for rule in RULES)) if file or found.exists() else NO_POLICY
