"""Row bytes as Java writes them."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from model.schema.types import DataType, parse_type
from table.format.rows import binary_row, moments
from table.format.rows.moments import date_of, time_of

JAVA_STATS_ROW = (
    "0000001a 0000104002000000 0100000000000000 0100000000000000 0200000000000000 0300000000000000 0400000000000000"
    "0000c03f00000000 0000000000000440 6162000000000082 7663000000000082 10000000d8000000 0102030400000084 0900000000000081"
    "0000000000000000 7b00000000000000 29eeffffffffffff 05000000e8000000 0b4d000000000000 80ee360000000000 fbee360000000000"
    "e8f751c28c010000 63f851c28c010000 40f50600f8000000 0000000000010000 63f851c28c010000 40f5060008010000 0000000010010000"
    "6120737472696e67206c6f6e67657220 e2329b00000000000000000000000000 63f851c28c010000 0000000000000000 63f851c28c010000 0000000000000000"
)
SPELLINGS = """
    BOOLEAN|TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|CHAR(5)|VARCHAR(10)|STRING|BINARY(4)|VARBINARY(8)|BYTES|DECIMAL(9, 2)|
    DECIMAL(18, 3)|DECIMAL(38, 10)|DATE|TIME(0)|TIME(3)|TIMESTAMP(0)|TIMESTAMP(3)|TIMESTAMP(6)|TIMESTAMP(9)|TIMESTAMP_LTZ(3)|
    TIMESTAMP_LTZ(6)|TIMESTAMP_LTZ(9)
"""
TYPES: tuple[DataType, ...] = tuple(parse_type(text) for text in SPELLINGS.split("|"))
MOMENT = dt.datetime(2024, 1, 1, 0, 0, 1)


def test_the_worked_row_of_26_columns() -> None:
    values = (
        True, 1, 2, 3, 4, 1.5, 2.5, "ab", "vc", "a string longer ", b"\1\2\3\4", b"\x09", None, Decimal("1.23"), Decimal("-4.567"),
        Decimal("-12.8"), dt.date(2024, 1, 1), 3_600_000, 3_600_123, MOMENT, MOMENT.replace(microsecond=123_000),
        MOMENT.replace(microsecond=123_456), None, MOMENT.replace(microsecond=123_000, tzinfo=dt.UTC),
        MOMENT.replace(microsecond=123_456, tzinfo=dt.UTC), None,
    )  # fmt: skip
    assert binary_row.encode_prefixed(TYPES, values).hex() == JAVA_STATS_ROW.replace(" ", "")
    assert binary_row.decode(TYPES, bytes.fromhex(JAVA_STATS_ROW.replace(" ", ""))) == values


_LONGS = st.integers(-(2**63), 2**63 - 1)
SOME: dict[str, st.SearchStrategy[object]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": st.text(max_size=30),
    "BYTES": st.binary(max_size=30),
    "DECIMAL(18, 3)": st.decimals(-(10**14), 10**14, places=3),
    "DECIMAL(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: binary_row.WIDE.scaleb(Decimal(n), -10)),
    "DATE": st.dates() | st.integers(-(2**31), 2**31 - 1).map(date_of),
    "TIMESTAMP(3)": st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))
    | _LONGS.map(lambda millis: time_of(millis * 1000, zoned=False)),
    "TIMESTAMP(6)": st.datetimes() | _LONGS.map(lambda micros: time_of(micros, zoned=False)),
    "TIMESTAMP_LTZ(6)": st.datetimes(timezones=st.just(dt.UTC)) | _LONGS.map(lambda micros: time_of(micros, zoned=True)),
}


@given(st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(SOME)), max_size=70))
    types = [parse_type(name) for name in names]
    values = tuple(data.draw(SOME[name] | st.none()) for name in names)
    row = binary_row.encode_prefixed(types, values)
    assert len(row) % 8 == 4
    assert binary_row.decode(types, row) == values


_FAR = 4_000_000
"""Days into the year 12921, or out of one long before the first."""


@given(st.lists(st.integers(-_FAR, _FAR)), st.booleans())
def test_days_and_times_have_one_order_in_and_outside_pythons_years(days: list[int], zoned: bool) -> None:
    times = [86_400_000_000 * day + 1 for day in days]
    assert [moments.days_of(day) for day in sorted(map(date_of, days))] == sorted(days)
    assert [moments.epoch_micros(time) for time in sorted(time_of(at, zoned=zoned) for at in times)] == sorted(times)
    for one, other in itertools.pairwise(days):
        first, second = date_of(one), date_of(other)
        assert (first < second, first <= second, first > second, first >= second, first == second) == (
            one < other, one <= other, one > other, one >= other, one == other,
        )  # fmt: skip


@given(st.lists(st.integers(-_FAR * 86_400_000_000_000, _FAR * 86_400_000_000_000)), st.booleans())
def test_nanoseconds_are_kept_and_keep_their_order(nanos: list[int], zoned: bool) -> None:
    type_ = parse_type("TIMESTAMP_LTZ(9)" if zoned else "TIMESTAMP(9)")

    def time(at: int) -> moments.Time:
        return time_of(at // 1000, zoned=zoned, nanos=at % 1000)

    assert [moments.epoch_micros(one) * 1000 + moments.nanos_of(one) for one in sorted(map(time, nanos))] == sorted(nanos)
    rows = [binary_row.encode_prefixed([type_], [time(at)]) for at in nanos]
    assert [binary_row.decode([type_], row) for row in rows] == [(time(at),) for at in nanos]
    assert len(set(rows)) == len(set(map(time, nanos))) == len(set(nanos))


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_day_is_known_by_its_text(day: int) -> None:
    assert moments.parsed_date(moments.date_text(date_of(day))) == date_of(day)
