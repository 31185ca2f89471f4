"""Manifests and manifest lists as Avro bytes (`paimon-append.md` §4.1–4.2).

Java reads the top level of a manifest by position and exact type, so these schemas must not change order.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, BinaryIO

import fastavro
from fastavro.types import Schema as AvroSchema
from fastavro.write import Writer

from table.format.manifests.avro import records_of
from table.format.manifests.avro_name import named
from table.format.manifests.entries import DataFile, EntryKind, FileSource, ManifestEntry, ManifestFile, SimpleStats

VERSION = 2
_fastavro: Any = import_module("fastavro._write")
_NAMESPACE = "org.apache.paimon.avro.generated"


def _nullable(type_: object) -> list[object]:
    return ["null", type_]


def _stats(name: str) -> dict[str, object]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": "_MIN_VALUES", "type": "bytes"},
            {"name": "_MAX_VALUES", "type": "bytes"},
            {"name": "_NULL_COUNTS", "type": _nullable({"type": "array", "items": _nullable("long")}), "default": None},
        ],
    }


def _optional(name: str, type_: object) -> dict[str, object]:
    return {"name": name, "type": _nullable(type_), "default": None}


_STRINGS = {"type": "array", "items": "string"}
_FILE = {
    "type": "record",
    "name": "record__FILE",
    "fields": [
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_ROW_COUNT", "type": "long"},
        {"name": "_MIN_KEY", "type": "bytes"},
        {"name": "_MAX_KEY", "type": "bytes"},
        {"name": "_KEY_STATS", "type": _stats("record__FILE__KEY_STATS")},
        {"name": "_VALUE_STATS", "type": _stats("record__FILE__VALUE_STATS")},
        {"name": "_MIN_SEQUENCE_NUMBER", "type": "long"},
        {"name": "_MAX_SEQUENCE_NUMBER", "type": "long"},
        {"name": "_SCHEMA_ID", "type": "long"},
        {"name": "_LEVEL", "type": "int"},
        {"name": "_EXTRA_FILES", "type": _STRINGS},
        # A plain long in the Python records: the logical type only tells readers what it means.
        _optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
        _optional("_DELETE_ROW_COUNT", "long"),
        _optional("_EMBEDDED_FILE_INDEX", "bytes"),
        _optional("_FILE_SOURCE", "int"),
        _optional("_VALUE_STATS_COLS", _STRINGS),
        _optional("_EXTERNAL_PATH", "string"),
        _optional("_FIRST_ROW_ID", "long"),
        _optional("_WRITE_COLS", _STRINGS),
        _optional("_WRITE_COLS_SEQUENCES", {"type": "array", "items": "long"}),
    ],
}
MANIFEST_SCHEMA: AvroSchema = {
    "type": "record",
    "name": "record",
    "namespace": _NAMESPACE,
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_TOTAL_BUCKETS", "type": "int"},
        {"name": "_FILE", "type": _FILE},
    ],
}
MANIFEST_LIST_SCHEMA: AvroSchema = {
    "type": "record",
    "name": "record",
    "namespace": _NAMESPACE,
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_NUM_ADDED_FILES", "type": "long"},
        {"name": "_NUM_DELETED_FILES", "type": "long"},
        {"name": "_PARTITION_STATS", "type": _stats("record__PARTITION_STATS")},
        {"name": "_SCHEMA_ID", "type": "long"},
        _optional("_MIN_BUCKET", "int"),
        _optional("_MAX_BUCKET", "int"),
        _optional("_MIN_LEVEL", "int"),
        _optional("_MAX_LEVEL", "int"),
        _optional("_MIN_ROW_ID", "long"),
        _optional("_MAX_ROW_ID", "long"),
    ],
}


def _checked_block(out: BinaryIO, block: bytes, level: int | None) -> None:
    """Write an Avro block as a zstd frame with a checksum, which every reader of zstd verifies; fastavro writes none."""
    zstd = _fastavro.zstd
    options = {zstd.CompressionParameter.checksum_flag: 1, zstd.CompressionParameter.compression_level: level or 1}
    data = zstd.compress(block, options=options)
    size = len(data) << 1  # zigzag
    while size > 0x7F:
        out.write(bytes((size & 0x7F | 0x80,)))
        size >>= 7
    out.write(bytes((size,)))
    out.write(data)


_fastavro.BLOCK_WRITERS["zstandard"] = _checked_block
_MOST_BYTES = 512 << 20
"""What the records of a manifest may take once they are unpacked; writers close theirs after some megabytes."""
_PARSED_MANIFEST = fastavro.parse_schema(MANIFEST_SCHEMA)
_PARSED_LIST = fastavro.parse_schema(MANIFEST_LIST_SCHEMA)
_KEY_STATS = {"_MIN_VALUES": SimpleStats().min_values, "_MAX_VALUES": SimpleStats().max_values, "_NULL_COUNTS": []}


def encode_manifests(
    entries: Iterable[ManifestEntry], *, target: int, new_name: Callable[[], str]
) -> Iterator[tuple[str, Sequence[ManifestEntry], bytes]]:
    """The entries as manifest files, each closed by the block that brings it to ``target`` bytes, with its name and what it holds."""
    left = iter(entries)
    for first in left:
        name, buffer = new_name(), io.BytesIO()
        writer = Writer(buffer, _PARSED_MANIFEST, codec="zstandard", metadata=named(name), compression_level=1)
        header = buffer.tell()
        part = []
        entry: ManifestEntry | None = first
        while entry is not None:
            part.append(entry)
            writer.write(entry_record(entry))
            # A manifest of a target below one block holds that block: with less, each entry would get a file.
            entry = next(left, None) if buffer.tell() < max(target, header + 1) else None
        writer.flush()
        yield name, part, buffer.getvalue()


def encode_manifest_list(files: Iterable[ManifestFile], *, name: str) -> bytes:
    """A manifest list of these manifests, in their order; none make a real file with no records."""
    buffer = io.BytesIO()
    records = (_list_record(file) for file in files)
    fastavro.writer(buffer, _PARSED_LIST, records, codec="zstandard", metadata=named(name), codec_compression_level=1)
    return buffer.getvalue()


def manifest_records(data: bytes) -> Iterator[Any]:
    """The Avro records of a manifest or of a list, one after another; raises anything for bytes that are none."""
    return records_of(data, most_bytes=_MOST_BYTES)


def decode_manifest(data: bytes) -> list[ManifestEntry]:
    """The entries of a manifest, also one an older writer made: what it lacks is None."""
    return entries_of(manifest_records(data))


def entries_of(records: Iterable[Mapping[str, Any]]) -> list[ManifestEntry]:
    """The entries that a manifest's records are."""
    return [_entry(record) for record in records]


