"""What of a job's checkpoint is flushed before a batch is committed, and what it must tell before the next one."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lake.job_records import InTarget
from model.errors import JobCheckpointDamaged, StreamEnded
from sql.spark.streaming.agreement import LastBatch, agreed, require_files, require_same
from sql.spark.streaming.checkpoints import Checkpoint
from table.format.io.file_io import FileIO, LocalFileIO, file_io_for
from tests.lake.kept import go_on


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of what was flushed, as the operating system knows them."""
    paths: list[str] = []
    fsync = os.fsync

    def flush(handle: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr("os.fsync", flush)
    return paths


def laid_out(location: Path) -> Checkpoint:
    """A checkpoint as Spark leaves it after two batches of a Kafka source."""
    for name in ("metadata", "offsets/0", "offsets/1", "offsets/.1.crc", "offsets/10", "commits/0", "sources/0/0"):
        file = location / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("v1")
    return Checkpoint(str(location))


def test_a_batchs_plan_and_the_sources_starts_are_durable_before_its_commit(tmp_path: Path, flushed: list[str]) -> None:
    checkpoint = laid_out(tmp_path / "checkpoint")
    assert checkpoint.begun
    checkpoint.keep_plan(1)
    below = {os.path.relpath(path, checkpoint.location) for path in flushed}
    files = {"metadata", "offsets/1", "offsets/.1.crc", "sources/0/0"}
    assert below >= files | {"offsets", "sources/0", "sources", "."}
    assert not {"offsets/0", "offsets/10", "commits/0"} & below
    flushed.clear()
    checkpoint.keep_plan(10)
    assert {os.path.relpath(path, checkpoint.location) for path in flushed} == {"offsets/10", "offsets"}


def test_each_batchs_entry_in_the_log_of_a_source_of_files_is_durable_before_its_commit(tmp_path: Path, flushed: list[str]) -> None:
    """The plan names nothing but its number."""
    at = of_batches(tmp_path / "c", 2, log=True)
    checkpoint = Checkpoint(str(at))
    checkpoint.keep_plan(0)
    flushed.clear()
    checkpoint.keep_plan(1)
    assert {os.path.relpath(path, at) for path in flushed} == {"offsets/1", "offsets", "sources/0/1", "sources/0"}
    of_batches(at, 5, log=True)
    (at / "sources/0/4").rename(at / "sources/0/4.compact")
    (at / "sources/0/.4.compact.crc").write_text("crc")
    flushed.clear()
    checkpoint.keep_plan(4)
    below = {os.path.relpath(path, at) for path in flushed}
    assert below == {"offsets/4", "offsets", *(f"sources/0/{name}" for name in ("2", "3", "4.compact", ".4.compact.crc")), "sources/0"}


def test_a_checkpoint_nobody_began(tmp_path: Path) -> None:
    assert not Checkpoint(str(tmp_path / "none")).begun


def plan(batch: int, *, log: bool = False) -> str:
    """As Spark writes it, of a table or of a source of files."""
    end = {"logOffset": batch} if log else {"snapshot": batch + 2}
    return f'v1\n{{"batchWatermarkMs":{batch}}}\n{json.dumps(end)}'


def of_batches(location: Path, batches: int, *, log: bool = False, query_id: str = "c") -> Path:
    """A checkpoint after so many batches."""
    for name in ("offsets", "commits", "sources/0"):
        (location / name).mkdir(parents=True, exist_ok=True)
    (location / "metadata").write_text(json.dumps({"id": query_id}))
    for batch in range(batches):
        (location / "offsets" / str(batch)).write_text(plan(batch, log=log))
        (location / "commits" / str(batch)).write_text(f'v1\n{{"nextBatchWatermarkMs":{batch}}}')
        if log:
            (location / "sources" / "0" / str(batch)).write_text("v1")
    return location


def applied(batch: int, **more: Any) -> dict[str, Any]:
    return {"checkpoint": "c", "batch": batch, "plan": plan(batch), "state": False} | more


def agree(location: Path, known: dict[str, Any], *, keeps_state: bool = False, in_target: int = 4, whole: bool = True) -> str:
    return agreement(location, known, keeps_state=keeps_state, in_target=in_target, whole=whole).checkpoint


def agreement(location: Path, known: dict[str, Any], *, keeps_state: bool = False, in_target: int, whole: bool = True) -> LastBatch:
    return agreed(Checkpoint(str(location)), known, keeps_state=keeps_state, in_target=lambda _: InTarget(in_target, whole=whole))


def emptied(directory: Path) -> Path:
    shutil.rmtree(directory)
    return directory


def rewritten(file: Path, text: str) -> None:
    file.write_text(text)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(shutil.rmtree, id="all of it is gone"),
        pytest.param(lambda at: shutil.rmtree(at / "offsets"), id="its plans are gone"),
        pytest.param(lambda at: (at / "offsets/4").unlink(), id="the last plan is gone"),
        pytest.param(lambda at: (at / "offsets/3").unlink(), id="the last but one is gone"),
        pytest.param(lambda at: rewritten(at / "offsets/4", plan(4)[:-9]), id="the last plan is cut off"),
        pytest.param(lambda at: rewritten(at / "offsets/4", ""), id="the last plan is empty"),
        pytest.param(lambda at: rewritten(at / "offsets/4", plan(3)), id="the last plan is another's"),
        pytest.param(lambda at: rewritten(at / "offsets/4", plan(7)), id="the last plan reaches further"),
        pytest.param(lambda at: of_batches(emptied(at), 3), id="an older copy"),
        pytest.param(lambda at: of_batches(emptied(at), 9, query_id="other"), id="another query's"),
    ],
)
def test_a_checkpoint_that_tells_less_or_other_than_the_catalog(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    at = of_batches(tmp_path / "c", 5)
    assert agree(at, applied(4)) == "c"
    damage(at)
    for known, keeps_state in ((applied(4), True), (applied(4, state=True), False), ({"checkpoint": "c", "batch": 4}, False)):
        if (
            known.get("plan") is None
            and (at / "offsets/4").exists()
            and (at / "offsets/3").exists()
            and (at / "offsets/4").stat().st_size > 40
        ):
            continue  # nothing is known that would tell
        with pytest.raises(JobCheckpointDamaged):
            agree(at, known, keeps_state=keeps_state)
    assert agree(at, applied(4)) == "c", "it is written anew from the catalog"
    checkpoint = Checkpoint(str(at))
    assert (checkpoint.query_id(), checkpoint.planned(), checkpoint.plan(4)) == ("c", [3, 4], plan(4))
    assert sorted(path.name for path in (at / "commits").iterdir()) == ["4"]
    assert agree(at, applied(4)) == "c"


@pytest.mark.parametrize(
    ("damage", "commits"),
    [
        pytest.param(lambda at: shutil.rmtree(at / "commits"), [], id="commits gone"),
        pytest.param(lambda at: rewritten(at / "commits/5", ""), [0, 1, 2, 3, 4], id="a commit cut off"),
        pytest.param(lambda at: rewritten(at / "offsets/5", ""), [0, 1, 2, 3, 4], id="a plan that nobody committed cut off"),
        pytest.param(lambda at: (at / "metadata").unlink(), [0, 1, 2, 3, 4, 5], id="its id gone"),
        pytest.param(lambda at: rewritten(at / "metadata", '{"id":'), [0, 1, 2, 3, 4, 5], id="its id cut off"),
    ],
)
def test_what_a_power_cut_leaves_is_mended_also_beside_state(tmp_path: Path, damage: Callable[[Path], object], commits: list[int]) -> None:
    """Batch 5 had no rows, and is none of the catalog's."""
    at = of_batches(tmp_path / "c", 6)
    damage(at)
    assert agree(at, applied(4, state=True), keeps_state=True) == "c"
    checkpoint = Checkpoint(str(at))
    assert checkpoint.query_id() == "c"
    assert checkpoint.ends(checkpoint.planned()[-1]) is not None
    assert sorted(int(path.name) for path in at.glob("commits/*")) == commits


def test_plans_that_spark_let_go_are_not_missed(tmp_path: Path) -> None:
    at = of_batches(tmp_path / "c", 9)
    for batch in range(5):
        (at / "offsets" / str(batch)).unlink()
    assert agree(at, applied(4)) == "c"
    assert Checkpoint(str(at)).planned() == [5, 6, 7, 8]


def test_the_log_of_a_source_of_files_is_needed_whole(tmp_path: Path) -> None:
    at = of_batches(tmp_path / "c", 12, log=True)
    known = applied(11, plan=plan(11, log=True))
    (at / "sources/0/9").rename(at / "sources/0/9.compact")
    (at / "sources/0/2").unlink()
    assert agree(at, known, in_target=11) == "c", "an entry that holds all before it stands for them"
    (at / "sources/0/10").unlink()
    with pytest.raises(JobCheckpointDamaged, match="lacks sources/0/10"):
        agree(at, known, in_target=11)
    shutil.rmtree(at)
    with pytest.raises(JobCheckpointDamaged):
        agree(at, known, in_target=11)


@pytest.mark.parametrize("text", ["", "\0" * 20, 'v1\n{"path": "file:/a.csv", "tim'], ids=["empty", "zeros", "cut off"])
def test_an_entry_that_a_power_cut_left_without_its_text_is_told_or_made_anew(tmp_path: Path, text: str) -> None:
    """Spark stops at it at each start, for ever."""
    at = of_batches(tmp_path / "c", 12, log=True)
    (at / "sources/0/9").rename(at / "sources/0/9.compact")
    known = applied(9, plan=plan(9, log=True))
    (at / "sources/0/10").write_text(text)
    assert agree(at, known, in_target=9) == "c", "of a batch that was not committed"
    checkpoint = Checkpoint(str(at))
    assert (checkpoint.planned()[-1], sorted(path.name for path in (at / "sources/0").iterdir())[-1]) == (9, "9.compact")
    assert not {"10", "11"} & {path.name for log in ("offsets", "commits", "sources/0") for path in (at / log).iterdir()}
    (at / "sources/0/9.compact").write_text(text)
    with pytest.raises(JobCheckpointDamaged, match=r"lacks sources/0/9\.compact, or has it cut off"):
        agree(at, known, in_target=9)


@pytest.mark.parametrize("committed", [-1, 3], ids=["nothing was committed", "long ago"])
def test_entries_of_the_oldest_plan_are_not_let_go(tmp_path: Path, committed: int) -> None:
    """Spark lets go of plans by and by; what a query with state has read by the oldest of them is in that."""
    at = of_batches(tmp_path / "c", 12, log=True)
    for batch in range(6):
        (at / "offsets" / str(batch)).unlink()
    (at / "sources/0/6").write_text("")
    with pytest.raises(JobCheckpointDamaged, match="lacks sources/0/6"):
        agree(at, applied(committed, plan=plan(committed, log=True), state=True), in_target=committed)
    assert (at / "sources/0/11").exists()


TORN = pytest.mark.parametrize("text", ["", "\0" * 20, 'v1\n{"pa'], ids=["empty", "zeros", "cut off"])
FIRST_OFFSETS = '\0v1\n{"topic":{"0":7}}'
"""As Spark notes where it begins to read a topic."""


@TORN
@pytest.mark.parametrize("plan_left", ["", None], ids=["plan cut off", "plan gone"])
def test_a_power_cut_in_the_first_batch_over_files(tmp_path: Path, text: str, plan_left: str | None) -> None:
    """The log's entry is written before the plan, and neither is on disk: Spark stopped at it at each start, for ever."""
    at = of_batches(tmp_path / "c", 0)
    for source, entry in (("0", text), ("1", FIRST_OFFSETS), ("2", "v1\n{}")):
        (at / "sources" / source).mkdir(exist_ok=True)
        (at / "sources" / source / "0").write_text(entry)
    if plan_left is not None:
        (at / "offsets/0").write_text(plan_left)
    assert agree(at, {"checkpoint": "c", "batch": -1}, keeps_state=True, in_target=-1) == "c"
    assert sorted(str(path.relative_to(at)) for path in at.glob("*/**/*") if path.is_file()) == ["sources/1/0", "sources/2/0"]


@TORN
@pytest.mark.parametrize("after", [-1, 1], ids=["nothing was committed", "committed"])
def test_a_power_cut_in_the_first_batch_of_one_of_two_sources(tmp_path: Path, text: str, after: int) -> None:
    """The plans before have no place of it yet."""
    at = of_batches(tmp_path / "c", 2)
    plans = [f'v1\n{{}}\n-\n{{"snapshot":{batch}}}\n-' for batch in range(2)]
    for batch, of_two in enumerate(plans):
        (at / "offsets" / str(batch)).write_text(of_two)
    for source, entry in (("0", text), ("1", text), ("2", FIRST_OFFSETS)):
        (at / "sources" / source).mkdir(exist_ok=True)
        (at / "sources" / source / "0").write_text(entry)
    known = {"checkpoint": "c", "batch": after} | ({"plan": plans[1], "state": True} if after > 0 else {})
    assert agree(at, known, keeps_state=True, in_target=after) == "c"
    left = sorted(path.parent.name for path in at.glob("sources/*/0"))
    assert left == ["1", "2"], "of a table nothing is known there"
    assert Checkpoint(str(at)).planned() == [0, 1]


def test_of_an_entry_that_holds_all_before_it_the_ends_are_read(tmp_path: Path) -> None:
    """It has every file that was ever read, and is looked at before each start."""
    at = of_batches(tmp_path / "c", 12, log=True)
    entry = at / "sources/0/9.compact"
    (at / "sources/0/9").unlink()
    lines = "\n".join(json.dumps({"path": f"file:/in/{number:0200}.csv"}) for number in range(2000))
    known = applied(11, plan=plan(11, log=True))
    entry.write_text(f"v1\n{lines}")
    read = 0

    class Counted(LocalFileIO):
        def read(self, path: str) -> bytes:
            nonlocal read
            found = super().read(path)
            read = max(read, len(found))
            return found

    checkpoint = Checkpoint(str(at))
    checkpoint._io = Counted()
    assert agreed(checkpoint, known, keeps_state=False, in_target=lambda _: InTarget(11, whole=True)).checkpoint == "c"
    assert 0 < read < 1000
    for cut in (f"v1\n{lines[:-9]}", f"v1\n{lines}" + "\0" * 4096, "v1\n" + "x" * (1 << 17), f"\n{lines}"):
        entry.write_text(cut)
        with pytest.raises(JobCheckpointDamaged, match=r"lacks sources/0/9\.compact, or has it cut off"):
            agree(at, known, in_target=11)


def with_state(at: Path, versions: int, *, stores: tuple[str, ...] = ("default",)) -> Path:
    """The state as Spark keeps it of one operator in two partitions, after so many batches."""
    noted = [{"storeName": store, "numColsPrefixKey": 0, "numPartitions": 2} for store in stores]
    (at / "state/0/_metadata").mkdir(parents=True)
    (at / "state/0/_metadata/metadata").write_text(f"v1\n{json.dumps({'operatorInfo': {'operatorId': 0}, 'stateStoreInfo': noted})}")
    for store in stores:
        for partition in range(2):
            place = at / "state/0" / str(partition) / ("" if store == "default" else store)
            place.mkdir(parents=True)
            for version in range(1, versions + 1):
                (place / f"{version}.delta").write_bytes(b"rows" + b"LZ4Block\x15" + bytes(12))
    return at


@pytest.mark.parametrize(("commits", "versions"), [(12, 0), (0, 12), (12, 12)], ids=["noted", "in the state", "both"])
def test_a_batch_whose_rows_are_in_the_state_is_not_made_anew(tmp_path: Path, commits: int, versions: int) -> None:
    """Earlier versions flushed the log's entry of the first batch only; windows have not come out for many batches."""
    at = with_state(of_batches(tmp_path / "c", 12, log=True), versions)
    for batch in range(commits, 12):
        (at / "commits" / str(batch)).unlink()
    (at / "sources/0/3").write_text("")
    before = sorted(at.rglob("*"))
    with pytest.raises(JobCheckpointDamaged, match="lacks sources/0/3"):
        agree(at, {"checkpoint": "c", "batch": -1}, keeps_state=True, in_target=-1)
    assert sorted(at.rglob("*")) == before


def test_a_batch_that_has_not_run_is_made_anew_beside_state(tmp_path: Path) -> None:
    at = with_state(of_batches(tmp_path / "c", 12, log=True), 11)
    (at / "commits/11").unlink()
    (at / "sources/0/11").write_text("")
    assert agree(at, {"checkpoint": "c", "batch": -1}, keeps_state=True, in_target=-1) == "c"
    assert Checkpoint(str(at)).planned()[-1] == 10
    assert not (at / "sources/0/11").exists()


def test_an_entry_without_a_plan_is_let_go_where_it_is_cut_off(tmp_path: Path) -> None:
    at = of_batches(tmp_path / "c", 4, log=True)
    (at / "sources/0/4").write_text("")
    assert agree(at, applied(3, plan=plan(3, log=True)), in_target=3) == "c"
    assert not (at / "sources/0/4").exists()
    assert Checkpoint(str(at)).planned()[-1] == 3


def test_a_first_start_and_one_without_a_batch(tmp_path: Path) -> None:
    at = tmp_path / "c"
    first = agree(at, {}, in_target=-1)
    assert Checkpoint(str(at)).query_id() == first
    shutil.rmtree(at)
    begun = {"checkpoint": first, "batch": -1}
    assert agree(at, begun, in_target=-1) == first
    (at / "metadata").write_text('{"id": "other"}')
    with pytest.raises(JobCheckpointDamaged, match="another query's"):
        agree(at, begun, in_target=-1)


def test_a_catalog_that_is_older_than_checkpoint_or_target(tmp_path: Path) -> None:
    at = of_batches(tmp_path / "c", 8)
    Checkpoint(str(at)).note_committed(7)
    with pytest.raises(JobCheckpointDamaged, match="committed batch 7, which the catalog does not know"):
        agree(at, applied(4), in_target=4)
    assert agreement(at, applied(4), in_target=7) == LastBatch("c", 7, plan(7)), "the target has them, as after a repair"
    assert agreement(at, applied(7), in_target=4) == LastBatch("c", 7, plan(7)), "those of the target have expired"
    (at / "offsets/7").unlink()
    with pytest.raises(JobCheckpointDamaged, match="batches up to 6 only, while batch 7 was committed"):
        agree(at, applied(4), in_target=7)
    Checkpoint(str(at)).note_committed(4)
    with pytest.raises(JobCheckpointDamaged, match="does not know batch 7"):
        agree(at, applied(4), in_target=7)


def test_a_catalog_from_before_the_first_batch(tmp_path: Path) -> None:
    """It knows of no checkpoint; rows of the batches that this one counts as committed would be left out."""
    at = of_batches(tmp_path / "c", 3)
    assert agreement(at, {}, in_target=-1) == LastBatch("c")
    Checkpoint(str(at)).note_committed(2)
    with pytest.raises(JobCheckpointDamaged, match="committed batch 2, which the catalog does not know"):
        agree(at, {}, in_target=-1)
    assert agreement(at, {}, in_target=2) == LastBatch("c", 2, plan(2)), "the target has them, as after a repair"


def test_a_batch_is_passed_over_only_where_it_is_the_one_that_was_committed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(of_batches(tmp_path / "c", 5)))
    require_same(checkpoint, applied(4), 4)
    with pytest.raises(JobCheckpointDamaged, match="begins batch 3 again"):
        require_same(checkpoint, applied(4), 3)
    (tmp_path / "c/offsets/4").write_text(plan(9))
    with pytest.raises(JobCheckpointDamaged, match="other rows of batch 4"):
        require_same(checkpoint, applied(4), 4)


