"""``python -m server``: the only place that reads the environment."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from model.errors import InvalidOption, LakeError
from server.options import Settings, read_settings
from server.process import catalog_dsn, serve

_M_ARENA_MAX = -8
"""glibc's name for it in `mallopt(3)`."""
_ARENAS = 4


def main() -> NoReturn:
    """Serve with the settings of the environment, until SIGTERM or SIGINT."""
    run(serve)


def migrate() -> NoReturn:
    """Bring the catalog's Postgres to the newest schema and end."""
    run(_migrate)


def _migrate(settings: Settings) -> None:
    from migrations import upgrade

    with catalog_dsn(settings) as dsn:
        upgrade(dsn)
    print("The catalog is up to date.")


def _bound_memory() -> None:
    """Keep freed memory from piling up in every thread that once wrote a result: 25 MB each with Arrow's own allocator (measured).

    Must come before pyarrow is imported.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with contextlib.suppress(OSError, AttributeError):  # another C library has other ways
        ctypes.CDLL("libc.so.6").mallopt(_M_ARENA_MAX, _ARENAS)


def run(work: Callable[[Settings], int | None]) -> NoReturn:
    """Do the work and leave: with what it returns, 2 for settings that cannot be, 1 for the rest, each with one line."""
    status = 0
    try:
        settings = read_settings(os.environ)
    except LakeError as problem:
        _leave(2, problem.message)
    _bound_memory()
    from server.logs import set_up

    set_up(settings)
    try:
        status = work(settings) or 0
    except LakeError as problem:
        _leave(2 if isinstance(problem, InvalidOption) else 1, problem.message)
    except OSError as problem:
        _leave(1, f"{problem.strerror or problem}{f': {problem.filename}' if problem.filename else ''}")
    _leave(status)


def _leave(status: int, message: str = "") -> NoReturn:
    """End the process at once: everything is closed, and a thread stuck in a dead statement must not hold it."""
    if message:
        print(f"sluice: {message}", file=sys.stderr)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
