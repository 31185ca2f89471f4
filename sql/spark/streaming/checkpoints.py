"""A job's checkpoint as Spark lays it out, and what of it must outlive a power cut."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from model.location import Location
from model.work.job import NO_BATCH, is_drained
from sql.spark.streaming.kept_state import KeptState
from table.format.io.file_io import FileIO, FileStatus, file_io_for
from table.format.io.storage_errors import translating

_COMMITTED = "committed"
_COMPACT = ".compact"
"""What the name of a log's entry ends with that holds all before it, too."""
_LONGEST_LINE = 1 << 16
"""More bytes than an entry has for a file: its path has 4096 at most, each of them written as six."""


class Checkpoint:
    """One query's checkpoint directory. Spark writes it without flushing it to disk."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._io: FileIO = file_io_for(location)
        self._state = KeptState(self._io, f"{location}/state")
        self._flushed: dict[int, int] | None = None
        """Of each source of files the last entry of its log that is on disk; None before the first flush of all there is."""

    @property
    def begun(self) -> bool:
        """Whether a query has begun here."""
        return self._io.exists(f"{self.location}/metadata")

    def query_id(self) -> str | None:
        """Whose checkpoint it is; None where none has begun, or that cannot be told any more."""
        text = self._text("metadata")
        parsed = None if text is None else _parsed_or_none(text)
        return str(parsed["id"]) if isinstance(parsed, dict) and "id" in parsed else None

    def begin(self, query_id: str) -> None:
        """Be the checkpoint of a query, of which there is no batch yet."""
        self._put("metadata", json.dumps({"id": query_id}))

    def write_anew(self, query_id: str, batch: int, plan: str) -> None:
        """Stand behind a batch that was committed: what is here goes. Only for queries that keep nothing but positions here."""
        self._io.delete_tree(self.location)
        if batch:  # Spark asks for the batch before, too
            self._put(f"offsets/{batch - 1}", plan)
        self._put(f"offsets/{batch}", plan)
        watermark = json.loads(plan.splitlines()[1]).get("batchWatermarkMs", 0)
        self._put(f"commits/{batch}", f'v1\n{{"nextBatchWatermarkMs":{watermark}}}')
        self.begin(query_id)  # last: without it the rest counts for nothing
        self._flushed = None

    def drop_torn(self, *, after: int) -> None:
        """Let go of what a power cut left of files that nobody flushed: plans of batches that were not committed, and Spark's own notes.

        A plan that is gone is made anew, and so is what a source of files has noted for it; Spark stops forever at one that is cut off.
        """
        planned = self.planned()
        while planned and planned[-1] > after and self.ends(planned[-1]) is None:
            self._drop(f"offsets/{planned.pop()}")
        gone = self._drop_broken_entries(planned, after)
        while planned and planned[-1] > after and _reach(self.ends(planned[-1]) or (), gone):
            self._drop(f"offsets/{planned.pop()}")
        done = self._numbers("commits")
        while done and (done[-1] > (planned[-1] if planned else -1) or not self._is_note(f"commits/{done[-1]}")):
            self._drop(f"commits/{done.pop()}")

    def drop_unfinished(self) -> None:
        """Let go of what somebody was writing when it ended: beside it Spark begins no first batch, for which it wants empty directories.

        It writes each file under a name that ends with ``.tmp`` first; nothing reads one that has no other name.
        """
        for directory in ("offsets", "commits"):
            names = {status.path.rsplit("/", 1)[-1] for status in self._io.list(f"{self.location}/{directory}")}
            for name in names:
                of_nothing = name.endswith(".crc") and name[1:].removesuffix(".crc") not in names
                if name.startswith(".") and (name.endswith((".tmp", ".tmp.crc")) or of_nothing):
                    self._io.delete(f"{self.location}/{directory}/{name}")
        self.drop_state_of(NO_BATCH)

    def drop_state_of(self, batch: int) -> None:
        """Where there is no plan, and state of no later batch: the first batch finds none."""
        if not self.planned() and self._state.begun and self._state.newest() - 1 <= batch:
            self._io.delete_tree(f"{self.location}/state")

    def planned(self) -> list[int]:
        """The batches whose plans are here, the oldest first; Spark keeps the last hundred."""
        return self._numbers("offsets")

    def ends(self, batch: int) -> list[Any] | None:
        """Where each source stands after a batch; None where its plan is not here, or is cut off."""
        text = self._text(f"offsets/{batch}")
        try:
            return None if text is None else ends_of(text)
        except (ValueError, IndexError):
            return None

    def plan(self, batch: int) -> str:
        """Which rows a batch is, as Spark wrote it."""
        return self._io.read(f"{self.location}/offsets/{batch}").decode()

    def broken_entry(self, source: int, number: int) -> str | None:
        """The first file that a source of files needs of its log up to an entry, and that is gone or cut off; None where all is there."""
        log = self._log(source)
        first = max((entry for entry, name in log.items() if entry <= number and name.endswith(_COMPACT)), default=0)  # holds all before
        names = (log.get(entry, str(entry)) for entry in range(first, number + 1))
        return next((f"sources/{source}/{name}" for name in names if not self._is_entry(f"sources/{source}/{name}")), None)

    def planned_files(self, batch: int) -> Iterator[str]:
        """The files that sources of files read in a batch, by what these have noted in their logs."""
        before = log_ends(self.ends(batch - 1) or ()) if batch else {}
        for source, end in log_ends(self.ends(batch) or ()).items():
            log = self._log(source)
            for number in range(before.get(source, -1 if batch == 0 else end - 1) + 1, end + 1):
                yield from self._noted_files(f"sources/{source}/{log.get(number, str(number))}", number)

    def _noted_files(self, name: str, number: int) -> Iterator[str]:
        """Those of one entry of a log; it may be one that holds all before it, too, as large as memory."""
        path = f"{self.location}/{name}"
        with translating(path), self._io.open_input(path) as file:
            lines = io.BufferedReader(file)
            next(lines, b"")  # the version
            for line in lines:
                noted = json.loads(line)
                if noted.get("batchId", number) == number:
                    yield str(Location.parse(unquote(noted["path"])))

    def _log(self, source: int) -> dict[int, str]:
        """What a source of files has of its log: the names of its entries by their numbers."""
        names = sorted(status.path.rsplit("/", 1)[-1] for status in self._io.list(f"{self.location}/sources/{source}"))
        return {_entry_of(name): name for name in names if name.removesuffix(_COMPACT).isdecimal()}

    def _is_entry(self, name: str, *, before: bytes = b"") -> bool:
        """Whether a log's entry is there as it was written: a line with the version, and one for each file.

        ``before`` is what stands before the version. An entry that holds all before it may be as large as memory: its ends are read.
        """
        path = f"{self.location}/{name}"
        try:
            with translating(path), self._io.open_input(path) as file:
                begin = bytes(file.read(len(before) + 1))
                file.seek(max(0, file.size() - _LONGEST_LINE))
                end = bytes(file.read())
        except FileNotFoundError:
            return False
        if begin != before + b"v" or b"\0" in end.removeprefix(before):
            return False
        _, newline, line = end.rpartition(b"\n")
        return not (newline or len(end) == _LONGEST_LINE) or _parsed_or_none(line) is not None

    def _is_first_offset(self, source: int) -> bool:
        """Whether a source keeps no log, but where it began, as a topic does."""
        return self._is_entry(f"sources/{source}/0", before=b"\0")

    def _drop_broken_entries(self, planned: Sequence[int], after: int) -> dict[int, int]:
        """Let go of what is gone or cut off in the logs of the sources, and of all behind it; returns by source which entry was the first.

        Entries of the batch ``after``, which was committed, and before stay as they are, and those of the oldest plan there is. Nothing is
        let go where a batch would be made anew whose rows are in the query's state.
        """
        oldest = max(after, planned[0]) if planned else -1
        gone: dict[int, int] = {}
        ends = self.ends(oldest) if after >= 0 or oldest > 0 else []
        last = self.ends(planned[-1]) if planned else []
        if ends is None or last is None:  # which entries are committed cannot be told
            return {}
        needed, known = log_ends(ends), log_ends(last)
        # A source writes its first entry before there is any plan, and before a plan that says where it stands.
        unplanned = [source for source in self._numbers("sources") if last[source : source + 1] in ([], [None])]
        for source in [*known, *(source for source in unplanned if not self._is_first_offset(source))]:
            broken = self.broken_entry(source, max([known.get(source, -1), *self._log(source)]))
            if broken is not None and _entry_of(broken) > needed.get(source, -1):
                gone[source] = _entry_of(broken)
        anew = next((batch for batch in planned if batch > after and _reach(self.ends(batch) or (), gone)), None)
        if anew is not None and anew <= self._last_run():
            return {}
        for source, first in gone.items():
            log = self._log(source)
            for entry in sorted((entry for entry in log if entry >= first), reverse=True):
                self._drop(f"sources/{source}/{log[entry]}")
        return gone

    @property
    def is_drained(self) -> bool:
        """Whether a source ends here because a drain was asked for: its windows are out, or on their way."""
        planned = self.planned()
        ends = self.ends(planned[-1]) if planned else None
        return any(map(is_drained, ends or ()))

    @property
    def holds_state(self) -> bool:
        """Whether its query keeps more here than positions."""
        return self._state.begun

    def reached_in_state(self) -> int:
        """The last batch that has left something in the state of one partition, and so does in all; -1 where none has."""
        return self._state.reached() - 1

    def _last_run(self) -> int:
        """The last batch whose rows may be in the state; -1 where none is."""
        return max([self._state.newest() - 1, *self._numbers("commits")]) if self.holds_state else -1

    def note_committed(self, batch: int) -> None:
        """Note that rows of a batch were committed, and all before it: by that a catalog that is older than the checkpoint is known."""
        self._io.write(f"{self.location}/{_COMMITTED}", str(batch).encode())

    def committed(self) -> int:
        """The last batch that is noted so; -1 where none is."""
        text = self._text(_COMMITTED) or ""
        return int(text) if text.isdecimal() else -1

    def _text(self, name: str) -> str | None:
        try:
            return self._io.read(f"{self.location}/{name}").decode()
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def _put(self, name: str, text: str) -> None:
        directory, _, base = name.rpartition("/")
        self._io.delete(f"{self.location}/{directory}{'/' * bool(directory)}.{base}.crc")
        self._io.write(f"{self.location}/{name}", text.encode())

    def _drop(self, name: str) -> None:
        directory, _, base = name.rpartition("/")
        self._io.delete(f"{self.location}/{name}")
        self._io.delete(f"{self.location}/{directory}/.{base}.crc")

    def _numbers(self, directory: str) -> list[int]:
        names = (status.path.rsplit("/", 1)[-1] for status in self._io.list(f"{self.location}/{directory}"))
        return sorted(int(name) for name in names if name.isdecimal())

    def _is_note(self, name: str) -> bool:
        lines = (self._text(name) or "").splitlines()
        return len(lines) > 1 and all(_parsed_or_none(line) is not None for line in lines[1:])

    def keep_plan(self, batch: int) -> None:
        """Flush what says which rows a batch is, before the batch is committed; raises `StorageFull` or `Unavailable`.

        The commit is durable. A plan that was lost beside it would be made anew, of other rows, under a number that counts as committed:
        those rows would be left out.
        """
        wanted = {str(batch), f".{batch}.crc"}
        paths = [status.path for status in self._io.list(f"{self.location}/offsets") if status.path.rsplit("/", 1)[-1] in wanted]
        logs = log_ends(self.ends(batch) or ())
        if self._flushed is None:
            paths += [status.path for status in self._files("sources")]
            paths += [status.path for status in self._io.list(self.location) if not status.is_dir]
        else:
            paths += [path for source, number in logs.items() for path in self._entries(source, self._flushed.get(source, -1), number)]
        self._io.sync(paths)
        self._flushed = {**(self._flushed or {}), **logs}

    def _entries(self, source: int, after: int, until: int) -> list[str]:
        """The files of a source's log behind one entry and up to another."""
        if until <= after:
            return []
        names = {name for entry, name in self._log(source).items() if after < entry <= until}
        wanted = names | {f".{name}.crc" for name in names}
        listed = self._io.list(f"{self.location}/sources/{source}")
        return [status.path for status in listed if status.path.rsplit("/", 1)[-1] in wanted]

    def watermark(self, batch: int) -> int | None:
        """The watermark a batch began with, in milliseconds since 1970, of all batches before it; None where there is none yet."""
        return int(json.loads(self._plan(batch)[1]).get("batchWatermarkMs", 0)) or None

    def sources(self, batch: int) -> str:
        """Which rows a batch is, as JSON: where each source stood before it and stands after it."""
        after = [_parsed(line) for line in self._plan(batch)[2:]]
        before = [_parsed(line) for line in self._plan(batch - 1)[2:]] if batch else [None] * len(after)
        return json.dumps([{"from": first, "to": last} for first, last in zip(before, after, strict=True)])

    def _plan(self, batch: int) -> list[str]:
        """What Spark wrote of a batch before it began: a version, the watermark among other things, and a line for each source."""
        return self.plan(batch).splitlines()

    def _files(self, directory: str) -> Iterator[FileStatus]:
        """All files below a directory, such as the sources' first positions."""
        for status in self._io.list(f"{self.location}/{directory}"):
            if status.is_dir:
                yield from self._files(status.path.removeprefix(f"{self.location}/"))
            else:
                yield status


def _parsed(line: str) -> Any:
    """A source's offset; None where it has none yet."""
    return None if line == "-" else json.loads(line)


def _parsed_or_none(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def log_ends(ends: Sequence[Any]) -> dict[int, int]:
    """Of each source of files the entry of its own log up to which it has read; its offset is nothing but that number."""
    return {source: end["logOffset"] for source, end in enumerate(ends) if isinstance(end, dict) and "logOffset" in end}


def _entry_of(name: str) -> int:
    """The number of a log's entry."""
    return int(name.rsplit("/", 1)[-1].removesuffix(_COMPACT))


def _reach(ends: Sequence[Any], entries: Mapping[int, int]) -> bool:
    """Whether a plan needs one of these entries of its sources' logs."""
    logs = log_ends(ends)
    return any(source in logs and logs[source] >= entry for source, entry in entries.items())


def ends_of(plan: str) -> list[Any]:
    """Where each source stands after the batch of a plan; None for one that has no offset yet. Raises `ValueError` or `IndexError`."""
    version, conditions, *lines = plan.splitlines()
    if not version.startswith("v") or not isinstance(json.loads(conditions), dict) or not lines:
        raise ValueError(plan[:100])
    return [_parsed(line) for line in lines]
