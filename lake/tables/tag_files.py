"""Files of tags: what they tell, which of them a client replaced, and whether what they name is the table's."""

from __future__ import annotations

import datetime as dt
import json
import re
import threading
import time
from collections.abc import Mapping
from typing import Any

from cachetools import LRUCache

from catalog.records import TagRow
from lake.tables.handle import LakeTable
from model.errors import InvalidOption, LakeError, TableDamaged, Unavailable
from model.options.option import duration
from model.snapshot import Snapshot
from model.snapshot_numbers import fault_of_numbers, fault_of_times
from model.text.file_name import file_name
from table.format.io.directory import FileStatus
from table.format.json_document import parse_to_keep
from table.format.store import TableFiles
from table.retention.named_files import lost_changelog

_READ: LRUCache[tuple[str, int, int], TagRow] = LRUCache(10_000)
"""What files of tags tell."""
_LOCK = threading.Lock()
_SETTLED_SECONDS = 60.0
"""A file that is younger may have been written twice in what its store takes for one moment."""
_PREFIX = "tag-"
_FILE_KEYS = frozenset({"tagCreateTime", "tagTimeRetained"})


def tag_in(files: TableFiles, name: str) -> TagRow | None:
    """The tag that a file tells; None for a file that is none. One whose operation Paimon does not parse has still to be published."""
    try:
        body = parse_to_keep(files.io.read(files.layout.tag_file(name)))
        tagged = Snapshot.from_json({key: value for key, value in body.items() if key not in _FILE_KEYS})
        int(body["id"])
        created = body.get("tagCreateTime")
        millis = _millis(created) if created else None
        seconds = body.get("tagTimeRetained")
        retained = _retained(float(seconds)) if isinstance(seconds, int | float) else None
    except (FileNotFoundError, TableDamaged, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None  # also a link that leads out, or a pipe: it must not keep the table's other tags from anybody
    parsed = tagged.operation is not None or body.get("operation") is None
    return TagRow(name=name, snapshot=tagged.to_json(), created_millis=millis, retained=retained, published=parsed)


def stored_tags(files: TableFiles) -> dict[str, FileStatus]:
    """The files of a branch's tags, by their names."""
    listed = ((status, file_name(status.path)) for status in files.io.list(files.layout.tag_dir()))
    return {name.removeprefix(_PREFIX): status for status, name in listed if name.startswith(_PREFIX)}


def tag_of_file(path: str) -> str:
    """The name of the tag whose file lies there."""
    return file_name(path).removeprefix(_PREFIX)


def replacement(files: TableFiles, row: TagRow, status: FileStatus) -> TagRow | None:
    """What a published tag's file tells where it is another snapshot's, as after `replace_tag` of Java's clients; else None.

    A file is read once, as long as its size and time stay.
    """
    if not row.published:  # what the catalog has is still to be written
        return None
    key = (status.path, status.size, status.mtime_millis)
    with _LOCK:
        tag = _READ.get(key)
    if tag is None:
        if (tag := tag_in(files, row.name)) is None:
            return None
        if time.time() - status.mtime_millis / 1000 > _SETTLED_SECONDS:
            with _LOCK:
                _READ[key] = tag
    stored, known = Snapshot.from_json(tag.snapshot), Snapshot.from_json(row.snapshot)
    return None if (stored.id, content_of(stored)) == (known.id, content_of(known)) else tag


def content_of(snapshot: Snapshot) -> tuple[object, ...]:
    """What a snapshot holds, apart from who made it when."""
    return (
        snapshot.schema_id, snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list,
        snapshot.index_manifest, snapshot.statistics, snapshot.total_record_count,
    )  # fmt: skip


def fault_of_tag(table: LakeTable, snapshot: Snapshot, *, newer_schemas: bool = False) -> str | None:  # noqa: C901 - a check behind another
    """What is wrong with a snapshot the catalog never decided, or has forgotten; of ``newer_schemas`` is one it may lack.

    None where its files are the table's and hold what it says.
    """
    files, schema = table.files, table.schema
    if (problem := fault_of_numbers(snapshot) or fault_of_times(snapshot, table.latest())) is not None:
        return f"{problem}."
    if snapshot.schema_id > schema.id and not newer_schemas:
        return f"its schema {snapshot.schema_id} is none of the table's."
    try:
        if snapshot.statistics is not None:
            files.layout.statistics_file(snapshot.statistics)
        changelogs = None if lost_changelog(files, snapshot) else snapshot.changelog_manifest_list
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list, changelogs]
        for name in filter(None, (*lists, snapshot.index_manifest)):
            files.io.size(files.layout.manifest(name))  # what is missing is a fault here, and not something that will be there soon
        for entry in files.index_manifest(snapshot.index_manifest) if snapshot.index_manifest is not None else ():
            files.layout.index_file(str(entry["_FILE_NAME"]))
        for meta in (meta for name in filter(None, lists) for meta in files.manifest_list(name)):
            files.io.size(files.layout.manifest(meta.file_name))
        rows, next_row_id = 0, 0
        for live in files.live_entries(snapshot):
            files.data_path(schema, live)
            files.extra_paths(schema, live)
            rows += live.file.row_count
            if live.file.first_row_id is not None:
                next_row_id = max(next_row_id, live.file.first_row_id + live.file.row_count)
    except Unavailable:
        raise
    except FileNotFoundError as missing:
        return f"{str(missing.filename).rpartition('/')[2]} is not there."
    except (LakeError, OSError, ValueError, KeyError, TypeError) as problem:
        return f"{problem}"
    if rows != snapshot.total_record_count:
        return f"its files hold {rows} rows, and it says {snapshot.total_record_count}."
    if (snapshot.next_row_id or 0) < next_row_id:  # after a way back to it ids would be given out twice
        return f"its files hold rows of ids up to {next_row_id - 1}, and its nextRowId is {snapshot.next_row_id}."
    return None


