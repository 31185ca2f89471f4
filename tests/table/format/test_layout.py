"""Directories of partitions are named as Paimon names them (`paimon-append.md` §1.2)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from model.schema.schema import column, new_schema
from model.schema.types import parse_type
from table.format.layout import TableLayout, escape, partition_dirs, partition_text, respelled
from table.format.rows.moments import FarDate, PaimonTime

NOON = dt.datetime(2024, 1, 1, 12, 34, 56, 789_000)
DAY = 86_400_000_000_000
FINE = PaimonTime(19_723 * DAY + 1_000_000_789)


@pytest.mark.parametrize(
    ("spelled", "value", "legacy", "plain"),
    [
        ("INT", 5, "5", "5"),
        ("BOOLEAN", True, "true", "true"),
        ("DATE", dt.date(2024, 1, 1), "19723", "2024-01-01"),
        ("DATE", FarDate(3663382), "3663382", "+12000-01-01"),
        ("DATE", FarDate(-721354), "-721354", "-0005-01-01"),
        ("TIMESTAMP(3)", PaimonTime(3663382 * DAY + 1_001_000_000), "+12000-01-01T00:00:01.001", "+12000-01-01 00:00:01.001"),
        ("TIME(0)", 3_723_000, "3723000", "01:02:03"),
        ("TIMESTAMP(3)", NOON, "2024-01-01T12:34:56.789", "2024-01-01 12:34:56.789"),
        ("TIMESTAMP(6)", dt.datetime(2024, 1, 1), "2024-01-01T00:00", "2024-01-01 00:00:00.000000"),
        ("TIMESTAMP(9)", dt.datetime(2024, 1, 1), "2024-01-01T00:00", "2024-01-01 00:00:00.000000000"),
        ("TIMESTAMP(9)", FINE, "2024-01-01T00:00:01.000000789", "2024-01-01 00:00:01.000000789"),
        ("TIMESTAMP(7)", PaimonTime(19_723 * DAY + 700), "2024-01-01T00:00:00.000000700", "2024-01-01 00:00:00.0000007"),
        ("TIMESTAMP(8)", PaimonTime(-1), "1969-12-31T23:59:59.999999999", "1969-12-31 23:59:59.999999999"),
        ("TIMESTAMP(0)", NOON, "2024-01-01T12:34:56.789", "2024-01-01 12:34:56.789"),
        ("DECIMAL(10, 2)", Decimal("1.50"), "1.50", "1.50"),
        ("DOUBLE", 1.0, "1.0", "1.0"),
        ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
        ("FLOAT", 0.1, "0.1", "0.1"),
    ],
)
def test_values_as_text(spelled: str, value: object, legacy: str, plain: str) -> None:
    assert partition_text(parse_type(spelled), value, legacy=True) == legacy
    assert partition_text(parse_type(spelled), value, legacy=False) == plain


def test_null_empty_and_blank_share_a_directory() -> None:
    schema = new_schema([column("p", "STRING"), column("v", "INT")], partition_keys=["p"], options={"bucket": "-1"})
    assert {partition_dirs(schema, (value,))[0] for value in (None, "", "  ")} == {"p=__DEFAULT_PARTITION__"}


def test_what_is_escaped_and_what_is_not() -> None:
    assert escape("a b/é=中:%") == "a b%2Fé%3D中%3A%25"


def test_directories_follow_the_partition_keys() -> None:
    columns = [column("a", "INT"), column("b", "STRING"), column("v", "INT")]
    schema = new_schema(columns, partition_keys=["b", "a"], options={"bucket": "-1"})
    assert TableLayout("/w/d.db/t/").bucket_dir(schema, ("x y", 7), 0) == "/w/d.db/t/b=x y/a=7/bucket-0"


@pytest.mark.parametrize(
    ("type_", "old", "new"),
    [
        ("DATE", "19724", "2024-01-02"),
        ("DATE", "-1", "1969-12-31"),
        ("DATE", "3663382", "+12000-01-01"),
        ("TIME(0)", "3600000", "01:00:00"),
        ("TIME(3)", "1", "00:00:00.001"),
        ("TIMESTAMP(0)", "2024-01-02T03:04", "2024-01-02 03:04:00"),
        ("TIMESTAMP(6)", "2024-01-02T03:04:00.000001", "2024-01-02 03:04:00.000001"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-01-02T03:04:05.100", "2024-01-02 03:04:05.100"),
        ("TIMESTAMP(3)", "+12000-01-02T03:04:05.100", "+12000-01-02 03:04:05.100"),
        ("TIMESTAMP(6)", "-0005-01-02T03:04", "-0005-01-02 03:04:00.000000"),
        ("TIMESTAMP(9)", "2024-01-02T03:04:05.000000789", "2024-01-02 03:04:05.000000789"),
        ("TIMESTAMP(9)", "2024-01-02T03:04:05.120", "2024-01-02 03:04:05.120000000"),
        ("TIMESTAMP(6)", "2024-01-02T24:00", "2024-01-02T24:00"),
        ("DATE", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("DATE", "99999999999999999999", "99999999999999999999"),
        ("TIME(0)", "-", "-"),
        ("STRING", "19724", "19724"),
        ("INT", "2024", "2024"),
        ("DOUBLE", "NaN", "NaN"),
    ],
)
def test_a_partition_is_spelled_either_way(type_: str, old: str, new: str) -> None:
    as_type = parse_type(type_)
    assert [respelled(as_type, text, legacy=True) for text in (old, new)] == [old, old]
    assert [respelled(as_type, text, legacy=False) for text in (old, new)] == [new, new]


@pytest.mark.parametrize(
    ("type_", "value", "legacy", "directory"),
    [
        ("DATE", FarDate(3_663_382), "true", "p=3663382"),
        ("DATE", FarDate(3_663_382), "false", "p=2000-01-01"),
        ("DATE", FarDate(-721_354), "false", "p=000+-01-01"),
        ("DATE", FarDate(-719_164), "false", "p=0000-12-30"),
        ("TIMESTAMP(0)", PaimonTime(-719_164 * DAY), "false", "p=0000-12-30 00%3A00%3A00"),
        ("TIMESTAMP(9)", FINE, "false", "p=2024-01-01 00%3A00%3A01.000000789"),
        ("TIMESTAMP(0)", PaimonTime(3_663_382 * DAY), "false", "p=2000-01-01 00%3A00%3A00"),
        ("TIMESTAMP(0)", PaimonTime(-721_354 * DAY), "false", "p=000+-01-01 00%3A00%3A00"),
        ("TIMESTAMP_LTZ(0)", PaimonTime(3_663_382 * DAY), "false", "p=2000-01-01 00%3A00%3A00"),
        ("TIMESTAMP_LTZ(0)", PaimonTime(-721_354 * DAY), "false", "p=000+-01-01 00%3A00%3A00"),
    ],
)
def test_directories_of_years_of_other_than_four_digits_are_javas(type_: str, value: object, legacy: str, directory: str) -> None:
    options = {"bucket": "-1", "partition.legacy-name": legacy}
    schema = new_schema([column("p", type_), column("v", "INT")], partition_keys=["p"], options=options)
    assert TableLayout("/t").bucket_dir(schema, (value,), 0) == f"/t/{directory}/bucket-0"


LONE = b"\xed\xa0\x80"
"""Half of a character in UTF-8."""


@pytest.mark.parametrize(
    ("value", "legacy", "directory"),
    [
        (b"a/b", "true", "p=a%2Fb"),
        (b"a/b", "false", "p=a%2Fb"),
        (LONE, "true", "p=\ufffd\ufffd\ufffd"),
        (LONE, "false", "p=\ufffd"),
        (LONE[:2], "false", "p=\ufffd"),
        (LONE[:1] + b"\x80A", "false", "p=\ufffdA"),
        (b"\xed\xb0A", "false", "p=\ufffdA"),
        (b"\xf0\x9f\x98" + LONE + b"\xff", "false", "p=\ufffd\ufffd\ufffd"),
    ],
)
def test_directories_of_bytes_are_javas_by_new_names(value: bytes, legacy: str, directory: str) -> None:
    options = {"bucket": "-1", "partition.legacy-name": legacy}
    schema = new_schema([column("p", "BYTES"), column("v", "INT")], partition_keys=["p"], options=options)
    layout = TableLayout("/t")
    assert layout.bucket_dir(schema, (value,), 0) == f"/t/{directory}/bucket-0"
    former = "/t/p=" + value.decode("utf-8", "replace").replace("/", "%2F") + "/bucket-0/f"
    assert layout.written_file(schema, (value,), 0, "f", {former}.__contains__) == former
