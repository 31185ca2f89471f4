"""Directories that are to be removed: decided in Postgres alone, and told from another's by what is on record of them, by no clock."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from catalog import CatalogStore
from lake import Lake
from lake.rewrite.garbage import put_on_record
from lake.tables import drops as lake_drops
from model.errors import Unavailable
from model.identifier import Identifier
from table.format.io.file_io import FileStatus, LocalFileIO
from tests.lake.tables.test_drops import IN_D, make
from tests.lake.test_commit import T, append

DAYS = timedelta(days=7)
Drop = Callable[[Lake], None]


class AwayIO(LocalFileIO):
    """A store that cannot be reached for now, and notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.away = self.keeps = False
        self.asked: list[str] = []

    def _ask(self, path: str) -> None:
        self.asked.append(path)
        if self.away:
            raise Unavailable(f"The store of {path} cannot be reached.")

    def read(self, path: str) -> bytes:
        self._ask(path)
        return super().read(path)

    def exists(self, path: str) -> bool:
        self._ask(path)
        return super().exists(path)

    def list(self, path: str) -> list[FileStatus]:
        self._ask(path)
        return super().list(path)

    def delete_tree(self, path: str) -> None:
        self._ask(path)
        if self.keeps:
            raise Unavailable(f"Nothing below {path} can be removed.")
        super().delete_tree(path)


def the_table(lake: Lake) -> None:
    lake.drop_table(IN_D, purge=True)


def the_database(lake: Lake) -> None:
    lake.drop_database("d", cascade=True, purge=True)


def the_dropped_table(lake: Lake) -> None:
    lake.drop_table(IN_D)
    lake.purge_dropped_table(IN_D)


def the_made_one(lake: Lake) -> None:
    lake.discard_table(IN_D, lake.open(IN_D).table_id)


@pytest.fixture
def store() -> AwayIO:
    return AwayIO()


@pytest.fixture
def swept_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal that failed is tried again by the next sweep."""
    monkeypatch.setattr(lake_drops, "_TRIED_AGAIN_AFTER", timedelta(0))


@pytest.mark.usefixtures("swept_at_once")
@pytest.mark.parametrize("drop", [the_table, the_database, the_dropped_table, the_made_one])
def test_what_ends_for_good_is_decided_without_the_store(catalog: CatalogStore, warehouse: Path, store: AwayIO, drop: Drop) -> None:
    """No file is looked at before the decision, under no lock; what could not be removed is, once the store is back."""
    asked_before: list[list[str]] = []
    lake = Lake(
        catalog,
        str(warehouse),
        drop_retention=DAYS,
        file_io=store,
        hook=lambda step: asked_before.append(list(store.asked)) if step == "drop decided" else None,
    )
    lake.create_database("d")
    make(lake, IN_D, *([] if drop is the_made_one else ["a"]))
    store.away, store.asked = True, []
    drop(lake)
    assert asked_before
    assert not any(asked_before)
    place = warehouse / "d.db/t"
    assert place.exists()
    assert not lake.dropped_tables()
    store.away = False
    lake.sweep_drops()
    assert not place.exists()
    lake.close()


def in_the_future(warehouse: Path, dsn: str, branch: str) -> None:
    """The newest snapshot, and the first schema, as a client makes them whose clock is a day ahead."""
    below = "" if branch == "main" else f"branch/branch-{branch}/"
    for path in (warehouse / f"default.db/t/{below}snapshot/snapshot-2", warehouse / f"default.db/t/{below}schema/schema-0"):
        body = json.loads(path.read_text())
        body["timeMillis"] += 86_400_000
        path.write_text(json.dumps(body))
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE table_snapshot SET body = body || %s WHERE snapshot_id = 2", (json.dumps({"timeMillis": 2**52}),))
        changed = "UPDATE table_schema SET body = jsonb_set(body, '{timeMillis}', to_jsonb((body ->> 'timeMillis')::bigint + 86400000))"
        conn.execute(changed)


@pytest.mark.usefixtures("swept_at_once")
@pytest.mark.parametrize("branch", ["main", "side"])
def test_what_a_clock_that_is_ahead_made_goes_too(catalog: CatalogStore, dsn: str, warehouse: Path, store: AwayIO, branch: str) -> None:
    lake = Lake(catalog, str(warehouse), file_io=store)
    lake.tags.create(make(lake, T, "a"), "first", snapshot_id=1)
    lake.branches.create(lake.open(T), "side", from_tag="first")
    table = lake.open(Identifier("default", "t", branch))
    lake.commit(table, append("b"))
    assert lake.open(table.identifier).latest() is not None
    in_the_future(warehouse, dsn, branch)
    fresh = Lake(catalog, str(warehouse), file_io=store)
    store.keeps = True
    if branch == "main":
        fresh.drop_table(T)
    else:
        fresh.branches.drop(fresh.open(T), ["side"])
    store.keeps = False
    place = Path(table.files.layout.branch_dir if branch != "main" else table.location)
    assert place.exists()
    fresh.sweep_drops()
    assert not place.exists()
    fresh.close()
    lake.close()


@pytest.mark.usefixtures("swept_at_once")
def test_what_was_rolled_back_in_a_branch_that_an_earlier_version_dropped_goes(
    catalog: CatalogStore, dsn: str, warehouse: Path, store: AwayIO
) -> None:
    """It noted stale files of a branch as they lie in the table's directory."""
    lake = Lake(catalog, str(warehouse), file_io=store)
    lake.tags.create(make(lake, T, "a"), "first", snapshot_id=1)
    lake.branches.create(lake.open(T), "side", from_tag="first")
    lake.commit(lake.open(Identifier("default", "t", "side")), append("b"))
    store.keeps = True
    lake.branches.drop(lake.open(T), ["side"])
    store.keeps = False
    with psycopg.connect(dsn) as conn:
        ((first,),) = conn.execute("SELECT DISTINCT snapshot_uuid FROM table_snapshot WHERE snapshot_id = 1").fetchall()
        known = {"snapshots": [first], "stale": ["branch/branch-side/snapshot/snapshot-2"]}
        conn.execute("UPDATE dropped_directory SET known = known || %s", (json.dumps(known),))
    place = warehouse / "default.db/t/branch/branch-side"
    assert (place / "snapshot/snapshot-2").exists()
    lake.sweep_drops()
    assert not place.exists()
    lake.close()


