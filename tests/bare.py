"""The rights of an ordinary user in tests that run as root: of files without rights nothing can be read."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VERSION = 0x20080522
_OVERRIDES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def without_rights(path: Path) -> Iterator[None]:
    """Nobody may use a file or directory: neither this thread nor those that it starts, also where they run as root."""
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        with _ordinary():
            yield
    finally:
        path.chmod(mode)


@contextmanager
def _ordinary() -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    header, capabilities = _Header(_VERSION, 0), (_Data * 2)()
    _checked(libc.capget(ctypes.byref(header), ctypes.byref(capabilities)))
    effective = capabilities[0].effective
    capabilities[0].effective = effective & ~_OVERRIDES
    _checked(libc.capset(ctypes.byref(header), ctypes.byref(capabilities)))
    try:
        yield
    finally:
        capabilities[0].effective = effective
        _checked(libc.capset(ctypes.byref(header), ctypes.byref(capabilities)))


def _checked(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
