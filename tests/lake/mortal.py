"""A process that dies between two steps: its disk does nothing more."""

from __future__ import annotations

import pyarrow.fs as pafs

from table.file_io import FileStatus, LocalFileIO


class Killed(BaseException):
    """The process ends here."""


class MortalIO(LocalFileIO):
    """A local disk that ends its process before one of its changes; from then on nothing works."""

    def __init__(self) -> None:
        super().__init__()
        self.changes_left: int | None = None
        self.dead = False

    def change(self, _: object = None) -> None:
        """One step that a kill may come before."""
        self._alive()
        if self.changes_left is not None:
            self.changes_left -= 1
            if self.changes_left < 0:
                self.dead = True
                raise Killed

    def _alive(self) -> None:
        if self.dead:
            raise Killed

    def read(self, path: str) -> bytes:
        self._alive()
        return super().read(path)

    def list(self, path: str) -> list[FileStatus]:
        self._alive()
        return super().list(path)

    def write(self, path: str, data: bytes) -> None:
        self.change()
        super().write(path, data)

    def update(self, path: str, data: bytes) -> None:
        self.change()
        super().update(path, data)

    def create(self, path: str, data: bytes) -> bool:
        self.change()
        return super().create(path, data)

    def delete(self, path: str) -> None:
        self.change()
        super().delete(path)

    def delete_tree(self, path: str) -> None:
        self.change()
        super().delete_tree(path)

    def rename(self, source: str, target: str) -> None:
        self.change()
        super().rename(source, target)

    def arrow(self) -> pafs.FileSystem:
        self.change()
        return super().arrow()
