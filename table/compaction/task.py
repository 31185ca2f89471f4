"""One piece of merging."""

from __future__ import annotations

from dataclasses import dataclass

from table.format.manifests.entries import ManifestEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """Files of one bucket to be merged, in the order their rows must have."""

    partition: bytes
    bucket: int
    inputs: tuple[ManifestEntry, ...]
    level: int | None = None
    """The level of the outputs where the inputs are sorted together; None where their order stays."""

    @property
    def input_bytes(self) -> int:
        """Bytes to read."""
        return sum(entry.file.file_size for entry in self.inputs)

    @property
    def input_rows(self) -> int:
        """Rows to rewrite."""
        return sum(entry.file.row_count for entry in self.inputs)
