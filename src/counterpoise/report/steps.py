"""The steps of a group's life in words: for the tooltips of the drawing and for the list below it."""

from __future__ import annotations

from counterpoise.report.history import GroupHistory, Row
from counterpoise.report.words import UNKNOWN, clock, count, duration, phrase, plural, visible

__all__ = ["called", "step_words", "steps_in_words"]


def step_words(history: GroupHistory, names: list[str], step: Row, *, day: bool = False, brief: bool = False) -> str:
    """One step in one sentence, with its date if `day`; when and what only if `brief`."""
    parts = [f"{clock(step['log_ts'], day=day)} generation {_number(step['generation'])}: {phrase(step['kind'])}{_because(step)}"]
    if brief:
        return parts[0]
    parts += [f"{verb}: {called(history, names, step[verb])}" for verb in ("joined", "left") if step[verb]]
    parts.append(f"{plural(step['n_members'] or 0, 'member')}, {plural(step['n_partitions'] or 0, 'partition')}")
    if step["n_moved"] is not None:
        parts.append(f"{count(step['n_moved'])} moved")
    if _wait(step) is not None:
        parts.append(f"settled after {duration(_wait(step))}")
    if step["missed_generations"]:
        parts.append(f"{plural(step['missed_generations'], 'generation')} before it failed")
    return "; ".join(parts)


def called(history: GroupHistory, names: list[str], ids: list[str] | None, sign: str = "", most: int = 6) -> str:
    """The names that the page gives to member ids; at most `most`, and how many more."""
    name_of = {member: names[code] for code, (member, _) in enumerate(history.members)}
    listed = ids or []
    words = [f"{sign}{name_of.get(member, visible(member))}" for member in listed[:most]]
    return ", ".join([*words, f"{count(len(listed) - most)} more"] if len(listed) > most else words)


def steps_in_words(history: GroupHistory, names: list[str], most: int, *, day: bool = False) -> list[Row]:
    """The last steps of a group's life, at most `most`, the newest first: the cells of the list of steps."""
    made = []
    for step in history.steps[::-1][:most]:
        who = [called(history, names, step["joined"], "+", 8), called(history, names, step["left"], "-", 8)]
        made.append(
            {
                "generation": _number(step["generation"]),
                "at": clock(step["log_ts"], day=day),
                "what": f"{phrase(step['kind'])}{_because(step)}",
                "who": ", ".join(filter(None, who)),
                "members": count(step["n_members"]),
                "partitions": count(step["n_partitions"]),
                "moved": count(step["n_moved"]),
                "kept": count(step["n_kept"]),
                "wait": duration(_wait(step)),
                "remark": "; ".join(_remarks(step)),
            }
        )
    return made


def _number(generation: int | None) -> str:
    """As it stands in logs: without separators."""
    return UNKNOWN if generation is None else str(generation)


def _because(step: Row) -> str:
    return f", {phrase(step['cause'])}" if step["cause"] not in (None, "", "unknown") else ""


def _wait(step: Row) -> int | None:
    wait: int | None = step["sync_latency_ms"] if step["sync_latency_ms"] is not None else step["settle_ms"]
    return wait


def _remarks(step: Row) -> list[str]:
    remarks = [visible(step["detail"])] if step["detail"] else []
    if step["missed_generations"]:
        remarks.append(f"{plural(step['missed_generations'], 'generation')} before it failed")
    if not step["complete"]:
        remarks.append("history before it unknown")
    return remarks
