"""Rows are made into texts by a few threads at a time.

Threads that compete for the interpreter's lock make all others wait for it: beside 150 that wrote results `/livez` took eight seconds.
"""

from __future__ import annotations

import contextlib
import os

import pyarrow as pa

from gateway.origin import ORIGIN
from model.work.fair_turns import FairTurns
from sql.execution.array_memory import memory_of

TURNS = FairTurns(max(2, os.cpu_count() or 1))
_SMALL_BYTES = 64 << 10
"""Rows that take less wait for nobody."""


def text_turn(batch: pa.RecordBatch) -> contextlib.AbstractContextManager[None]:
    """A turn of the request's principal, for making texts of these rows."""
    return contextlib.nullcontext() if memory_of(batch) <= _SMALL_BYTES else TURNS.turn(ORIGIN.get().principal)
