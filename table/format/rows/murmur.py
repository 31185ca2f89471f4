"""Murmur3-32 with seed 42, the hash Paimon's default bucket function takes of a row's bytes (`paimon-append.md` §5)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_SEED = 42
_MASK = 0xFFFFFFFF


def murmur3(row: bytes) -> int:
    """The hash of bytes whose number is a multiple of 4, as a signed int."""
    h = _SEED
    for (k,) in struct.iter_unpack("<I", row):
        k = k * 0xCC9E2D51 & _MASK
        k = (k << 15 | k >> 17) & _MASK
        h ^= k * 0x1B873593 & _MASK
        h = (h << 13 | h >> 19) & _MASK
        h = (h * 5 + 0xE6546B64) & _MASK
    h ^= len(row)
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def murmur3_rows(words: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The hash of every row of a matrix of 4-byte words."""
    with np.errstate(over="ignore"):
        h = np.full(words.shape[0], _SEED, dtype=np.uint32)
        for at in range(words.shape[1]):
            k = words[:, at] * np.uint32(0xCC9E2D51)
            k = (k << np.uint32(15)) | (k >> np.uint32(17))
            h ^= k * np.uint32(0x1B873593)
            h = (h << np.uint32(13)) | (h >> np.uint32(19))
            h = h * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(words.shape[1] * 4)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    signed: np.ndarray[Any, np.dtype[np.int32]] = h.view(np.int32)
    return signed
