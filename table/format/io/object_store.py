"""An object store, or HDFS, as files by their names."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from model.errors import Unavailable
from table.format.io.directory import Directory, FileStatus, NamedDirectory
from table.format.io.storage_errors import translating

_S3_ATTEMPTS = 8
"""Tries of a request that S3 refused for now (503, 500, 429) or left without an answer; the waits between them grow to three seconds."""
_S3_CONNECT_SECONDS, _S3_ANSWER_SECONDS = 3.0, 10.0
_READ_ATTEMPTS, _READ_PAUSE_SECONDS = 5, 0.2
_UNREAD_REFUSAL = "Failed to flush response stream"
"""What Arrow's reader says of a refusal that is longer than the bytes it asked for: AWS's library does not see that it may try again."""
_UNMARKED = re.compile(r"When creating key '[^']*/'")
"""What Arrow says where a file is removed and the empty object that stands for its directory could not be put."""
_S3_GIVEN: tuple[str, ...] = ("region", "scheme", "endpoint_override", "allow_bucket_creation", "allow_bucket_deletion")
_S3_GIVEN += ("force_virtual_addressing", "tls_ca_file_path")
"""What pyarrow takes from a URI, from the environment and from the bucket itself."""


def object_store(location: str) -> pafs.FileSystem:
    """The store of a URI, as pyarrow knows it; S3 with one PUT for an object that fits into a part, and with patience of seconds."""
    filesystem, _ = pafs.FileSystem.from_uri(location)
    if not isinstance(filesystem, pafs.S3FileSystem):
        return filesystem
    _, (arguments, *_) = filesystem.__reduce__()
    options: dict[str, Any] = {name: arguments[name] for name in _S3_GIVEN}
    uri = urlsplit(location)
    if uri.username:  # others are looked up again and again by AWS's library: those of a role end
        options |= {"access_key": unquote(uri.username), "secret_key": unquote(uri.password or "")}
    return pafs.S3FileSystem(
        # A multipart upload of one part takes three requests, and a repeat of the last one fails where its answer was lost.
        allow_delayed_open=True,
        connect_timeout=_S3_CONNECT_SECONDS,
        request_timeout=_S3_ANSWER_SECONDS,
        retry_strategy=pafs.AwsDefaultS3RetryStrategy(max_attempts=_S3_ATTEMPTS),
        **options,
    )


@contextlib.contextmanager
def _removing() -> Iterator[None]:
    """Take what is removed for removed where only its directory's mark is missing, which nobody here needs.

    Told as a failure, it had callers take back in Postgres what was done in the store.
    """
    try:
        yield
    except OSError as problem:
        if _UNMARKED.search(str(problem)) is None:
            raise


class ArrowFileIO:
    """An object store or HDFS through pyarrow; ``create`` is check-then-write.

    That is enough here: which snapshot gets an id is decided in Postgres before its file is written, so two
    writers of one name write the same bytes.
    """

    atomic_rename = False

    def __init__(self, filesystem: pafs.FileSystem, scheme: str) -> None:
        self._fs = filesystem
        self._scheme = scheme

    def arrow(self) -> pafs.FileSystem:
        """The file system as pyarrow knows it."""
        return self._fs

    def arrow_path(self, path: str) -> str:
        """The path without its scheme."""
        return path.removeprefix(f"{self._scheme}://")

    def open_input(self, path: str) -> pa.NativeFile:
        """The file, open for reading at any place."""
        return self._fs.open_input_file(self.arrow_path(path))

    def open_output(self, path: str) -> pa.NativeFile:
        """A file to write, under a name that is nobody else's."""
        return self._fs.open_output_stream(self.arrow_path(path))

    def _uri(self, path: str) -> str:
        return f"{self._scheme}://{path}"

    def read(self, path: str) -> bytes:
        """The whole file."""
        for attempt in range(_READ_ATTEMPTS):
            try:
                with translating(path), self._fs.open_input_stream(self.arrow_path(path)) as stream:
                    return bytes(stream.read())
            except Unavailable as problem:
                if attempt == _READ_ATTEMPTS - 1 or _UNREAD_REFUSAL not in str(problem.__cause__):
                    raise
                time.sleep(_READ_PAUSE_SECONDS * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def write(self, path: str, data: bytes) -> None:
        """Put the object, replacing what was."""
        with translating(path), self._fs.open_output_stream(self.arrow_path(path)) as stream:
            stream.write(data)

    def add(self, path: str, data: bytes) -> None:
        """Put an object of a name that is nobody else's."""
        self.write(path, data)

    @contextlib.contextmanager
    def directory(self, path: str, *, make: bool = True) -> Iterator[Directory]:
        """The directory by its name: stores have no others."""
        yield NamedDirectory(self, path)

    def create(self, path: str, data: bytes) -> bool:
        """Put the object unless one exists."""
        if self.file_exists(path):
            return False
        self.write(path, data)
        return True

    def replace_end(self, path: str, at: int, data: bytes) -> None:
        """Put these bytes in place of the object's last ones, which writes all of it anew."""
        self.write(path, self.read(path)[:at] + data)

    def _info(self, path: str) -> pafs.FileInfo:
        with translating(path):
            return self._fs.get_file_info(self.arrow_path(path))

    def exists(self, path: str) -> bool:
        """Whether an object or directory is there."""
        return bool(self._info(path).type != pafs.FileType.NotFound)

    def file_exists(self, path: str) -> bool:
        """Whether an object is there: one HEAD on S3, where `exists` goes on with a listing for names that are directories."""
        if not isinstance(self._fs, pafs.S3FileSystem):
            return self.exists(path)
        try:
            with translating(path), self._fs.open_input_file(self.arrow_path(path)):
                return True
        except FileNotFoundError:
            return False

    def size(self, path: str) -> int:
        """Bytes of the object."""
        info = self._info(path)
        if info.type == pafs.FileType.NotFound:
            raise FileNotFoundError(path)
        return int(info.size)

    def delete(self, path: str) -> None:
        """Remove the object; none there is fine."""
        with translating(path), contextlib.suppress(FileNotFoundError), _removing():
            self._fs.delete_file(self.arrow_path(path))

    def delete_tree(self, path: str) -> None:
        """Remove all below the path; nothing there is fine."""
        with translating(path), contextlib.suppress(FileNotFoundError), _removing():
            self._fs.delete_dir(self.arrow_path(path))

    def remove_empty(self, path: str) -> bool:
        """False: stores remove a directory with all that came into it meanwhile."""
        return False

    def rename(self, source: str, target: str) -> None:
        """Move an object; on most stores a copy and a delete."""
        with translating(target), _removing():
            self._fs.move(self.arrow_path(source), self.arrow_path(target))

    def list(self, path: str) -> list[FileStatus]:
        """What lies directly below the path, by name."""
        with translating(path):
            infos = self._fs.get_file_info(pafs.FileSelector(self.arrow_path(path), allow_not_found=True))
        statuses = [
            FileStatus(
                path=self._uri(info.path),
                size=int(info.size or 0),
                mtime_millis=(info.mtime_ns or 0) // 1_000_000,
                is_dir=info.type == pafs.FileType.Directory,
            )
            for info in infos
        ]
        return sorted(statuses, key=lambda status: status.path)

    def sync(self, paths: Collection[str]) -> None:
        """Nothing: what a store has answered is durable."""

    def mkdirs(self, path: str) -> None:
        """Make the directory where the store has any."""
        with translating(path):
            self._fs.create_dir(self.arrow_path(path), recursive=True)
