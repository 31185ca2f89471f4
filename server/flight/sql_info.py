"""What drivers ask of a server once: its name, its SQL, its types (`FlightSql.proto`, enum SqlInfo)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from model.version import sluice_version
from server.flight.wire.schemas import SQL_INFO, TYPE_INFO
from sql.analysis.functions import FUNCTIONS

_STRING, _BOOL, _BIGINT, _INT, _STRINGS, _MAP = range(6)
_NO_LIMIT = 0
_CONVERTED = list(range(20))
"""Every member of SqlSupportsConvert; CAST between them is Spark's, in ANSI mode."""
_KEYWORDS = [
    "ANALYZE",
    "BUCKET",
    "CALL",
    "CATALOG",
    "CATALOGS",
    "CLONE",
    "COMPACT",
    "CUMULATE",
    "DATABASE",
    "DATABASES",
    "DESCRIBE",
    "EXPLAIN",
    "EXTENDED",
    "HOP",
    "JOB",
    "JOBS",
    "LATERAL",
    "OPTIONS",
    "OVERWRITE",
    "PARTITIONED",
    "POLICY",
    "RESET",
    "SHOW",
    "STOP",
    "TUMBLE",
    "UNNEST",
    "USE",
    "WATERMARK",
]
_NUMERIC = [
    "abs",
    "acos",
    "asin",
    "atan",
    "atan2",
    "ceil",
    "cos",
    "cot",
    "degrees",
    "exp",
    "floor",
    "ln",
    "log10",
    "mod",
    "pi",
    "power",
    "radians",
    "rand",
    "round",
    "sign",
    "sin",
    "sqrt",
    "tan",
    "truncate",
]
_TEXT = [
    "ascii",
    "char",
    "concat",
    "left",
    "length",
    "lcase",
    "locate",
    "lower",
    "lpad",
    "ltrim",
    "repeat",
    "replace",
    "right",
    "rpad",
    "rtrim",
    "space",
    "substring",
    "ucase",
    "upper",
]
_TIME = [
    "current_date",
    "current_timestamp",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "hour",
    "minute",
    "month",
    "monthname",
    "now",
    "quarter",
    "second",
    "week",
    "year",
]


def _known(names: Sequence[str]) -> list[str]:
    return [name for name in names if name in FUNCTIONS]


_INFO: dict[int, tuple[int, Any]] = {
    0: (_STRING, "Sluice"),
    1: (_STRING, sluice_version()),
    2: (_STRING, pa.__version__),
    3: (_BOOL, False),
    4: (_BOOL, True),
    5: (_BOOL, False),
    8: (_INT, 0),  # no transactions: each statement is one
    9: (_BOOL, True),
    10: (_BOOL, True),
    11: (_BOOL, False),
    100: (_INT, 0),
    101: (_INT, 0),
    500: (_BOOL, False),
    501: (_BOOL, True),
    502: (_BOOL, True),
    503: (_INT, 0),  # names are kept as written and compared by case, for which the enum has no member
    504: (_STRING, "`"),
    505: (_INT, 0),
    506: (_BOOL, False),
    507: (_INT, 1),
    508: (_STRINGS, _KEYWORDS),
    509: (_STRINGS, _known(_NUMERIC)),
    510: (_STRINGS, _known(_TEXT)),
    511: (_STRINGS, _known(["coalesce", "current_catalog", "current_database", "current_user", "if", "nullif", "nvl"])),
    512: (_STRINGS, _known(_TIME)),
    513: (_STRING, "\\"),
    514: (_STRING, ""),
    515: (_BOOL, True),
    516: (_BOOL, True),
    517: (_MAP, [(kind, _CONVERTED) for kind in _CONVERTED]),
    518: (_BOOL, True),
    519: (_BOOL, False),
    520: (_BOOL, True),
    521: (_BOOL, True),
    522: (_INT, 0b11),
    523: (_BOOL, True),
    524: (_BOOL, True),
    525: (_INT, 0b111),
    526: (_INT, 0b011),
    527: (_BOOL, False),
    528: (_INT, 0b110),
    529: (_STRING, "database"),
    530: (_STRING, "procedure"),
    531: (_STRING, "catalog"),
    532: (_BOOL, True),
    533: (_INT, 0b001),
    534: (_INT, 0b001),
    535: (_INT, 0),
    536: (_BOOL, False),
    537: (_BOOL, True),
    538: (_INT, 0b0111),
    539: (_BOOL, True),
    540: (_INT, 0b11),
    **dict.fromkeys(range(541, 562), (_BIGINT, _NO_LIMIT)),
    556: (_BOOL, True),
    562: (_INT, 0),
    563: (_BOOL, False),
    564: (_INT, 0b1),
    565: (_BOOL, False),
    566: (_BOOL, False),
    567: (_INT, 0b10),
    568: (_INT, 0),
    569: (_INT, 0b10),
    570: (_INT, 0),
    571: (_INT, 0),
    572: (_BOOL, True),
    573: (_BOOL, False),
    574: (_BOOL, True),
    575: (_BOOL, False),
    576: (_BOOL, False),
}