def test_a_checkpoint_is_not_to_be_removed_where_what_the_catalog_forgot_may_have_expired(tmp_path: Path) -> None:
    """As with an old dump, after which the job's later snapshots expired: their rows are in the table."""
    at = of_batches(tmp_path, 5)
    Checkpoint(str(at)).note_committed(4)
    known = {"checkpoint": "c", "batch": 2, "plan": plan(2)}
    with pytest.raises(JobCheckpointDamaged, match="remove the checkpoint and restart"):
        agree(at, known, in_target=2)
    with pytest.raises(JobCheckpointDamaged, match="keep the checkpoint: snapshots of the table have expired") as told:
        agree(at, known, in_target=-1, whole=False)
    assert "remove the checkpoint" not in told.value.message


@pytest.mark.parametrize("known", [{}, {"checkpoint": "c", "batch": -1}], ids=["nothing is noted", "nothing was committed"])
@pytest.mark.parametrize("gone", [("offsets",), ("offsets", "commits", "metadata"), ("metadata", "offsets", "commits", "sources")])
def test_state_whose_plans_are_gone_is_told(tmp_path: Path, known: dict[str, Any], gone: tuple[str, ...]) -> None:
    """The query began anew beside it: of files it had read, their rows were in no window any more."""
    at = with_state(of_batches(tmp_path / "c", 12, log=True), 12)
    for name in gone:
        (at / name).unlink() if (at / name).is_file() else shutil.rmtree(at / name)
    before = sorted(at.rglob("*"))
    with pytest.raises(
        JobCheckpointDamaged, match=r"has lost its offsets, while its state holds the rows of batches up to 11\. .* Put the"
    ) as told:
        agree(at, known, keeps_state=True, in_target=-1)
    assert "c has lost" in told.value.message
    assert sorted(at.rglob("*")) == before
    shutil.rmtree(at / "state")
    assert agree(at, known, keeps_state=True, in_target=-1), "without state it is begun"


