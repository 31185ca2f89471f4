"""A server whose `SLUICE_WAREHOUSE` is another directory than the catalog's writes nothing there, whatever lies in it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from catalog import CatalogStore
from catalog.state import StateRepository
from lake import Lake, LakeTable
from lake.register.belonging import MARKER, Marker
from model.catalog_errors import WarehouseMismatch
from model.errors import Unavailable
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from tests.lake.test_commit import T, append, names
from tests.lake.test_commit import table as table

N = Identifier("default", "n")


@contextmanager
def server(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    """Another server of the catalog as it starts."""
    made = Lake(catalog, str(warehouse))
    try:
        made.standing.compare()
        yield made
    finally:
        made.close()


def all_below(place: Path) -> set[str]:
    return {str(path) for path in place.rglob("*")}


def own(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    """The catalog's tables: two in databases' directories, one in a place of its own."""
    lake.create_table(Identifier("default", "second"), table.schema)
    lake.create_table(Identifier("default", "apart"), table.schema, path=str(warehouse / "places/apart"))
    lake.commit(table, append("a"))


def _foreign(there: Path, name: str, schema: Path) -> None:
    """A table of another program."""
    shutil.copytree(schema, there / name / "schema")


OTHERS: dict[str, Callable[[Path, Path], Path]] = {
    "another program's": lambda own, there: there,
    "with tables of the same names": lambda own, there: shutil.copytree(own, there / "copy", ignore=shutil.ignore_patterns(".sluice")),
    "its parent": lambda own, there: own.parent,
    "a database's directory": lambda own, there: own / "default.db",
    "a table's directory": lambda own, there: own / "default.db/t",
    "a directory of tables with a path": lambda own, there: own / "places",
}


@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.parametrize("other", OTHERS)
def test_nothing_is_written_into_it(
    lake: Lake, table: LakeTable, catalog: CatalogStore, warehouse: Path, tmp_path: Path, other: str, is_marked: bool
) -> None:
    own(lake, table, warehouse)
    if is_marked:
        lake.standing.compare()
    _foreign(tmp_path / "there", "other.db/ta", warehouse / "default.db/t/schema")
    place = OTHERS[other](warehouse, tmp_path / "there")
    before = all_below(tmp_path)
    with server(catalog, place) as second:
        assert f"lie in the warehouse {warehouse}" in (second.standing.mismatch or "")
        with pytest.raises(WarehouseMismatch):
            second.create_table(N, table.schema)
        with pytest.raises(WarehouseMismatch):
            second.commit(second.open(T), append("b"))
        assert names(second.open(T)) == ["a"]  # reads go on
        assert all_below(tmp_path) == before
        lake.standing.compare()
        lake.commit(lake.open(T), append("c"))
        second.claim_warehouse()
        second.create_table(N, table.schema)
    with server(catalog, place) as again:
        assert again.standing.mismatch is None


def test_the_catalogs_own_is_known_by_a_link_and_by_most_of_its_tables(
    lake: Lake, table: LakeTable, catalog: CatalogStore, warehouse: Path, tmp_path: Path
) -> None:
    """As where the mark was lost, and a server of before could put a table elsewhere."""
    own(lake, table, warehouse)
    (tmp_path / "away").mkdir()
    with server(catalog, tmp_path / "away") as mistyped:
        mistyped.claim_warehouse()
        mistyped.create_table(N, table.schema)
    (tmp_path / "away" / MARKER).unlink()
    (warehouse / MARKER).unlink(missing_ok=True)
    (tmp_path / "link").symlink_to(warehouse)
    with server(catalog, tmp_path / "away") as mistyped:
        assert mistyped.standing.mismatch is not None
    with server(catalog, tmp_path / "link") as linked:
        assert linked.standing.mismatch is None
    assert (warehouse / MARKER).exists()


@pytest.mark.parametrize("is_foreign", [True, False])
def test_with_registered_tables_only_nothing_unknown_may_lie_there(
    lake: Lake, table: LakeTable, catalog: CatalogStore, warehouse: Path, tmp_path: Path, is_foreign: bool
) -> None:
    """A warehouse of before there were marks, whose own tables are all gone."""
    place = tmp_path / "elsewhere"
    (place / "default.db").mkdir(parents=True)
    with catalog.transaction() as tx:
        tx._conn.execute("UPDATE table_entry SET external = true")
    if is_foreign:
        _foreign(place, "default.db/ta", warehouse / "default.db/t/schema")
    before = all_below(place)
    with server(catalog, place) as second:
        assert (second.standing.mismatch is not None) is is_foreign
        assert (all_below(place) == before) is is_foreign


def test_a_catalog_without_tables_has_one_warehouse_from_the_first_start(
    lake: Lake, catalog: CatalogStore, warehouse: Path, tmp_path: Path
) -> None:
    """Any empty directory looks as the one of a catalog that holds nothing."""
    (tmp_path / "away").mkdir()
    lake.standing.compare()
    with server(catalog, tmp_path / "away") as mistyped:
        assert f"The catalog's warehouse is {warehouse}" in (mistyped.standing.mismatch or "")
        with pytest.raises(WarehouseMismatch, match=r"CALL sys\.claim_warehouse"):
            mistyped.create_database("more")
        assert list((tmp_path / "away").iterdir()) == []
        lake.create_database("more")
        mistyped.claim_warehouse()
    (warehouse / MARKER).unlink()
    lake.standing.compare()
    assert f"The catalog's warehouse is {tmp_path / 'away'}" in (lake.standing.mismatch or "")
    lake.claim_warehouse()
    (tmp_path / "link").symlink_to(warehouse)
    warehouse.rename(tmp_path / "moved")
    for place, is_own in {"moved": True, "away": False}.items():  # both are marked
        with server(catalog, tmp_path / place) as marked:
            assert (marked.standing.mismatch is None) is is_own
    (tmp_path / "moved").rename(warehouse)
    with server(catalog, tmp_path / "link") as linked:
        assert linked.standing.mismatch is None


def test_a_disk_that_is_away_is_missed_by_a_catalog_without_tables(lake: Lake, warehouse: Path, tmp_path: Path) -> None:
    """What would be made in the directory where it is mounted could not be read once it is."""
    lake.standing.compare()
    warehouse.rename(tmp_path / "away")
    warehouse.mkdir()
    lake.standing.compare()
    assert "If its disk is not mounted, mount it" in (lake.standing.mismatch or "")
    with pytest.raises(WarehouseMismatch):
        lake.create_database("more")
    assert list(warehouse.iterdir()) == []
    warehouse.rmdir()
    (tmp_path / "away").rename(warehouse)
    lake.standing.compare()
    assert lake.standing.mismatch is None
    (warehouse / MARKER).write_text("")  # torn by a loss of power
    lake.standing.compare()
    assert lake.standing.mismatch is None


def test_a_catalog_of_before_learns_its_warehouse_from_the_mark(lake: Lake, catalog: CatalogStore, warehouse: Path, tmp_path: Path) -> None:
    lake.standing.compare()
    with catalog.transaction() as tx:
        tx._conn.execute("UPDATE catalog_state SET warehouse = NULL")
    lake.standing.compare()
    (tmp_path / "away").mkdir()
    with server(catalog, tmp_path / "away") as mistyped:
        assert mistyped.standing.mismatch is not None


def test_of_two_first_servers_one_is_told_that_the_warehouse_is_the_others(
    lake: Lake, catalog: CatalogStore, warehouse: Path, tmp_path: Path
) -> None:
    """Both saw a catalog that knew none."""
    with catalog.reading() as tx:
        identity = tx.state.identity()
    assert identity.catalog_id is not None
    lake.standing.compare()
    (tmp_path / "away").mkdir()
    second = Lake(catalog, str(tmp_path / "away"))
    _, mismatch = second.standing._take(identity.catalog_id, identity.revision, instead_of=None)
    assert f"The catalog's warehouse is {warehouse}" in (mismatch or "")
    assert list((tmp_path / "away").iterdir()) == []
    second.close()


def test_of_two_claims_at_once_one_is_told_that_the_warehouse_is_the_others(
    lake: Lake, catalog: CatalogStore, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were answered as done, and both servers wrote: the second to a warehouse, the first to what was none any more."""
    lake.standing.compare()
    (tmp_path / "away").mkdir()
    with server(catalog, tmp_path / "away") as second:
        with catalog.transaction() as tx:  # claimed by a third meanwhile
            tx._conn.execute("UPDATE catalog_state SET warehouse = '/third'")
        with catalog.reading() as tx:
            seen = tx.state.identity()
        second.claim_warehouse()
        monkeypatch.setattr(StateRepository, "identity", lambda _: seen)
        with pytest.raises(WarehouseMismatch, match=f"The catalog's warehouse is {tmp_path / 'away'}"):
            lake.claim_warehouse()
    monkeypatch.undo()
    lake.claim_warehouse()
    with catalog.reading() as tx:
        assert tx.state.identity().warehouse == str(warehouse)


