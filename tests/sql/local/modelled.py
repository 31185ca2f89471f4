"""Random conditions with what each is of a row, as Spark would say: comparisons, lists, bounds, NULL and LIKE over hostile values."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = Mapping[str, Any]
Of = Callable[[Row], bool | None]
"""What a condition is of a row."""


@dataclass(frozen=True, slots=True)
class Said:
    """A literal and its value, or a condition and what it is of a row."""

    text: str
    value: Any


def single(value: float) -> float:
    """The FLOAT next to a number."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _typed(type_: str, make: Callable[[str], Any], *texts: str) -> list[Said]:
    return [Said(f"CAST('{text}' AS {type_})", make(text)) for text in texts]


_FLOATS = ("NaN", "-0.0", "0.0", "Infinity", "-Infinity", "1", "0.1", "-1.5", "1e-45", "16777217", "3.4e38")
_WHOLE = (0, 1, -1, 5, 127, -128, 300, 32767, 2147483647, -2147483648)
_BIG = (2147483648, 16777217, 9007199254740993, 9223372036854775807)
_TEXTS = (
    "", "a", "ab", "abc", "ab ", "a ", " ", "a" * 16, "a" * 17, "ä" * 20, "z" * 15 + "\U0010ffff" * 2, "\uffff" * 17,
    "\uffff" * 16 + "\U00010000", "\U0010ffff" * 17, "\ue000", "\ud7ff" * 18, "Z", "__DEFAULT_PARTITION__", "null",
    "A", "a\x01", "1", "10", "9", "a/b", "a=b", "100%", "%2F",
)  # fmt: skip
_BYTES = ("", "00", "7F", "80", "FF", "FF" * 16, "FF" * 17, "FF" * 15 + "00" * 3, "61" * 20, "FE" + "FF" * 16)
_DAYS = ("0001-01-01", "1582-10-04", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31")
_TIMES = (
    "0001-01-01 00:00:00", "1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.999", "1969-12-31 23:59:59", "1970-01-01 00:00:00",
    "2024-02-29 12:34:56.123456", "2024-02-29 12:34:56.123", "2024-02-29 12:34:56", "9999-12-31 23:59:59.999999",
)  # fmt: skip

WHOLE = [Said(str(number), number) for number in _WHOLE]
BIG = [Said(str(number), number) for number in _BIG] + [Said("CAST('-9223372036854775808' AS BIGINT)", -(1 << 63))]
DOUBLES = _typed("DOUBLE", float, *_FLOATS)
SINGLES = _typed("FLOAT", lambda text: single(float(text)), *_FLOATS)
FRACTIONS = [Said(text, Decimal(text)) for text in ("0.1", "1.5", "-0.01", "0.01", "1.25", "5.00", "99999999.99", "0.005")]
EXPONENTS = [Said(text, float(text)) for text in ("0.1e0", "1e0", "-0e0", "1e300", "5e0", "1e-45")]
WIDE = [
    Said(f"CAST('{text}' AS DECIMAL(38, 10))", Decimal(text))
    for text in ("0", "1", "-1", "9" * 28, "-" + "9" * 28, "0.0000000001", "-0.0000000001", "12345678901234567890.5", "9223372036854775808")
]
NARROW = [
    Said(f"CAST('{text}' AS DECIMAL(10, 2))", Decimal(text)) for text in ("0", "-0.01", "0.01", "99999999.99", "-99999999.99", "1.5", "5")
]
TEXTS = [Said(f"'{text}'", text) for text in _TEXTS]
BYTES = [Said(f"X'{text}'", bytes.fromhex(text)) for text in _BYTES]
DAYS = [Said(f"DATE '{text}'", dt.date.fromisoformat(text)) for text in _DAYS]
MICROS = [Said(f"TIMESTAMP '{text}'", dt.datetime.fromisoformat(text)) for text in _TIMES]
MILLIS = [Said(f"TIMESTAMP '{text[:23]}'", dt.datetime.fromisoformat(text[:23])) for text in _TIMES]
SECONDS = [Said(f"TIMESTAMP '{text[:19]}'", dt.datetime.fromisoformat(text[:19])) for text in _TIMES]
INSTANTS = [Said(f"TIMESTAMP_LTZ '{text}Z'", dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)) for text in _TIMES]
TRUTHS = [Said("true", True), Said("false", False)]
NUMBERS = [*WHOLE, *BIG, *FRACTIONS, *EXPONENTS, *DOUBLES, *SINGLES]
"""All that a number is compared with."""
CLOCK = [*MICROS, *MILLIS, *DAYS]


