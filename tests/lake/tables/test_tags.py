"""Tags: made by hand and by themselves, renamed, replaced, ended; each keeps its snapshot's files and nothing more."""

from __future__ import annotations

import datetime as dt
import json
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from catalog import CatalogStore, CatalogTransaction
from catalog.state import StateRepository
from lake import Lake, LakeTable
from lake.commit.publish import Publisher
from lake.rewrite.auto_tags import create_automatic_tags, expire_tags
from lake.rewrite.expiry import create_tag, delete_tag, delete_tags, expire_snapshots, rename_tag, replace_tag, tags_of
from lake.rewrite.maintenance import Maintained, maintain
from model.catalog_errors import TagAlreadyExist
from model.errors import InvalidName, InvalidOption, SnapshotNotExist, TagNotExist, Unavailable
from model.identifier import Identifier
from model.snapshot import CommitKind
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.lake.kept import at, data_files, keep, overwrite, six_commits, with_options
from tests.lake.register.damage import wait_for_notes
from tests.lake.rewrite.test_compaction import append, batch_of, ids


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    return six_commits(lake)


def test_tags_end_and_are_renamed(lake: Lake, table: LakeTable) -> None:
    create_tag(lake, table, "short", retained=dt.timedelta(milliseconds=1))
    create_tag(lake, table, "long", retained=dt.timedelta(days=1))
    create_tag(lake, table, "ever", snapshot_id=2)
    time.sleep(0.01)
    assert [tag.name for tag in expire_tags(lake, table, dry_run=True)] == ["short"]
    expire_tags(lake, table)
    rename_tag(lake, table, "ever", "always")
    assert [tag.name for tag in tags_of(lake, table)] == ["always", "long"]
    assert {p.name for p in (Path(table.location) / "tag").iterdir()} == {"tag-always", "tag-long"}
    with pytest.raises(TagAlreadyExist):
        rename_tag(lake, table, "long", "always")
    replace_tag(lake, table, "always", snapshot_id=4)
    assert [tag.snapshot.id for tag in tags_of(lake, table)] == [4, 6]
    assert [tag.name for tag in expire_tags(lake, table, older_than=dt.datetime.now() + dt.timedelta(days=1))] == ["always", "long"]


def test_tags_are_made_for_periods_that_ended(lake: Lake, table: LakeTable) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.creation-delay": "10 min", "tag.num-retained-max": "2"}
    daily = with_options(lake, table, **options)
    assert create_automatic_tags(lake, daily, now=dt.datetime(2026, 1, 5, 0, 5)) == ["2026-01-03"]  # the delay is not over
    assert create_automatic_tags(lake, daily, now=dt.datetime(2026, 1, 5, 0, 15)) == ["2026-01-04"]
    assert create_automatic_tags(lake, daily, now=dt.datetime(2026, 1, 5, 23, 0)) == []
    assert create_automatic_tags(lake, daily, now=dt.datetime(2026, 1, 9, 1, 0)) == ["2026-01-08"]
    assert [tag.name for tag in tags_of(lake, daily)] == ["2026-01-04", "2026-01-08"]
    complete = with_options(lake, daily, **{"tag.automatic-completion": "true", "tag.num-retained-max": "10"})
    assert create_automatic_tags(lake, complete, now=dt.datetime(2026, 1, 12, 1, 0)) == ["2026-01-09", "2026-01-10", "2026-01-11"]


def test_postgres_tells_which_period_has_ended(lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each server went by its own clock: of two, one made a tag of a period that had not ended for the other."""
    options = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly", "sink.process-time-zone": "Asia/Kathmandu"}
    hourly = with_options(lake, table, **options)
    monkeypatch.setattr(StateRepository, "now_millis", lambda _: 1_767_571_500_000)  # 05:50 on 5 January 2026 there
    assert create_automatic_tags(lake, hourly) == ["2026-01-05 04"]


def test_a_server_whose_clock_is_ahead_ends_no_tag_before_its_time(lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags are made by Postgres's clock; a server nine minutes ahead, which is nothing to speak of, ended those of five at once."""
    create_tag(lake, table, "short", retained=dt.timedelta(minutes=5))
    ahead = time.time_ns() + 9 * 60 * 1_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: ahead)
    assert expire_tags(lake, table) == []
    assert [tag.name for tag in tags_of(lake, table)] == ["short"]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"tag.creation-period-duration": "15 min"}, "202605060700"),
        ({"tag.creation-period-duration": "15 min", "tag.period-formatter": "without_dashes"}, "202605060700"),
        ({"tag.creation-period": "two-hours", "tag.period-formatter": "without_dashes"}, "2026-05-06 04"),
        ({"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"}, "20260506 06"),
        ({"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"}, "2026050606"),
        ({"tag.period-formatter": "without_dashes"}, "20260505"),
    ],
)
def test_automatic_tags_have_the_names_that_paimon_gives(lake: Lake, table: LakeTable, options: Mapping[str, str], name: str) -> None:
    at = with_options(lake, table, **{"tag.automatic-creation": "process-time", **options})
    assert create_automatic_tags(lake, at, now=dt.datetime(2026, 5, 6, 7, 16)) == [name]


