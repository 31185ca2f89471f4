"""What was answered under an Idempotency-Key, read of snapshots that the catalog did not have: a repeat would write their rows again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from catalog import CatalogTransaction
from catalog.commits.idempotency import KEPT
from lake.rewrite.store_clock import behind_millis
from model.snapshot import ANSWERS, Snapshot
from model.text.file_name import file_name
from table.format.io.file_io import FileIO
from table.format.json_document import parse_json
from table.format.layout import TableLayout


def register_answers(tx: CatalogTransaction, io: FileIO, layout: TableLayout, snapshots: Iterable[Snapshot]) -> None:
    """Let the answers that snapshots of a branch tell be known for as long as their keys are kept.

    A snapshot says when it was made by a clock that may be behind. Where that is too long ago its file tells, which is as old as the
    store's clock says; a copy is younger, and its keys are kept longer.
    """
    now = tx.state.now_millis()
    kept_millis = int(KEPT.total_seconds() * 1000)
    file_ages = cache(lambda: _file_ages(io, layout))
    for snapshot in snapshots:
        answers = _answers(snapshot)
        if not answers:
            continue
        made = min(snapshot.time_millis, now)
        if now - made >= kept_millis:
            made = max(made, now - file_ages().get(layout.snapshot_name(snapshot.id), 0))
        if now - made < kept_millis:
            tx.idempotency.register(answers, at_millis=made)


def _answers(snapshot: Snapshot) -> Mapping[str, Mapping[str, Any]]:
    try:
        answers = parse_json(snapshot.properties[ANSWERS].encode())
    except (KeyError, ValueError):
        return {}
    return answers if isinstance(answers, dict) and all(isinstance(answer, dict) for answer in answers.values()) else {}


def _file_ages(io: FileIO, layout: TableLayout) -> Mapping[str, int]:
    """How old a branch's files of snapshots are by the store's clock, in milliseconds, by name; empty where that is unknown."""
    behind = behind_millis(io, layout.snapshot_dir())
    if behind is None:
        return {}
    statuses = io.list(layout.snapshot_dir())
    now = time.time_ns() // 1_000_000 - behind
    return {file_name(status.path): max(0, now - status.mtime_millis) for status in statuses}
