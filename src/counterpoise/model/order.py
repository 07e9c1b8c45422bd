"""The order of ids: Java's, because Kafka's own ties are settled by it."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["java_key", "java_order"]


def java_key(text: str) -> bytes:
    """Sort key that orders strings as ``java.lang.String.compareTo`` does (by UTF-16 code units).

    Differs from Python's order only where characters beyond U+FFFF meet ones from U+E000 to U+FFFF.
    Lone surrogates, which no valid UTF-8 holds, are passed through.
    """
    return text.encode("utf-16-be", "surrogatepass")


def java_order(ids: Iterable[str]) -> list[str]:
    """`ids` in Java's string order."""
    listed = list(ids)
    if all(map(str.isascii, listed)):
        return sorted(listed)
    return sorted(listed, key=java_key)
