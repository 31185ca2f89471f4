"""The tables a statement reads through Spark, and what is wrong with their files where Spark could not read one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from lake import LakeTable
from model.damage import MISSING
from model.errors import LakeError, TableDamaged, Unavailable, UnsupportedType
from model.text.file_name import file_name
from sql.connectors.base import ConnectorTable
from table.retention.check import ExpectedFile, fault_of
from table.scan.checks.map_layouts import shredded_map
from table.scan.checks.verify import read_here
from table.scan.planning.entry_scan import PlannedFile, ScanPlan, plan_scan

_WORD = re.compile(r"[^\s'\"`/(]++")
_FILE = re.compile(r".+\.(?:parquet|orc|avro)\b")
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
_CAUSE = re.compile(r"^Caused by: (?P<said>[^\n]*)(?P<frames>(?:\n(?!Caused by: )[^\n]*)*)", re.MULTILINE)
"""A cause in Java's words; the last one is the innermost."""
_RAISED_AT = re.compile(r"^[ \t]+at (?!(?:java|jdk|sun)[./])(?P<frame>\S*)", re.MULTILINE)
_DECODER = re.compile(
    r"\b(?:org\.apache\.(?:parquet(?!\.(?:hadoop\.util|io\.Delegating))|orc|hadoop\.io\.compress)|shaded\.parquet"
    r"|org\.apache\.spark\.sql\.execution\.(?:vectorized|datasources\.(?:parquet|orc))"
    r"|com\.github\.luben\.zstd|io\.airlift\.compress|org\.xerial\.snappy|net\.jpountz)\."
)
"""Where a failure is raised by who makes rows of bytes, and not by who brings the bytes."""
_BY_SPARK_ALONE = (
    "cannot be read by Spark, while the server's own reader finds all that was written; from now on it reads the file for Spark, "
    "and a compaction of the table writes it anew"
)


def data_files_in(message: str) -> Iterator[str]:
    """Names of data files in Spark's words, which have their paths or URIs, or in those of our own readers in its tasks.

    Each word is looked at once: a caller's own, by ``raise_error``, may be as long as he likes.
    """
    return (name[0] for word in _WORD.finditer(message) if (name := _FILE.match(word[0])) is not None)


class Reading:
    """What a statement reads; a table that is followed has no plan of its own, and what is live in it now is looked at."""

    def __init__(self, table: LakeTable | None = None, files: Sequence[PlannedFile] | None = None) -> None:
        self._tables: list[tuple[LakeTable, Sequence[PlannedFile] | None]] = [] if table is None else [(table, files)]
        self.sources: list[ConnectorTable] = []
        """The tables with a connector that are followed."""
        self.has_consumer = False
        """Whether the progress of one that is followed is kept under a name (`consumer-id`)."""

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

    def unreadable(self, message: str) -> TableDamaged | Unavailable | UnsupportedType | None:
        """The error of a file at which Spark failed, and in which our reader, that `damage` has asked, misses nothing.

        Spark fails at a MAP in Java's other layout, which ours refuses by name: the file stays Spark's for who leaves the MAP out.
        It is damage where Spark's words show that the bytes were there and no rows could be made of them, such as a page's head in which a
        bit was changed that Arrow has no use for; the next statement has it read by ours. All else, such as an executor that cannot reach
        what the server reaches, says nothing about the file.
        """
        if _FAILED not in message:
            return None
        for table, planned_file in self._named(message):
            if _is_decoders(message):
                schema = table.schema_at(planned_file.file.schema_id)
                if (shredded := shredded_map(table.files.io, planned_file.path, schema)) is not None:
                    return shredded
                read_here(table.files, planned_file)
                damage = table.files.damaged(planned_file.path, _BY_SPARK_ALONE)
                damage.stays = False
                return damage
            return Unavailable(
                f"Spark could not read {file_name(planned_file.path)} of table {table.files.name}, in which the server misses nothing"
                f"{_because(message)}. Each of Spark's executors must reach the warehouse as the server does; try again in a moment."
            )
        return None

    def _named(self, message: str) -> Iterator[tuple[LakeTable, PlannedFile]]:
        """The files of the statement's tables that Spark's words name."""
        named = {unquote(path).rpartition("/")[2] for path in data_files_in(message)}
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


def _innermost(message: str) -> re.Match[str] | None:
    """The last cause in Spark's words; None where they name none."""
    causes = [*_CAUSE.finditer(message)]
    return causes[-1] if causes else None


def _is_decoders(message: str) -> bool:
    """Whether the innermost cause in Spark's words was raised by what makes rows of a file's bytes."""
    cause = _innermost(message)
    if cause is None:
        return _DECODER.search(message) is not None
    frame = _RAISED_AT.search(cause["frames"])
    return _DECODER.search(cause["said"]) is not None or (frame is not None and _DECODER.search(frame["frame"]) is not None)


def _because(message: str) -> str:
    """The kind of the innermost cause; its words may tell where files lie."""
    cause = _innermost(message)
    kind = re.match(r"(?:\w+\.)*([\w$]+)", cause["said"]) if cause is not None else None
    return f" ({kind[1]})" if kind else ""