def test_state_that_is_ahead_of_the_plans_is_told(tmp_path: Path) -> None:
    """As where offsets alone were put back from an older copy."""
    at = with_state(of_batches(tmp_path / "c", 8), 12)
    with pytest.raises(JobCheckpointDamaged, match="batches up to 7 only, while its state holds the rows of batches up to 11"):
        agree(at, {"checkpoint": "c", "batch": -1}, keeps_state=True, in_target=-1)
    one_missing = with_state(of_batches(tmp_path / "d", 11), 12)
    assert agree(one_missing, {"checkpoint": "c", "batch": -1}, keeps_state=True, in_target=-1) == "c"


def test_state_of_which_no_batch_has_anything_is_begun_anew(tmp_path: Path) -> None:
    """A power cut in the first batch: its plan was not on disk yet."""
    at = with_state(of_batches(tmp_path / "c", 0), 0)
    assert agree(at, {"checkpoint": "c", "batch": -1}, keeps_state=True, in_target=-1) == "c"


@pytest.mark.parametrize("batches", [0, 3])
@pytest.mark.parametrize("applied", [{}, {"checkpoint": "c", "batch": -1}], ids=["new", "known"])
def test_what_was_being_written_is_let_go(tmp_path: Path, batches: int, applied: dict[str, Any]) -> None:
    at = with_state(of_batches(tmp_path / "c", batches), batches)
    kept = {file for file in at.rglob("*") if file.is_file()} if batches else {at / "metadata"}
    for directory in ("offsets", "commits"):
        (at / directory).mkdir(exist_ok=True)
        names = (f".{batches}.0f1e2d3c.tmp", f"..{batches}.0f1e2d3c.tmp.crc", f".{batches + 7}.crc")
        for name in names:
            (at / directory / name).write_bytes(b"")
    agree(at, applied, keeps_state=True, in_target=-1)
    assert {file for file in at.rglob("*") if file.is_file()} == kept
    assert batches or not any(
        (at / directory).exists() and any((at / directory).iterdir()) for directory in ("offsets", "commits", "state")
    )


