"""Every way to a table's rows that needs no Spark, each asked which rows a condition keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from lake import Lake, LakeTable, StreamStep
from model.access import WHOLE
from model.identifier import Identifier
from model.options.table import stream_options
from model.predicate import Predicate
from model.snapshot import Snapshot
from sql.analysis.predicates import pushed
from sql.analysis.references import table_references
from sql.dialect import parse_one
from sql.execution.reading_memory import StepMemory
from sql.local.conditions import Conditions as Filters
from sql.local.delete import plan_delete
from sql.local.literals import NotLocal
from sql.local.scan import LocalScan, MetadataAnswer, plan_select
from sql.local.scope import Scope
from sql.local.tail import plan_tail
from table.scan.planning import column_scan
from table.scan.planning.entry_scan import plan_entries, plan_scan
from table.scan.planning.plan import PlannedFile
from table.scan.read import Selection, read_batches
from table.scan.time_travel import plan_batch
from tests.sql.local.modelled import Of, Row, placed
from tests.sql.tables import context_of

Wrong = dict[tuple[str, str], tuple[list[int], list[int]]]
"""By condition and way: the ids that it lost, and those that it kept too many."""
STARTS = {"tail": "", "tail from 1": "'scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1'"}
_READ, _TAILED = 15, 30
"""Of so many conditions one reads files, and one is a stream's."""


