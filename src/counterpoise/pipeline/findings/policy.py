"""counterpoise.toml: findings that are accepted until a day, owners of groups, and the address of the documentation."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from counterpoise.errors import OptionError
from counterpoise.pipeline.findings.finding import Finding
from counterpoise.snapshot.json_text import UNREADABLE, shown, text_of

__all__ = ["NO_POLICY", "Acceptance", "Owner", "Policy", "read_policy"]


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: str
    cluster: str = "*"


class Acceptance(_Entry, frozen=True, kw_only=True):
    """Findings that are accepted up to and including the day `until`: shell patterns of their kind, group and cluster."""

    finding: str
    reason: str
    until: date


class Owner(_Entry, frozen=True, kw_only=True):
    """The owner of the groups that match shell patterns."""

    name: str


T = TypeVar("T", Acceptance, Owner)


class Policy(msgspec.Struct, frozen=True):
    """What ``counterpoise.toml`` says; of several entries that match, the first counts."""

    accept: tuple[Acceptance, ...] = ()
    owner: tuple[Owner, ...] = ()
    docs: str | None = None  # The address of the documentation site, without a slash at its end, for links in the report

    def applied(self, finding: Finding, group: str, day: date, *, hashed: bool) -> Finding:
        """A finding of a recording that ends on this day, with owner and acceptance; without their texts if names are hashed."""
        accept = (one for one in self.accept if one.until >= day and fnmatchcase(finding.kind, one.finding))
        accepted, owner = _first(accept, finding.cluster, group), _first(self.owner, finding.cluster, group)
        return replace(
            finding,
            owner=None if owner is None or hashed else owner.name,
            accepted_until=None if accepted is None else accepted.until,
            accepted_reason=None if accepted is None or hashed else accepted.reason,
        )

    def ended(self, days: Mapping[str, date]) -> list[str]:
        """A note on entries that no longer accept anything; `days`: the last day of each cluster."""
        ended = [
            f"{one.finding} of {one.group} (until {one.until})"
            for one in self.accept
            if any(one.until < day and fnmatchcase(cluster, one.cluster) for cluster, day in days.items())
        ]
        return [f"counterpoise.toml: no longer accepted: {'; '.join(ended)}"] if ended else []


NO_POLICY = Policy()


def _first(entries: Iterable[T], cluster: str, group: str) -> T | None:
    return next((one for one in entries if fnmatchcase(cluster, one.cluster) and fnmatchcase(group, one.group)), None)


def read_policy(file: Path, kinds: Iterable[str]) -> Policy:
    """Read a file of tables ``[[accept]]`` and ``[[owner]]`` and the key ``docs``; `kinds` are those of findings.

    Raises `OptionError` if it cannot be read, or an entry has an unknown, a missing or a wrong field; the message names it.
    """
    try:
        given = tomllib.loads(text_of(file.read_bytes, file, OptionError))
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{file}: not TOML: {error}") from None
    if unknown := sorted(given.keys() - {"accept", "owner", "docs"}):
        raise OptionError(f"{file}: {unknown[0]!r} is unknown; there are docs, [[accept]] and [[owner]]")
    docs = given.get("docs")
    if docs is not None and not (isinstance(docs, str) and docs.startswith(("https://", "http://"))):
        raise OptionError(f"{file}, docs: {shown(docs)} is no address; it begins with https:// or http://")
    accept, owner = _entries(file, given, "accept", Acceptance), _entries(file, given, "owner", Owner)
    policy = Policy(accept, owner, docs and docs.rstrip("/"))
    known = sorted(kinds)
    for one in policy.accept:
        if not any(fnmatchcase(kind, one.finding) for kind in known):
            raise OptionError(f"{file}: no finding is called {one.finding!r}; there are: {', '.join(known)}")
    return policy


def _entries(file: Path, given: dict[str, Any], name: str, kind: type[T]) -> tuple[T, ...]:
    entries = given.get(name, [])
    if not isinstance(entries, list):
        raise OptionError(f"{file}: write [[{name}]] with two brackets, once for each entry")
    read = []
    for number, one in enumerate(entries, 1):
        try:
            read.append(msgspec.convert(one, kind))
        except UNREADABLE as error:
            words = str(error).replace("`", "").replace(" - at $.", ": ")
            raise OptionError(f"{file}, [[{name}]] number {number}: {words}") from None
    return tuple(read)