@pytest.mark.parametrize(
    ("options", "old", "by_hand"),
    [
        ({"tag.period-formatter": "without_dashes"}, ["20200101", "20200201"], ["202011", "2020-01-01", "20201301", "2020111"]),
        ({}, ["2020-01-01", "2020-01-02 07"], ["2020-1-5", "2020-01-01 before", "2020-01-01 7", "20200101", "2020-02-30"]),
        ({"tag.creation-period-duration": "15 min"}, ["2020-01-01 07:15", "202001010730"], ["20200101", "2020-1-1 07:15"]),
        ({"tag.creation-period": "two-hours", "tag.period-formatter": "without_dashes"}, ["2020-01-01 04", "20200101 02"], ["2020010104"]),
    ],
)
def test_only_automatic_tags_make_room_for_newer_ones(
    lake: Lake, table: LakeTable, options: Mapping[str, str], old: list[str], by_hand: list[str]
) -> None:
    for name in (*old, *by_hand):
        create_tag(lake, table, name, snapshot_id=2)
    at = with_options(lake, table, **{"tag.automatic-creation": "process-time", "tag.num-retained-max": "1", **options})
    made = create_automatic_tags(lake, at, now=dt.datetime(2026, 5, 6, 7, 16))
    assert {tag.name for tag in tags_of(lake, at)} == {*made, *by_hand}


def test_the_oldest_automatic_tag_is_that_of_the_earliest_period(lake: Lake, table: LakeTable) -> None:
    create_tag(lake, table, "2020-01-01 07:15", snapshot_id=2)
    options = {"tag.automatic-creation": "process-time", "tag.num-retained-max": "2", "tag.creation-period-duration": "15 min"}
    at = with_options(lake, table, **options)
    create_tag(lake, at, "202101010715", snapshot_id=3)
    made = create_automatic_tags(lake, at, now=dt.datetime(2026, 5, 6, 7, 16))
    assert {tag.name for tag in tags_of(lake, at)} == {*made, "202101010715"}


def test_tags_follow_the_watermark_and_batches(lake: Lake, table: LakeTable) -> None:
    hourly = with_options(lake, table, **{"tag.automatic-creation": "watermark", "tag.creation-period": "hourly"})
    assert create_automatic_tags(lake, hourly) == []
    lake.commit(hourly, CommitRequest(kind=CommitKind.APPEND, commit_user="u", watermark=-(2**63)))
    assert create_automatic_tags(lake, hourly) == [], "Flink's writers send it where they have none"
    mark = int(dt.datetime(2026, 1, 5, 7, 30, tzinfo=dt.UTC).timestamp() * 1000)
    written = write_batches(hourly.files, hourly.schema, [batch_of(hourly, [9])])
    lake.commit(hourly, CommitRequest(kind=CommitKind.APPEND, adds=tuple(written), commit_user="u", watermark=mark))
    assert create_automatic_tags(lake, hourly) == ["2026-01-05 06"]
    batch = with_options(lake, hourly, **{"tag.automatic-creation": "batch", "tag.batch.customized-name": "last"})
    assert create_automatic_tags(lake, batch) == ["last"]
    assert create_automatic_tags(lake, batch) == []
    append(lake, batch, [10])
    assert create_automatic_tags(lake, batch) == ["last"]


