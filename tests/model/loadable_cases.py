"""Schemas that Java's clients load, and such as they do not: columns, partition keys and options of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from model.schema.types import parse_type


@dataclass(frozen=True, slots=True)
class Case:
    """A schema; ``says`` is a word of the refusal, or none where all clients load it."""

    says: str
    columns: Mapping[str, str] = field(default_factory=lambda: {"id": "INT", "v": "STRING"})
    options: Mapping[str, str] = field(default_factory=dict)
    partition: Sequence[str] = ()

    def body(self) -> dict[str, Any]:
        """As clients of the REST catalog send it."""
        fields = [{"id": at, "name": name, "type": _type(spelled)} for at, (name, spelled) in enumerate(self.columns.items())]
        return {"fields": fields, "partitionKeys": list(self.partition), "primaryKeys": [], "options": dict(self.options), "comment": None}


_VECTOR = "VECTOR"


def _type(spelled: str) -> Any:
    root, _, inside = spelled.partition("<")
    if not inside:
        return {"type": "VECTOR", "element": "FLOAT", "length": 4} if spelled == _VECTOR else parse_type(spelled).to_json()
    match root:
        case "ROW":
            return {"type": root, "fields": [{"id": 90, "name": "x", "type": inside[:-1]}]}
        case "MAP":
            key, _, value = inside[:-1].partition(", ")
            return {"type": root, "key": _type(key), "value": _type(value)}
    return {"type": root, "element": _type(inside[:-1])}


_EVOLVES = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
_MAP = {"id": "INT", "m": "MAP<STRING NOT NULL, INT>"}
_SHREDDED = {"fields.m.map.storage-layout": "shared-shredding"}
_WITH_BLOB = {"id": "INT", "pic": "BLOB"}
_WITH_VECTOR = {"id": "INT", "emb": _VECTOR}
_PARTED = {"id": "INT", "p": "STRING"}

LOADED = (
    Case(""),
    Case("", options={"streaming-read-append-overwrite": "true"}),
    Case("", options={"streaming-read-overwrite": "false", "primary-key.nullable": "FALSE"}),
    Case("", options={"row-tracking.enabled": "true"}),
    Case("", options=_EVOLVES),
    Case("", _WITH_BLOB, _EVOLVES),
    Case("", _WITH_BLOB, {**_EVOLVES, "blob-field": "pic"}),
    Case("", _WITH_BLOB, {**_EVOLVES, "blob-descriptor-field": "pic"}),
    Case("", _WITH_BLOB, {**_EVOLVES, "blob.stored-descriptor-fields": "pic"}),
    Case("", {"id": "INT", "pics": "ARRAY<BLOB>"}, {**_EVOLVES, "blob-field": "pics"}),
    Case("", _WITH_VECTOR),
    Case("", _WITH_VECTOR, {"vector-field": "emb"}),
    Case("", _WITH_VECTOR, {**_EVOLVES, "vector-field": "emb", "vector.file.format": "json"}),
    Case("", _WITH_VECTOR, {"file.format": "avro"}),
    Case("", _MAP, _SHREDDED),
    Case("", _MAP, {**_SHREDDED, "file.format": "orc", "file.compression": "lz4"}),
    Case("", _MAP, {"fields.m.map.storage-layout": "default", "file.format": "avro"}),
    Case("", options={"file-index.bsi.columns": "id"}),
    Case("", _MAP, {"file-index.bsi.columns": "id, m[k]", "file-index.bsi.m.x": "1"}),
    Case("", options={"variant.shredding.adaptive.maxInferBufferRow": "0", "variant.shredding.adaptive.retentionRatio": "2"}),
    Case("", {"id": "INT", "r": "ROW<INT>"}, {"fields.r.stats-mode": "none"}),
    Case("", {"id": "INT", "t": "TIMESTAMP(6)", "u": "TIME(3)", "w": "MULTISET<STRING>"}, {"file.format": "avro"}),
    Case("", {"id": "INT", "t": "TIMESTAMP(9)", "b": "VARBINARY(3)", "w": "MULTISET<STRING>"}, {"file.format": "orc"}),
    Case("", {"id": "INT", "g": "GEOMETRY", "x": "VARIANT"}),
    Case("", {"id": "INT", "b": "BYTES"}, {"file.format": "csv"}),
    Case("", {"s": "STRING"}, {"file.format": "text"}),
    Case("", {"id": "INT", "a": "ARRAY<INT>"}, {"file.format": "json"}),
    Case("", _PARTED, {"manifest-sort.enabled": "true", "manifest-sort.partition-field": "p"}, ["p"]),
    Case("", options={"variant.shredding.inferenceMode": "adaptive", "variant.shredding.adaptive.retentionRatio": "0.1"}),
    Case("", options={"deletion-vectors.enabled": "true", "clustering.incremental": "true", "clustering.columns": "id"}),
)  # fmt: skip
UNLOADED = (
    Case("streaming-read-append-overwrite", options={"streaming-read-overwrite": "true"}),
    Case("'true' or 'false'", options={"streaming-read-overwrite": "yes"}),
    Case("primary key", options={"primary-key.nullable": "true"}),
    Case("primary key", options={"table-read.sequence-number.enabled": "true"}),
    Case("primary key", options={"chain-table.enabled": "true"}),
    Case("'bucket' = '-1'", options={"row-tracking.enabled": "true", "bucket": "1", "bucket-key": "id"}),
    Case("row-tracking.enabled", options={"data-evolution.enabled": "true"}),
    Case("exclude each other", options={**_EVOLVES, "clustering.incremental": "true", "clustering.columns": "id"}),
    Case("exclude each other", options={
        "deletion-vectors.enabled": "true", "clustering.incremental": "true", "clustering.columns": "v", "bucket": "2", "bucket-key": "id",
        "bucket-append-ordered": "false",
    }),
    Case("data-evolution.enabled", _WITH_BLOB),
    Case("BLOBs are", {"id": "INT", "r": "ROW<BLOB>"}, _EVOLVES),
    Case("of another type", {"pic": "BLOB"}, _EVOLVES),
    Case("simple type", _WITH_BLOB, _EVOLVES, ["pic"]),
    Case("simple type", {"id": "INT", "x": "VARIANT"}, {}, ["x"]),
    Case("names v", options={"blob-field": "v"}),
    Case("names gone", options={"blob-field": "gone"}),
    Case("names v", options={"blob-descriptor-field": "v"}),
    Case("names v", options={"blob.stored-descriptor-fields": "v"}),
    Case("names v", options={"blob-view-field": "v"}),
    Case("both name pic", _WITH_BLOB, {**_EVOLVES, "blob-descriptor-field": "pic", "blob-view-field": "pic"}),
    Case("names pics", {"id": "INT", "pics": "ARRAY<BLOB>"}, {**_EVOLVES, "blob-view-field": "pics"}),
    Case("column of vectors", options={"vector-field": "v"}),
    Case("column of vectors", options={"vector-field": "gone"}),
    Case("data-evolution.enabled", _WITH_VECTOR, {"vector.file.format": "json"}),
    Case("of another type", {"emb": _VECTOR}, {**_EVOLVES, "vector.file.format": "json"}),
    Case("no column of type MAP", options={"fields.v.map.storage-layout": "default"}),
    Case("STRING NOT NULL", {"id": "INT", "m": "MAP<STRING, INT>"}, _SHREDDED),
    Case("STRING NOT NULL", {"id": "INT", "m": "MAP<INT NOT NULL, INT>"}, _SHREDDED),
    Case("the layouts are", _MAP, {"fields.m.map.storage-layout": "sorted"}),
    Case("file.compression", _MAP, {**_SHREDDED, "file.compression": "snappy"}),
    Case("file.format", _MAP, {**_SHREDDED, "file.format": "avro"}),
    Case("cannot be beside", {**_MAP, "x": "VARIANT"}, _SHREDDED),
    Case("cannot be beside", {**_MAP, "x": "MULTISET<INT>"}, _SHREDDED),
    Case("no column with such", options={"file-index.bsi.columns": "zzz"}),
    Case("no column with such", options={"file-index.bsi.columns": "v"}),
    Case("no kind of index", options={"file-index.made-up.columns": "id"}),
    Case("no column with such", _MAP, {"file-index.bsi.columns": "m"}),
    Case("no column with such", {"id": "INT", "m": "MAP<INT, INT>"}, {"file-index.bsi.columns": "m[k]"}),
    Case("no column with such", {"id": "INT", "m": "MAP<STRING, STRING>"}, {"file-index.bsi.columns": "m[k]"}),
    Case("no column with such", _MAP, {**_SHREDDED, "file-index.bsi.columns": "m[k]"}),
    Case("is not in 'file-index.bsi.columns'", options={"file-index.bsi.v.x": "1"}),
    Case("which is a ROW", {"id": "INT", "r": "ROW<INT>"}, {"fields.r.x.stats-mode": "none"}),
    Case("no place for", {"id": "INT", "t": "TIMESTAMP(7)"}, {"file.format": "avro"}),
    Case("no place for", {"id": "INT", "t": "ARRAY<TIMESTAMP_LTZ(9)>"}, {"file.format": "avro"}),
    Case("no place for", {"id": "INT", "t": "TIME(4)"}, {"file.format": "avro"}),
    Case("no place for", {"id": "INT", "x": "VARIANT"}, {"file.format": "avro"}),
    Case("no place for", {"id": "INT", "x": "VARIANT"}, {"file.format": "orc"}),
    Case("no place for", _WITH_VECTOR, {"file.format": "csv"}),
    Case("no place for", _WITH_VECTOR, {"file.format": "orc"}),
    Case("no place for", {"id": "INT", "a": "ARRAY<INT>"}, {"file.format": "csv"}),
    Case("no place for", {"id": "INT", "m": "MULTISET<INT>"}, {"file.format": "json"}),
    Case("one column of type STRING", {"id": "INT", "n": "INT"}, {"file.format": "text"}),
    Case("no place for", {"id": "INT", "g": "GEOMETRY"}, {"file.format": "orc"}),
    Case("table with partitions", options={"manifest-sort.enabled": "true"}),
    Case("no partition column", _PARTED, {"manifest-sort.enabled": "true", "manifest-sort.partition-field": "id"}, ["p"]),
    Case("above 0", options={"variant.shredding.maxInferBufferRow": "0"}),
    Case("from 0 to 1", options={"variant.shredding.minFieldCardinalityRatio": "1.5"}),
    Case("may not be above", options={"variant.shredding.inferenceMode": "adaptive", "variant.shredding.adaptive.retentionRatio": "0.5"}),
)  # fmt: skip
