"""Which names databases, tables, tags and their like may have, as they become directories, path segments and SQL."""

from __future__ import annotations

from model.errors import InvalidName

_MAX_BYTES = 200
"""File systems hold 255 bytes a name; ``.db`` and temporary suffixes need bytes."""


def check_name(name: str, kind: str) -> None:
    """Raise `InvalidName` for a name that cannot be a directory or would be read as something else."""
    if not name or name != name.strip():
        raise InvalidName(f"A {kind} name may not be empty or begin or end with a space: {name!r}.")
    if any(ord(c) < 0x20 or c in "/\\\x7f" for c in name) or name in (".", ".."):
        raise InvalidName(f"The {kind} name {name!r} may have no slash, backslash or control character.")
    if name.startswith(("_", ".")) and kind == "database":
        raise InvalidName(f"The {kind} name {name!r} begins with a character that file readers take as hidden.")
    if "$" in name:
        raise InvalidName(f"The {kind} name {name!r} has a '$', which stands before branches and system tables.")
    if len(name.encode()) > _MAX_BYTES:
        raise InvalidName(f"The {kind} name is {len(name.encode())} bytes long; at most {_MAX_BYTES} fit.")
    if kind == "database" and name.lower() in ("sys", "information_schema"):
        raise InvalidName(f"The database name {name} is reserved for system procedures and tables.")
