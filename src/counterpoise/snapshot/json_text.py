"""Bytes to text and JSON text to values, or one clear error, also for what is nested too deep or is no text at all."""

from __future__ import annotations

import unicodedata
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
import numpy as np

from counterpoise.errors import CounterpoiseError, SnapshotError

__all__ = ["UNREADABLE", "decoded", "fitted", "json_lines", "plain", "shown", "text_of", "visible"]

T = TypeVar("T")

_LONGEST = 80
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError, TypeError)
"""Everything msgspec raises for a text that is no JSON of the form asked for; `ValidationError` is a `DecodeError`."""


def text_of(read: Callable[[], bytes], name: object, kind: type[CounterpoiseError] = SnapshotError) -> str:
    """The UTF-8 text that `read` returns as bytes, without the byte order mark that some editors begin it with.

    Raises an error of the `kind` if it cannot be read, or is not UTF-8. The message starts with the name.
    """
    try:
        return read().decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise kind(f"{name}: byte {error.start} is not UTF-8; save it as UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise kind(f"{name}: {getattr(error, 'strerror', None) or error}; name a readable file") from None


def decoded(text: str | bytes, advice: str) -> Any:
    """The value that the text holds after a byte order mark, if any; if an object repeats a name, its last value counts.

    Raises `SnapshotError` if it is no JSON; the message ends with the `advice`.
    """
    try:
        raw = memoryview(text.encode() if isinstance(text, str) else text)
        return msgspec.json.decode(raw[3:] if bytes(raw[:3]) == BOM_UTF8 else raw)
    except UNREADABLE as error:
        raise SnapshotError(f"not JSON: {error}; {advice}") from None


def fitted(value: object, kind: type[T], path: str, advice: str) -> T:
    """The value as a `kind`: a struct, or dicts and lists of what msgspec can check.

    Raises `SnapshotError`: the message starts with the path of the first part that does not fit, and ends with the `advice`.
    """
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except (msgspec.ValidationError, RecursionError) as error:
        for place, part, of in _parts(value, kind):  # msgspec names no keys
            fitted(part, of, f"{path}{place}", advice)
        what, _, at = str(error).partition(" - at ")
        what += " as a key" if at.startswith("`key`") else ""
        place = at.strip("`").removeprefix("$") if at.startswith("`$") else ""
        where = f"{path}{place}".removeprefix(".") or "top level"
        raise SnapshotError(f"{where}: {what}; {advice}") from None


def _parts(value: object, kind: Any) -> Iterator[tuple[str, object, Any]]:
    """The parts of a value that should be of this kind: the place in it, the part, and its kind."""
    kinds = get_args(kind)
    if get_origin(kind) in (Annotated, Union, UnionType):
        for one in kinds:
            yield from _parts(value, one)
    elif isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from ((f".{one.name}", value[one.name], one.type) for one in msgspec.structs.fields(kind) if one.name in value)
    elif isinstance(value, dict) and len(kinds) == 2:
        yield from ((f".{shown(name, str)}", part, kinds[1]) for name, part in value.items())
    elif isinstance(value, list) and len(kinds) == 1:
        yield from ((f"[{at}]", part, kinds[0]) for at, part in enumerate(value))


def shown(value: object, words: Callable[[object], str] = repr) -> str:
    """A value in a message, however long or deep it is."""
    try:
        text = words(value)
    except RecursionError:
        text = f"a {type(value).__name__} of lists in lists"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def visible(text: object) -> str:
    """`text` with control and direction-changing characters spelled out, so that a name can neither hide nor reorder anything."""
    plain_text = str(text)
    return plain_text if plain_text.isprintable() else "".join(map(_spelled, plain_text))


def _spelled(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) == "Zs":
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def json_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of JSON lines that are not blank, with their numbers from 1.

    Only a line feed ends a line: the other ends that `str.splitlines` knows (U+2028, U+0085, a form feed) may stand in a name.
    """
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def plain(value: object) -> Any:
    """For msgspec's ``enc_hook``: text, numbers, lists and mappings of other types, such as NumPy's, as JSON has them."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Iterable):
        return dict(value) if isinstance(value, Mapping) else list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
