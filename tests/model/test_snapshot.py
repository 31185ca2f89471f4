"""Snapshots are read and written as Paimon spells them."""

from __future__ import annotations

from typing import Any

import pytest

from model.snapshot import CommitKind, Snapshot

JAVA: dict[str, Any] = {
    "version": 3,
    "uuid": "883d5633-5ce6-455f-9637-9a84b5cc2f4e",
    "id": 1,
    "schemaId": 0,
    "baseManifestList": "manifest-list-a-0",
    "baseManifestListSize": 1006,
    "deltaManifestList": "manifest-list-a-1",
    "deltaManifestListSize": 1108,
    "commitUser": "5a9ab5cc",
    "commitIdentifier": 9223372036854775807,
    "commitKind": "APPEND",
    "timeMillis": 1795224623341,
    "totalRecordCount": 2,
    "deltaRecordCount": 2,
    "nextRowId": 0,
}


def test_javas_snapshot_survives_a_round_trip_with_unknown_keys() -> None:
    body = JAVA | {"properties": {"a": "b"}, "somethingNew": [1]}
    snapshot = Snapshot.from_json(body)
    assert snapshot.commit_kind is CommitKind.APPEND
    assert snapshot.extra == {"somethingNew": [1]}
    assert snapshot.to_json() == body


def test_absent_and_null_values_are_left_out() -> None:
    snapshot = Snapshot.from_json(JAVA | {"watermark": None, "indexManifest": None})
    assert snapshot.to_json() == JAVA


@pytest.mark.parametrize(
    ("key", "value"),
    [("schemaId", None), ("schemaId", "0"), ("id", True), ("deltaManifestList", None), ("baseManifestList", 1), ("watermark", 1.5),
     ("timeMillis", "now"), ("statistics", {}), ("totalRecordCount", [1])],
)  # fmt: skip
def test_a_member_of_another_type_is_told(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"a snapshot's {key} is not"):
        Snapshot.from_json(JAVA | {key: value})