ODD_NAMES = [
    "eod$t",
    "$",
    "n" * 201,
    "ü" * 101,
    "n" * 200,
    "a b",
    "a=b",
    "1",
    "-",
    "…",
    "a.b",
    "*",
    "'",
    "branch_b",
    "LATEST",
    "_t",
    "a%2Fb",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_the_option_of_batches_takes_is_one_a_tag_is_given(lake: Lake, table: LakeTable, name: str) -> None:
    try:
        batch = with_options(lake, table, **{"tag.automatic-creation": "batch", "tag.batch.customized-name": name})
    except InvalidOption:
        with pytest.raises(InvalidName):
            create_tag(lake, table, name)
    else:
        assert create_automatic_tags(lake, batch) == [name]


def test_where_no_tag_may_have_a_stored_name_what_the_tags_would_keep_stays(
    lake: Lake, table: LakeTable, caplog: pytest.LogCaptureFixture
) -> None:
    """As an earlier version took it; the round ends well, and says so."""
    named = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "eod$t"}
    options = {**table.schema.options, **named, "snapshot.num-retained.max": "1", "snapshot.num-retained.min": "1"}
    stored = replace(table, schema=replace(table.schema, options=options))
    before = lake.snapshots(table)
    assert maintain(lake, stored) == Maintained()
    assert lake.snapshots(table) == before
    assert "expires until the option of its automatic tags is set anew: The tag name 'eod$t'" in caplog.text


@pytest.mark.parametrize("zone", ["Etc/GMT+12", "Etc/GMT-14"])
def test_tags_of_batches_have_a_cap_and_are_named_by_their_zone(lake: Lake, table: LakeTable, zone: str) -> None:
    options = {"tag.automatic-creation": "batch", "tag.num-retained-max": "2", "sink.process-time-zone": zone}
    batch = with_options(lake, table, **options)
    for name, snapshot_id in (("batch-write-2020-01-02", 4), ("batch-write-2020-01-01", 3), ("by hand", 2), ("2020-01-01", 1)):
        create_tag(lake, batch, name, snapshot_id=snapshot_id)
    append(lake, batch, [10])
    latest = batch.latest()
    assert latest is not None
    day = dt.datetime.fromtimestamp(latest.time_millis / 1000, ZoneInfo(zone)).date()
    assert create_automatic_tags(lake, batch) == [f"batch-write-{day}"]
    assert {tag.name for tag in tags_of(lake, batch)} == {f"batch-write-{day}", "batch-write-2020-01-02", "by hand", "2020-01-01"}


def test_each_period_is_the_first_snapshot_behind_it(lake: Lake, table: LakeTable) -> None:
    options = {"tag.automatic-creation": "watermark", "tag.creation-period": "hourly", "tag.creation-delay": "10 min"}
    hourly = with_options(lake, table, **options)

    def reach(*times: tuple[int, int]) -> None:
        for hour, minute in times:
            mark = int(dt.datetime(2026, 1, 5, hour, minute, tzinfo=dt.UTC).timestamp() * 1000)
            lake.commit(hourly, CommitRequest(kind=CommitKind.APPEND, commit_user="u", watermark=mark))

    reach((6, 30), (7, 5), (7, 20), (7, 50), (8, 15), (11, 40), (11, 50))  # snapshots 7 to 13
    assert create_automatic_tags(lake, hourly, dry_run=True) == ["2026-01-05 05", "2026-01-05 06", "2026-01-05 07", "2026-01-05 10"]
    create_automatic_tags(lake, hourly)
    found = {tag.name: tag.snapshot.id for tag in tags_of(lake, hourly)}
    assert found == {"2026-01-05 05": 7, "2026-01-05 06": 9, "2026-01-05 07": 11, "2026-01-05 10": 12}
    complete = with_options(lake, hourly, **{"tag.automatic-completion": "true"})
    reach((12, 5), (13, 30), (13, 40))  # 14 to 16
    assert create_automatic_tags(lake, complete) == ["2026-01-05 11", "2026-01-05 12"]
    assert [tag.snapshot.id for tag in tags_of(lake, complete)][-2:] == [15, 15]
    assert create_automatic_tags(lake, complete) == []


def commit_at(lake: Lake, table: LakeTable, millis: int) -> None:
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, commit_user="u", watermark=millis))


