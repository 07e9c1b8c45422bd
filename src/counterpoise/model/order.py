"""The order of ids: that of Java strings, by which Kafka breaks ties."""

from __future__ import annotations

from collections.abc import Iterable

from counterpoise.wire.primitives import java_key

__all__ = ["java_key", "java_order"]


def java_order(ids: Iterable[str]) -> list[str]:
    """`ids` in Java's string order."""
    listed = list(ids)
    if all(map(str.isascii, listed)):
        return sorted(listed)
    return sorted(listed, key=java_key)
