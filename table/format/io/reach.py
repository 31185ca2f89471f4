"""What a table's files may be: every name and path that metadata or options give is resolved here, at the moment of use.

Manifests, snapshots, tags and options are written by clients past the server. A name that leads out of the table's directory makes
the table damaged: nothing is read, written or deleted there.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Sequence

from model.errors import InvalidOption, TableDamaged
from model.location import Location, is_plain_name
from table.format.io.links import real
from table.format.io.storage_errors import translating

_TRUSTED_SECONDS = 1.0
"""For so long a directory whose links were followed is not looked at again."""
_MOST_TRUSTED = 50_000
_LISTED_FROM = 16
"""Files of one directory from which it is listed once instead of looking at each."""


class Reach:
    """The places of one table: its directory, and the prefixes recorded when it was registered or migrated.

    ``allowed`` is None for a reader with rights of its own, who is stopped by the store and not by us.
    """

    def __init__(self, location: str, *, name: str | None = None, allowed: Sequence[str] | None = ()) -> None:
        self.directory = location.rstrip("/")
        self.name = name or self.directory
        self.allowed = None if allowed is None else tuple(allowed)
        self._prefix = f"{self.directory}/"
        self.is_local = "://" not in self.directory or self.directory.startswith("file:")
        self._roots: tuple[Location, ...] | None = None
        self._trusted: dict[str, float] = {}

    def __getstate__(self) -> dict[str, object]:
        """Without what was looked at on this machine."""
        return {**self.__dict__, "_trusted": {}, "_roots": None}

    def named(self, directory: str, name: str) -> str:
        """The file of a plain name directly in a directory of the table."""
        if not is_plain_name(name):
            raise self.foreign(name, "is no name of a file in the table's directory")
        return f"{directory}/{name}"

    def inside(self, relative: str) -> str:
        """A directory below the table's own, of plain names."""
        names = [name for name in relative.split("/") if name]
        if not all(map(is_plain_name, names)):
            raise self.foreign(relative, "is no directory inside the table's")
        return "/".join([self.directory, *names])

    def external(self, path: str) -> str:
        """A path some metadata gives in full, in the one spelling used here."""
        try:
            location = Location.parse(path)
        except InvalidOption as problem:
            raise self.foreign(path, f"is no path ({problem})") from None
        own = Location.parse(self.directory)
        if own.contains(location) or self.allowed is None or any(Location.parse(prefix).contains(location) for prefix in self.allowed):
            return str(location)
        raise self.foreign(path, "lies outside the table's directory and the places recorded for it")

    def check(self, path: str, *, to_read: bool = False) -> None:
        """Raise `TableDamaged` for a file that is not the table's by its path, or that a link leads out of the table's places.

        A file's own link is followed where it is read; who writes, renames or deletes acts on the link itself.
        """
        if path.startswith(self._prefix):
            if ".." in path and ".." in path.split("/"):
                raise self.foreign(path, "lies outside the table's directory")
        elif path != self.directory:
            path = self.external(path)
        if self.is_local:
            self._follow_directory(path if path == self.directory else path.rpartition("/")[0])
            if to_read:
                self._check_kind(path)

    def check_directory(self, path: str) -> None:
        """The same of a directory that is listed, or held to write to; one that is not there yet is fine."""
        self.check(path)
        if self.is_local:
            self._follow_directory(path)

    def check_many(self, paths: Collection[str]) -> None:
        """`check` of files to read, for many at once: large directories are listed instead of looking at each file."""
        by_directory: dict[str, list[str]] = {}
        for path in paths:
            directory, _, name = path.rpartition("/")
            by_directory.setdefault(directory, []).append(name)
        for directory, names in by_directory.items():
            for name in names[:1] if self.is_local else names:
                self.check(f"{directory}/{name}")
            for name in _no_files_among(directory, names) if self.is_local else names[:0]:
                self._check_kind(f"{directory}/{name}")

    def _follow_directory(self, directory: str) -> None:
        now = time.monotonic()
        if self._trusted.get(directory, 0.0) > now:
            return
        self._check_real(directory)
        if len(self._trusted) >= _MOST_TRUSTED:
            self._trusted.clear()
        self._trusted[directory] = now + _TRUSTED_SECONDS

    def _check_kind(self, path: str) -> None:
        """Let a file be read, or a link to one; what is not there, or a directory, is told by who opens it. A pipe would never end."""
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                self._check_real(path)
                mode = os.stat(path).st_mode
        except (OSError, ValueError):
            return
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise self.foreign(path, "is no file")

    def check_opened(self, handle: int, path: str) -> None:
        """Raise `TableDamaged` for an open file or directory that lies elsewhere: a link was put on its path after `check`."""
        try:
            where = os.readlink(f"/proc/self/fd/{handle}")
        except OSError:
            return
        if os.fstat(handle).st_nlink == 0:  # removed meanwhile, as whoever goes on with it finds out
            where = where.removesuffix(" (deleted)")
        for root in self._real_roots():
            prefix = f"/{'/'.join(root.parts)}"
            if where == prefix or where.startswith(f"{prefix}/") or prefix == "/":
                return
        own = Location.parse(self.directory)
        if path == str(own.parent):  # it is opened for the table's own directory as its entry
            return
        if self.allowed is None and path.startswith("/") and not own.contains(Location.parse(path)):
            return
        raise self.foreign(path, "is led out of the table's places by a link")

    def _real_roots(self) -> tuple[Location, ...]:
        if self._roots is None:
            self._roots = tuple(real(Location.parse(root)) for root in (self.directory, *(self.allowed or ())))
        return self._roots

    def _check_real(self, path: str) -> None:
        roots = self._real_roots()
        real_location = real(Location.parse(path))
        if os.path.islink(str(real_location)):  # what is left of a link that was followed
            raise self.foreign(path, "is a link that leads in a circle")
        if any(root.contains(real_location) for root in roots):
            return
        if self.allowed is None and not Location.parse(self.directory).contains(Location.parse(path)):
            return
        raise self.foreign(path, "is led out of the table's places by a link")

    def foreign(self, what: str, problem: str) -> TableDamaged:
        """The failure of a table whose metadata names what is not its own."""
        quoted = what if len(what) <= 200 else f"{what[:200]}…"
        return TableDamaged(
            self.name, file=quoted.encode("unicode_escape").decode() if not quoted.isprintable() else quoted, problem=problem
        )


def _no_files_among(directory: str, names: Sequence[str]) -> Iterable[str]:
    """Those that may be links, pipes or something else that is no file."""
    if len(names) < _LISTED_FROM:
        return names
    wanted = set(names)
    try:
        with translating(directory), os.scandir(directory) as entries:
            return [entry.name for entry in entries if not entry.is_file(follow_symlinks=False) and entry.name in wanted]
    except FileNotFoundError:
        return ()
