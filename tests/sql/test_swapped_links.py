"""Links put on a table's paths between the look at them and their use: nothing of another table is read, written, listed or removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import LakeError, TableDamaged
from table.format.io.file_io import FileIO, LocalFileIO
from table.format.io.guarded_io import GuardedFileIO
from table.format.io.reach import Reach
from tests.sql.test_reach import THEIRS, forged, gateway, live, tree

__all__ = ["gateway"]
SHORT, WHOLE = 60, 3_000
_PARTS = ("bucket-0", "snapshot", "manifest", "schema", "tag")
_USES: tuple[tuple[str, Callable[[FileIO, str], object]], ...] = (
    ("read", lambda io, d: io.read(f"{d}/theirs")),
    ("write", lambda io, d: io.write(f"{d}/theirs", b"x")),
    ("add", lambda io, d: io.add(f"{d}/new", b"x")),
    ("create", lambda io, d: io.create(f"{d}/new", b"x")),
    ("replace_end", lambda io, d: io.replace_end(f"{d}/theirs", 0, b"x")),
    ("delete", lambda io, d: io.delete(f"{d}/theirs")),
    ("delete_tree", lambda io, d: io.delete_tree(f"{d}/inner")),
    ("rename away", lambda io, d: io.rename(f"{d}/theirs", f"{d}/../other")),
    ("rename into", lambda io, d: io.rename(f"{d}/../own", f"{d}/own")),
    ("list", lambda io, d: io.list(d)),
    ("open_input", lambda io, d: io.open_input(f"{d}/theirs").read()),
    ("directory", lambda io, d: _update(io, d)),
    ("open_output", lambda io, d: io.open_output(f"{d}/new").close()),
)


def _update(io: FileIO, directory: str) -> None:
    with io.directory(directory) as place:
        place.update("theirs", b"xxxxxxxx")


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="only Linux says where an open file lies")
@pytest.mark.parametrize(("name", "use"), _USES)
def test_a_directory_that_becomes_a_link_after_it_was_looked_at_leads_nowhere(
    tmp_path: Path, name: str, use: Callable[[FileIO, str], object]
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "other" / "bucket-0"
    for directory in (mine / "bucket-0", theirs / "inner"):
        directory.mkdir(parents=True)
    for file in (mine / "own", mine / "bucket-0" / "theirs", theirs / "theirs", theirs / "inner" / "x"):
        file.write_bytes(b"secret")
    before = {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}
    io = GuardedFileIO(LocalFileIO(), Reach(str(mine)))
    assert io.read(f"{mine}/bucket-0/theirs") == b"secret"
    assert len(io.list(f"{mine}/bucket-0")) == 1
    shutil.rmtree(mine / "bucket-0")
    (mine / "bucket-0").symlink_to(theirs)
    with pytest.raises(TableDamaged):
        use(io, f"{mine}/bucket-0".replace("/../", "/"))
    assert {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()} == before


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="only Linux says where an open file lies")
def test_a_table_within_a_linked_warehouse_and_a_removed_one_are_as_before(tmp_path: Path) -> None:
    (tmp_path / "disk" / "t").mkdir(parents=True)
    (tmp_path / "warehouse").symlink_to(tmp_path / "disk")
    io = GuardedFileIO(LocalFileIO(), Reach(f"{tmp_path}/warehouse/t"))
    io.write(f"{tmp_path}/warehouse/t/a/x", b"1")
    assert io.read(f"{tmp_path}/warehouse/t/a/x") == b"1"
    with io.open_output(f"{tmp_path}/warehouse/t/a/y") as file:
        file.write(b"2")
    assert [status.path.rpartition("/")[2] for status in io.list(f"{tmp_path}/warehouse/t/a")] == ["x", "y"]
    io.rename(f"{tmp_path}/warehouse/t/a/x", f"{tmp_path}/warehouse/t/b/x")
    with io.directory(f"{tmp_path}/warehouse/t/b") as place:
        shutil.rmtree(tmp_path / "disk" / "t")
        with pytest.raises(FileNotFoundError):
            place.create("z", b"3")
    io.delete(f"{tmp_path}/warehouse/t/a/x")
    io.delete_tree(f"{tmp_path}/warehouse/t/a")
    assert io.list(f"{tmp_path}/warehouse/t/a") == []
    io.delete_tree(f"{tmp_path}/warehouse/t")


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="only Linux says where an open file lies")
def test_a_new_data_file_is_written_over_nothing(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    theirs.write_bytes(b"secret")
    io = GuardedFileIO(LocalFileIO(), Reach(str(mine)))
    (mine / "link").symlink_to(theirs)
    (mine / "nowhere").symlink_to(tmp_path / "new")
    (mine / "second").hardlink_to(theirs)
    for name in ("link", "nowhere", "second"):
        with pytest.raises(FileExistsError):
            io.open_output(f"{mine}/{name}")
    assert theirs.read_bytes() == b"secret"
    assert not (tmp_path / "new").exists()


class Swapping(threading.Thread):
    """Swaps directories of one table for links to another's, as fast as it can."""

    def __init__(self, mine: Path, theirs: Path) -> None:
        super().__init__(daemon=True)
        self._mine, self._theirs = mine, theirs
        self._end = threading.Event()
        self.swaps = 0

    def run(self) -> None:
        rng = Random(22)
        while not self._end.is_set():
            part = rng.choice(_PARTS)
            place, aside = self._mine / part, self._mine / f".{part}-aside"
            try:
                os.rename(place, aside)
            except OSError:
                continue
            with contextlib.suppress(OSError):
                os.symlink(self._theirs / part, place)
                self.swaps += 1
                self._end.wait(rng.choice([0, 0.0005, 0.002]))
            while aside.exists():
                with contextlib.suppress(OSError):  # the server makes it anew meanwhile
                    os.unlink(place) if place.is_symlink() else shutil.rmtree(place, ignore_errors=True)
                    os.rename(aside, place)
            self._end.wait(rng.choice([0, 0.001, 0.005]))

    def stop(self) -> None:
        self._end.set()
        self.join()


