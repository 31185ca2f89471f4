"""Snapshots: committed versions of a table, as `paimon-append.md` §3 describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, get_args, get_type_hints

BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""The identifier every batch writer uses; it says nothing about repeats."""

NO_WATERMARK = -(2**63)
"""What Java's writers put where they have no watermark."""


class CommitKind(StrEnum):
    """What a commit did; the values are the wire's own words."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


class Operation(StrEnum):
    """The statement behind a commit. Readers since Paimon 2.0 fail on a whole table for any other word in any of its snapshots."""

    WRITE = "WRITE"
    OVERWRITE = "OVERWRITE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"
    CREATE_TABLE_AS_SELECT = "CREATE_TABLE_AS_SELECT"
    REPLACE_TABLE_AS_SELECT = "REPLACE_TABLE_AS_SELECT"
    CREATE_OR_REPLACE_TABLE_AS_SELECT = "CREATE_OR_REPLACE_TABLE_AS_SELECT"


OPERATION = "sluice.operation"
"""The property of a snapshot that holds an operation for which Paimon has no word: ``COMPACT``, ``RESCALE``, ``DROP_PARTITION``."""
MIGRATE = "MIGRATE"
"""The operation of a snapshot that made files a table's which lay elsewhere before, where they lie still."""
ANSWERS = "sluice.answers"
"""The property that tells what was answered to the writes of a snapshot that came under an Idempotency-Key, by what tells those apart."""
TAKES_FILES = "sluice.takes-files"
"""The property of an APPEND that takes files away: no writer of Paimon makes such, but a client may."""
INSTEAD_OF = "sluice.instead-of"
"""The property that names, by their keys, the snapshots of the same id and rows in whose place a snapshot is: compactions undone since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One committed version of a table; never changed after it is written."""

    id: int
    uuid: str | None
    schema_id: int
    base_manifest_list: str
    base_manifest_list_size: int | None
    delta_manifest_list: str
    delta_manifest_list_size: int | None
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    changelog_record_count: int | None = None
    index_manifest: str | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    next_row_id: int | None = None
    operation: Operation | None = None
    writer_version: str | None = None
    version: int = 3
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the JSON this version does not know, kept verbatim."""

    @property
    def key(self) -> str:
        """What the catalog knows the snapshot by: its uuid, or for old clients' snapshots, which have none, what stands for it."""
        return self.uuid or f"{self.id}:{self.delta_manifest_list}"

    def stands_for(self, key: str | None) -> bool:
        """Whether who has read the snapshot of a key has read this one: it is the same, or a compaction of it was undone."""
        return key == self.key or (key is not None and key in self.properties.get(INSTEAD_OF, "").split(","))

    def with_lists(self, base: tuple[str, int], delta: tuple[str, int]) -> Snapshot:
        """The same with other manifest lists, given with their sizes; what a changelog told belongs to those before."""
        return replace(
            self,
            base_manifest_list=base[0],
            base_manifest_list_size=base[1],
            delta_manifest_list=delta[0],
            delta_manifest_list_size=delta[1],
            changelog_manifest_list=None,
            changelog_manifest_list_size=None,
            changelog_record_count=None,
        )

    @property
    def may_take_files(self) -> bool:
        """Whether it may take files away: `SnapshotRepository.taking_files` asks Postgres for the same."""
        return self.commit_kind is not CommitKind.APPEND or TAKES_FILES in self.properties

    @property
    def done(self) -> str | None:
        """The operation in Paimon's word or in ours; None where its writer told none."""
        return self.operation or self.properties.get(OPERATION)

    def to_json(self) -> dict[str, Any]:
        """The snapshot as Paimon spells it; absent values are left out."""
        body: dict[str, Any] = {}
        for attribute, key in _KEYS.items():
            value = getattr(self, attribute)
            if value is None or (attribute == "properties" and not value):
                continue
            body[key] = dict(value) if attribute == "properties" else str(value) if isinstance(value, StrEnum) else value
        return body | dict(self.extra)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Snapshot:
        """Read Paimon's JSON; missing optional keys become None. Raises `ValueError` or `KeyError` for what is no snapshot.

        An operation Paimon has no word for moves into the properties: so this catalog wrote it at first.
        """
        values: dict[str, Any] = {attribute: body.get(key) for attribute, key in _KEYS.items()}
        values["commit_kind"] = CommitKind(body["commitKind"])
        values["properties"] = dict(body.get("properties") or {})
        values["operation"], own = told_operation(values["operation"])
        if own is not None:
            values["properties"].setdefault(OPERATION, own)
        values["version"] = body.get("version") or 1
        values["total_record_count"] = body.get("totalRecordCount") or 0
        values["delta_record_count"] = body.get("deltaRecordCount") or 0
        for attribute, kinds in _kinds().items():
            if type(values[attribute]) not in kinds:
                raise ValueError(f"a snapshot's {_KEYS[attribute]} is not {values[attribute]!r:.80}")
        known = set(_KEYS.values())
        return cls(**values, extra={key: value for key, value in body.items() if key not in known})


@lru_cache(maxsize=1)
def _kinds() -> dict[str, tuple[type, ...]]:
    """Of which types the numbers and texts of a snapshot are: who writes its file may have put anything in their place."""
    kinds_of = {
        name: get_args(hint) or (hint,) for name, hint in get_type_hints(Snapshot).items() if name in _KEYS and name != "properties"
    }
    return {name: kinds for name, kinds in kinds_of.items() if int in kinds or str in kinds}


def told_operation(word: str | None) -> tuple[Operation | None, str | None]:
    """An operation as Paimon's word, or as one that only the properties may hold."""
    if word is None:
        return None, None
    return (Operation(word), None) if word in Operation.__members__ else (None, word)


_KEYS = {
    "version": "version",
    "uuid": "uuid",
    "id": "id",
    "schema_id": "schemaId",
    "base_manifest_list": "baseManifestList",
    "base_manifest_list_size": "baseManifestListSize",
    "delta_manifest_list": "deltaManifestList",
    "delta_manifest_list_size": "deltaManifestListSize",
    "changelog_manifest_list": "changelogManifestList",
    "changelog_manifest_list_size": "changelogManifestListSize",
    "index_manifest": "indexManifest",
    "commit_user": "commitUser",
    "writer_version": "writerVersion",
    "commit_identifier": "commitIdentifier",
    "commit_kind": "commitKind",
    "time_millis": "timeMillis",
    "total_record_count": "totalRecordCount",
    "delta_record_count": "deltaRecordCount",
    "changelog_record_count": "changelogRecordCount",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "next_row_id": "nextRowId",
    "operation": "operation",
}
