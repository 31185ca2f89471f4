"""What the operating system or a store says of a file, as the errors the rest of the server knows.

Every call that touches the warehouse goes through `translating`, so that no bare `OSError` leaves these modules: a caller that
does not expect one took it for "not committed" and removed committed files.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from model.damage import UNREADABLE
from model.errors import LakeError, StorageFull, Unavailable
from model.text.file_name import file_name

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_RIGHT = frozenset({errno.EACCES, errno.EPERM})
_NOT_GIVEN = frozenset({errno.EIO, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.EUCLEAN})
_OF_ONE_FILE = _NO_RIGHT | _NOT_GIVEN
_NOT_TAKEN = _NOT_GIVEN | {errno.EROFS, errno.EEXIST}
_DENIED_BY_STORE = "ACCESS_DENIED"
_RIGHTS = "Give the server's user its rights there back"


def storage_error(problem: BaseException, path: str) -> LakeError:
    """Translate a store's error about a path; it says nothing about a commit, because who raises it cannot know of one."""
    if isinstance(problem, OSError) and problem.errno in _NO_SPACE:
        return StorageFull(f"No space left to write {file_name(path)}. Free space where it lies, then repeat what was refused.", place=path)
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    cause = reason.replace(path, file_name(path)).rstrip(".") or type(problem).__name__
    way_out = f" {_RIGHTS}." if _denied(problem) else ""
    return Unavailable(f"The warehouse cannot be used at {file_name(path)}: {cause}.{way_out}", place=path)


def _denied(problem: BaseException) -> bool:
    return isinstance(problem, OSError) and (problem.errno in _NO_RIGHT or _DENIED_BY_STORE in str(problem))


@contextlib.contextmanager
def translating(path: str) -> Iterator[None]:
    """Raise `StorageFull` or `Unavailable` naming the path for any `OSError` but `FileNotFoundError`, the word for a missing file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise storage_error(problem, path) from problem


@contextlib.contextmanager
def no_circles() -> Iterator[None]:
    """Raise `FileNotFoundError` for a link that leads in a circle, as for every other that leads nowhere: no disk is away."""
    try:
        yield
    except OSError as problem:
        if problem.errno != errno.ELOOP:
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), problem.filename) from problem


@contextlib.contextmanager
def making(path: str) -> Iterator[None]:
    """`translating` for what makes a directory first: one that is missing all the same is being removed meanwhile, by a drop."""
    try:
        yield
    except FileNotFoundError as gone:
        words = f"The directory of {file_name(path)} was removed while a file was put into it: its table or branch was dropped or renamed"
        raise Unavailable(f"{words} meanwhile. Look for it, and try again.", place=path) from gone
    except OSError as problem:
        raise storage_error(problem, path) from problem


def told_by_the_store(problem: BaseException) -> bool:
    """Whether a failure says that the store could not be used, and nothing about what lies there."""
    return isinstance(problem, StorageFull | Unavailable) and isinstance(problem.__cause__, OSError)


def refusal(problem: BaseException) -> str | None:
    """What is wrong with one file or directory that a store does not give though it answers: no rights, a disk that cannot read it.

    None for all else, also for a store that is away.
    """
    cause = problem.__cause__
    if not isinstance(problem, Unavailable) or not isinstance(cause, OSError):
        return None
    if not _denied(cause) and cause.errno not in _OF_ONE_FILE:
        return None
    reason = "the store denies it" if cause.errno is None else cause.strerror or str(cause)
    return f"{UNREADABLE}: {reason}{f'. {_RIGHTS}' if _denied(cause) else ''}"


def never_given(problem: BaseException) -> bool:
    """Whether a disk answers and has only this one file not: neither a right nor space nor a repeat is likely to help."""
    cause = problem.__cause__
    return isinstance(problem, Unavailable) and isinstance(cause, OSError) and cause.errno in _NOT_GIVEN


def never_taken(problem: BaseException) -> str | None:
    """Why a store that answers takes no file at a place: it is read-only, the server has no right there, its disk fails.

    None for all else, also for a store that is away or full.
    """
    cause = problem.__cause__
    if not isinstance(problem, Unavailable) or not isinstance(cause, OSError):
        return None
    if not _denied(cause) and cause.errno not in _NOT_TAKEN:
        return None
    return "the store denies it" if cause.errno is None else cause.strerror or str(cause)


_OF_THE_STORE = ("AWS Error", "Couldn't connect", "curl", "HDFS", "Error in the HTTP2 framing layer")
"""Words of errors without a number that are about reaching a store and not about what it holds."""


def storage_failure(problem: Exception, path: str) -> LakeError | None:
    """The error of a store that did not give a file's bytes; None for one about the bytes themselves."""
    if not isinstance(problem, OSError):
        return None
    if problem.errno is not None or any(word in str(problem) for word in _OF_THE_STORE):
        return storage_error(problem, path)
    return None