def decode_manifest_list(data: bytes) -> list[ManifestFile]:
    """The manifests of a list, whatever later fields it has or lacks."""
    return list_of(manifest_records(data))


def list_of(records: Iterable[Mapping[str, Any]]) -> list[ManifestFile]:
    """The manifests that a list's records are."""
    return [_list_entry(record) for record in records]


def _stats_record(stats: SimpleStats) -> dict[str, object]:
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": list(stats.null_counts)}


def _stats_of(record: Mapping[str, Any]) -> SimpleStats:
    return SimpleStats(record["_MIN_VALUES"], record["_MAX_VALUES"], tuple(record.get("_NULL_COUNTS") or ()))


def entry_record(entry: ManifestEntry) -> dict[str, Any]:
    """An entry as the Avro record it is in a manifest."""
    file = entry.file
    return {
        "_VERSION": VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": file.file_name,
            "_FILE_SIZE": file.file_size,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": _KEY_STATS["_MIN_VALUES"],
            "_MAX_KEY": _KEY_STATS["_MAX_VALUES"],
            "_KEY_STATS": _KEY_STATS,
            "_VALUE_STATS": _stats_record(file.value_stats),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": list(file.extra_files),
            "_CREATION_TIME": file.creation_time_millis,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_file_index,
            "_FILE_SOURCE": file.file_source,
            "_VALUE_STATS_COLS": _list(file.value_stats_cols),
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": _list(file.write_cols),
            "_WRITE_COLS_SEQUENCES": _list(file.write_cols_sequences),
        },
    }


BOUNDS = {
    "bucket": (-(2**31), 2**31 - 1), "total_buckets": (-(2**31), 2**31 - 1), "level": (-(2**31), 2**31 - 1), "file_size": (0, 2**53),
    "row_count": (0, 2**53), "delete_row_count": (-(2**53), 2**53), "creation_time": (-62_135_596_800_000, 253_402_300_799_999),
    "num_added_files": (0, 2**53), "num_deleted_files": (0, 2**53), "schema_id": (0, 2**63 - 1), "min_bucket": (-(2**31), 2**31 - 1),
    "max_bucket": (-(2**31), 2**31 - 1),
}  # fmt: skip
"""What numbers of manifests may be, so that their sums and times are numbers and times too; others are damage."""


