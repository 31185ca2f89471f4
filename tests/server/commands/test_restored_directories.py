"""Tables whose rows are the files of their directory: a backup has what lay there then, and a restore puts just that back."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from model.identifier import Identifier
from model.schema.schema import column, new_schema
from server.commands.backup import backup, restore_parts
from server.commands.restore import restore
from table.format.io.copying import Copied, Copy, copy_files, digest_of
from table.format.io.file_io import FileIO
from table.format.io.storage_errors import translating
from tests.server.commands.conftest import Of, Server

F = Identifier("shop", "f")


@pytest.fixture
def place(shop: Server) -> Path:
    """The directory of a table of CSV files, which clients write."""
    shop.lake.create_table(F, new_schema([column("id", "INT")], options={"type": "format-table", "file.format": "csv"}))
    place = directory(shop, F)
    place.mkdir(parents=True, exist_ok=True)
    return place


def directory(shop: Server, name: Identifier) -> Path:
    with shop.catalog.reading() as tx:
        row = tx.tables.find(name)
    assert row is not None
    return Path(row.location)


def write(place: Path, files: Mapping[str, str]) -> None:
    """Let these be all the files of a directory, as an INSERT OVERWRITE of a client does."""
    for path in place.rglob("*"):
        if path.is_file():
            path.unlink()
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


def read(place: Path) -> dict[str, str]:
    return {str(path.relative_to(place)): path.read_text() for path in sorted(place.rglob("*")) if path.is_file()}


BEFORE = {"part-old.csv": "1\n", "day.csv": "monday\n", "p=1/a.csv": "same\n", "p=2/a.csv": "same\n", "empty.csv": ""}
AFTER = {"part-new.csv": "1\n2\n", "day.csv": "tuesday\n", "p=1/a.csv": "same\n"}


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_restore_has_the_files_of_its_own_backup(shop: Server, place: Path, of: Of, empty_dsn: str, tmp_path: Path, scheme: str) -> None:
    """One copy serves both. Files that had been replaced before the backup came back beside those that replaced them."""
    copy, files = f"{scheme}{tmp_path}/copy", {}
    for name, rows in (("b1", BEFORE), ("b2", AFTER)):
        write(place, rows)
        assert backup(of(shop.dsn), tmp_path / name, files_to=copy, verify=True)[1] == []
        files[name] = rows
    assert len(list((tmp_path / "copy/shop.db/f/_contents").iterdir())) == 6
    for name, rows in files.items():
        shutil.rmtree(tmp_path / "warehouse")
        assert restore(of(empty_dsn), tmp_path / name, replace=name != "b1", files_from=copy, verify=True)[1] == []
        assert read(place) == rows


@pytest.mark.parametrize(
    "since", [{"day.csv": "monday\ntuesday\n"}, {"part-newer.csv": "3\n"}, BEFORE | {"p=3/a.csv": ""}, BEFORE | {"day.csv": "friday\n"}]
)
def test_what_was_written_since_is_left_alone(
    shop: Server, place: Path, of: Of, empty_dsn: str, tmp_path: Path, since: Mapping[str, str]
) -> None:
    """The catalog alone was lost: newer rows were replaced by the backup's, or doubled by them."""
    copy = str(tmp_path / "copy")
    write(place, BEFORE)
    assert backup(of(shop.dsn), tmp_path / "b", files_to=copy)[1] == []
    write(place, since)
    (told,) = restore(of(empty_dsn), tmp_path / "b", replace=False, files_from=copy)[1]
    assert (told.table, "none of its files was put back" in told.what) == ("shop.f", True)
    assert read(place) == since