def test_a_first_batch_whose_plan_is_cut_off_is_begun_without_its_state(tmp_path: Path) -> None:
    at = with_state(of_batches(tmp_path / "c", 1), 1)
    (at / "offsets/0").write_bytes(b"")
    assert agree(at, {"checkpoint": "c", "batch": -1}, keeps_state=True, in_target=-1) == "c"
    assert not (at / "state").exists()
    assert not list((at / "offsets").iterdir()) + list((at / "commits").iterdir())


def test_state_of_which_all_plans_are_cut_off_is_told(tmp_path: Path) -> None:
    at = with_state(of_batches(tmp_path / "c", 12, log=True), 12)
    for file in (at / "offsets").iterdir():
        file.write_bytes(bytes(20))
    with pytest.raises(JobCheckpointDamaged, match="has lost its offsets"):
        agree(at, {"checkpoint": "c", "batch": -1}, keeps_state=True, in_target=-1)


def test_files_of_a_batch_that_is_done_again_must_be_there(tmp_path: Path) -> None:
    at, files = of_batches(tmp_path / "c", 12, log=True), tmp_path / "in dir%41"
    files.mkdir()

    def noted(number: int) -> str:
        (files / f"{number}.csv").write_text("1")
        return json.dumps({"path": f"file://{quote(str(files))}/{number}.csv", "timestamp": 1, "batchId": number})

    lines = [noted(number) for number in range(12)]
    for number, line in enumerate(lines):
        (at / "sources/0" / str(number)).write_text(f"v1\n{line}")
    (at / "sources/0/9").unlink()
    (at / "sources/0/9.compact").write_text("\n".join(["v1", *lines[:10]]))
    checkpoint = Checkpoint(str(at))
    for batch in (0, 9, 11):
        assert list(checkpoint.planned_files(batch)) == [str(files / f"{batch}.csv")]
        require_files(checkpoint, batch, go_on)
        (files / f"{batch}.csv").unlink()
        with pytest.raises(JobCheckpointDamaged, match=rf"Batch {batch} of the job .* needs {batch}\.csv, which is gone"):
            require_files(checkpoint, batch, go_on)
    require_files(checkpoint, 10, go_on)
    (at / "offsets/11").write_text(plan(10, log=True))
    assert list(checkpoint.planned_files(11)) == [], "a batch without new files"