@pytest.mark.parametrize(
    "ahead", [253_402_214_399_999, 2**63 - 1, time.time_ns() // 1_000_000 + 367 * 86_400_000], ids=["9999", "last", "a year"]
)
@pytest.mark.parametrize("period", ["daily", "hourly"])
def test_a_watermark_far_ahead_makes_no_tags(lake: Lake, table: LakeTable, period: str, ahead: int) -> None:
    """As an earlier version took it, or a client with DELETE leaves it: its tags would be the newest for ever."""
    options = {"tag.automatic-creation": "watermark", "tag.creation-period": period, "tag.automatic-completion": "true"}
    kept = with_options(lake, table, **options, **{"tag.num-retained-max": "3"})
    start = int(dt.datetime(2026, 1, 5, tzinfo=dt.UTC).timestamp() * 1000)
    for day in range(3):
        commit_at(lake, kept, start + day * 86_400_000)
        create_automatic_tags(lake, kept)
    before = [tag.name for tag in tags_of(lake, kept)]
    commit_at(lake, kept, ahead)
    assert create_automatic_tags(lake, kept) == []
    assert [tag.name for tag in tags_of(lake, kept)] == before


def test_periods_missed_by_the_million_cost_what_is_made_of_them(lake: Lake, table: LakeTable) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.creation-period-duration": "1 s", "tag.automatic-completion": "true"}
    kept = with_options(lake, table, **options)
    create_tag(lake, kept, "202601010000", snapshot_id=2)
    tracemalloc.start()
    try:
        made = create_automatic_tags(lake, kept, now=dt.datetime(2026, 1, 31), dry_run=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(made) == 100
    assert made[-1] == "202601302359"
    assert peak < 50 << 20, "2.6 million moments take 170 MB"


def by_hand(table: LakeTable, name: str, snapshot_id: int) -> Path:
    """The file of a tag as a client writes it."""
    made = Path(table.location) / "tag" / f"tag-{name}"
    made.parent.mkdir(exist_ok=True)
    made.write_bytes((Path(table.location) / "snapshot" / f"snapshot-{snapshot_id}").read_bytes())
    return made


def made_by_name(lake: Lake, table: LakeTable) -> None:
    (Path(table.location) / "tag" / "tag-new").unlink()
    create_tag(lake, table, "new", snapshot_id=2)


def rolled_back(lake: Lake, table: LakeTable) -> None:
    lake.history.rollback_to_snapshot(table, 4)
    append(lake, table, [7])


def made_again(lake: Lake, table: LakeTable) -> None:
    create_tag(lake, table, "gone", snapshot_id=2)


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        (lambda *_: None, {"new": 5}),
        (made_by_name, {"new": 2}),
        (rolled_back, {}),  # the new snapshot 5 is none that the file tells of, which the rollback took away
        (made_again, {"gone": 2, "new": 5}),
    ],
    ids=["nothing", "a tag of the name is made", "its snapshot is rolled back", "a tag is made again"],
)
def test_what_clients_did_to_tags_counts_where_nothing_else_happened_since(
    lake: Lake, table: LakeTable, meanwhile: Callable[[Lake, LakeTable], None], expected: dict[str, int]
) -> None:
    """They are looked at before the table is held, which others may change until then."""
    create_tag(lake, table, "gone", snapshot_id=3)
    (Path(table.location) / "tag" / "tag-gone").unlink()
    by_hand(table, "new", 5)
    found = lake.tags.look(table)
    meanwhile(lake, table)
    with lake.catalog.transaction() as tx:
        tx.tables.lock_retention(table.identifier)
        assert {row.name: row.snapshot["id"] for row in lake.tags.take_in(tx, table, found)} == expected
    assert {tag.name: tag.snapshot.id for tag in tags_of(lake, table)} == expected


def test_a_tag_that_a_client_replaces_is_the_other_snapshots(lake: Lake, table: LakeTable) -> None:
    """Java's and pypaimon's `replace_tag` write the file anew: who goes back to it, reads it or expires goes by what it tells."""
    create_tag(lake, table, "good", snapshot_id=1)
    assert [tag.snapshot.id for tag in tags_of(lake, table)] == [1]
    by_hand(table, "good", 5)
    assert [tag.snapshot.id for tag in tags_of(lake, table)] == [5]
    overwrite(lake, table, [100])
    expire_snapshots(lake, table, keep(1))
    assert at(table, tags_of(lake, table)[0].snapshot) == [0, 1, 2, 3, 4]
    delete_tag(lake, table, "good")
    assert not (Path(table.location) / "tag" / "tag-good").exists()
    assert tags_of(lake, table) == []


@pytest.mark.damages
def test_a_tag_whose_file_is_replaced_by_what_is_none_of_the_table_stays(lake: Lake, table: LakeTable) -> None:
    create_tag(lake, table, "good", snapshot_id=1)
    path = Path(table.location) / "tag" / "tag-good"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"totalRecordCount": 4711}))
    assert [tag.snapshot.id for tag in tags_of(lake, table)] == [1]
    path.write_text("{")
    assert [tag.snapshot.id for tag in tags_of(lake, table)] == [1]


