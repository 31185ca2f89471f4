"""Parses what a warehouse holds as strictly as the strictest of Paimon's released readers, 1.0 to master.

Written after Paimon's public source: `Snapshot`, `Tag`, `Consumer`, `Statistics`, `ColStats`, `SchemaSerializer`, `DataTypeJsonParser`,
`ManifestFileMeta`, `ManifestEntry`, `IndexManifestEntry`,
`DeletionVectorMeta`, `DataFileMeta`, `SimpleStats`, `VersionedObjectSerializer`, `HintFileUtils`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro

KINDS = {"APPEND", "COMPACT", "OVERWRITE", "ANALYZE"}
OPERATIONS = {
    "WRITE", "OVERWRITE", "DELETE", "TRUNCATE", "UPDATE", "MERGE",
    "CREATE_TABLE_AS_SELECT", "REPLACE_TABLE_AS_SELECT", "CREATE_OR_REPLACE_TABLE_AS_SELECT",
}  # fmt: skip

Check = Callable[[Any], bool]


def _integer(bits: int) -> Check:
    return lambda value: type(value) is int and -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in (*value.keys(), *value.values()))


def _one_of(words: set[str]) -> Check:
    return lambda value: isinstance(value, str) and value in words


INT, LONG = _integer(32), _integer(64)
SNAPSHOT: dict[str, tuple[Check, bool]] = {
    # What a reader of any version takes, and whether all of them need it.
    "version": (INT, True),
    "uuid": (_text, False),
    "id": (LONG, True),
    "schemaId": (LONG, True),
    "baseManifestList": (_text, True),
    "baseManifestListSize": (LONG, False),
    "deltaManifestList": (_text, True),
    "deltaManifestListSize": (LONG, False),
    "changelogManifestList": (_text, False),
    "changelogManifestListSize": (LONG, False),
    "indexManifest": (_text, False),
    "commitUser": (_text, True),
    "writerVersion": (_text, False),
    "commitIdentifier": (LONG, True),
    "commitKind": (_one_of(KINDS), True),
    "timeMillis": (LONG, True),
    "totalRecordCount": (LONG, True),
    "deltaRecordCount": (LONG, True),
    "changelogRecordCount": (LONG, False),
    "watermark": (LONG, False),
    "statistics": (_text, False),
    "properties": (_texts, False),
    "nextRowId": (LONG, False),
    "operation": (_one_of(OPERATIONS), False),
}
_PAIMONS_PROPERTIES = {"operation"}
"""Names of properties that Paimon itself gives a meaning."""


def _members(what: str, body: Any, members: Mapping[str, tuple[Check, bool]]) -> None:
    assert isinstance(body, dict), f"{what} is no object"
    for name, (check, needed) in members.items():
        assert body.get(name) is not None or not needed, f"{what} lacks {name}"
        assert body.get(name) is None or check(body[name]), f"{what} has {name} = {body[name]!r}"
    assert set(body) <= set(members), f"{what} has members Paimon does not know: {set(body) - set(members)}"


def snapshot(what: str, body: Any) -> None:
    """A snapshot of ours."""
    _members(what, body, SNAPSHOT)
    assert body["version"] == 3, what
    assert not set(body.get("properties", ())) & _PAIMONS_PROPERTIES, what


def tag(what: str, body: Any) -> None:
    """A snapshot with the local time it was tagged at, and for how many seconds."""
    assert isinstance(body, dict), what
    own = {key: body[key] for key in ("tagCreateTime", "tagTimeRetained") if key in body}
    snapshot(what, {key: value for key, value in body.items() if key not in own})
    time = own.get("tagCreateTime", [1970, 1, 1, 0, 0])
    assert 5 <= len(time) <= 7, f"{what} has the time {time}"
    assert all(INT(part) for part in time), f"{what} has the time {time}"
    assert isinstance(own.get("tagTimeRetained", 0), int | float), what


def consumer(what: str, body: Any) -> None:
    """Where a stream goes on."""
    _members(what, body, {"nextSnapshot": (LONG, True)})


_TYPE = re.compile(
    r"(BOOLEAN|TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DATE|BYTES|STRING|(DECIMAL\(\d+, \d+\))|"
    r"((CHAR|VARCHAR|BINARY|VARBINARY|TIME|TIMESTAMP)\(\d+\))|(TIMESTAMP\(\d+\) WITH LOCAL TIME ZONE)|VARIANT|BLOB|"
    r"GEOMETRY\(.+\)|GEOGRAPHY\(.+, [a-z]+\))( NOT NULL)?"
)


def data_type(what: str, type_: Any) -> None:
    """A type as `DataTypeJsonParser` reads it."""
    if isinstance(type_, str):
        assert _TYPE.fullmatch(type_), f"{what} has the type {type_!r}"
        return
    kind = type_["type"].removesuffix(" NOT NULL")
    if kind == "ROW":
        for one in type_["fields"]:
            field(what, one)
    elif kind == "MAP":
        data_type(what, type_["key"])
        data_type(what, type_["value"])
    else:
        assert kind in ("ARRAY", "MULTISET", "VECTOR"), f"{what} has the type {kind}"
        data_type(what, type_["element"])


def field(what: str, one: Any) -> None:
    """A column."""
    members: dict[str, tuple[Check, bool]] = {"id": (INT, True), "name": (_text, True), "description": (_text, False)}
    _members(what, one, {**members, "type": (lambda value: isinstance(value, str | dict), True), "defaultValue": (_text, False)})
    data_type(what, one["type"])


def schema(what: str, body: Any) -> None:
    """A version of a schema."""

    def names(value: Any) -> bool:
        return isinstance(value, list) and all(map(_text, value))

    _members(
        what,
        body,
        {
            "version": (INT, True), "id": (LONG, True), "highestFieldId": (INT, True),
            "fields": (lambda value: isinstance(value, list), True),
            "partitionKeys": (names, True), "primaryKeys": (names, True), "options": (_texts, True), "comment": (_text, False),
            "timeMillis": (LONG, True),
        },
    )  # fmt: skip
    assert body["version"] == 3, what
    for one in body["fields"]:
        field(what, one)
    assert max(one["id"] for one in body["fields"]) <= body["highestFieldId"], what


def statistics(what: str, body: Any) -> None:
    """What ANALYZE found."""
    members: dict[str, tuple[Check, bool]] = dict.fromkeys(("snapshotId", "schemaId"), (LONG, True))
    members |= {"mergedRecordCount": (LONG, False), "mergedRecordSize": (LONG, False), "colStats": (lambda v: isinstance(v, dict), True)}
    _members(what, body, members)
    for name, one in body["colStats"].items():
        column: dict[str, tuple[Check, bool]] = dict.fromkeys(("distinctCount", "nullCount", "avgLen", "maxLen"), (LONG, False))
        _members(f"{what}, {name}", one, {"colId": (INT, True), "min": (_text, False), "max": (_text, False), **column})


# Avro: Java reads what stands first by position, and builds its reader from the schema in the file.


def _stats(name: str) -> dict[str, Any]:
    counts = ["null", {"type": "array", "items": ["null", "long"]}]
    return _record(name, {"_MIN_VALUES": "bytes", "_MAX_VALUES": "bytes", "_NULL_COUNTS": counts})


def _record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_member(key, type_) for key, type_ in fields.items()]}


def _member(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **({"default": None} if isinstance(type_, list) else {})}


_NAMES = {"type": "array", "items": "string"}
_TOP = "org.apache.paimon.avro.generated.record"
MANIFEST_LIST = _record(
    _TOP,
    {
        "_VERSION": "int", "_FILE_NAME": "string", "_FILE_SIZE": "long", "_NUM_ADDED_FILES": "long", "_NUM_DELETED_FILES": "long",
        "_PARTITION_STATS": _stats(f"{_TOP}__PARTITION_STATS"), "_SCHEMA_ID": "long",
        "_MIN_BUCKET": ["null", "int"], "_MAX_BUCKET": ["null", "int"], "_MIN_LEVEL": ["null", "int"], "_MAX_LEVEL": ["null", "int"],
        "_MIN_ROW_ID": ["null", "long"], "_MAX_ROW_ID": ["null", "long"],
    },
)  # fmt: skip
_DATA_FILE = _record(
    f"{_TOP}__FILE",
    {
        "_FILE_NAME": "string", "_FILE_SIZE": "long", "_ROW_COUNT": "long", "_MIN_KEY": "bytes", "_MAX_KEY": "bytes",
        "_KEY_STATS": _stats(f"{_TOP}__FILE__KEY_STATS"), "_VALUE_STATS": _stats(f"{_TOP}__FILE__VALUE_STATS"),
        "_MIN_SEQUENCE_NUMBER": "long", "_MAX_SEQUENCE_NUMBER": "long", "_SCHEMA_ID": "long", "_LEVEL": "int", "_EXTRA_FILES": _NAMES,
        "_CREATION_TIME": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "_DELETE_ROW_COUNT": ["null", "long"],
        "_EMBEDDED_FILE_INDEX": ["null", "bytes"], "_FILE_SOURCE": ["null", "int"], "_VALUE_STATS_COLS": ["null", _NAMES],
        "_EXTERNAL_PATH": ["null", "string"], "_FIRST_ROW_ID": ["null", "long"], "_WRITE_COLS": ["null", _NAMES],
        "_WRITE_COLS_SEQUENCES": ["null", {"type": "array", "items": "long"}],
    },
)  # fmt: skip
MANIFEST = _record(
    _TOP, {"_VERSION": "int", "_KIND": "int", "_PARTITION": "bytes", "_BUCKET": "int", "_TOTAL_BUCKETS": "int", "_FILE": _DATA_FILE}
)
_VECTOR = _record(f"{_TOP}__DELETIONS_VECTORS_RANGES", {"f0": "string", "f1": "int", "f2": "int", "_CARDINALITY": ["null", "long"]})
INDEX_MANIFEST = _record(
    _TOP,
    {
        "_VERSION": "int", "_KIND": "int", "_PARTITION": "bytes", "_BUCKET": "int", "_INDEX_TYPE": "string", "_FILE_NAME": "string",
        "_FILE_SIZE": "long", "_ROW_COUNT": "long", "_DELETIONS_VECTORS_RANGES": ["null", {"type": "array", "items": ["null", _VECTOR]}],
    },
)  # fmt: skip
"""As 1.0 to 1.2 write it; later releases have two more columns, which this server leaves as the client wrote them."""
_CODECS = {"null", "deflate", "snappy", "zstandard"}


def _plain(schema_: Any) -> Any:
    """A schema without what differs and means nothing: names in full or relative to a namespace."""
    if isinstance(schema_, list):
        return [_plain(one) for one in schema_]
    if not isinstance(schema_, dict):
        return schema_
    kept = {key: _plain(value) for key, value in schema_.items() if key not in ("namespace", "__fastavro_parsed__", "__named_schemas")}
    if kept.get("type") == "record":
        kept["name"] = str(kept["name"]).rpartition(".")[2]
    return kept


def avro(what: str, data: bytes, expected: Mapping[str, Any], version: int = 2) -> list[dict[str, Any]]:
    """The records of a file whose schema is Paimon's to the letter."""
    reader = fastavro.reader(io.BytesIO(data))
    assert _plain(json.loads(reader.metadata["avro.schema"])) == _plain(expected), f"{what} has another schema than Paimon's"
    assert reader.metadata.get("avro.codec", "null") in _CODECS, what
    found = [dict(record) for record in reader if isinstance(record, dict)]
    assert all(record["_VERSION"] == version for record in found), what
    return found


