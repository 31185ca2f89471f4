"""What a worker is told to do and what it answers, as JSON: nothing in an answer is trusted to be more than data."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from model.errors import InvalidData, LakeError, ResourceError
from model.schema.schema import Schema
from model.text.writable import writable
from table.format.io.patience import STORE_SECONDS
from table.format.manifests.codec import decode_manifest, encode_manifests
from table.format.manifests.entries import EntryKind, ManifestEntry, NewFile

_ONE_MANIFEST = 1 << 62
STORE_SECONDS_LEFT = "storeSeconds"
"""In a task: how long an object store may fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyTask:
    """A body to be decoded and written as data files of a table."""

    media_type: str
    table: str
    """The table's name, for errors."""
    warehouse: str
    """Names the store the files lie in."""
    location: str
    branch: str
    schema: Schema
    names: tuple[str, ...] | None = None
    """What the columns of an Arrow body are called, one after another, in place of their names there."""
    store_seconds: float = STORE_SECONDS
    """How long an object store may fail or be silent, in all (`table.format.io.patience`)."""

    def to_json(self) -> bytes:
        """The task as a worker reads it."""
        return orjson.dumps(
            {
                "mediaType": self.media_type,
                "table": self.table,
                "warehouse": self.warehouse,
                "location": self.location,
                "branch": self.branch,
                "schema": orjson.dumps(self.schema.to_json()).decode(),
                "names": self.names,
                STORE_SECONDS_LEFT: self.store_seconds,
            }
        )

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> BodyTask:
        """What `to_json` wrote, once read."""
        return cls(
            media_type=document["mediaType"],
            table=document["table"],
            warehouse=document["warehouse"],
            location=document["location"],
            branch=document["branch"],
            schema=_schema(document["schema"]),
            names=None if document["names"] is None else tuple(document["names"]),
            # A server that runs on after its code was replaced by this one's starts workers of this code, and names none.
            store_seconds=document.get(STORE_SECONDS_LEFT, STORE_SECONDS),
        )


@lru_cache(maxsize=64)
def _schema(text: str) -> Schema:
    return Schema.from_json(orjson.loads(text))


def files_answer(written: Sequence[NewFile]) -> dict[str, Any]:
    """The files a worker wrote, as entries of a manifest."""
    entries = [
        ManifestEntry(kind=EntryKind.ADD, partition=new.partition, bucket=new.bucket, total_buckets=1, file=new.file) for new in written
    ]
    return {"files": [base64.b64encode(data).decode() for _, _, data in encode_manifests(entries, target=_ONE_MANIFEST, new_name=str)]}


def files_of(answer: Mapping[str, Any]) -> list[NewFile]:
    """The files in an answer of `files_answer`."""
    return [
        NewFile(partition=entry.partition, bucket=entry.bucket, file=entry.file)
        for data in answer["files"]
        for entry in decode_manifest(base64.b64decode(data))
    ]


def error_answer(error: LakeError) -> dict[str, Any]:
    """A deliberate failure as an answer."""
    named = getattr(error, "resource_name", None)
    return {"error": error.error_class, "message": writable(error.message), "resourceName": None if named is None else writable(named)}


def error_of(answer: Mapping[str, Any]) -> LakeError:
    """The failure an answer of `error_answer` tells: of the same class, with the same words."""
    kind = _classes().get(answer["error"], InvalidData)
    error = kind.__new__(kind)
    LakeError.__init__(error, str(answer["message"]))
    if isinstance(error, ResourceError):
        error.resource_name = str(answer.get("resourceName"))
    return error


@lru_cache(maxsize=1)
def _classes() -> dict[str, type[LakeError]]:
    return {error.error_class: error for error in _below([LakeError])}


def _below(kinds: Iterable[type[LakeError]]) -> Iterator[type[LakeError]]:
    for kind in kinds:
        yield kind
        yield from _below(kind.__subclasses__())
