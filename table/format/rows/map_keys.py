"""Whether a MAP has one key twice: Spark's builder of maps refuses it, and of Paimon's Java readers some keep either entry, some both."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table.format.rows.nested import inside, is_list, rows_inside

_CODE_BYTES = 8

Codes = npt.NDArray[np.int64]


def first_repeated(bounds: pa.Array, keys: pa.Array) -> int | None:
    """Where the first key stands that its map has before; None where there is none.

    ``bounds`` tell where the keys of each map begin and end, from 0 on. What Spark takes for one key is one: every NaN, and
    -0.0 and 0.0, also inside keys that are ARRAYs or ROWs.
    """
    if not (np.diff(np.asarray(bounds)) > 1).any():
        return None
    codes = _codes(keys) + rows_inside(bounds).astype(np.int64) * (len(keys) + 1)  # so that no two maps share one
    ordered = np.sort(codes)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    order = np.argsort(codes, kind="stable")
    return int(order[1:][codes[order[1:]] == codes[order[:-1]]].min())


def _codes(array: pa.Array) -> Codes:
    """For each value a number, from 0 up to their count, which all values have that are one key; NULL is one, too."""
    types, type_ = pa.types, array.type
    plain = array
    if types.is_floating(type_):
        numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
        # Arrow tells NaNs of other bits apart, and the two zeros.
        plain = pa.array(np.where(np.isnan(numbers), np.nan, numbers + 0.0), type_)
    elif types.is_struct(type_):
        parts = np.column_stack([_codes(part) for part in array.flatten()])
        width = parts.shape[1] * _CODE_BYTES
        plain = pa.Array.from_buffers(pa.binary(width), len(array), [None, pa.py_buffer(parts)])
    elif is_list(type_) or types.is_map(type_):
        bounds, values = inside(array)
        parts = np.column_stack([_codes(part) for part in values])
        ends = np.asarray(bounds).astype(np.int64) * (_CODE_BYTES * len(values))
        plain = pa.Array.from_buffers(pa.large_binary(), len(array), [None, pa.py_buffer(ends), pa.py_buffer(parts)])
    codes: Codes = np.asarray(plain.dictionary_encode().indices.fill_null(len(array))).astype(np.int64)
    if array.null_count:
        codes[np.asarray(array.is_null())] = len(array)
    return codes
