"""A server that decides a snapshot and is held up before it writes its file: meanwhile others go back, go on, expire or drop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake
from lake.rewrite.expiry import expire_snapshots
from model.errors import TableDiverged
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from tests.lake.register.test_standing import older
from tests.lake.rewrite.test_compaction import append, ids
from tests.lake.tables.test_branch_races import EVERYTHING
from tests.short import one_in

T = Identifier("default", "t")
SCHEMA = new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"})

Meanwhile = Callable[[Lake], None]


def back(lake: Lake) -> None:
    lake.history.rollback_to_snapshot(lake.open(T), 2)


def back_and_on(lake: Lake) -> None:
    back(lake)
    append(lake, lake.open(T), [30])


def forward(lake: Lake) -> None:
    lake.branches.fast_forward(lake.open(T), "b")


def dropped(lake: Lake) -> None:
    lake.drop_table(T)
    lake.create_table(T, SCHEMA)


MEANWHILE: dict[str, tuple[Meanwhile, list[int]]] = {
    "rolled back": (back, [1, 2]),
    "rolled back and written": (back_and_on, [1, 2, 30]),
    "another way": (forward, [1, 2, 40]),
    "dropped and made again": (dropped, []),
}


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "disk":
        return str(warehouse)
    bucket = request.getfixturevalue("bucket")
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{bucket.name}/warehouse"


@pytest.fixture
def lake(catalog: CatalogStore, place: str) -> Iterator[Lake]:
    made = Lake(catalog, place)
    yield made
    made.close()


def rows(lake: Lake) -> list[int]:
    return sorted(ids(lake.open(T)))


@pytest.mark.parametrize("kind", one_in(2, MEANWHILE))
def test_nothing_of_what_is_no_more_comes_back(catalog: CatalogStore, lake: Lake, place: str, kind: str) -> None:
    meanwhile, expected = MEANWHILE[kind]
    lake.create_table(T, SCHEMA)
    for value in (1, 2):
        append(lake, lake.open(T), [value])
    lake.tags.create(lake.open(T), "two")
    lake.branches.create(lake.open(T), "b", from_tag="two")
    append(lake, lake.open(Identifier("default", "t", "b")), [40])
    done: list[str] = []

    def held_up(step: str) -> None:
        if step == "decided" and not done:
            done.append(step)
            meanwhile(lake)

    slow = Lake(catalog, place, hook=held_up)
    append(slow, slow.open(T), [20])
    slow.close()  # sends what is to be noted
    fresh = Lake(catalog, place)
    table = fresh.open(T)
    latest = table.latest()
    assert rows(fresh) == expected
    on_disk = [snapshot for number in table.files.snapshot_ids() if (snapshot := table.files.read_snapshot(number)) is not None]
    with catalog.reading() as tx:
        decided = {row.snapshot_id: row.snapshot_uuid for row in tx.snapshots.history(table.table_id, "main")}
    assert {snapshot.id: snapshot.key for snapshot in on_disk} == decided
    hint = table.files.read_hint(table.files.layout.latest_hint())
    assert hint is None or hint == (latest.id if latest else None)
    append(fresh, fresh.open(T), [50])
    append(lake, lake.open(T), [60])
    assert rows(fresh) == sorted([*expected, 50, 60])
    assert fresh.standing.troubles() == []
    fresh.close()


@pytest.mark.parametrize(("step", "first"), [("decided", 1), ("published", 3), ("hinted", 3)])
def test_nothing_of_what_has_expired_comes_back(catalog: CatalogStore, lake: Lake, place: str, step: str, first: int) -> None:
    """Readers believe the hint while the snapshot after the one it names is not there: it has expired as well."""
    lake.create_table(T, SCHEMA)
    for value in range(1, first):
        append(lake, lake.open(T), [value])
    done: list[str] = []
    decided: list[str] = []
    between: list[int | None] = []

    def held_up(name: str) -> None:
        if name == "decided":  # before it those of others may be published
            decided.append(name)
        if name == step and decided and not done:
            done.append(name)
            for value in (30, 40, 50):
                append(other, other.open(T), [value])
            expire_snapshots(other, other.open(T), EVERYTHING, now_millis=2**45)
        elif name == "hinted" and done:
            between.append(lake.open(T).files.latest_on_disk())

    other = Lake(catalog, place)
    slow = Lake(catalog, place, hook=held_up)
    append(slow, slow.open(T), [first])
    slow.close()  # sends what is to be noted
    other.close()
    fresh = Lake(catalog, place)
    files = fresh.open(T).files
    assert list(files.snapshot_ids()) == [first + 3]
    assert files.read_hint(files.layout.latest_hint()) == first + 3
    assert files.read_hint(files.layout.earliest_hint()) == first + 3
    assert set(between) <= {first + 3}, "not even for a moment"
    append(slow, slow.open(T), [60])
    assert rows(fresh) == sorted([*range(1, first + 1), 30, 40, 50, 60])
    assert fresh.standing.troubles() == []
    fresh.close()


def test_a_catalog_put_back_from_before_takes_no_file_of_what_it_does_not_know(
    catalog: CatalogStore, lake: Lake, place: str, dsn: str, tmp_path: Path
) -> None:
    """The files of what was acknowledged since are all that is left of it."""
    lake.create_table(T, SCHEMA)
    append(lake, lake.open(T), [1])
    older(dsn, tmp_path / "old")
    done: list[str] = []

    def put_back(step: str) -> None:
        if step == "hinted" and not done:
            done.append(step)
            older(dsn, tmp_path / "old", back=True)

    server = Lake(catalog, place, hook=put_back)
    append(server, server.open(T), [2])
    server.close()  # sends what is to be noted
    assert done
    fresh = Lake(catalog, place)
    assert fresh.open(T).files.read_snapshot(2) is not None
    with pytest.raises(TableDiverged):
        append(fresh, fresh.open(T), [3])
    assert fresh.repair_table(T).registered == (2,)
    assert rows(fresh) == [1, 2]
    fresh.close()


def test_a_commit_that_a_failover_lost_does_not_lie_over_what_was_decided_since(
    catalog: CatalogStore, lake: Lake, place: str, dsn: str, tmp_path: Path
) -> None:
    """Postgres failed over to one that lagged, where another server decided a snapshot of the same id; the first one's file comes last."""
    lake.create_table(T, SCHEMA)
    append(lake, lake.open(T), [1])
    older(dsn, tmp_path / "old")
    done: list[str] = []

    def failed_over(name: str) -> None:
        if name == "decided" and not done:
            done.append(name)
            older(dsn, tmp_path / "old", back=True)
            other = Lake(catalog, place)
            append(other, other.open(T), [30])
            other.close()

    slow = Lake(catalog, place, hook=failed_over)
    append(slow, slow.open(T), [20])
    slow.close()
    fresh = Lake(catalog, place)
    table = fresh.open(T)
    latest, stored = table.latest(), table.files.read_snapshot(2)
    assert rows(fresh) == [1, 30]
    assert latest is not None
    assert stored is not None
    assert stored.key == latest.key, "readers of files see what was acknowledged since"
    is_over = not table.files.layout.reach.is_local
    assert table.files.io.exists(f"{table.files.location}/_diverged") == is_over, "on a disk the file finds another in its place"
    append(fresh, fresh.open(T), [40])
    assert rows(fresh) == [1, 30, 40]
    assert fresh.standing.troubles() == []
    fresh.close()


def test_a_foreign_file_is_still_told(catalog: CatalogStore, lake: Lake) -> None:
    """One that stays is nobody's who was held up."""
    lake.create_table(T, SCHEMA)
    append(lake, lake.open(T), [1])
    table = lake.open(T)
    first = table.files.layout.snapshot_file(1)
    table.files.io.write(table.files.layout.snapshot_file(2), table.files.io.read(first).replace(b'"id": 1', b'"id": 2'))
    with pytest.raises(TableDiverged):
        append(lake, lake.open(T), [2])