def test_a_tag_is_not_replaced_by_a_copy_that_was_put_back(lake: Lake, table: LakeTable) -> None:
    """The newest snapshot's file is not there either: what lies there is of another time."""
    create_tag(lake, table, "good", snapshot_id=1)
    older = (Path(table.location) / "tag" / "tag-good").read_bytes()
    replace_tag(lake, table, "good", snapshot_id=5)
    wait_for_notes(lake)  # what was published is not written again then
    lake._publisher.close()
    (Path(table.location) / "tag" / "tag-good").write_bytes(older)
    (Path(table.location) / "snapshot" / "snapshot-6").unlink()
    assert [tag.snapshot.id for tag in tags_of(lake, table)] == [5]


def test_tags_keep_their_files_and_lose_them_with_the_tag(lake: Lake, table: LakeTable) -> None:
    tag = create_tag(lake, table, "three", snapshot_id=3)
    overwrite(lake, table, [100])
    expire_snapshots(lake, table, keep(1))
    assert at(table, tag.snapshot) == [0, 1, 2]
    assert len(data_files(table)) == 4
    assert delete_tag(lake, table, "three", dry_run=True).data_files == 3
    assert delete_tag(lake, table, "three").data_files == 3
    assert len(data_files(table)) == 1
    assert ids(table) == [100]
    with pytest.raises(TagNotExist):
        delete_tag(lake, table, "three")


class LostClaim:
    """A claim that does not hold any more when the work is done, as where Postgres goes away right then."""

    order = ("", "")

    def begin(self, tx: CatalogTransaction) -> None:
        """It holds."""

    def finish(self, tx: CatalogTransaction, answer: Mapping[str, Any]) -> None:
        """It does not."""
        raise Unavailable("The catalog is away.")


def test_what_is_not_decided_ends_no_tag(lake: Lake, table: LakeTable) -> None:
    """The file went first, and a published tag without one is taken for a tag that a client removed."""
    for name in ("one", "two"):
        create_tag(lake, table, name, snapshot_id=3)
    with pytest.raises(Unavailable):
        delete_tags(lake, table, ["one", "two"], claim=LostClaim())
    assert [tag.name for tag in tags_of(lake, table)] == ["one", "two"]
    with pytest.raises(TagNotExist):
        delete_tags(lake, table, ["one", "three"])
    assert [tag.name for tag in tags_of(lake, table)] == ["one", "two"]


