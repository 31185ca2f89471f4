"""Manifests that contradict each other, each of them whole: told by the check, mended without losing rows, and no reason to go back."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.commit.built import BuiltCommit
from model.errors import TableDamaged
from model.identifier import Identifier
from model.snapshot import CommitKind, Snapshot
from table.format.manifests.entries import EntryKind, ManifestEntry
from tests.lake.register.damage import forget_metadata

T = Identifier("default", "t")

pytestmark = pytest.mark.damages


@pytest.fixture
def place(gateway: Gateway, warehouse: Path) -> Path:
    gateway.run("CREATE TABLE t (id INT)").close()
    for n in range(3):
        gateway.run(f"INSERT INTO t VALUES ({n})").close()
    return warehouse / "default.db/t"


def decide(
    lake: Lake, change: Callable[[Sequence[ManifestEntry]], list[ManifestEntry]], *, rows: int = 0, total: int | None = None
) -> Snapshot:
    """Commit, as a client did whose commit nobody judged, a delta that is made of the files that are live."""
    table = lake.open(T)

    def build(key: str) -> BuiltCommit:
        files, latest = table.files, table.latest()
        assert latest is not None
        base = files.new_manifest_list(files.manifests_of(latest))
        delta = files.new_manifest_list(files.new_manifests(change(list(files.live_entries(latest))), [], target=1 << 20))
        made = replace(
            latest.with_lists(base, delta), id=latest.id + 1, uuid=key, commit_user=str(uuid4()), time_millis=time.time_ns() // 1_000_000,
            delta_record_count=rows, total_record_count=latest.total_record_count + rows if total is None else total,
        )  # fmt: skip
        return BuiltCommit(table=table, base=latest, snapshot=made, sync=[])

    decided = lake.decide_repaired(table, build)
    assert decided is not None
    forget_metadata()
    return decided.snapshot


def never_added(live: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    stranger = replace(live[0].file, file_name="data-of-nobody.parquet")
    return [replace(live[0], kind=EntryKind.DELETE, file=stranger)]


def added_again(live: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    return [live[1]]


def removed_twice(live: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    return [replace(live[0], kind=EntryKind.DELETE), replace(live[0], kind=EntryKind.DELETE)]


def check(gateway: Gateway) -> list[tuple[object, ...]]:
    return gateway.run("CALL sys.check_table('t')").collect()


KINDS = {
    "never added": (never_added, -1, [0, 1, 2], "removes file data-of-nobody.parquet that is not there"),
    "added again": (added_again, 1, [0, 1, 2], "adds file .* that is there already"),
    "removed twice": (removed_twice, -2, [1, 2], "removes file .* that is not there"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_entries_that_contradict_others_are_told_with_what_mends_them(gateway: Gateway, lake: Lake, place: Path, kind: str) -> None:
    change, rows, ids, told = KINDS[kind]
    wrong = decide(lake, change, rows=rows)
    (meta,) = lake.open(T).files.delta_manifests(wrong)
    (of_entries, of_count) = check(gateway)
    assert (of_entries[1], of_entries[3]) == (wrong.id, str(place / "manifest" / meta.file_name))
    assert (of_count[1], of_count[3]) == (wrong.id, str(place / "snapshot" / f"snapshot-{wrong.id}"))
    assert re.match(told, str(of_entries[5]))
    assert f"tells {3 + rows} rows in all, and its files hold {len(ids)}" in str(of_count[5])
    (statement,) = {match for fault in (of_entries, of_count) for match in re.findall(r"CALL [^)]+\)", str(fault[5]))}
    assert gateway.run("CALL sys.repair_table('t')").collect() == [], "a repair goes back to nothing"
    faults = gateway.run("CALL sys.remove_unexisting_files('t')").collect()
    assert [row[3] for row in faults] == [of_entries[3], str(place / "snapshot" / f"snapshot-{wrong.id}")]
    gateway.run(statement).close()
    forget_metadata()
    assert sorted(gateway.run("SELECT id FROM t").collect()) == [(n,) for n in ids]
    latest = lake.open(T).latest()
    assert latest is not None
    assert latest.total_record_count == len(ids)
    gateway.run("INSERT INTO t VALUES (9)").close()
    assert [row[1] for row in check(gateway)] == [wrong.id, wrong.id], "which is told until it expires"
    assert not any("CALL" in str(row[5]) for row in check(gateway))
    assert gateway.run("CALL sys.remove_unexisting_files('t')").collect() == []
    gateway.run("CALL sys.compact('t')").close()
    gateway.run("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)").close()
    assert check(gateway) == []
    assert sorted(gateway.run("SELECT id FROM t").collect()) == [(n,) for n in (*ids, 9)]


@pytest.mark.parametrize(("rows", "total", "told"), [
    (5, None, ["tells 5 rows as added by it, and the entries of its delta hold 0; it tells 8 rows in all, and its files hold 3"]),
    (7, 3, ["tells 7 rows as added by it, and the entries of its delta hold 0"]),
    (0, 99, ["tells 99 rows in all, and its files hold 3"]),
])  # fmt: skip
def test_counts_that_are_not_those_of_the_entries_are_told(
    gateway: Gateway, lake: Lake, place: Path, rows: int, total: int | None, told: list[str]
) -> None:
    wrong = decide(lake, lambda _: [], rows=rows, total=total)
    gateway.run("INSERT INTO t VALUES (9)").close()
    found = check(gateway)
    assert [(row[1], row[3]) for row in found] == [(wrong.id, str(place / "snapshot" / f"snapshot-{wrong.id}"))], "once, where it begins"
    assert [str(row[5]).startswith(text) for row, text in zip(found, told, strict=True)] == [True]
    gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)").close()
    latest = lake.open(T).latest()
    assert latest is not None
    assert latest.total_record_count == 4
    assert sorted(gateway.run("SELECT id FROM t").collect()) == [(0,), (1,), (2,), (9,)]


def test_what_others_wrote_behind_a_contradiction_is_registered(gateway: Gateway, lake: Lake, place: Path) -> None:
    """Set aside, it would be lost: nothing tells its files any more."""
    wrong = decide(lake, added_again, rows=1)
    table = lake.open(T)
    files, live = table.files, list(table.files.delta_entries(wrong))
    added = [replace(live[0], file=replace(live[0].file, file_name="data-past.parquet"))]
    shutil.copy(files.data_path(table.schema, live[0]), files.data_path(table.schema, added[0]))
    base, delta = (
        files.new_manifest_list(files.manifests_of(wrong)),
        files.new_manifest_list(files.new_manifests(added, [], target=1 << 20)),
    )
    past = replace(wrong.with_lists(base, delta), id=wrong.id + 1, uuid=str(uuid4()), total_record_count=5, delta_record_count=1)
    with files.snapshots() as directory:
        files.publish_snapshot(past, directory)
    forget_metadata()
    done = lake.repair_table(T)
    assert (done.registered, done.set_aside, done.back_from) == ((past.id,), (), None)
    gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)").close()
    assert sorted(gateway.run("SELECT id FROM t").collect()) == [(0,), (1,), (1,), (2,)]


def test_tags_tell_of_contradictions_the_latest_snapshot_has_no_more(gateway: Gateway, lake: Lake, place: Path) -> None:
    wrong = decide(lake, added_again, rows=0)
    gateway.run(f"CALL sys.create_tag('t', 'kept', {wrong.id})").close()
    gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)").close()
    gateway.run("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)").close()
    problems = [str(row[5]) for row in check(gateway)]
    assert len(problems) == 2
    assert all("goes when this one expires and no tag has it" in problem for problem in problems)
    gateway.run("CALL sys.delete_tag('t', 'kept')").close()
    assert check(gateway) == []


def test_lists_that_java_has_written_anew_are_no_fault(gateway: Gateway, lake: Lake, place: Path) -> None:
    """Its `remove_unexisting_manifests` keeps the last delta's files, and tells 0 rows of it."""
    table = lake.open(T)

    def build(key: str) -> BuiltCommit:
        files, latest = table.files, table.latest()
        assert latest is not None
        base, delta = files.new_manifest_list(files.base_manifests(latest)), files.new_manifest_list(files.delta_manifests(latest))
        kind, now = CommitKind.OVERWRITE, time.time_ns() // 1_000_000
        made = replace(latest.with_lists(base, delta), id=latest.id + 1, uuid=key, commit_kind=kind, time_millis=now, delta_record_count=0)
        return BuiltCommit(table=table, base=latest, snapshot=made, sync=[])

    assert lake.decide_repaired(table, build) is not None
    assert check(gateway) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_reader_meets_of_them_needs_no_look_at_all_data(gateway: Gateway, lake: Lake, place: Path, kind: str) -> None:
    """All of a table was to be read for what its metadata tells, and a plain look that found all whole did not end the trouble."""
    change, rows, _, _ = KINDS[kind]
    decide(lake, change, rows=rows)
    with pytest.raises(TableDamaged, match="contradict each other") as met:
        gateway.run("SELECT id FROM t").collect()
    lake.standing.met(met.value)
    assert met.value.check == "CALL sys.check_table('default.t')"
    assert "deep" not in met.value.whole
    assert [trouble.statement for trouble in lake.standing.troubles()] == [met.value.check]
    gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)").close()
    gateway.run("CALL sys.compact('t')").close()
    gateway.run("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)").close()
    assert check(gateway) == []
    assert lake.standing.troubles() == []
