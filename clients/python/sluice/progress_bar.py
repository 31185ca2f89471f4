"""How far a statement is, as a bar on the terminal while its first row is waited for."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

from sluice.client import Client, ServerError

_FIRST_SECONDS = 0.7
"""Statements that answer sooner show no bar."""
_SECONDS = 0.4


@contextlib.contextmanager
def bar(client: Client, request_id: str) -> Iterator[None]:
    """Show how far the statement of a request is until the block ends; nothing where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(client, request_id, ended), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(client: Client, request_id: str, ended: threading.Event) -> None:
    if ended.wait(_FIRST_SECONDS):
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("waiting", total=None)
        while not ended.is_set():
            with contextlib.suppress(ServerError):  # the statement itself tells what is wrong
                latest = client.progress(request_id)
                if latest is not None:
                    progress.update(task, description=latest["stage"] or "running", completed=latest["done"], total=latest["total"])
            ended.wait(_SECONDS)
