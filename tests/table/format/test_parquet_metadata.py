"""A footer in which anything was changed is refused or read; it never ends the process that looks at it."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table.format.parquet.batches import opened
from table.format.parquet.metadata import MOST_FOOTER_BYTES, FooterTooLarge, footer_of, metadata_of
from table.format.parquet.thrift import LIST, NotCompact, Reader, Struct, varint

ROOT = Path(__file__).parents[3]
ROWS = pa.table(
    {"id": [1, 2, 3], "s": ["a", "b", None], "d": [0.5, 1.5, 2.5], "words": pa.array([["x", "y"], [], None], pa.list_(pa.string()))}
)
_LOOK = """
import sys
from table.format.parquet.metadata import metadata_of
footer, outcomes = sys.stdin.buffer.read(), {"read": 0, "refused": 0}
for at in range(0, len(footer), int(sys.argv[1])):
    for bit in range(8):
        changed = footer[:at] + bytes([footer[at] ^ 1 << bit]) + footer[at + 1:]
        try:
            metadata = metadata_of(changed)
            for group in range(metadata.num_row_groups):
                for column in range(metadata.row_group(group).num_columns):
                    metadata.row_group(group).column(column).to_dict()
            outcomes["read"] += 1
        except Exception:
            outcomes["refused"] += 1
print(outcomes["read"] + outcomes["refused"])
"""


def written(rows: pa.Table = ROWS) -> bytes:
    """A Parquet file as the server writes it: with statistics of sizes."""
    out = io.BytesIO()
    pq.write_table(rows, out, use_dictionary=False, compression="zstd", row_group_size=2)
    return out.getvalue()


def footer() -> bytes:
    return footer_of(pa.BufferReader(written()))


@pytest.mark.parametrize("every", [pytest.param(5, id="short"), pytest.param(1, id="whole", marks=pytest.mark.torture)])
def test_no_flipped_bit_of_a_footer_ends_the_process(every: int) -> None:
    """Every bit of every fifth byte, and of all of them."""
    told = footer()
    done = subprocess.run([sys.executable, "-c", _LOOK, str(every)], cwd=ROOT, input=told, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) == 8 * len(range(0, len(told), every))


def test_what_is_told_stays_but_the_statistics_of_sizes() -> None:
    whole, plain = pq.read_metadata(io.BytesIO(written())), metadata_of(footer())
    assert plain.schema.equals(whole.schema)
    for group in range(whole.num_row_groups):
        for column in range(whole.num_columns):
            known, told = whole.row_group(group).column(column).to_dict(), plain.row_group(group).column(column).to_dict()
            assert {name for name in known if known[name] != told[name]} <= {"size_statistics"}
    wide = pa.table({f"c{n}": [n] for n in range(40)})
    assert metadata_of(footer_of(pa.BufferReader(written(wide)))).row_group(0).column(39).statistics.max == 39


@pytest.mark.parametrize(
    "data",
    [b"", b"PAR1", b"PAR1\0\0\0\0PAR1"[4:], b"no Parquet at all", written()[:-4] + b"PARE", b"PAR1" + b"\xff\xff\xff\x7fPAR1"],
)
def test_a_file_without_a_footer_is_refused(data: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        footer_of(pa.BufferReader(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x49\xf1" + b"\xff" * 9 + b"\x01",  # a list of 2^63 truths
        b"\x49" + b"\x19" * 100_000,  # lists in lists
        b"\x4c" + b"\x1c" * 100_000,
        b"\x46" + b"\x80" * 1_000_000,  # a number without end
        b"\x48\xff\xff\xff\xff\x0f",  # a text of 4 GB
    ],
)
def test_a_hostile_footer_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(pa.ArrowException):
        metadata_of(data)


def test_a_footer_that_would_fill_the_process_is_not_read() -> None:
    """Arrow takes up to eighty times a footer's bytes; the length of one is four bytes of the file."""
    length = MOST_FOOTER_BYTES + 1
    end = bytes(length - 1) + length.to_bytes(4, "little") + b"PAR1"
    for read in (footer_of, opened):
        with pytest.raises(FooterTooLarge, match="footer has 33,554,433 bytes"):
            read(pa.BufferReader(b"PAR1\x15" + end))
        with pytest.raises(pa.ArrowInvalid, match="no footer of 33,554,433 bytes"):  # a changed bit of its length
            read(pa.BufferReader(b"PAR1\x00" + end))


def test_a_footer_of_many_row_groups_takes_little_more_than_its_bytes() -> None:
    count = 20_000
    group = b"\x19\x0c\x16\x00\x16\x00\x00"  # no columns, no bytes, no rows
    file_metadata = Struct.read(Reader(footer()))
    file_metadata.fields[4] = LIST, bytes([0xFC]) + varint(count) + group * count
    told = file_metadata.encoded()
    tracemalloc.start()
    try:
        with pytest.raises(pa.ArrowInvalid, match="other columns"):
            metadata_of(told)
        assert tracemalloc.get_traced_memory()[1] < 25 * len(told)
    finally:
        tracemalloc.stop()


def test_a_number_has_at_most_64_bits() -> None:
    assert Reader(b"\xff" * 9 + b"\x01").varint() == 2**64 - 1
    with pytest.raises(NotCompact):
        Reader(b"\xff" * 11).varint()