@pytest.mark.usefixtures("swept_at_once")
@pytest.mark.parametrize("altered", [True, False])
def test_what_lies_there_and_was_never_decided_stays(
    catalog: CatalogStore, warehouse: Path, store: AwayIO, caplog: pytest.LogCaptureFixture, altered: bool
) -> None:
    """As a table or branch that was made again from the same files: a later version, or a later snapshot."""
    lake = Lake(catalog, str(warehouse), file_io=store)
    table = make(lake, T, "a")
    place, later = Path(table.location), "schema/schema-1" if altered else "snapshot/snapshot-2"
    store.away = True
    lake.drop_table(T)
    store.away = False
    body = json.loads((place / later.replace("-1", "-0").replace("-2", "-1")).read_text())
    body |= {"id": 1, "timeMillis": body["timeMillis"] + 1} if altered else {"id": 2, "uuid": "another"}
    (place / later).write_text(json.dumps(body))
    lake.sweep_drops()
    assert (place / "schema/schema-0").exists()
    assert f"{later} is not of what was dropped" in caplog.text
    lake.close()


@pytest.mark.usefixtures("swept_at_once")
@pytest.mark.parametrize("made_since", [True, False])
def test_a_schema_of_types_that_are_unknown_here_tells_whose_it_is(
    catalog: CatalogStore, warehouse: Path, store: AwayIO, *, made_since: bool
) -> None:
    """Of a table that a newer version made there, which has no snapshot yet; or of what was dropped, with a changed bit."""
    lake = Lake(catalog, str(warehouse), file_io=store)
    schema = Path(make(lake, T).location) / "schema/schema-0"
    store.keeps = True
    lake.drop_table(T)
    store.keeps = False
    body = json.loads(schema.read_text())
    body["fields"][0]["type"] = "GEOHASH"
    body["timeMillis"] += 5_000 if made_since else 0
    schema.write_text(json.dumps(body))
    lake.sweep_drops()
    assert schema.exists() is made_since
    lake.close()


@pytest.mark.usefixtures("swept_at_once")
@pytest.mark.parametrize("decided", [True, False])
def test_a_filled_directory_stays_where_a_table_was_decided_in_it(catalog: CatalogStore, warehouse: Path, *, decided: bool) -> None:
    """A catalog that went back to a moment of the filling has its record, and not the table's; all its files are older than that."""
    lake = Lake(catalog, str(warehouse))
    lake.create_database("d")
    source, filled = Path(make(lake, IN_D, "a").location), warehouse / "d.db/filled-1"
    shutil.copytree(source, filled)
    if not decided:  # whoever fills it writes these once it is
        for below in ("schema", "snapshot"):
            shutil.rmtree(filled / below)
    put_on_record(catalog, str(filled))
    lake.sweep_drops()
    lake.recover()
    assert filled.exists() is decided
    lake.close()
