"""Which rows of a file have which value, gathered batch by batch: what bitmap and range-bitmap indexes are built from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from model.schema.types import DataType
from table.index.values import key_order, keys


class RowsByValue:
    """The rows of one column of one file, by the keys of `values.keys`."""

    def __init__(self, type_: DataType) -> None:
        self._type = type_
        self.rows: dict[bytes, BitMap] = {}
        self.nulls = BitMap()
        self.count = 0

    def add(self, column: pa.Array) -> None:
        """Note the values of the rows that follow."""
        coded = column.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(-1, len(coded.dictionary)), side="right")
        parts = np.split(order + self.count, ends[:-1])
        self.nulls.update(parts[0].astype(np.uint32))
        for key, part in zip(keys(self._type, coded.dictionary), parts[1:], strict=True):
            self.rows.setdefault(key, BitMap()).update(part.astype(np.uint32))
        self.count += len(column)

    def ordered(self) -> list[bytes]:
        """The keys in the order of their values."""
        return sorted(self.rows, key=lambda key: key_order(self._type, key))
