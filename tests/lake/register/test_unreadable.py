"""Files and directories that their store does not give: listed beside all else, and nothing is taken away because of them."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import Lake
from lake.register.lost import remove_unexisting_files
from lake.rewrite.expiry import expire_snapshots
from lake.rewrite.orphans import remove_orphan_files
from model.errors import Unavailable
from model.identifier import Identifier
from table.format.io.file_io import LocalFileIO
from table.format.io.storage_errors import refusal, translating
from table.retention.expiry import ExpiryRules
from tests.bare import without_rights
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub
from tests.lake.register.damage import forget_metadata
from tests.lake.register.test_unknown_branches import T, forgotten
from tests.lake.register.test_unknown_branches import place as place
from tests.waiting import eventually


def check(lake: Lake) -> list[tuple[str, str]]:
    """The names of the files that are not well, and why."""
    faults = lake.check_table(lake.open(T), deep=False, threads=2, checked=lambda *_: None)
    return [(fault.file, fault.problem) for fault in faults]


def rows(gateway: Gateway) -> list[tuple[object, ...]]:
    forget_metadata()
    return gateway.run("SELECT id FROM t").collect() + gateway.run("SELECT id FROM `t$branch_b`").collect()


def test_what_cannot_be_read_is_listed_beside_all_else(lake: Lake, place: Path) -> None:
    lost = sorted(place.glob("bucket-0/*"))[0]
    lost.rename(place / "elsewhere")
    assert check(lake) == [(str(lost), "is missing")]
    for path in [place, *place.rglob("*")]:
        if path.name in ("LATEST", "EARLIEST", "elsewhere"):
            continue
        with without_rights(path):
            faults = check(lake)
        unreadable = [Path(file) for file, problem in faults if problem.startswith("cannot be read: Permission denied")]
        assert unreadable, path
        assert all(file == path or path in file.parents for file in unreadable)
        if path not in lost.parents and not path.name.startswith("manifest"):
            assert (str(lost), "is missing") in faults, path
    assert check(lake) == [(str(lost), "is missing")]


def test_a_branch_that_cannot_be_opened_is_listed_beside_all_else(lake: Lake, place: Path) -> None:
    """Its files were never written, as where the directory of branches is another user's."""
    lost, elsewhere, branches = sorted(place.glob("bucket-0/*"))[0], place / "elsewhere", place / "branch"
    lost.rename(elsewhere)
    mode = branches.stat().st_mode
    branches.chmod(0o555)
    try:
        with without_rights(elsewhere):  # the rights of others than root
            lake.branches.create(lake.open(T), "c")
            faults = check(lake)
    finally:
        branches.chmod(mode)
    assert (str(lost), "is missing") in faults
    unreadable = [file for file, problem in faults if problem.startswith("cannot be read: Permission denied")]
    assert any("branch-c" in file for file in unreadable), faults
    assert check(lake) == [(str(lost), "is missing")]


def test_a_store_that_is_away_ends_the_check(lake: Lake, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(io: LocalFileIO, path: str) -> bytes:
        with translating(path):
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path)

    monkeypatch.setattr(LocalFileIO, "read", away)
    with pytest.raises(Unavailable):
        check(lake)


def test_a_file_without_rights_is_not_lost(gateway: Gateway, lake: Lake, place: Path) -> None:
    before = rows(gateway)
    for path in (place / "bucket-0", *place.glob("bucket-0/*")):
        with without_rights(path), contextlib.suppress(Unavailable):
            remove_unexisting_files(lake, lake.open(T), dry_run=False, deep=False, threads=2, check=lambda: None)
    assert rows(gateway) == before


@pytest.mark.parametrize("file", ["snapshot", "manifest", "list", "schema"])
def test_a_repair_goes_nowhere_while_a_file_cannot_be_read(gateway: Gateway, lake: Lake, place: Path, file: str) -> None:
    latest = lake.open(T).latest()
    assert latest is not None
    path = {
        "snapshot": place / f"snapshot/snapshot-{latest.id}",
        "manifest": place / "manifest" / lake.open(T).files.delta_manifests(latest)[0].file_name,
        "list": place / "manifest" / latest.delta_manifest_list,
        "schema": place / "schema/schema-0",
    }[file]
    before, all_rows = sorted(place.rglob("*")), rows(gateway)
    forget_metadata()
    with without_rights(path), pytest.raises(Unavailable, match="rights there back"):
        lake.repair_table(T)
    assert sorted(place.rglob("*")) == before
    assert rows(gateway) == all_rows


def expire(lake: Lake) -> None:
    expire_snapshots(lake, lake.open(T), replace(ExpiryRules.of(lake.open(T).schema), at_least=1, at_most=1))


def remove_orphans(lake: Lake) -> None:
    remove_orphan_files(lake, lake.open(T), older_than_millis=time.time_ns() // 1_000_000, check=lambda: None)


@pytest.mark.parametrize("remove", [remove_orphans, expire])
@pytest.mark.parametrize("file", ["list", "snapshot", "schema"])
def test_nothing_goes_while_a_branch_only_the_files_have_cannot_be_read(
    gateway: Gateway, catalog: CatalogStore, lake: Lake, place: Path, remove: Callable[[Lake], None], file: str
) -> None:
    newest = lake.open(replace(T, branch="b")).latest()
    assert newest is not None
    all_rows = rows(gateway)
    lake.tags.delete(lake.open(T), "one")
    forgotten(catalog, lake)
    path = {"list": place / "manifest" / newest.delta_manifest_list}.get(file, place / f"branch/branch-b/{file}")
    forget_metadata()
    with without_rights(path), pytest.raises(Unavailable, match="rights there back"):
        remove(lake)
    lake.repair_table(T)
    assert rows(gateway) == all_rows


def test_a_directory_without_rights_is_told_while_the_server_runs(lake: Lake, place: Path) -> None:
    def troubled() -> set[Identifier]:
        lake.standing.look_around(tables=None)
        return {trouble.table for trouble in lake.standing.troubles()}

    with without_rights(place / "manifest"):
        assert eventually(lambda: troubled() == {T, replace(T, branch="b")}), "the newest snapshot may not be on record as published yet"
        assert all("cannot be read: Permission denied" in trouble.problem for trouble in lake.standing.troubles())
        lake.standing.look_around(tables=None)
        assert len(lake.standing.troubles()) == 2
    lake.standing.look_around(tables=None)
    assert lake.standing.troubles() == []


def test_refusals_are_told_from_stores_that_are_away() -> None:
    def told(problem: OSError) -> str | None:
        with pytest.raises(Unavailable) as raised, translating("/w/t/snapshot-1"):
            raise problem
        return refusal(raised.value)

    assert (
        told(PermissionError(errno.EACCES, "Permission denied"))
        == "cannot be read: Permission denied. Give the server's user its rights there back"
    )
    assert told(OSError(errno.EIO, "Input/output error")) == "cannot be read: Input/output error"
    assert told(OSError("When reading: AWS Error ACCESS_DENIED during HeadObject")) == (
        "cannot be read: the store denies it. Give the server's user its rights there back"
    )
    assert told(OSError("AWS Error NETWORK_CONNECTION during GetObject")) is None
    assert told(OSError(errno.ETIMEDOUT, "timed out")) is None
