"""The time of a partition is what Paimon's readers find in its values, and no other text is taken for one."""

from __future__ import annotations

import datetime as dt

import pytest

from model.text.time_pattern import TimePattern, default_millis

EPOCH = dt.datetime(1970, 1, 1)


def _moment(millis: int | None) -> str | None:
    return None if millis is None else str(EPOCH + dt.timedelta(milliseconds=millis))


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-05-06", "2024-05-06 00:00:00"),
        ("2024-5-6", "2024-05-06 00:00:00"),
        ("2024-05-06 07:08:09", "2024-05-06 07:08:09"),
        ("2024-5-6 7:8:9.25", "2024-05-06 07:08:09.250000"),
        ("2023-02-30", "2023-03-02 00:00:00"),
        ("2023-13-01", "2024-01-01 00:00:00"),
        ("2024-05-06 24:00:00", "2024-05-07 00:00:00"),
        ("202411", None),
        ("20241105", None),
        ("123456", None),
        ("2024-05-06T07:08:09", None),
        ("2024-05-06 07:08", None),
        ("2024-05", None),
        (" 2024-05-06", None),
        ("2024-05-06\n", None),
        ("٢٠٢٤-05-06", None),
        ("9999999-01-01", None),
    ],
)
def test_without_a_format(text: str, time: str | None) -> None:
    assert _moment(default_millis(text)) == time


@pytest.mark.parametrize(
    ("pattern", "text", "time"),
    [
        ("yyyyMMdd", "20240506", "2024-05-06 00:00:00"),
        ("yyyyMMdd", "202456", None),
        ("yyyyMMdd", "120240506", None),
        ("yyyyMMddHH", "2024050607", "2024-05-06 07:00:00"),
        ("yyyyMMddHHmmssSSS", "20240506070809123", "2024-05-06 07:08:09.123000"),
        ("yyyy-MM-dd HH:mm", "2024-05-06 07:08", "2024-05-06 07:08:00"),
        ("yyyy-MM-dd HH:mm", "2024-05-06 7:08", None),
        ("yyyy-MM-dd HH:mm", "2024-05-06 24:00", "2024-05-07 00:00:00"),
        ("yyyy-MM-dd HH:mm", "2024-05-06 24:01", None),
        ("yyyy-M-d", "2024-12-6", "2024-12-06 00:00:00"),
        ("uuuu-MM-dd'T'HH", "2024-05-06T07", "2024-05-06 07:00:00"),
        ("'it''s' yyyy/MM/dd", "it's 2024/05/06", "2024-05-06 00:00:00"),
        ("yyyy-MM-dd", "2023-02-31", "2023-02-28 00:00:00"),
        ("yyyy-MM-dd", "2024-02-31", "2024-02-29 00:00:00"),
        ("yyyy-MM-dd", "2024-13-01", None),
        ("yyyy-MM-dd", "2024-00-01", None),
        ("yyyyMM", "202405", None),
        ("yyyy", "2024", None),
        ("HH:mm", "07:08", None),
        ("ydMM", "2024605", None),  # the first number of any width takes all digits
        ("yMMdd", "20240506", "2024-05-06 00:00:00"),
        ("y-M-d", "99999999999-1-1", None),
    ],
)
def test_with_a_format(pattern: str, text: str, time: str | None) -> None:
    assert _moment(TimePattern(pattern).millis(text)) == time


@pytest.mark.parametrize("pattern", ["EEE", "garbage", "yyy-MM-dd", "yyyy-MMM-dd", "yyyy-MM-dd yyyy", "yyyy[-MM]", "yyyy'", "ddd"])
def test_formats_that_are_not_read(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is not read here|are read here|twice"):
        TimePattern(pattern)
