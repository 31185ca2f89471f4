"""The end of a coordinator: what is under way is waited for, for a while, and merges on Spark are canceled."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import Any
from uuid import UUID

from maintenance.runner import spark_name
from sql.execution.bounded_calls import BoundedCalls

_log = logging.getLogger(__name__)
_CANCEL_SECONDS = 1.0


def wait_for_end(
    merging: Mapping[UUID, Future[None]], others: Collection[Future[Any]], cancel: Callable[[str], None], *, until: float
) -> None:
    """Wait until a moment (monotonic) for all that is under way; merges that run on Spark are told to end once a second.

    Spark forgets a cancel that comes between two of its jobs. Nothing is undone of what is left alone: what has come to its commit is
    decided in Postgres, and what has not comes to none any more.
    """
    calls = BoundedCalls("sluice-maintenance-cancel", seconds=_CANCEL_SECONDS)
    while left := [work for work in (*merging.values(), *others) if not work.done()]:
        if time.monotonic() >= until:
            _log.warning("Maintenance does not end in time and is left alone: %d pieces of work", len(left))
            break
        for table_id, work in merging.items():
            if not work.done():
                with contextlib.suppress(Exception):  # Spark may be gone, and with it what was to be canceled
                    calls(partial(cancel, spark_name(table_id)))
        wait(left, min(_CANCEL_SECONDS, max(0.0, until - time.monotonic())))
    calls.close()