def index_manifest(path: Path) -> None:
    """Which indexes a snapshot has: each line of a file that lies there, with vectors where it tells them."""
    for record in avro(str(path), path.read_bytes(), INDEX_MANIFEST, version=1):
        assert record["_KIND"] == 0, f"{path} takes an index away"
        index = path.parent.parent / "index" / record["_FILE_NAME"]
        assert index.stat().st_size == record["_FILE_SIZE"], index
        ranges = record["_DELETIONS_VECTORS_RANGES"]
        assert len({one["f0"] for one in ranges}) == len(ranges) == record["_ROW_COUNT"], f"{path} tells other numbers of vectors"
        assert all(1 <= one["f1"] <= one["f1"] + one["f2"] < record["_FILE_SIZE"] for one in ranges), path


def check_warehouse(root: Path) -> dict[str, int]:
    """Parse every metadata file below a directory; returns how many of each kind there were. Anything else than Paimon's names fails."""
    counts: dict[str, int] = {}

    def seen(kind: str) -> None:
        counts[kind] = counts.get(kind, 0) + 1

    readers = {"snapshot": snapshot, "tag": tag, "consumer": consumer, "schema": schema, "statistics": statistics}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        kind = path.parent.name
        if kind == "snapshot" and path.name in ("EARLIEST", "LATEST"):
            assert re.fullmatch(rb"[1-9]\d*", path.read_bytes()), path
            seen("hint")
        elif kind in readers:
            assert re.fullmatch(r"(snapshot|schema)-\d+|(tag|consumer)-.+|stat-.+", path.name), path
            readers[kind](str(path), json.loads(path.read_bytes()))
            seen("branch" if "/branch/branch-" in str(path) else kind)
        elif kind == "manifest" and path.name.startswith("index-manifest-"):
            index_manifest(path)
            seen("index manifest")
        elif kind == "manifest":
            is_list = path.name.startswith("manifest-list-")
            avro(str(path), path.read_bytes(), MANIFEST_LIST if is_list else MANIFEST)
            seen("manifest list" if is_list else "manifest")
    return counts