def test_a_restore_that_was_cut_off_goes_on(shop: Server, place: Path, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    write(place, BEFORE)
    assert backup(of(shop.dsn), tmp_path / "b", files_to=copy)[1] == []
    write(place, {"day.csv": "monday\n", "part-old.csv.part": "1"})
    assert restore(of(empty_dsn), tmp_path / "b", replace=False, files_from=copy)[1] == []
    assert read(place) == BEFORE


@pytest.mark.parametrize("verify", [False, True])
def test_other_bytes_in_the_copy_are_told_and_not_put_back(
    shop: Server, place: Path, of: Of, empty_dsn: str, tmp_path: Path, verify: bool
) -> None:
    copy = str(tmp_path / "copy")
    write(place, {"a.csv": "12345", "b.csv": "6"})
    assert backup(of(shop.dsn), tmp_path / "b", files_to=copy)[1] == []
    (content,) = [path for path in (tmp_path / "copy/shop.db/f/_contents").iterdir() if path.read_text() == "12345"]
    content.write_text("12x45")
    if verify:
        (told,) = backup(of(shop.dsn), tmp_path / "b", files_to=copy, verify=True)[1]
        assert "delete it there, and the next backup copies it again" in told.what
    write(place, {})
    told_then = restore(of(empty_dsn), tmp_path / "b", replace=False, files_from=copy)[1]
    assert [each.table for each in told_then] == ["shop.f"]
    assert content.name in told_then[0].what
    assert read(place) == {"b.csv": "6"}


def test_a_copy_of_an_earlier_version_still_comes_back(shop: Server, place: Path, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    """It had the files by their names, and no word of which were whose."""
    copy = tmp_path / "copy"
    write(place, BEFORE)
    assert backup(of(shop.dsn), tmp_path / "b", files_to=str(copy))[1] == []
    shutil.rmtree(copy / "shop.db/f")
    shutil.copytree(place, copy / "shop.db/f")
    (record,) = (copy / "_backups").iterdir()
    record.write_text(json.dumps({"consumers": json.loads(record.read_text())["consumers"]}))
    restore_parts(of(shop.dsn), tmp_path / "b", tables=[F], to=Identifier("shop", "beside"), files_from=f"file://{copy}")
    assert read(directory(shop, Identifier("shop", "beside"))) == BEFORE
    shutil.rmtree(tmp_path / "warehouse")
    (told,) = restore(of(empty_dsn), tmp_path / "b", replace=False, files_from=str(copy))[1]
    assert "does not tell which files it had" in told.what
    assert read(place) == BEFORE


def test_a_table_alone_comes_back_with_its_files(shop: Server, place: Path, of: Of, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    write(place, BEFORE)
    assert backup(of(shop.dsn), tmp_path / "b", files_to=copy)[1] == []
    restore_parts(of(shop.dsn), tmp_path / "b", tables=[F], to=Identifier("shop", "beside"), files_from=copy)
    assert read(directory(shop, Identifier("shop", "beside"))) == BEFORE
    shop.run("DROP TABLE shop.f PURGE")
    assert not os.path.exists(place)
    assert restore_parts(of(shop.dsn), tmp_path / "b", tables=[F], files_from=copy)[1] == []
    assert read(place) == BEFORE


def test_a_table_that_had_no_files_says_nothing_of_those_since(shop: Server, place: Path, of: Of, empty_dsn: str, tmp_path: Path) -> None:
    assert backup(of(shop.dsn), tmp_path / "b", files_to=str(tmp_path / "copy"))[1] == []
    write(place, AFTER)
    assert restore(of(empty_dsn), tmp_path / "b", replace=False, files_from=str(tmp_path / "copy"))[1] == []
    assert read(place) == AFTER


def unreadable(monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    """Let a file's disk answer with an error while a backup reads it."""

    def refused(io: FileIO, path: str) -> tuple[str, int]:
        with translating(path):
            if path.endswith(name):
                raise OSError(code, os.strerror(code), path)
            return digest_of(io, path)

    monkeypatch.setattr("lake.register.copied.contents.digest_of", refused)


def test_a_file_that_its_disk_does_not_give_keeps_no_other_out(
    shop: Server, place: Path, of: Of, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the copy lacks it was told by the backup alone: a restore from it said nothing."""
    copy = str(tmp_path / "copy")
    write(place, BEFORE)
    with monkeypatch.context() as patched:
        unreadable(patched, "day.csv", errno.EIO)
        (told,) = backup(of(shop.dsn), tmp_path / "b", files_to=copy)[1]
    assert "day.csv" in told.what
    assert len(list((tmp_path / "copy/shop.db/f/_contents").iterdir())) == 3
    write(place, {})
    (told,) = restore(of(empty_dsn), tmp_path / "b", replace=False, files_from=copy)[1]
    assert "day.csv could not be copied at the backup" in told.what
    assert read(place) == {name: text for name, text in BEFORE.items() if name != "day.csv"}


def test_a_table_that_could_not_be_copied_does_not_come_back_empty_untold(
    shop: Server, place: Path, of: Of, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = str(tmp_path / "copy")
    write(place, BEFORE)
    with monkeypatch.context() as patched:
        unreadable(patched, "day.csv", errno.ETIMEDOUT)
        (told,) = backup(of(shop.dsn), tmp_path / "b", files_to=copy)[1]
    assert "could not be copied" in told.what
    write(place, {})
    (told,) = restore(of(empty_dsn), tmp_path / "b", replace=False, files_from=copy)[1]
    assert (told.table, "could not be copied at the backup" in told.what) == ("shop.f", True)


@pytest.mark.parametrize("now", ["other", None])
def test_a_file_that_changes_during_a_backup_takes_no_other_of_its_content_along(
    shop: Server, place: Path, of: Of, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: str | None
) -> None:
    """All names of one content were left out, untold, where that by which it was copied held another one or was gone by then."""
    copy = str(tmp_path / "copy")
    write(place, BEFORE)

    def after_a_change(copies: Sequence[Copy], **options: Any) -> Copied:
        for name in ("p=2/a.csv", "day.csv"):
            (place / name).unlink(missing_ok=True)
            if now is not None:
                (place / name).write_text(now)
        return copy_files(copies, **options)

    with monkeypatch.context() as patched:
        patched.setattr("lake.register.copied.directories.copy_files", after_a_change)
        (told,) = backup(of(shop.dsn), tmp_path / "b", files_to=copy, verify=True)[1]
    assert "day.csv" in told.what
    write(place, {})
    (told,) = restore(of(empty_dsn), tmp_path / "b", replace=False, files_from=copy)[1]
    assert "day.csv could not be copied at the backup" in told.what
    assert read(place) == {name: text for name, text in BEFORE.items() if name != "day.csv"}