def sql_info(wanted: Sequence[int]) -> pa.Table:
    """The answers asked for, or all; what is not known is left out, as the protocol has it."""
    chosen = [number for number in dict.fromkeys(wanted) if number in _INFO] if wanted else sorted(_INFO)
    union = SQL_INFO.field("value").type
    children: list[list[Any]] = [[] for _ in range(union.num_fields)]
    kinds, offsets = [], []
    for number in chosen:
        kind, value = _INFO[number]
        kinds.append(kind)
        offsets.append(len(children[kind]))
        children[kind].append(value)
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(child, union.field(at).type) for at, child in enumerate(children)],
        [union.field(at).name for at in range(union.num_fields)],
    )
    return pa.Table.from_arrays([pa.array(chosen, pa.uint32()), values], schema=SQL_INFO)


def _type(  # noqa: PLR0913 - the columns of a row
    name: str, code: int, size: int | None, *, quotes: tuple[str, str] | None = None, params: list[str] | None = None,
    numeric: int | None = None, scales: tuple[int, int] | None = None, text: bool = False, time: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "type_name": name,
        "data_type": code,
        "column_size": size,
        "literal_prefix": quotes[0] if quotes else None,
        "literal_suffix": quotes[1] if quotes else None,
        "create_params": params,
        "nullable": 1,
        "case_sensitive": text,
        "searchable": 3,
        "unsigned_attribute": False if numeric else None,
        "fixed_prec_scale": False,
        "auto_increment": False if numeric else None,
        "local_type_name": name,
        "minimum_scale": scales[0] if scales else None,
        "maximum_scale": scales[1] if scales else None,
        "sql_data_type": 9 if time is not None else code,
        "datetime_subcode": time,
        "num_prec_radix": numeric,
        "interval_precision": None,
    }


_TYPES = [
    _type("BOOLEAN", -7, 1),
    _type("TINYINT", -6, 3, numeric=10, scales=(0, 0)),
    _type("BIGINT", -5, 19, numeric=10, scales=(0, 0)),
    _type("BYTES", -4, 2_147_483_647, quotes=("X'", "'")),
    _type("VARBINARY", -3, 2_147_483_647, quotes=("X'", "'"), params=["length"]),
    _type("BINARY", -2, 2_147_483_647, quotes=("X'", "'"), params=["length"]),
    _type("CHAR", 1, 2_147_483_647, quotes=("'", "'"), params=["length"], text=True),
    _type("DECIMAL", 3, 38, params=["precision", "scale"], numeric=10, scales=(0, 38)),
    _type("INT", 4, 10, numeric=10, scales=(0, 0)),
    _type("SMALLINT", 5, 5, numeric=10, scales=(0, 0)),
    _type("FLOAT", 7, 24, numeric=2),
    _type("DOUBLE", 8, 53, numeric=2),
    _type("STRING", 12, 2_147_483_647, quotes=("'", "'"), text=True),
    _type("VARCHAR", 12, 2_147_483_647, quotes=("'", "'"), params=["length"], text=True),
    _type("DATE", 91, 10, quotes=("DATE '", "'"), time=1),
    _type("TIME", 92, 12, quotes=("TIME '", "'"), params=["precision"], scales=(0, 3), time=2),
    _type("TIMESTAMP", 93, 26, quotes=("TIMESTAMP '", "'"), params=["precision"], scales=(0, 6), time=3),
    _type("TIMESTAMP_LTZ", 93, 32, quotes=("TIMESTAMP '", "'"), params=["precision"], scales=(0, 6), time=5),
]


def type_info(code: int | None) -> pa.Table:
    """The types a column may have, those of one SQL type code or all; ordered by code and name."""
    chosen = [row for row in _TYPES if code is None or row["data_type"] == code]
    return pa.Table.from_pylist(chosen, schema=TYPE_INFO)