def parse_retained(text: str) -> dt.timedelta:
    """A tag's retention as clients write it: `1 d`, or ISO-8601 such as `PT24H`; raises `InvalidOption`."""
    try:
        return _iso(text) if text.strip().upper().startswith("P") else duration().parse(text.strip())
    except (ValueError, OverflowError) as problem:
        raise InvalidOption(f"The tag's retention '{text}' is no duration ({problem}); '1 d' or 'PT24H' are.") from None


def stored_retention(text: str) -> dt.timedelta | None:
    """The retention of a tag as the catalog has it, for ever where it is longer than Python's; raises `InvalidOption`.

    Earlier versions took any number of milliseconds from other clients' files.
    """
    foreign = re.fullmatch(r"(-?\d+) ms", text)
    taken = text if foreign is None else _retained(int(foreign[1]) / 1000)
    return None if taken is None else parse_retained(taken)


def _retained(seconds: float) -> str | None:
    """A retention as other clients write it into a tag's file, which may be negative, or longer than Python's: then it is for ever."""
    if seconds > dt.timedelta.max.total_seconds() / 2:
        return None
    return f"{max(0, round(seconds * 1000))} ms"


def _iso(text: str) -> dt.timedelta:
    match = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text.strip().upper())
    if match is None or not any(match.groups()):
        raise ValueError("it is not ISO-8601")
    days, hours, minutes, seconds = match.groups()
    return dt.timedelta(days=int(days or 0), hours=int(hours or 0), minutes=int(minutes or 0), seconds=float(seconds or 0))


def _millis(parts: list[int]) -> int:
    """A file's local date and time; clients and server are taken to keep the same clock, in UTC where they are wise."""
    year, month, day, hour, minute, *rest = parts
    second, nanos = [*rest, 0, 0][:2]
    return int(dt.datetime(year, month, day, hour, minute, second, nanos // 1000).timestamp() * 1000)


def tag_bytes(tag: TagRow) -> bytes:
    """A tag's file."""
    return json.dumps(_file_body(tag), indent=2).encode()


def _file_body(tag: TagRow) -> Mapping[str, Any]:
    body = Snapshot.from_json(tag.snapshot).to_json()
    if tag.created_millis is not None:
        at = dt.datetime.fromtimestamp(tag.created_millis / 1000)
        body["tagCreateTime"] = [at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond * 1000]
    if tag.retained is not None and (retained := stored_retention(tag.retained)) is not None:
        body["tagTimeRetained"] = retained.total_seconds()
    return body