def test_files_of_a_batch_are_looked_for_many_at_once_and_by_one_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first batch may have all files of a bucket: one after the other they took an hour, in which no job could be stopped."""
    at = of_batches(tmp_path / "c", 1, log=True)
    paths = [tmp_path / f"{number}.csv" for number in range(400)]
    for path in paths:
        path.touch()
    lines = [json.dumps({"path": f"file://{path}", "timestamp": 1, "batchId": 0}) for path in paths]
    (at / "sources/0/0").write_text("\n".join(["v1", *lines]))
    eight, asked, made, ours = threading.Event(), list[str](), list[str](), set(map(str, paths))
    real = LocalFileIO.file_exists

    def waiting(io: LocalFileIO, path: str) -> bool:
        if path in ours:  # threads that earlier tests left behind look for files, too
            asked.append(path)
            if len(asked) >= 8:
                eight.set()
            assert eight.wait(60), "fewer than eight are asked at once"
        return real(io, path)

    def making(location: str) -> FileIO:
        made.append(location)
        return file_io_for(location)

    def stopping() -> None:
        if len(asked) >= 8:
            raise StreamEnded("The job is stopping.")

    monkeypatch.setattr(LocalFileIO, "file_exists", waiting)
    monkeypatch.setattr("sql.spark.streaming.agreement.file_io_for", making)
    require_files(Checkpoint(str(at)), 0, go_on)
    assert sorted(asked) == sorted(map(str, paths))
    assert made == [str(paths[0])]
    asked.clear()
    eight.clear()
    with pytest.raises(StreamEnded):
        require_files(Checkpoint(str(at)), 0, stopping)
    assert len(asked) < len(paths)
