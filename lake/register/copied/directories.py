"""Tables whose rows are whatever lies in their directory, copied beside a backup and put back: exactly what lay there then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalog.backup.archive_parts import PartTable
from lake.register.copied.contents import (
    Names,
    changed_in,
    copies_back,
    copies_to,
    file_at,
    names_in,
    others_in,
    place_of,
    sizes_in,
)
from lake.register.copied.done import COPY_AGAIN, PARALLEL, WarehouseCopy
from lake.register.copied.record import CopyRecord
from model.damage import MISSING
from model.errors import LakeError
from model.identifier import MAIN_BRANCH
from model.schema.schema import DIRECTORY_KINDS, Schema, other_kind
from table.format.io.copying import Content, Copy, copy_files
from table.format.io.file_io import FileIO, file_io_for, local_path


def schemas_of(table: PartTable, branch: str) -> Sequence[Schema]:
    """A branch's schemas, the newest last."""
    return [Schema.from_json(body) for _, body in sorted(table.schemas[branch].items())]


def is_directory_table(table: PartTable) -> bool:
    """Whether its rows are files of other kinds, which nothing names."""
    return other_kind(schemas_of(table, MAIN_BRANCH)[-1].options) in DIRECTORY_KINDS


def directory_to(table: PartTable, target: str, done: WarehouseCopy, *, verify: bool) -> None:
    """Copy what lies in a table's directory, and note the names; what could not be copied is among the troubles."""
    try:
        names, wrong = names_in(file_io_for(table.location), table.location, threads=PARALLEL)
        wrong |= _contents_to(table, names, target, done)
        for name, problem in wrong.items():
            done.trouble(table, f"{file_at(table.location, name)} {problem}", unreadable=False)
        in_copy = {name: content for name, content in names.items() if name not in wrong}
        done.contents[str(table.table_id)] = {name: in_copy.get(name) for name in (*names, *wrong)}
        if verify:
            _tell_changed(
                table, {place_of(target, content): content for content in in_copy.values()}, file_io_for(target), done, COPY_AGAIN
            )
    except LakeError as problem:
        done.trouble(table, f"could not be copied: {problem.message}", unreadable=False)


def _contents_to(table: PartTable, names: Names, target: str, done: WarehouseCopy) -> dict[str, str]:
    """Copy each content from one of its names, and from another where that cannot be; what is wrong with names whose content is nowhere."""
    from_io, to_io = file_io_for(table.location), file_io_for(target)
    done.tables += 1
    wrong: dict[str, str] = {}
    in_copy: set[Content] = set()
    wanted = names
    while wanted:
        copied = copy_files(copies_to(wanted, table.location, target), source=from_io, target=to_io, threads=PARALLEL)
        done.count(copied)
        problems = {local_path(path): MISSING for path in copied.missing}
        problems |= {local_path(path): "was written while it was copied: the next backup copies it" for path in copied.other}
        problems |= {problem.place: f"was not copied: {problem.message}" for problem in copied.unreadable if problem.place is not None}
        failed = {name: problems[path] for name in wanted if (path := local_path(file_at(table.location, name))) in problems}
        again = {wanted[name] for name in failed}
        in_copy |= {content for content in wanted.values() if content not in again}
        wrong |= failed
        wanted = {name: content for name, content in wanted.items() if content in again and name not in failed}
    return {name: problem for name, problem in wrong.items() if names[name] not in in_copy}


def directory_back(table: PartTable, source: str, target: str, done: WarehouseCopy, record: CopyRecord | None, *, verify: bool) -> None:
    """Put back what lay in a table's directory at the backup; nowhere beside or in place of what was written since.

    Where the record does not tell, as in copies that earlier versions made, it is all that lies in the copy. What the copy lacks is among
    the troubles, all where the table could not be copied then. Raises what the store says.
    """
    from_io, to_io = file_io_for(source), file_io_for(target)
    contents = None
    if record is not None and record.contents is not None:
        recorded = record.contents.get(str(table.table_id))
        if recorded is None:
            done.trouble(table, "could not be copied at the backup, so none of its files was put back", unreadable=False)
            return
        contents = {name: content for name, content in recorded.items() if content is not None}
        for name in sorted(recorded.keys() - contents.keys()):
            what = f"{file_at(target, name)} could not be copied at the backup, and was not put back"
            done.trouble(table, what, unreadable=False)
    sizes = sizes_in(from_io, source) if contents is None else {name: size for name, (_, size) in contents.items()}
    there = sizes_in(to_io, target)
    others = others_in(there, sizes) if sizes else []
    if contents is not None:  # one of the same length may have been written since
        same = {file_at(target, name): content for name, content in contents.items() if there.get(name) == content[1]}
        others += [path.removeprefix(f"{target}/") for path, _ in changed_in(to_io, same, threads=PARALLEL)]
    if others:
        which = f"{others[0]} …" if len(others) > 1 else others[0]
        what = f"{len(others)} files in its directory ({which}) are none of the backup's, so none of its files was put back"
        done.trouble(table, f"{what}: move them away and repeat where its rows are to be the backup's", unreadable=False)
        return
    if contents is None and record is not None and sizes:
        what = "the copy does not tell which files it had at the backup: all that the copy has are there, also what was replaced before"
        done.doubts.append((table.told, what))
    if contents is not None:
        copies = copies_back(contents, source, target, but=there)
    else:
        copies = [Copy(file_at(source, name), file_at(target, name)) for name in sizes if name not in there]
    copied = done.copied(table, copies, from_io, to_io)
    done.there += len(there)
    for path in copied.other:
        done.trouble(table, f"{path} holds other bytes than the backup's, and was not put back", unreadable=False)
    if verify and contents is not None:
        _tell_changed(table, {file_at(target, name): content for name, content in contents.items() if name not in there}, to_io, done)


def _tell_changed(table: PartTable, contents: Mapping[str, Content], io: FileIO, done: WarehouseCopy, way_out: str = "") -> None:
    for path, problem in changed_in(io, contents, threads=PARALLEL):
        done.trouble(table, f"{path} {problem}{way_out}", unreadable=False)
