"""The tables a statement reads through Spark, and what is wrong with their files where Spark could not read one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from lake import LakeTable
from model.errors import LakeError
from table.retention.check import MISSING, ExpectedFile, fault_of
from table.scan import PlannedFile, ScanPlan, plan_scan

_FILE = re.compile(r"[^\s'\"`]*?\.(?:parquet|orc|avro)\b")
"""A data file's path, URI or bare name in Spark's words."""


class Reading:
    """What a statement reads; a table that is followed has no plan of its own, and what is live in it now is looked at."""

    def __init__(self, table: LakeTable | None = None, files: Sequence[PlannedFile] | None = None) -> None:
        self._tables: list[tuple[LakeTable, Sequence[PlannedFile] | None]] = [] if table is None else [(table, files)]

    def add(self, table: LakeTable, plan: ScanPlan | None) -> None:
        """It reads this table, too."""
        self._tables.append((table, None if plan is None else plan.files))

    def damage(self, told: str) -> LakeError | None:
        """The error of a data file that Spark's words name and that is not what was written; None where there is none."""
        named = {unquote(path).rpartition("/")[2] for path in _FILE.findall(told)}
        for table, planned in self._tables if named else ():
            files = table.files
            for one in plan_scan(files, table.schema, table.latest()).files if planned is None else planned:
                if one.file.file_name not in named:
                    continue
                fault = fault_of(files.io, ExpectedFile(path=one.path, size=one.file.file_size, rows=one.file.row_count), deep=True)
                if fault is not None:
                    return files.missing(one.path) if fault == MISSING else files.damaged(one.path, fault)
        return None
