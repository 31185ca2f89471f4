"""The tables a statement reads through Spark, and what is wrong with their files where Spark could not read one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from lake import LakeTable
from model.errors import LakeError, TableDamaged
from sql.connectors.base import ConnectorTable
from table.retention.check import MISSING, ExpectedFile, fault_of
from table.scan.checks.verify import read_here
from table.scan.planning.entry_scan import PlannedFile, ScanPlan, plan_scan

_FILE = re.compile(r"[^\s'\"`/(]+\.(?:parquet|orc|avro)\b")
"""A data file's name in Spark's words, which have its path or URI, or in those of our own readers in its tasks."""
_GONE = re.compile(r"^(?:\w+\.)*Unavailable: (\S+) of table ", re.MULTILINE)
"""A file that such a reader did not find; it has no catalog to ask what that means."""
_SAID = re.compile(
    r"^(?:\w+\.)*TableDamaged: Table \S+ is damaged: (?P<file>\S+) (?:\(named by snapshot \d+\) )?"
    r"(?P<problem>.*?)\. CALL sys\.check_table\(",
    re.MULTILINE | re.DOTALL,
)
"""Damage that one has met."""


_FAILED = "FAILED_READ_FILE"
"""Spark's word for a failure in reading a file, whatever the statement does with its rows."""
_BY_SPARK_ALONE = (
    "cannot be read by Spark, while the server's own reader finds all that was written; from now on it reads the file for Spark, "
    "and a compaction of the table writes it anew"
)


class Reading:
    """What a statement reads; a table that is followed has no plan of its own, and what is live in it now is looked at."""

    def __init__(self, table: LakeTable | None = None, files: Sequence[PlannedFile] | None = None) -> None:
        self._tables: list[tuple[LakeTable, Sequence[PlannedFile] | None]] = [] if table is None else [(table, files)]
        self.sources: list[ConnectorTable] = []
        """The tables with a connector that are followed."""

    def add(self, table: LakeTable, plan: ScanPlan | None) -> None:
        """It reads this table, too."""
        self._tables.append((table, None if plan is None else plan.files))

    @property
    def tables(self) -> list[LakeTable]:
        """The tables, one that is mentioned twice is there twice."""
        return [table for table, _ in self._tables]

    def damage(self, message: str) -> LakeError | None:
        """The error of a file that Spark's words name and that is not what was written, or gone; None where there is none."""
        for table, planned_file in self._named(message):
            files = table.files
            expected = ExpectedFile(
                path=planned_file.path,
                size=planned_file.file.file_size,
                rows=planned_file.file.row_count,
                file=planned_file.file,
                schema=table.schema_at(planned_file.file.schema_id),
            )
            fault = fault_of(files.io, expected, deep=True)
            if fault is not None:
                return files.missing(planned_file.path) if fault == MISSING else files.damaged(planned_file.path, fault)
        return self._met_by_a_reader(message)

    def unreadable(self, message: str) -> TableDamaged | None:
        """The error of a file at which Spark's reader failed, and in which ours, that `damage` has asked, misses nothing.

        Such as a page's head in which a bit was changed that Arrow has no use for. The next statement has it read by ours.
        """
        if _FAILED not in message:
            return None
        for table, planned_file in self._named(message):
            read_here(table.files, planned_file)
            return table.files.damaged(planned_file.path, _BY_SPARK_ALONE)
        return None

    def _named(self, message: str) -> Iterator[tuple[LakeTable, PlannedFile]]:
        """The files of the statement's tables that Spark's words name."""
        named = {unquote(path).rpartition("/")[2] for path in _FILE.findall(message)}
        for table, planned in self._tables if named else ():
            for planned_file in plan_scan(table.files, table.schema, table.latest()).files if planned is None else planned:
                if planned_file.file.file_name in named:
                    yield table, planned_file

    def _met_by_a_reader(self, message: str) -> LakeError | None:
        """What our own readers said of a file that is not live now, such as a manifest, or data a stream that is behind still needs."""
        damage, gone = _SAID.search(message), _GONE.search(message)
        expired: LakeError | None = None
        for table, _ in self._tables:
            if damage is not None and (len(self._tables) == 1 or f"TableDamaged: Table {table.files.name} is damaged" in message):
                return table.files.damaged(damage["file"], damage["problem"])
            if gone is not None:
                expired = table.files.missing(gone[1])
                if isinstance(expired, TableDamaged):
                    return expired
        return expired
