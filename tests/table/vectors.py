"""Deletion vectors as Paimon's writers lay them down, for tables that tests make."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import fastavro
from pyroaring import BitMap, BitMap64

from model.snapshot import Snapshot
from table.format.manifests.entries import ManifestEntry
from table.format.store import TableFiles

INDEX_MANIFEST = fastavro.parse_schema(
    {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.paimon.avro.generated",
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_BUCKET", "type": "int"},
            {"name": "_INDEX_TYPE", "type": "string"},
            {"name": "_FILE_NAME", "type": "string"},
            {"name": "_FILE_SIZE", "type": "long"},
            {"name": "_ROW_COUNT", "type": "long"},
            {
                "name": "_DELETIONS_VECTORS_RANGES",
                "default": None,
                "type": [
                    "null",
                    {
                        "type": "array",
                        "items": [
                            "null",
                            {
                                "type": "record",
                                "name": "record__DELETIONS_VECTORS_RANGES",
                                "fields": [
                                    {"name": "f0", "type": "string"},
                                    {"name": "f1", "type": "int"},
                                    {"name": "f2", "type": "int"},
                                    {"name": "_CARDINALITY", "type": ["null", "long"], "default": None},
                                ],
                            },
                        ],
                    },
                ],
            },
        ],
    }
)


def vector(rows: Sequence[int], *, wide: bool = False) -> tuple[bytes, int]:
    """A vector's bytes and the length an index manifest tells of it."""
    body = struct.pack("<i", 1681511377) + BitMap64(rows).serialize() if wide else struct.pack(">i", 1581511376) + BitMap(rows).serialize()
    data = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return data, len(data) if wide else len(body)


def read_in_turn(data: bytes, ranges: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """The deleted rows by file as Paimon's writers of buckets read them before 2.0: one vector after the other, without seeking."""
    assert data[0] == 1
    stream, deleted = io.BytesIO(data[1:]), {}
    for one in ranges:
        size, magic = struct.unpack(">Ii", stream.read(8))
        wide = magic != 1581511376
        assert size == one["f2"] - (8 if wide else 0), f"Size not match, actual size: {size}, expected size: {one['f2']}"
        body = stream.read(size - 4)
        stream.read(4)
        deleted[one["f0"]] = list((BitMap64 if wide else BitMap).deserialize(body))
    return deleted


def with_deleted(
    files: TableFiles, snapshot: Snapshot, deleted: Mapping[str, Sequence[int]], *, wide: bool = False, told: bool = True
) -> Snapshot:
    """A snapshot of the same files, of which some rows are deleted: by the names of the files."""
    name = f"index-{uuid4()}-0"
    content, records = b"\x01", []
    places: dict[tuple[bytes, int], list[dict[str, Any]]] = {}
    for entry in files.live_entries(snapshot):
        assert isinstance(entry, ManifestEntry)
        if rows := deleted.get(entry.file.file_name):
            data, length = vector(rows, wide=wide)
            one = {"f0": entry.file.file_name, "f1": len(content), "f2": length, "_CARDINALITY": len(rows) if told else None}
            places.setdefault((entry.partition, entry.bucket), []).append(one)
            content += data
    for (partition, bucket), ranges in places.items():
        records.append(
            {
                "_VERSION": 1, "_KIND": 0, "_PARTITION": partition, "_BUCKET": bucket, "_INDEX_TYPE": "DELETION_VECTORS",
                "_FILE_NAME": name, "_FILE_SIZE": len(content), "_ROW_COUNT": len(ranges), "_DELETIONS_VECTORS_RANGES": ranges,
            }
        )  # fmt: skip
    files.io.add(files.layout.index_file(name), content)
    out = io.BytesIO()
    fastavro.writer(out, INDEX_MANIFEST, records, codec="zstandard")
    manifest = f"index-manifest-{uuid4()}-0"
    files.io.add(files.layout.manifest(manifest), out.getvalue())
    return replace(snapshot, index_manifest=manifest)