def bounded(name: str, value: Any) -> Any:
    """The number; raises `ValueError` for one that no writer means. None stays None."""
    least, most = BOUNDS[name]
    if value is not None and not least <= value <= most:
        raise ValueError(f"{name} is {value}")
    return value


def _entry(record: Mapping[str, Any]) -> ManifestEntry:
    file = record["_FILE"]
    source = file.get("_FILE_SOURCE")
    return ManifestEntry(
        kind=EntryKind(record["_KIND"]),
        partition=record["_PARTITION"],
        bucket=bounded("bucket", record["_BUCKET"]),
        total_buckets=bounded("total_buckets", record["_TOTAL_BUCKETS"]),
        file=DataFile(
            file_name=file["_FILE_NAME"],
            file_size=bounded("file_size", file["_FILE_SIZE"]),
            row_count=bounded("row_count", file["_ROW_COUNT"]),
            value_stats=_stats_of(file["_VALUE_STATS"]),
            value_stats_cols=_tuple(file.get("_VALUE_STATS_COLS")),
            min_sequence_number=file["_MIN_SEQUENCE_NUMBER"],
            max_sequence_number=file["_MAX_SEQUENCE_NUMBER"],
            schema_id=bounded("schema_id", file["_SCHEMA_ID"]),
            level=bounded("level", file["_LEVEL"]),
            extra_files=tuple(file.get("_EXTRA_FILES") or ()),
            creation_time_millis=bounded("creation_time", epoch_millis(file.get("_CREATION_TIME"))),
            delete_row_count=bounded("delete_row_count", file.get("_DELETE_ROW_COUNT")),
            embedded_file_index=file.get("_EMBEDDED_FILE_INDEX"),
            file_source=None if source is None else FileSource(source),
            external_path=file.get("_EXTERNAL_PATH"),
            first_row_id=file.get("_FIRST_ROW_ID"),
            write_cols=_tuple(file.get("_WRITE_COLS")),
            write_cols_sequences=_tuple(file.get("_WRITE_COLS_SEQUENCES")),
        ),
    )


def _list(values: Iterable[Any] | None) -> list[Any] | None:
    """fastavro reads a tuple in a union as (type name, value)."""
    return None if values is None else list(values)


def _tuple(values: Iterable[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def epoch_millis(value: Any) -> int:
    """A creation time as a number: fastavro turns the logical type into a UTC datetime; old writers have none."""
    if value is None or isinstance(value, int):
        return value or 0
    return round(value.timestamp() * 1000)  # type: ignore[no-any-return]


def _list_record(file: ManifestFile) -> dict[str, object]:
    return {
        "_VERSION": VERSION,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_NUM_ADDED_FILES": file.num_added_files,
        "_NUM_DELETED_FILES": file.num_deleted_files,
        "_PARTITION_STATS": _stats_record(file.partition_stats),
        "_SCHEMA_ID": file.schema_id,
        "_MIN_BUCKET": file.min_bucket,
        "_MAX_BUCKET": file.max_bucket,
        "_MIN_LEVEL": file.min_level,
        "_MAX_LEVEL": file.max_level,
        "_MIN_ROW_ID": file.min_row_id,
        "_MAX_ROW_ID": file.max_row_id,
    }


def _list_entry(record: Mapping[str, Any]) -> ManifestFile:
    return ManifestFile(
        file_name=record["_FILE_NAME"],
        file_size=bounded("file_size", record["_FILE_SIZE"]),
        num_added_files=bounded("num_added_files", record["_NUM_ADDED_FILES"]),
        num_deleted_files=bounded("num_deleted_files", record["_NUM_DELETED_FILES"]),
        partition_stats=_stats_of(record["_PARTITION_STATS"]),
        schema_id=bounded("schema_id", record["_SCHEMA_ID"]),
        min_bucket=bounded("min_bucket", record.get("_MIN_BUCKET")),
        max_bucket=bounded("max_bucket", record.get("_MAX_BUCKET")),
        min_level=record.get("_MIN_LEVEL"),
        max_level=record.get("_MAX_LEVEL"),
        min_row_id=record.get("_MIN_ROW_ID"),
        max_row_id=record.get("_MAX_ROW_ID"),
    )
