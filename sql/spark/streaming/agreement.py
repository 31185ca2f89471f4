"""Where a job goes on: the catalog says which of its batches is the last one, and the checkpoint is held to it.

A checkpoint that was lost, cut off, or put back from an older copy would make batches anew, of other rows, under numbers that count as
committed: those rows would be left out. One that begins anew would read again what the target has. So each commit notes which rows its
batch was (the plan, as Spark wrote it), and before each start the checkpoint must tell the same. Where it does not, it is written anew
from the catalog, if that is all it holds; a query that keeps state, or whose source keeps a log of its own there, stops and says so.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from lake.job_records import InTarget
from lake.register.looks.side_by_side import SideBySide
from model.errors import JobCheckpointDamaged
from model.location import Location
from model.text.file_name import file_name
from model.work.job import NO_BATCH
from sql.spark.streaming.checkpoints import Checkpoint, ends_of, log_ends
from table.format.io.file_io import FileIO, file_io_for

_log = logging.getLogger(__name__)
_TOLD = 5
"""So many files that are gone are named."""
_ASKED_AT_ONCE = 24
"""Files looked for at once: each is a request where a store holds them."""


@dataclass(frozen=True, slots=True)
class LastBatch:
    """What the catalog knows of a query: its checkpoint's id, its last batch with rows, and which rows those were."""

    checkpoint: str
    batch: int = NO_BATCH
    plan: str | None = None
    """None in what versions noted that did not keep it."""
    state: bool = False
    """Whether the checkpoint holds more than positions."""

    @classmethod
    def of(cls, applied: Mapping[str, Any]) -> LastBatch:
        """Read it back."""
        return cls(applied["checkpoint"], applied["batch"], applied.get("plan"), applied.get("state", False))


def agreed(
    checkpoint: Checkpoint, applied: Mapping[str, Any], *, keeps_state: bool, in_target: Callable[[str], InTarget] | None
) -> LastBatch:
    """The last batch of a checkpoint that tells what the catalog tells, and can be gone on from; it is begun, mended or written anew.

    It is a later one than the catalog's where that is older than checkpoint and target, which have it. ``in_target`` gives the last batch
    of a checkpoint that snapshots of the target name; None for a target without snapshots.
    Raises `JobCheckpointDamaged` where to go on would leave out rows or double them.
    """
    begun = checkpoint.query_id()
    if fault := _without_plans(checkpoint):  # before anything is let go
        raise _damaged(checkpoint, fault)
    checkpoint.drop_unfinished()
    if not applied and begun is None:
        return LastBatch(_begun(checkpoint, str(uuid4())))
    if not applied:  # of a version that noted nothing before the first commit, or older than that
        last = LastBatch(begun or "")
        return last if in_target is None else _known(checkpoint, last, in_target(last.checkpoint))
    last = LastBatch.of(applied)
    checkpoint.drop_torn(after=last.batch)
    if checkpoint.query_id() is None and checkpoint.planned():
        checkpoint.begin(last.checkpoint)
    if in_target is not None:
        last = _known(checkpoint, last, in_target(last.checkpoint))
    if last.batch == NO_BATCH:
        checkpoint.drop_state_of(0)  # whose plan was cut off: it is made anew, and begins with no state
    fault = _fault(checkpoint, last)
    if fault is None:
        return last
    if last.batch == NO_BATCH and not checkpoint.begun:
        return LastBatch(_begun(checkpoint, last.checkpoint))
    if last.plan is None or last.state or keeps_state or log_ends(ends_of(last.plan)):
        raise _damaged(checkpoint, fault)
    checkpoint.write_anew(last.checkpoint, last.batch, last.plan)
    _log.warning("The checkpoint %s %s; it was written anew from the catalog, at batch %d.", checkpoint.location, fault, last.batch)
    return last


def _known(checkpoint: Checkpoint, last: LastBatch, there: InTarget) -> LastBatch:
    """The last batch of the catalog, or of a target that is ahead of it as the checkpoint is; raises as `agreed` does."""
    _require_known(checkpoint, last, there)
    return last if there.batch <= last.batch else _of_target(checkpoint, last, there.batch)


def _of_target(checkpoint: Checkpoint, last: LastBatch, batch: int) -> LastBatch:
    """A later batch that target and checkpoint have, and the catalog has forgotten: it is passed over, too, if Spark begins it again."""
    plan = None if checkpoint.ends(batch) is None else checkpoint.plan(batch)
    return LastBatch(last.checkpoint, batch, plan, last.state or checkpoint.holds_state)


def require_same(checkpoint: Checkpoint, applied: Mapping[str, Any], batch: int) -> None:
    """A batch that counts as committed is passed over only where it is the one that was; raises `JobCheckpointDamaged`."""
    last = LastBatch.of(applied)
    if batch < last.batch:
        raise _damaged(checkpoint, f"begins batch {batch} again, while batch {last.batch} was committed")
    if last.plan is not None and (fault := _other_rows(checkpoint, last)):
        raise _damaged(checkpoint, fault)


