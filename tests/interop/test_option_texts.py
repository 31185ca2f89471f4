"""Every text that is stored for an option is one that Java's client reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from model.errors import InvalidOption
from model.options.option import OptionGroup
from model.options.table import TABLE_OPTIONS
from tests.interop.conftest import Reader

pytestmark = pytest.mark.interop
_TEXTS = (
    "1", "+1", "-1", "01", " 2 ", "2 ", "1_0", "٣", "１", "²", "0x10", "1.0", "1e3", "1.", ".5", "1e-1", "0.5f", "0_1",
    "inf", "Infinity", "nan", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808",
    "99999999999999999999", "9" * 5000, "true", "TRUE", " true", "True ", "yes", "8 mb", "8MB", "8 Mb ", "8kb",
    "8 kibibytes", "8 bytes", "8b", "8 g", "8388608 tb", "8388607 tb", "99999999999999999999 tb", "٣ mb", "1 day",
    "2 Days", "1 d", "1d", "1 h", "1 hours", "1 min", "1 m", "1 minutes", "1 s", "1 secs", "1 ms", "1 millis",
    "1 milliseconds", "1 µs", "1 micros", "1 us", "1 ns", "1 nanos", "1 mss", "999999999 d", "99999999999 d",
    "99999999999999999 d", "none", "NONE", " none", "full", "truncate(16)", "TRUNCATE(16)", "zstd", "ZSTD ", "daily",
    "Daily", "two-hours", "process-time", "", " ",
)  # fmt: skip
_NOT_READ = "parquet.enable.dictionary"
"""Java declares it as a number and reads no such number: Parquet itself takes it, as true or false."""


def _stored(group: OptionGroup) -> Iterator[tuple[str, str]]:
    for option in group:
        if option.key == _NOT_READ:
            continue
        for text in _TEXTS:
            try:
                group.check({option.key: text})
            except InvalidOption:
                continue
            yield option.key, group.stored({option.key: text})[option.key]


def test_java_reads_every_text_that_is_stored(java_paimon: Reader) -> None:
    stored = list(_stored(TABLE_OPTIONS))
    assert len(stored) > 1000
    refused = java_paimon.refused(stored)
    assert not refused, "\n".join(map(str, refused))


def test_what_java_does_not_read_is_told_by_the_same_way(java_paimon: Reader) -> None:
    refused = java_paimon.refused([("bucket", "1"), ("bucket", "1_0"), ("bucket", " 2 "), ("target-file-size", "99999999999999999999 tb")])
    assert [(key, text) for key, text, _ in refused] == [
        ("bucket", "1_0"),
        ("bucket", " 2 "),
        ("target-file-size", "99999999999999999999 tb"),
    ]