@pytest.mark.parametrize("how", ["statement", "protocol"])
def test_a_tag_that_ended_leaves_its_file_for_a_while(lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    create_tag(lake, table, "three", snapshot_id=3)
    overwrite(lake, table, [100])
    expire_snapshots(lake, table, keep(1))
    with monkeypatch.context() as away:
        away.setattr(Publisher, "remove_stale", fails)
        if how == "statement":
            assert delete_tag(lake, table, "three").data_files == 0
        else:
            lake.tags.delete(table, "three")
    assert tags_of(lake, table) == []
    assert (Path(table.location) / "tag" / "tag-three").exists()
    assert len(data_files(table)) == 4, "a file names them"
    assert lake.tags.tidy(table)
    assert not (Path(table.location) / "tag" / "tag-three").exists()
    assert tags_of(lake, table) == []


def fails(*_: Any) -> None:
    raise OSError("no")


def test_a_tag_of_the_same_name_and_snapshot_keeps_the_file_that_was_to_go(
    lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is the same as that of the tag before, which a server that died has not removed yet."""
    create_tag(lake, table, "three", snapshot_id=3)
    with monkeypatch.context() as away:
        away.setattr(Publisher, "remove_stale", fails)
        delete_tag(lake, table, "three")
        create_tag(lake, table, "three", snapshot_id=3)
        create_tag(lake, table, "six", snapshot_id=6)
        rename_tag(lake, table, "six", "last")
        rename_tag(lake, table, "last", "six")
    assert lake.tags.tidy(table)
    assert [tag.name for tag in tags_of(lake, table)] == ["six", "three"]
    assert {p.name for p in (Path(table.location) / "tag").iterdir()} == {"tag-six", "tag-three"}


def test_a_tag_dropped_between_others_leaves_theirs(lake: Lake, table: LakeTable) -> None:
    tags = {n: create_tag(lake, table, f"t{n}", snapshot_id=n) for n in (2, 4, 5)}
    overwrite(lake, table, [100])
    expire_snapshots(lake, table, keep(1))
    assert delete_tag(lake, table, "t4").data_files == 0
    assert (at(table, tags[2].snapshot), at(table, tags[5].snapshot)) == ([0, 1], [0, 1, 2, 3, 4])
    assert delete_tag(lake, table, "t5").data_files == 3
    assert at(table, tags[2].snapshot) == [0, 1]


def test_a_replaced_tag_lets_go_what_only_it_kept(lake: Lake, table: LakeTable) -> None:
    create_tag(lake, table, "three", snapshot_id=3)
    overwrite(lake, table, [100])
    expire_snapshots(lake, table, keep(1))
    assert replace_tag(lake, table, "three", dry_run=True)[1].data_files == 3
    assert len(data_files(table)) == 4
    tag, removed = replace_tag(lake, table, "three")
    assert (tag.snapshot.id, removed.data_files, len(data_files(table))) == (7, 3, 1)
    with pytest.raises(SnapshotNotExist):
        replace_tag(lake, table, "three", snapshot_id=3)
    assert at(table, tags_of(lake, table)[0].snapshot) == [100]


FORGED: dict[str, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]] = {
    "more rows than there are": lambda own, other: own | {"totalRecordCount": own["totalRecordCount"] + 1},
    "files twice": lambda own, other: own | {"baseManifestList": own["deltaManifestList"]},
    "a list elsewhere": lambda own, other: own | {"baseManifestList": "../../../" + own["baseManifestList"]},
    "a list that is not there": lambda own, other: own | {"deltaManifestList": "manifest-list-none-0"},
    "another table's lists": lambda own, other: other,
    "a schema of the future": lambda own, other: own | {"schemaId": 99},
    "statistics elsewhere": lambda own, other: own | {"statistics": "../../../etc/passwd"},
}


@pytest.mark.parametrize("how", FORGED)
def test_a_tag_that_came_as_a_file_is_the_tables_own_or_none(
    lake: Lake, table: LakeTable, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever may write files may make up a tag; a snapshot that was decided, or that has expired since, may be tagged by a file."""
    place = Path(table.location)
    own = json.loads((place / "snapshot" / "snapshot-6").read_text())
    lake.create_table(Identifier("default", "other"), table.schema)
    other = lake.open(Identifier("default", "other"))
    append(lake, other, [1])
    foreign = json.loads((Path(other.location) / "snapshot" / "snapshot-1").read_text())
    (place / "tag").mkdir(exist_ok=True)
    (place / "tag" / "tag-decided").write_text(json.dumps(own))
    (place / "tag" / "tag-forgotten").write_text(json.dumps(own | {"id": 60}))
    (place / "tag" / "tag-forged").write_text(json.dumps(FORGED[how](own, foreign) | {"id": 6}))
    assert [tag.name for tag in tags_of(lake, table)] == ["decided", "forgotten"]
    with pytest.raises(TagNotExist):
        lake.tags.get(table, "forged")
    told = [record.message for record in caplog.records if "tag forged" in record.message]
    assert len(told) == 1
    assert "is not taken for a tag" in told[0]


@pytest.mark.parametrize(
    ("seconds", "stored", "for_ever"),
    [(86399999999913600.0, "86399999999913600000 ms", True), (1e300, "9" * 40 + " ms", True), (-1.0, "-1000 ms", False)],
)
def test_a_retention_that_only_java_takes_keeps_nobody_from_the_tables_tags(
    lake: Lake, table: LakeTable, catalog: CatalogStore, seconds: float, stored: str, for_ever: bool
) -> None:
    """As of `create_tag` with '999999999999 d', by a client that writes the file itself; `stored` is what earlier versions took of it."""
    create_tag(lake, table, "own")
    place = Path(table.location) / "tag"
    body = json.loads((place / "tag-own").read_text())
    (place / "tag-theirs").write_text(json.dumps(body | {"tagTimeRetained": seconds}))
    with catalog.transaction() as tx:
        tx.tags.put(table.table_id, "before", body, created_millis=1, retained=stored)
    retained = {tag.name: tag.retained for tag in tags_of(lake, table)}
    kept = None if for_ever else dt.timedelta(0)
    assert retained == {"before": kept, "own": None, "theirs": kept}
    assert {tag.name for tag in expire_tags(lake, table)} == (set() if for_ever else {"before", "theirs"})
    expire_snapshots(lake, table, keep(1))
    lake.branches.create(table, "b", from_tag="own")
