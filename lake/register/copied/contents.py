"""Files of tables whose rows are whatever lies in their directory (`DIRECTORY_KINDS`).

Nothing else names them, and under one name come to lie others. So a copy holds them by their contents, ``_contents/<sha256>`` in the
table's directory there, each once however many backups have it, and the copy's record of a backup tells which names had which.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from model.damage import MISSING
from model.errors import LakeError
from table.format.io.copying import Content, Copy, digest_of
from table.format.io.file_io import FileIO, local_path
from table.format.io.storage_errors import never_given

_DIRECTORY = "_contents"
Names = Mapping[str, Content]
"""By the names of the files below their table's directory."""
Recorded = Mapping[str, Content | None]
"""By the names that a directory had at a backup; None for those whose content could not be copied."""
Contents = Mapping[str, Recorded]
"""By table's id."""


def names_in(io: FileIO, location: str, *, threads: int) -> tuple[dict[str, Content], dict[str, str]]:
    """The files below a directory, each read once; and what is wrong with those that cannot be, by name.

    Raises what the store says where it is more than one file's.
    """
    sizes = sizes_in(io, location)
    looked = dict(zip(sizes, _looked(io, [file_at(location, name) for name in sizes], threads=threads), strict=True))
    wrong = {name: content for name, content in looked.items() if isinstance(content, str)}
    return {name: content for name, content in looked.items() if not isinstance(content, str)}, wrong


def _looked(io: FileIO, paths: Collection[str], *, threads: int) -> Iterator[Content | str]:
    """What each file holds, or what is wrong with it; raises what the store says where it is more than one file's."""

    def look(path: str) -> Content | str:
        try:
            return digest_of(io, path)
        except FileNotFoundError:
            return MISSING
        except LakeError as problem:
            if never_given(problem):
                return problem.message
            raise

    with ThreadPoolExecutor(max(1, threads), thread_name_prefix="digest") as pool:
        yield from pool.map(look, paths)


def sizes_in(io: FileIO, location: str) -> dict[str, int]:
    """Bytes of each file below a directory, by its name below it; without what a copy keeps by contents there."""
    root = f"{local_path(location)}/"
    sizes = {path.removeprefix(root): size for path, size in _below(io, location)}
    return {name: size for name, size in sizes.items() if not name.startswith(f"{_DIRECTORY}/")}


def _below(io: FileIO, directory: str) -> Iterator[tuple[str, int]]:
    for status in io.list(directory):
        if status.is_dir:
            yield from _below(io, status.path)
        else:
            yield status.path, status.size


def place_of(target: str, content: Content) -> str:
    """Where a copy keeps a content of a table whose files it has below ``target``."""
    return f"{target}/{_DIRECTORY}/{content[0]}"


def copies_to(names: Names, location: str, target: str) -> list[Copy]:
    """What puts each content of a table into a copy."""
    one_of_each = {content: name for name, content in names.items()}
    return [Copy(file_at(location, name), place_of(target, content), content=content) for content, name in one_of_each.items()]


def copies_back(names: Names, source: str, target: str, *, but: Collection[str]) -> list[Copy]:
    """What puts the files under their names again, without those of some names."""
    wanted = {name: content for name, content in names.items() if name not in but}
    return [Copy(place_of(source, content), file_at(target, name), content=content) for name, content in wanted.items()]


def file_at(location: str, name: str) -> str:
    """Where a file of a directory lies."""
    return f"{location}/{name}"


def others_in(there: Mapping[str, int], sizes: Mapping[str, int]) -> list[str]:
    """Files of a directory that by name or size are none of these; what a restore that was cut off left half is none."""
    left = {f"{name}.part" for name in sizes}
    return [name for name, size in there.items() if name not in left and sizes.get(name) != size]


def changed_in(io: FileIO, paths: Mapping[str, Content], *, threads: int) -> Iterator[tuple[str, str]]:
    """Files that do not hold what they are to, all of which is read, and what is wrong with each.

    Raises what the store says where it is more than one file's.
    """
    for (path, content), content_now in zip(paths.items(), _looked(io, paths, threads=threads), strict=True):
        if isinstance(content_now, str):
            yield path, content_now
        elif content_now != content:
            yield path, "holds other bytes than the backup's"
