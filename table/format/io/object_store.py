"""An object store, or HDFS, as files by their names."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from table.format.io.beside import put, wait_for
from table.format.io.directory import Directory, FileStatus, NamedDirectory, TooLarge
from table.format.io.patience import asked
from table.format.io.storage_errors import translating

_S3_RETRIES, _S3_BRIEF_RETRIES = 4, 2
"""Of a request among many that are one call here, and of those of an open file: AWS's library makes them. Fewer where there is no more time
for all of them, and never none: nobody else repeats what is read of an open file, and a refusal takes no time.
"""
_S3_CONNECT_SECONDS, _S3_ANSWER_SECONDS = 3.0, 5.0
_S3_PUT_SECONDS = 12.0
"""What AWS's library takes to give up a PUT of which nothing comes back: it takes the bytes it sent for signs of life, for a while."""
_S3_PATIENT_SECONDS = (1 + _S3_RETRIES) * _S3_ANSWER_SECONDS + 1.0
_WHOLE_BYTES = 8 << 20
"""A file to write that has no more is put at once, and put again where that fails; Arrow makes larger ones of parts of 10 MiB."""
_UNMARKED = re.compile(r"When creating key '[^']*/'")
"""What Arrow says where a file is removed and the empty object that stands for its directory could not be put."""
_S3_GIVEN: tuple[str, ...] = ("region", "scheme", "endpoint_override", "allow_bucket_creation", "allow_bucket_deletion")
_S3_GIVEN += ("force_virtual_addressing", "tls_ca_file_path")
"""What pyarrow takes from a URI, from the environment and from the bucket itself."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreClients:
    """A store as pyarrow knows it, by how often its library tries a request; all are one where that cannot be said."""

    patient: pafs.FileSystem
    brief: pafs.FileSystem
    once: pafs.FileSystem

    @classmethod
    def all_one(cls, filesystem: pafs.FileSystem) -> StoreClients:
        """Those of a store whose library does not say how often it tries."""
        return cls(patient=filesystem, brief=filesystem, once=filesystem)


def object_store(location: str) -> StoreClients:
    """The store of a location; S3 with one PUT for an object that fits into a part, and with patience of seconds.

    Of a location only the scheme and the bucket or host count. Its names are chosen by whoever may make a table: one with a question mark
    would be the store's options to Arrow, such as the host that the server's requests go to.
    """
    uri = urlsplit(location)
    if uri.scheme != "s3":
        filesystem, _ = pafs.FileSystem.from_uri(f"{uri.scheme}://{uri.netloc}/")
        return StoreClients.all_one(filesystem)
    environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))  # what AWS's library reads
    return _s3(f"{uri.scheme}://{uri.netloc}", environment)


@lru_cache(maxsize=256)
def _s3(bucket: str, _: tuple[tuple[str, str], ...]) -> StoreClients:
    """The clients of a bucket, made once: Arrow makes none while a request of the process waits for its answer."""
    filesystem, _path = pafs.FileSystem.from_uri(bucket)
    (arguments, *_more) = filesystem.__reduce__()[1]
    options: dict[str, Any] = {name: arguments[name] for name in _S3_GIVEN}
    uri = urlsplit(bucket)
    if uri.username:  # others are looked up again and again by AWS's library: those of a role end
        options |= {"access_key": unquote(uri.username), "secret_key": unquote(uri.password or "")}

    def client(retries: int) -> pafs.S3FileSystem:
        return pafs.S3FileSystem(
            # A multipart upload of one part takes three requests, and a repeat of the last one fails where its answer was lost.
            allow_delayed_open=True,
            background_writes=retries > 0,  # of small objects by threads of ours (`beside`), of which Arrow has eight
            connect_timeout=_S3_CONNECT_SECONDS,
            request_timeout=_S3_ANSWER_SECONDS,
            retry_strategy=pafs.AwsDefaultS3RetryStrategy(max_attempts=retries),  # which counts those after the first
            **options,
        )

    return StoreClients(patient=client(_S3_RETRIES), brief=client(_S3_BRIEF_RETRIES), once=client(0))


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
    writers of one name write the same bytes. How long a store that fails is asked again: `table.format.io.patience`.
    """

    atomic_rename = False

    def __init__(self, clients: StoreClients, scheme: str) -> None:
        self._clients = clients
        self._scheme = scheme

    @property
    def _is_s3(self) -> bool:
        return isinstance(self._clients.once, pafs.S3FileSystem)

    def arrow(self) -> pafs.FileSystem:
        """The file system as pyarrow knows it."""
        return self._clients.patient

    def arrow_path(self, path: str) -> str:
        """The path without its scheme."""
        return path.removeprefix(f"{self._scheme}://")

    def _ask(self, path: str, ask: Callable[[pafs.FileSystem, str], T], *, seconds: float = _S3_ANSWER_SECONDS) -> T:
        """What the store answers to a call that makes few requests, which is repeated as a whole."""
        wait_for(path)
        return asked(path, lambda _: ask(self._clients.once, self.arrow_path(path)), attempt_seconds=seconds)

    def _ask_much(self, path: str, ask: Callable[[pafs.FileSystem, str], T], *, repeats: bool = True) -> T:
        """The same of a call that may make many: each is repeated by itself, less often where there is little time left."""
        wait_for(path)

        def attempt(left: float) -> T:
            return ask(self._clients.patient if left > _S3_PATIENT_SECONDS else self._clients.brief, self.arrow_path(path))

        return asked(path, attempt, attempt_seconds=_S3_PATIENT_SECONDS, repeats=repeats)

    def open_input(self, path: str) -> pa.NativeFile:
        """The file, open for reading at any place."""
        return self._ask_much(path, lambda store, name: store.open_input_file(name))

    def open_output(self, path: str) -> pa.NativeFile:
        """A file to write, under a name that is nobody else's."""
        if self._clients.patient is self._clients.once:
            return self._clients.patient.open_output_stream(self.arrow_path(path))
        return pa.PythonFile(_Output(self, path), mode="w")

    def _uri(self, path: str) -> str:
        return f"{self._scheme}://{path}"

    def read(self, path: str) -> bytes:
        """The whole file; raises `TooLarge`."""

        def whole(store: pafs.FileSystem, name: str) -> bytes:
            with store.open_input_file(name) as file:  # as many requests as a stream makes, which does not tell its size
                TooLarge.check(file.size())
                return bytes(file.read())

        return self._ask(path, whole)

    def write(self, path: str, data: bytes) -> None:
        """Put the object, replacing what was."""

        def whole(store: pafs.FileSystem, name: str) -> None:
            with store.open_output_stream(name) as stream:
                stream.write(data)

        if len(data) > _WHOLE_BYTES:  # of several parts
            self._ask_much(path, whole)
        else:
            self._ask(path, whole, seconds=_S3_PUT_SECONDS)

    def add(self, path: str, data: bytes) -> None:
        """Put an object of a name that is nobody else's."""
        put(path, lambda: self.write(path, data), len(data))

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
        return self._ask(path, lambda store, name: store.get_file_info(name))

    def exists(self, path: str) -> bool:
        """Whether an object or directory is there."""
        return bool(self._info(path).type != pafs.FileType.NotFound)

    def file_exists(self, path: str) -> bool:
        """Whether an object is there: one HEAD on S3, where `exists` goes on with a listing for names that are directories."""
        if not self._is_s3:
            return self.exists(path)
        try:
            self._ask(path, lambda store, name: store.open_input_file(name).close())
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        """Bytes of the object; raises `FileNotFoundError`."""
        return self.status(path).size

    def status(self, path: str) -> FileStatus:
        """What `list` tells of the object, which is asked for by itself; raises `FileNotFoundError`, also for a directory."""
        info = self._info(path)
        if info.type in (pafs.FileType.NotFound, pafs.FileType.Directory):
            raise FileNotFoundError(path)
        return self._status(info)

    def delete(self, path: str) -> None:
        """Remove the object; none there is fine."""

        def delete(store: pafs.FileSystem, name: str) -> None:
            with _removing():
                store.delete_file(name)

        with contextlib.suppress(FileNotFoundError):
            self._ask(path, delete)

    def delete_tree(self, path: str) -> None:
        """Remove all below the path; nothing there is fine."""

        def delete(store: pafs.FileSystem, name: str) -> None:
            with _removing():
                store.delete_dir(name)

        with contextlib.suppress(FileNotFoundError):
            self._ask_much(path, delete)

    def remove_empty(self, path: str) -> bool:
        """False: stores remove a directory with all that came into it meanwhile."""
        return False

    def rename(self, source: str, target: str) -> None:
        """Move an object; on most stores a copy and a delete."""
        if self._is_s3:  # one by one: either may be repeated, and both together not
            self._ask(target, lambda store, name: store.copy_file(self.arrow_path(source), name))
            self.delete(source)
            return

        def move(store: pafs.FileSystem, name: str) -> None:
            with _removing():
                store.move(self.arrow_path(source), name)

        self._ask_much(target, move, repeats=False)

    def list(self, path: str) -> list[FileStatus]:
        """What lies directly below the path, by name."""
        infos = self._ask_much(path, lambda store, name: store.get_file_info(pafs.FileSelector(name, allow_not_found=True)))
        return sorted(map(self._status, infos), key=lambda status: status.path)

    def _status(self, info: pafs.FileInfo) -> FileStatus:
        return FileStatus(
            path=self._uri(info.path),
            size=int(info.size or 0),
            mtime_millis=(info.mtime_ns or 0) // 1_000_000,
            is_dir=info.type == pafs.FileType.Directory,
        )

    def sync(self, paths: Collection[str]) -> None:
        """Nothing: what a store has answered is durable."""

    def mkdirs(self, path: str) -> None:
        """Make the directory where the store has any."""
        self._ask(path, lambda store, name: store.create_dir(name, recursive=True))


class _Output:
    """A file being written to S3: a small one is put whole when it is closed, so that the PUT can be repeated; a large one by Arrow."""

    def __init__(self, io: ArrowFileIO, path: str) -> None:
        self._io = io
        self._path = path
        self._held: list[bytes] = []
        self._size = 0
        self._stream: pa.NativeFile | None = None
        self.closed = False

    def write(self, data: Any) -> int:
        """Take bytes; raises `Unavailable` naming the path."""
        size = len(memoryview(data))
        with translating(self._path):
            if self._stream is None and self._size + size > _WHOLE_BYTES:
                self._stream = self._io.arrow().open_output_stream(self._io.arrow_path(self._path))
                self._stream.write(b"".join(self._held))
                self._held.clear()
            if self._stream is None:
                self._held.append(bytes(data))
            else:
                self._stream.write(data)
        self._size += size
        return size

    def flush(self) -> None:
        """Nothing: an object is there once it is closed."""

    def close(self) -> None:
        """Finish the object; raises `Unavailable` naming the path."""
        if self.closed:
            return
        self.closed = True
        if self._stream is None:
            self._io.add(self._path, b"".join(self._held))
            self._held.clear()
            return
        with translating(self._path):
            self._stream.close()