def require_files(checkpoint: Checkpoint, batch: int, go_on: Callable[[], None]) -> None:
    """A batch that is done again needs the files that it had planned to read: those that are gone Spark passes over without a word.

    Each is asked for, many at once, as a first batch may have all of a bucket. Raises `JobCheckpointDamaged`, naming those that are gone,
    what a store says that does not tell, and what ``go_on`` does, which is called in between.
    """
    gone: list[str] = []
    looks = SideBySide(_ASKED_AT_ONCE).each(lambda asked: asked[0].file_exists(asked[1]), _in_stores(checkpoint.planned_files(batch)))
    with contextlib.closing(looks):
        for (_, path), is_there in looks:
            go_on()
            if not is_there:
                gone.append(path)
    if gone:
        names = ", ".join(map(file_name, gone[:_TOLD])) + (f" and {len(gone) - _TOLD:,} more" if len(gone) > _TOLD else "")
        raise JobCheckpointDamaged(
            f"Batch {batch} of the job had begun when it was stopped, and is to be done again: it needs {names}, which "
            f"{'is' if len(gone) == 1 else 'are'} gone. Nothing of it was written anew. Put back what it needs and ALTER JOB … RESTART, or "
            "start a new job over the files that are left."
        )


def _in_stores(paths: Iterator[str]) -> Iterator[tuple[FileIO, str]]:
    """Each path with what reads it: one for a store, as each has connections of its own."""
    stores: dict[tuple[str, str], FileIO] = {}
    for path in paths:
        place = Location.parse(path)
        store = (place.scheme, place.authority)
        if store not in stores:
            stores[store] = file_io_for(path)
        yield stores[store], path


def _require_known(checkpoint: Checkpoint, last: LastBatch, there: InTarget) -> None:
    """A catalog that is older than the checkpoint, as an old dump is, is gone on with once the target has what it has forgotten."""
    noted, in_target = checkpoint.committed(), there.batch
    if max(noted, in_target) <= last.batch or noted == in_target:
        return
    if in_target < noted:
        problem = (
            f"has committed batch {noted}, which the catalog does not know: it is older. Where the job's table, or that of its bad rows, "
            "is ahead of the catalog, CALL sys.repair_table for it and restart the job; "
        )
        problem += (
            "where it is not, remove the checkpoint and restart the job, which begins behind its last batch in the catalog"
            if there.whole
            else "where it is not, keep the checkpoint: snapshots of the table have expired, perhaps those of the later batches, "
            "whose rows would be written twice; look which rows the table has, and start a new job whose hints say where it begins"
        )
    else:
        problem = f"does not know batch {in_target}, which the job's table has and the catalog has forgotten"
    raise _damaged(checkpoint, problem)


def _damaged(checkpoint: Checkpoint, problem: str) -> JobCheckpointDamaged:
    name = "/".join(checkpoint.location.rsplit("/", 2)[-2:])
    return JobCheckpointDamaged(
        f"The job's checkpoint {name} {problem}. Nothing was written, since to go on could leave out rows or write them twice. Put the "
        "checkpoint back as it was and ALTER JOB … RESTART, or start a new job whose hints say where it begins; DESCRIBE JOB tells what "
        "was read."
    )


def _begun(checkpoint: Checkpoint, query_id: str) -> str:
    """Begin anew, where no state is left of an earlier beginning; raises as `agreed` does."""
    if fault := _without_plans(checkpoint):
        raise _damaged(checkpoint, fault)
    checkpoint.begin(query_id)
    return query_id


def _fault(checkpoint: Checkpoint, last: LastBatch) -> str | None:
    """What keeps the checkpoint from being the one of that batch; None where nothing does."""
    query_id = checkpoint.query_id()
    if query_id is None:
        return "is gone or has no file 'metadata'"
    if query_id != last.checkpoint:
        return f"is another query's ({query_id})"
    numbers = checkpoint.planned()
    newest = numbers[-1] if numbers else NO_BATCH
    if newest < last.batch:
        return f"knows its batches up to {newest} only, while batch {last.batch} was committed" if numbers else "has lost its offsets"
    if newest > 0 and newest - 1 not in numbers:
        return f"lacks offsets/{newest - 1}"
    if not numbers and (fault := _without_plans(checkpoint)):  # those there were had been cut off
        return fault
    if last.batch in numbers:
        if fault := _other_rows(checkpoint, last):
            return fault
    elif last.batch > NO_BATCH and numbers[0] < last.batch:  # the first ones are let go by and by
        return f"lacks offsets/{last.batch}"
    return _lacking_log(checkpoint, newest) if newest > NO_BATCH else None


def _without_plans(checkpoint: Checkpoint) -> str | None:
    """Batches whose rows are in the state, and whose plans are gone: done anew, their rows would count twice, or no more be found.

    A plan is on disk before its batch leaves anything in the state. Versions up to 0.1 did not see to that: there one may be missing.
    """
    numbers, done = checkpoint.planned(), checkpoint.reached_in_state()
    if done > NO_BATCH and not numbers:
        return f"has lost its offsets, while its state holds the rows of batches up to {done}"
    if numbers and done > numbers[-1] + 1:
        return f"knows its batches up to {numbers[-1]} only, while its state holds the rows of batches up to {done}"
    return None


def _other_rows(checkpoint: Checkpoint, last: LastBatch) -> str | None:
    ends = checkpoint.ends(last.batch)
    if ends is None:
        return f"has offsets/{last.batch} cut off"
    if last.plan is not None and ends != ends_of(last.plan):
        return f"tells other rows of batch {last.batch} than were committed"
    return None


def _lacking_log(checkpoint: Checkpoint, newest: int) -> str | None:
    """A source of files keeps which of them it has read in a log of its own, to which its offset is the index."""
    logs = log_ends(checkpoint.ends(newest) or ())
    broken = next((name for source, number in logs.items() if (name := checkpoint.broken_entry(source, number))), None)
    return None if broken is None else f"lacks {broken}, or has it cut off"