class Ways:
    """A table with its rows, read without a condition, and all ways to them."""

    def __init__(self, lake: Lake, name: str = "c", *, streams: bool = True) -> None:
        self.lake, self.name, self._streams = lake, name, streams
        self.table: LakeTable = lake.open(Identifier("default", name))
        self._context: Any = context_of(lake)
        latest = self.table.latest()
        assert latest is not None
        self._snapshot: Snapshot = latest
        self._entries = list(self.table.files.live_entries(latest))
        plan = plan_scan(self.table.files, self.table.schema, latest)
        self.ids: dict[str, list[int]] = {}
        """The ids in each file."""
        self.rows: dict[int, Row] = {}
        for planned in plan.files:
            rows = self._read(planned, list(self.table.schema.field_names))
            self.ids[planned.path] = [row["id"] for row in rows]
            self.rows |= {row["id"]: row for row in rows}
        names = [field.name for field in self.table.schema.fields]
        every = read_batches(self.table.files, self.table.schema, plan.files, Selection(columns=names))
        self.held = pa.Table.from_batches(list(every))
        self.asked = 0

    def _read(self, planned: PlannedFile, names: list[str]) -> list[dict[str, Any]]:
        batches = read_batches(self.table.files, self.table.schema, [planned], Selection(columns=names))
        return [row for batch in batches for row in batch.to_pylist()]

    def _ids_of(self, planned: Iterable[PlannedFile]) -> set[int]:
        found: set[int] = set()
        for one in planned:
            if one.path not in self.ids:
                self.ids[one.path] = [row["id"] for row in self._read(one, ["id"])]
            found.update(self.ids[one.path])
        return found

    def differing(self, conditions: Mapping[str, Of]) -> Wrong:
        """The conditions that keep other rows than they should, by any way."""
        wrong: Wrong = {}
        for number, (text, of) in enumerate(conditions.items()):
            wanted = sorted(id_ for id_, row in self.rows.items() if of(row))
            for who, ask in self._ways(number).items():
                answer = ask(text, wanted)
                self.asked += answer is not None
                if answer is not None and answer != wanted:
                    wrong[text, who] = sorted(set(wanted) - set(answer)), sorted(set(answer) - set(wanted))
        return wrong

    def _ways(self, number: int) -> dict[str, Callable[[str, list[int]], list[int] | None]]:
        """What the n-th condition is asked: what takes milliseconds always, what reads files of some."""
        ways: dict[str, Callable[[str, list[int]], list[int] | None]] = {
            "planned by entry": partial(self._planned, plan=self._by_entry),
            "planned by column": partial(self._planned, plan=self._by_column),
            "filter": self._filtered,
        }
        if number % _READ == 0:
            ways |= {
                "scan": self._scanned,
                "scan with a limit": self._limited,
                "delete": self._deleted,
                "planned of what was added": partial(self._planned, plan=self._added),
            }
        if self._streams and number % _TAILED == 0:
            ways |= {who: partial(self._tailed, start=start) for who, start in STARTS.items()}
        return ways

    def _planned(self, text: str, wanted: list[int], *, plan: Callable[[Predicate | None], Iterable[PlannedFile]]) -> list[int]:
        """The wanted ids that lie in planned files; others are filtered later."""
        (reference,) = table_references(parse_one(f"SELECT id FROM {self.name} WHERE {text}"))
        there = self._ids_of(plan(pushed(reference, self.table.schema, WHOLE)))
        return [id_ for id_ in wanted if id_ in there]

    def _by_entry(self, predicate: Predicate | None) -> Iterable[PlannedFile]:
        return plan_entries(self.table.files, self.table.schema, self._snapshot, self._entries, predicate).files

    def _by_column(self, predicate: Predicate | None) -> Iterable[PlannedFile]:
        with patch.object(column_scan, "many_entries", lambda _: True):
            return plan_scan(self.table.files, self.table.schema, self._snapshot, predicate).files

    def _added(self, predicate: Predicate | None) -> Iterable[PlannedFile]:
        scan = self.lake.scan(self.table, {"incremental-between": f"0,{self._snapshot.id}"})
        return plan_batch(self.table.files, self.table.schema, scan, predicate).files

    def _filtered(self, text: str, _: list[int]) -> list[int] | None:
        """The condition as Arrow's filter over all rows."""
        tree: Any = parse_one(f"SELECT id FROM {self.name} WHERE {text}")
        (reference,) = table_references(tree)
        try:
            condition = Filters(Scope(reference, self.table.schema).column).translate(tree.args["where"].this)
        except NotLocal:
            return None
        return sorted(self.held.filter(condition).column("id").to_pylist())

    def _scanned(self, text: str, _: list[int]) -> list[int] | None:
        try:
            plan = plan_select(parse_one(f"SELECT id FROM {self.name} WHERE {text}"), self._context)  # type: ignore[arg-type]
        except NotLocal:
            return None
        assert isinstance(plan, LocalScan)
        return sorted(row[0] for row in plan.run(self._context).collect())

    def _limited(self, text: str, wanted: list[int]) -> list[int] | None:
        """The wanted ids, where a LIMIT gives as many rows as it should and none but them."""
        try:
            plan = plan_select(parse_one(f"SELECT id FROM {self.name} WHERE {text} LIMIT 3"), self._context)  # type: ignore[arg-type]
        except NotLocal:
            return None
        found = [row[0] for row in plan.run(self._context).collect()]
        return wanted if len(found) == len(set(found)) == min(3, len(wanted)) and set(found) <= set(wanted) else sorted(found)

    def _deleted(self, text: str, _: list[int]) -> list[int] | None:
        if self.table.schema.options.get("rows.erasable") != "true":
            return None
        try:
            plan = plan_delete(parse_one(f"DELETE FROM {self.name} WHERE {text}"), self._context)  # type: ignore[arg-type]
        except NotLocal:
            return None
        found = plan.find(self._context, self.table, self._snapshot)
        return sorted(self.ids[planned.path][at] for planned, change in found.files for at in change.deleted)

    def _tailed(self, text: str, _: list[int], *, start: str) -> list[int] | None:
        """The rows of a stream from a start on, until there are no more: all that batch reads find."""
        hint = f" /*+ OPTIONS({start}) */" if start else ""
        try:
            tail = plan_tail(parse_one(f"SELECT id FROM {self.name}{hint} WHERE {text}"), self._context)
        except NotLocal:
            return None
        options = stream_options(self.table.schema.options, tail.reference.options)
        stream = self.lake.follow(tail.table, options, predicate=tail.predicate)
        stream.never_wait()
        found: list[int] = []
        steps = stream.steps

        def is_more(step: StreamStep | None) -> bool:  # none may also mean that it is others' turn
            return step is not None or stream.cursor.next_snapshot_id <= self._snapshot.id

        with patch.object(stream, "steps", lambda: takewhile(is_more, steps())):
            for batch in tail._batches(stream, StepMemory()):
                found += batch.column(0).to_pylist()
        stream.close()
        return sorted(found)

    def aggregates(self) -> dict[str, tuple[object, object]]:
        """Aggregates that metadata answers, and otherwise than the rows say."""
        wrong: dict[str, tuple[object, object]] = {}
        for name in self.table.schema.field_names:
            present = [row[name] for row in self.rows.values() if row[name] is not None]
            for function in ("COUNT", "MIN", "MAX"):
                text = f"SELECT {function}({name}) FROM {self.name}"
                try:
                    plan = plan_select(parse_one(text), self._context)  # type: ignore[arg-type]
                except NotLocal:
                    continue
                assert isinstance(plan, MetadataAnswer)
                ((told,),) = plan.run(self._context).collect()
                wanted = len(present) if function == "COUNT" else {"MIN": min, "MAX": max}[function](present, key=placed, default=None)
                if told != wanted:
                    wrong[text] = (told, wanted)
        return wrong
