"""ORDER BY of rows made in this process: the first of them under a LIMIT, else as many as may be held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from model.errors import ResultTooLarge
from table.format.rows.array_memory import memory_of

_MOST_BYTES = 128 << 20
"""Of rows that are held until the last has come."""
_CUT_ROWS = 1 << 16
"""So many rows more than a LIMIT wants are held before those behind it are let go."""
_BATCH_ROWS = 8192


def in_order(parts: Iterable[pa.Table], order: Sequence[tuple[str, bool]], limit: int | None, *, name: str) -> Iterator[pa.RecordBatch]:
    """The rows by columns, of which each may fall; rows that are alike stay as they come.

    Raises `ResultTooLarge` where they are too many to be held; ``name`` is the table's.
    """
    waiting: list[pa.Table] = []
    rows = size = 0
    for part in parts if limit != 0 else ():
        waiting.append(part)
        rows, size = rows + part.num_rows, size + memory_of(part)
        if limit is not None and rows > limit and (rows - limit > _CUT_ROWS or size > _MOST_BYTES):
            first = pa.Table.from_batches(_taken(waiting, order, limit))
            waiting, rows, size = [first], first.num_rows, memory_of(first)
        if size > _MOST_BYTES:
            raise ResultTooLarge(
                f"ORDER BY over {name} holds more than {_MOST_BYTES >> 20} MB of rows. Name fewer columns, leave rows out with WHERE, or "
                "take the first ones with LIMIT; without ORDER BY the rows come as they are read."
            )
    if waiting:
        yield from _taken(waiting, order, limit)


def _taken(held: list[pa.Table], order: Sequence[tuple[str, bool]], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first of the rows, which are let go but for these."""
    table = pa.concat_tables(held).combine_chunks()
    held.clear()
    # NULLs are the smallest and NaN the largest, as in Spark; Arrow puts both at one end.
    columns: dict[str, pa.ChunkedArray] = {}
    keys = []
    for at, (name, falling) in enumerate(order):
        values = table.column(name)
        parts = [pc.is_nan(values).cast(pa.int8()), values] if pa.types.is_floating(values.type) else [values]
        for part in parts:
            key = f"{at}.{len(columns)}"
            columns[key] = part
            keys.append((key, "descending" if falling else "ascending", "at_end" if falling else "at_start"))
    places = pc.sort_indices(pa.table(columns), sort_keys=keys).slice(0, limit)
    for at in range(0, max(1, len(places)), _BATCH_ROWS):
        yield from table.take(places.slice(at, _BATCH_ROWS)).combine_chunks().to_batches()