def placed(value: Any, *, as_double: bool = False) -> Any:
    """Where Spark puts a value among others: a NaN equals itself and is greater than every number; a day is its midnight."""
    if type(value) is dt.date:
        return dt.datetime(value.year, value.month, value.day)
    if as_double or isinstance(value, float):
        return (True, 0.0) if math.isnan(float(value)) else (False, float(value) + 0.0)
    return value


def ordered(left: Any, right: Any) -> tuple[Any, Any]:
    """Two values of one kind on one scale: where one is a floating-point number both are compared as such."""
    double = isinstance(left, float) or isinstance(right, float)
    return placed(left, as_double=double), placed(right, as_double=double)


_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def compared(left: Any, sign: str, right: Any) -> bool | None:
    """What a comparison is."""
    if left is None or right is None:
        return None
    return bool(_SIGNS[sign](*ordered(left, right)))


def both(a: bool | None, b: bool | None) -> bool | None:
    """AND."""
    return False if a is False or b is False else None if a is None or b is None else True


def opposite(a: bool | None) -> bool | None:
    """NOT."""
    return None if a is None else not a


class Conditions:
    """Random conditions over columns, each with the literals it is compared with."""

    def __init__(self, columns: Mapping[str, Sequence[Said]], seed: str) -> None:
        self._rng = random.Random(seed)
        self._columns = columns

    def several(self, count: int) -> dict[str, Of]:
        """So many, each once."""
        made = (self.one() for _ in range(count))
        return {said.text: said.value for said in made}

    def one(self, depth: int = 0) -> Said:
        """A condition, of at most four parts."""
        how = self._rng.random()
        if depth < 2 and how < 0.3:
            a, b = self.one(depth + 1), self.one(depth + 1)
            if self._rng.random() < 0.5:
                return Said(f"({a.text} AND {b.text})", lambda row: both(a.value(row), b.value(row)))
            return Said(f"({a.text} OR {b.text})", lambda row: opposite(both(opposite(a.value(row)), opposite(b.value(row)))))
        if how < 0.45:
            inner = self.one(depth + 1)
            return Said(f"NOT ({inner.text})", lambda row: opposite(inner.value(row)))
        name = self._rng.choice(list(self._columns))
        return self._simple(name, self._columns[name])

    def _simple(self, name: str, literals: Sequence[Said]) -> Said:
        kind = self._rng.random()
        if kind < 0.08 or not literals:
            return Said(f"{name} IS NULL", lambda row: row[name] is None)
        if kind < 0.16:
            return Said(f"{name} IS NOT NULL", lambda row: row[name] is not None)
        x, y, z = (self._rng.choice(literals) for _ in range(3))
        if kind < 0.3:
            return self._list(name, [x, y, z][: self._rng.randint(1, 3)], null=self._rng.random() < 0.2, negated=self._rng.random() < 0.4)
        if kind < 0.42:
            negated = "NOT " if self._rng.random() < 0.3 else ""

            def within(row: Row) -> bool | None:
                found = both(compared(row[name], ">=", x.value), compared(row[name], "<=", y.value))
                return opposite(found) if negated else found

            return Said(f"{name} {negated}BETWEEN {x.text} AND {y.text}", within)
        if kind < 0.62 and isinstance(x.value, str):
            return self._like(name, x.value)
        sign = self._rng.choice([*_SIGNS, "="])
        if self._rng.random() < 0.15:
            return Said(f"{x.text} {sign} {name}", lambda row: compared(x.value, sign, row[name]))
        return Said(f"{name} {sign} {x.text}", lambda row: compared(row[name], sign, x.value))

    def _list(self, name: str, values: Sequence[Said], *, null: bool, negated: bool) -> Said:
        double = any(isinstance(said.value, float) for said in values)

        def among(row: Row) -> bool | None:
            if row[name] is None:
                return None
            value = float(row[name]) if double else row[name]
            found = any(compared(value, "=", said.value) for said in values)
            return opposite(found if found or not null else None) if negated else found if found or not null else None

        listed = ", ".join([*(said.text for said in values), *(["NULL"] if null else [])])
        return Said(f"{name} {'NOT ' if negated else ''}IN ({listed})", among)

    def _like(self, name: str, text: str) -> Said:
        part = text[: self._rng.randrange(1, 18)].replace("_", "").replace("%", "").replace("\\", "")
        pattern, how = self._rng.choice(
            [(f"{part}%", str.startswith), (f"%{part}", str.endswith), (f"%{part}%", str.__contains__), (part, str.__eq__)]
        )
        negated = "NOT " if self._rng.random() < 0.3 else ""

        def like(row: Row) -> bool | None:
            found = None if row[name] is None else bool(how(row[name], part))
            return opposite(found) if negated else found

        return Said(f"{name} {negated}LIKE '{pattern}'", like)
