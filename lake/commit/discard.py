"""Removing files that were written and never committed."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lake.table import LakeTable
from model.errors import LakeError
from table.binary_row import decode
from table.manifest import NewFile

_log = logging.getLogger(__name__)


def discard(table: LakeTable, written: Sequence[NewFile]) -> None:
    """Delete data files no snapshot names."""
    types = [field.type for field in table.schema.partition_fields]
    for new in written:
        directory = table.files.layout.bucket_dir(table.schema, decode(types, new.partition), new.bucket)
        try:
            for name in (new.file.file_name, *new.file.extra_files):
                table.files.io.delete(f"{directory}/{name}")
        except LakeError:  # invisible to every reader, and found later as an orphan
            _log.warning("A data file that was not committed could not be deleted: %s", new.file.file_name)