@pytest.mark.parametrize("has_tables", [False, True])
def test_a_first_start_elsewhere_that_was_cut_off_leaves_no_second_warehouse(
    lake: Lake, catalog: CatalogStore, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_tables: bool
) -> None:
    """Postgres went away as the catalog was to know it, and its mark was there already."""
    second = Lake(catalog, str(tmp_path / "away"))
    write = second.standing._write_marker

    def cut_off(catalog_id: UUID, revision: str) -> Marker:
        write(catalog_id, revision)
        raise Unavailable("Postgres went away.")

    with monkeypatch.context() as patch:
        patch.setattr(second.standing, "_write_marker", cut_off)
        second.standing.compare_at_start()
    assert (tmp_path / "away" / MARKER).exists()
    lake.standing.compare()
    if has_tables:
        lake.create_table(T, new_schema([column("v", "STRING")]))
    second.standing.compare()
    assert str(warehouse) in (second.standing.mismatch or "")
    with pytest.raises(WarehouseMismatch, match=r"CALL sys\.claim_warehouse"):
        second.create_database("more")
    lake.standing.compare()
    assert lake.standing.mismatch is None
    second.claim_warehouse()
    second.create_database("more")
    second.close()


def test_a_warehouse_that_was_moved_with_its_mark_is_known_where_it_is(
    lake: Lake, catalog: CatalogStore, warehouse: Path, tmp_path: Path
) -> None:
    """A torn mark would be taken for another's there otherwise."""
    lake.standing.compare()
    warehouse.rename(tmp_path / "moved")
    with server(catalog, tmp_path / "moved") as moved:
        (tmp_path / "moved" / MARKER).write_text("")
        moved.standing.compare()
        assert moved.standing.mismatch is None
        assert json.loads((tmp_path / "moved" / MARKER).read_text())["catalog"]
    with server(catalog, warehouse) as mistyped:
        assert f"The catalog's warehouse is {tmp_path / 'moved'}" in (mistyped.standing.mismatch or "")


def test_servers_that_see_one_warehouse_in_two_places_write_nothing_for_it(
    lake: Lake, catalog: CatalogStore, warehouse: Path, tmp_path: Path
) -> None:
    """As by two mounts of one disk: the mark is the same file."""
    lake.standing.compare()
    (tmp_path / "mounted/.sluice").mkdir(parents=True)
    os.link(warehouse / MARKER, tmp_path / "mounted" / MARKER)
    with server(catalog, tmp_path / "mounted") as other:
        assert other.standing.mismatch is None
    with catalog.reading() as tx:
        assert tx.state.identity().warehouse == str(warehouse)
