"""Avro as Java may pack it: the codecs of its library, each file whole or told as what it is."""

from __future__ import annotations

import io

import fastavro
import pytest

from table.format.manifests.avro import records_in, records_of
from tests.table.avro_snappy import packed_with_snappy

SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"]}],
}
ROWS = [{"n": n, "s": f"text {n}" * (n % 50) if n % 7 else None} for n in range(1000)]


def packed(codec: str) -> bytes:
    if codec == "snappy":
        return packed_with_snappy(fastavro.parse_schema(SCHEMA), ROWS)
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, ROWS, codec=codec)
    return out.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "zstandard", "snappy"])
def test_every_codec_of_java_is_read(codec: str) -> None:
    data = packed(codec)
    assert list(records_of(data, most_bytes=1 << 20)) == ROWS
    assert list(records_in(io.BytesIO(data), len(data))) == ROWS


def test_a_block_of_snappy_that_was_changed_anywhere_is_no_other_rows() -> None:
    data = packed("snappy")
    begin, told = data.index(bytes(range(16))) + 16, 0
    for at in range(begin, begin + 600):
        changed = bytearray(data)
        changed[at] ^= 0x40
        try:
            found = list(records_of(bytes(changed), most_bytes=1 << 20))
        except (ValueError, EOFError, IndexError):
            told += 1
        else:  # a copy of the same bytes from another place
            assert found == ROWS
    assert told > 500


def test_a_block_that_claims_more_than_a_block_may_hold_takes_no_memory() -> None:
    data = packed_with_snappy(fastavro.parse_schema(SCHEMA), ROWS[:1])
    huge = b"\xff\xff\xff\xff\x0f" + bytes(8)
    block = data[: data.index(bytes(range(16))) + 16] + b"\x02" + bytes([len(huge) * 2]) + huge + bytes(range(16))
    with pytest.raises(ValueError, match="unpacks to more than"):
        list(records_of(block, most_bytes=1 << 20))