_STATEMENTS = (
    "SELECT * FROM mine", "SELECT COUNT(*) FROM mine", "INSERT INTO mine VALUES (2, 'mine')", "SELECT * FROM mine$files",
    "INSERT OVERWRITE mine VALUES (3, 'mine')", "CALL sys.expire_snapshots('mine', 1)",
    "CALL sys.remove_orphan_files('mine', '2099-01-01')",
    "CALL sys.create_tag('mine', 'x')", "CALL sys.delete_tag('mine', 'x')", "SELECT v FROM mine WHERE id = 1",
    "SELECT * FROM mine$snapshots",
    "ALTER TABLE mine SET ('write.target-file-size' = '1 mb')", "SELECT * FROM mine$manifests", "CALL sys.check_table('mine')",
    "TRUNCATE TABLE mine", "CALL sys.rollback_to('mine', 1)", "CALL sys.repair_table('mine')",
)  # fmt: skip


def campaign(gateway: Gateway, lake: Lake, warehouse: Path, iterations: int) -> tuple[int, Counter[str]]:
    """Do everything with a table while its directories are swapped for links; another one's bytes stay, and nobody sees them."""
    theirs = live(lake.open(THEIRS))[0].file
    before, rng, ended = tree(warehouse), Random(22), Counter[str]()
    place = warehouse / "default.db"
    swapping = Swapping(place / "mine", place / "theirs")
    swapping.start()
    try:
        for number in range(iterations):
            if number % 10 == 0:  # a manifest that names their file: nothing but the directory's place is not what it seems
                try:
                    forged(lake, lambda file: replace(file, file_name=theirs.file_name, file_size=theirs.file_size))
                except (LakeError, OSError, IndexError) as problem:  # the last where it has no files now
                    ended[f"forged: {type(problem).__name__}"] += 1
            text = rng.choice(_STATEMENTS)
            try:
                rows = str(gateway.run(text).collect())
                assert "theirs" not in rows, f"{number}: {text} shows another table's rows"
                ended["done"] += 1
            except (LakeError, FileNotFoundError) as problem:  # the latter where the swapping removed what the server had just made
                ended[type(problem).__name__] += 1
    finally:
        swapping.stop()
    assert tree(warehouse) == before
    return swapping.swaps, ended


def test_links_swapped_under_statements_lead_nowhere(gateway: Gateway, lake: Lake, warehouse: Path) -> None:
    swaps, ended = campaign(gateway, lake, warehouse, SHORT)
    assert swaps
    assert ended["done"]


@pytest.mark.torture
def test_links_swapped_under_thousands_of_statements_lead_nowhere(gateway: Gateway, lake: Lake, warehouse: Path) -> None:
    print(campaign(gateway, lake, warehouse, WHOLE))
