"""Who might do what in a catalog that a restore replaces, kept in a file beside the backup until it was compared and told.

A restore that is killed in between has replaced the catalog: only this still tells its repeat what the backup let somebody do again.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

from catalog.backup.archive import put_in_place
from model.access import Access, AccessToken, Columns, Grant, Policy, Resource, ResourceType
from model.errors import InvalidData
from model.identifier import Identifier
from server.commands.rights import Rights


def keep(path: Path, all_: Sequence[Rights]) -> bool:
    """Write those of each restore beside a backup; False where nothing can be written there, as on a medium that is read only."""
    body = list(map(_body, all_))
    file = _file(path)
    fresh = file.with_name(f"{file.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as writing:
            json.dump(body, writing, default=_text)
            writing.flush()
            os.fsync(writing.fileno())
        put_in_place(fresh, file)
    except OSError:  # they are told all the same, unless the restore is killed
        return False
    return True


def kept(path: Path) -> list[Rights]:
    """Those that restores of a backup kept which were cut off; raises `InvalidData` for a file that tells none."""
    try:
        body = json.loads(_file(path).read_text())
        return list(map(_rights, body if isinstance(body, list) else [body]))  # earlier versions kept those of one
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as problem:
        raise InvalidData(f"{_file(path)} should tell the rights of the catalog that a restore replaced, and does not: {problem}") from None


def forget(path: Path) -> str | None:
    """What was kept has been told; returns what to tell of a file that stays, as its medium became read only."""
    file = _file(path)
    if not file.exists():  # a medium that is read only refuses to remove even what is not there
        return None
    try:
        file.unlink()
    except OSError as problem:
        return (
            f"{file} tells rights of a catalog that is gone and cannot be removed ({problem.strerror}): remove it before the next restore"
        )
    return None


def _file(path: Path) -> Path:
    return path.with_name(f"{path.name}.rights")


def _body(rights: Rights) -> dict[str, Any]:
    return {
        "grants": [asdict(grant) for grant in rights.grants],
        "tokens": [asdict(token) for token in rights.tokens],
        "members": rights.members,
        "policies": {str(table): [asdict(policy) for policy in policies.values()] for table, policies in rights.policies.items()},
        "tables": {str(table): [name.database, name.table] for table, name in rights.tables.items()},
        "dropped": {str(table): [name.database, name.table] for table, name in rights.dropped.items()},
    }


def _rights(body: Mapping[str, Any]) -> Rights:
    return Rights(
        grants=tuple(map(_grant, body["grants"])),
        tokens=tuple(
            AccessToken(**token | {"created_at": _moment(token["created_at"]), "expires_at": _moment(token["expires_at"])})
            for token in body["tokens"]
        ),
        members=tuple((role, member) for role, member in body["members"]),
        policies={UUID(table): {policy["name"]: _policy(policy) for policy in all_} for table, all_ in body["policies"].items()},
        tables={UUID(table): Identifier(*name) for table, name in body["tables"].items()},
        dropped={UUID(table): Identifier(*name) for table, name in body["dropped"].items()},
    )


def _text(value: object) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return str(value)


def _moment(text: str | None) -> dt.datetime | None:
    return None if text is None else dt.datetime.fromisoformat(text)


def _grant(body: Mapping[str, Any]) -> Grant:
    resource, columns = body["resource"], body["columns"]
    return Grant(
        resource=Resource(**resource | {"type": ResourceType(resource["type"])}),
        access=Access(body["access"]),
        principal=body["principal"],
        columns=None if columns is None else Columns(names=tuple(columns["names"]), excluded=columns["excluded"]),
        expires_at=_moment(body["expires_at"]),
        table_id=None if body["table_id"] is None else UUID(body["table_id"]),
    )


def _policy(body: Mapping[str, Any]) -> Policy:
    return Policy(**{**body, "principals": tuple(body["principals"])})
