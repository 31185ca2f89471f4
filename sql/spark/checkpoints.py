"""A job's checkpoint as Spark lays it out, and what of it must outlive a power cut."""

from __future__ import annotations

import json
from collections.abc import Iterator

from table.file_io import FileIO, FileStatus, file_io_for


class Checkpoint:
    """One query's checkpoint directory. Spark writes it without flushing it to disk."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._io: FileIO = file_io_for(location)
        self._sources_are_durable = False

    @property
    def begun(self) -> bool:
        """Whether a query has begun here."""
        return self._io.exists(f"{self.location}/metadata")

    def keep_plan(self, batch: int) -> None:
        """Flush what says which rows a batch is, before the batch is committed; raises `StorageFull` or `Unavailable`.

        The commit is durable. A plan that was lost beside it would be made anew, of other rows, under a number that counts as committed:
        those rows would be left out.
        """
        wanted = {str(batch), f".{batch}.crc"}
        paths = [status.path for status in self._io.list(f"{self.location}/offsets") if status.path.rsplit("/", 1)[-1] in wanted]
        if not self._sources_are_durable:
            paths += [status.path for status in self._files("sources")]
            paths += [status.path for status in self._io.list(self.location) if not status.is_dir]
        self._io.sync(paths)
        self._sources_are_durable = True

    def watermark(self, batch: int) -> int | None:
        """The watermark a batch began with, in milliseconds since 1970, of all batches before it; None where there is none yet."""
        lines = self._io.read(f"{self.location}/offsets/{batch}").decode().splitlines()
        return int(json.loads(lines[1]).get("batchWatermarkMs", 0)) or None

    def _files(self, directory: str) -> Iterator[FileStatus]:
        """All files below a directory, such as the sources' first positions."""
        for status in self._io.list(f"{self.location}/{directory}"):
            if status.is_dir:
                yield from self._files(status.path.removeprefix(f"{self.location}/"))
            else:
                yield status
