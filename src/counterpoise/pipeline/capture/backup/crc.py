"""CRC-32C of many byte ranges at once, in NumPy: every 64-byte piece is a lane, and lanes are combined by linear maps.

Over GF(2) a CRC without its start and end values is linear, so zeros in front change nothing, and what follows a piece only
shifts it. The start value (all ones) is the same as inverting the first four bytes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["crc32c"]

UInt32 = NDArray[np.uint32]
PIECE = 64
_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, bits reversed (RFC 3720, appendix B.4)."""


def crc32c(data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]) -> UInt32:
    """Checksums of ``data[start[i] : start[i] + length[i]]``.

    Parameters
    ----------
    data : uint8[N]
    start, length : int64[R]
        Ranges inside `data`, each of at least four bytes.

    Returns
    -------
    uint32[R]

    Notes
    -----
    About 15 ns a byte; memory twice the bytes covered.
    """
    if not len(start):
        return np.zeros(0, np.uint32)
    pieces = -(-length // PIECE)
    piece_start = np.concatenate([[0], np.cumsum(pieces)])
    flat = np.zeros(int(piece_start[-1]) * PIECE, np.uint8)
    to = piece_start[1:] * PIECE - length
    for source, target, size in zip(start.tolist(), to.tolist(), length.tolist(), strict=True):
        flat[target : target + size] = data[source : source + size]
    flat[(to[:, None] + np.arange(4)).ravel()] ^= 0xFF
    lanes = np.ascontiguousarray(flat.reshape(-1, PIECE).T)
    table = _byte_table()
    state = np.zeros(lanes.shape[1], np.uint32)
    for column in lanes:
        state = table[(state ^ column) & 0xFF] ^ (state >> np.uint32(8))
    after = np.repeat(piece_start[1:], pieces) - 1 - np.arange(len(state))
    shift = _piece_shift()
    for bit in range(int(after.max()).bit_length()):
        moved = (after >> bit) & 1 == 1
        state[moved] = _apply(shift, state[moved])
        shift = _tables(_apply(shift, _apply(shift, _BASIS)))
    return np.bitwise_xor.reduceat(state, piece_start[:-1]) ^ np.uint32(0xFFFFFFFF)


_BASIS = np.uint32(1) << np.arange(32, dtype=np.uint32)


@cache
def _byte_table() -> UInt32:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1 == 1, (table >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), table >> np.uint32(1))
    return table


@cache
def _piece_shift() -> UInt32:
    state = _BASIS
    for _ in range(PIECE):
        state = _byte_table()[state & 0xFF] ^ (state >> np.uint32(8))
    return _tables(state)


def _tables(images: UInt32) -> UInt32:
    """uint32[4, 256]: a linear map by the bytes of its argument, from its images of the 32 unit vectors."""
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1 == 1
    return np.stack([np.bitwise_xor.reduce(np.where(bits, images[8 * k : 8 * k + 8], np.uint32(0)), axis=1) for k in range(4)])


def _apply(tables: UInt32, state: UInt32) -> UInt32:
    moved: UInt32 = (
        tables[0][state & 0xFF]
        ^ tables[1][(state >> np.uint32(8)) & 0xFF]
        ^ tables[2][(state >> np.uint32(16)) & 0xFF]
        ^ tables[3][state >> np.uint32(24)]
    )
    return moved
