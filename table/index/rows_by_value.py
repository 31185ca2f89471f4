"""Which rows of a file have which value, gathered batch by batch: what bitmap and range-bitmap indexes are built from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from model.schema.types import DataType
from table.index.values import key_order, keys

Rows = np.ndarray[Any, np.dtype[np.uint32]]


def rows_by_value(type_: DataType, column: pa.Array, begin: int) -> Iterator[tuple[bytes | None, Rows]]:
    """The rows of each value of a batch, by its key of `values.keys`; first those of NULL, by None. Rows count from ``begin``."""
    coded = column.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(-1, len(coded.dictionary)), side="right")
    parts = np.split((order + begin).astype(np.uint32), ends[:-1])
    yield from zip([None, *keys(type_, coded.dictionary)], parts, strict=True)


class RowsByValue:
    """The rows of one column of one file, by the keys of `values.keys`."""

    def __init__(self, type_: DataType) -> None:
        self._type = type_
        self.rows: dict[bytes, BitMap] = {}
        self.nulls = BitMap()
        self.count = 0

    def add(self, column: pa.Array) -> None:
        """Note the values of the rows that follow."""
        for key, rows in rows_by_value(self._type, column, self.count):
            (self.nulls if key is None else self.rows.setdefault(key, BitMap())).update(rows)
        self.count += len(column)

    def ordered(self) -> list[bytes]:
        """The keys in the order of their values."""
        return sorted(self.rows, key=lambda key: key_order(self._type, key))
