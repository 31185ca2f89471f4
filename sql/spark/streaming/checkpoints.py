"""A job's checkpoint as Spark lays it out, and what of it must outlive a power cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from table.format.io.file_io import FileIO, FileStatus, file_io_for


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
        return int(json.loads(self._plan(batch)[1]).get("batchWatermarkMs", 0)) or None

    def sources(self, batch: int) -> str:
        """Which rows a batch is, as JSON: where each source stood before it and stands after it."""
        after = [_parsed(line) for line in self._plan(batch)[2:]]
        before = [_parsed(line) for line in self._plan(batch - 1)[2:]] if batch else [None] * len(after)
        return json.dumps([{"from": first, "to": last} for first, last in zip(before, after, strict=True)])

    def _plan(self, batch: int) -> list[str]:
        """What Spark wrote of a batch before it began: a version, the watermark among other things, and a line for each source."""
        return self._io.read(f"{self.location}/offsets/{batch}").decode().splitlines()

    def _files(self, directory: str) -> Iterator[FileStatus]:
        """All files below a directory, such as the sources' first positions."""
        for status in self._io.list(f"{self.location}/{directory}"):
            if status.is_dir:
                yield from self._files(status.path.removeprefix(f"{self.location}/"))
            else:
                yield status


def _parsed(line: str) -> Any:
    """A source's offset; None where it has none yet."""
    return None if line == "-" else json.loads(line)
