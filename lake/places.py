"""Which directories a caller may point the server at: those of ``SLUICE_IMPORT_DIRS``, whatever links lie inside them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from model.errors import Forbidden, InvalidOption
from table.file_io import local_path


def allowed_place(path: str, roots: Sequence[str]) -> str:
    """The directory in the one spelling used here; raises `Forbidden` where it is inside none of the roots."""
    location = local_path(path.strip()).rstrip("/")
    if "://" in location:
        inside = any(location.startswith(root.rstrip("/") + "/") for root in roots if "://" in root)
        if not inside or {"", ".", ".."} & set(location.split("://", 1)[1].split("/")):
            raise _outside(path, roots)
        return location
    if not os.path.isabs(location):
        raise InvalidOption(f"'{path}' is no absolute path; the server has no directory of its callers.")
    if not _is_inside(location, roots):
        raise _outside(path, roots)
    return os.path.normpath(location)


def check_all_inside(paths: Iterable[str], roots: Sequence[str]) -> None:
    """Raise `Forbidden` for a file that a link leads out of the roots."""
    for path in paths:
        if "://" not in path and not _is_inside(path, roots):
            raise _outside(path, roots)


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    real = os.path.realpath(path)
    allowed = [os.path.realpath(local_path(root)) for root in roots if "://" not in root or root.startswith("file:")]
    return any(real == root or real.startswith(root.rstrip("/") + "/") for root in allowed)


def _outside(path: str, roots: Sequence[str]) -> Forbidden:
    where = f"below {', '.join(roots)}" if roots else "nowhere: SLUICE_IMPORT_DIRS is empty"
    return Forbidden(f"'{path}' is not allowed: files are taken over {where}.")
