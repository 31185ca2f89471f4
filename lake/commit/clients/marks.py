"""Marks of deleted rows beside the files that a client's commit adds and takes away (`paimon-append.md` §6.2, d).

A compaction that was planned before rows of one of its files were deleted would bring them back: nothing but their marks tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lake.commit.clients.kept_rows import Place
from model.options.deletion_vectors import ENABLED
from model.options.table import is_on
from model.schema.schema import Schema
from model.snapshot import CommitKind, Snapshot
from table.format.deletions import INDEX_TYPE, Deletions, deleted_rows, deletions_of, key_of
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.format.store import TableFiles


class WrongMarks(Exception):
    """What is wrong with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The deletion vectors of a commit's snapshot and of the one it is built on."""

    files: TableFiles
    schema: Schema
    base: Snapshot | None
    snapshot: Snapshot
    before: Deletions
    after: Deletions

    @classmethod
    def of(cls, files: TableFiles, schema: Schema, base: Snapshot | None, snapshot: Snapshot) -> Marks:
        """Raises what reading the index manifests raises."""
        before, after = deletions_of(files, schema, base), deletions_of(files, schema, snapshot)
        return cls(files=files, schema=schema, base=base, snapshot=snapshot, before=before, after=after)

    def deleted_already(self, changes: Sequence[ManifestEntry], *, changed: bool) -> Mapping[Place, int]:
        """How many rows of the files that a COMPACT takes away were deleted, by bucket; raises `WrongMarks`.

        ``changed``: whether any mark is another one than before.
        """
        if changed:
            self._check_heeded()
            self._check_new(changes)
        gone: Counter[Place] = Counter()
        if not self.before or self.snapshot.commit_kind is not CommitKind.COMPACT:
            return gone
        stays = {key_of(entry) for entry in changes if entry.kind is EntryKind.ADD}
        for entry in changes:
            key = key_of(entry)
            if entry.kind is EntryKind.ADD or key in stays or (vector := self.before.get(key)) is None:
                continue
            if key in self.after:
                raise WrongMarks(
                    f"it takes the file {entry.file.file_name[:80]} away, of which rows are marked as deleted, and leaves their mark: were "
                    "they deleted since it was planned, they would be back. Read the latest snapshot and compact it anew."
                )
            gone[entry.partition, entry.bucket] += deleted_rows(self.files, vector, entry.file.row_count)
        return gone

    def _check_heeded(self) -> None:
        """Raise for the first marks of a table whose readers do not look for any, as it was altered after the commit's maker loaded it."""
        if self.after and not self.before and not is_on(self.schema.options, ENABLED):
            raise WrongMarks(
                f"it marks deleted rows, and the table's option '{ENABLED}' is not on: other Paimon clients would read these rows. "
                "Load the table anew."
            )

    def _check_new(self, changes: Sequence[ManifestEntry]) -> None:
        """Raise for a new mark of a file that is not there after the commit, and for a file with two marks."""
        marked: Counter[tuple[bytes, int, str]] = Counter()
        for record in () if self.snapshot.index_manifest is None else self.files.index_manifest(self.snapshot.index_manifest):
            if record["_INDEX_TYPE"] == INDEX_TYPE:
                ranges = record["_DELETIONS_VECTORS_RANGES"] or ()
                marked.update((record["_PARTITION"], record["_BUCKET"], vector_range["f0"]) for vector_range in ranges)
        if twice := next((key for key, times in marked.items() if times > 1), None):
            raise WrongMarks(f"it has two deletion vectors of the file {twice[2][:80]}.")
        new = self.after.keys() - self.before.keys()
        if not new:
            return
        new -= {key_of(entry) for entry in changes if entry.kind is EntryKind.ADD}
        gone = {key_of(entry) for entry in changes if entry.kind is EntryKind.DELETE}
        missing = (new & gone) or (new - {key_of(entry) for entry in self.files.live_entries(self.base)})
        if missing:
            raise WrongMarks(
                f"it has a deletion vector of the file {min(missing)[2][:80]}, which the table does not have (any more). Read the latest "
                "snapshot and build the commit anew."
            )
