"""Files that a client adds again while the manifests it builds on still tell that they went: only some readers would find them.

Java's readers leave out a file of which any manifest tells that it went, whatever came after, and its writers, and readers of parts of a
table, fail at a file that was added twice. Its `rollbackToAsLatest` names new manifests of what is live, in which nothing has gone.
"""

from __future__ import annotations

from model.catalog_errors import InvalidCommit
from model.identifier import Identifier
from model.snapshot import Snapshot
from model.text.sql_text import literal
from table.format.manifests.columns import digest_of, many_entries
from table.format.manifests.entries import EntryKind
from table.format.store import TableFiles


def require_not_told_gone(table: Identifier, files: TableFiles, snapshot: Snapshot) -> None:
    """Raise `InvalidCommit` where a judged commit adds a file that its base has as gone."""
    added = {entry.file.file_name: entry for entry in files.delta_entries(snapshot) if entry.kind is EntryKind.ADD}
    keys, digests = {entry.key() for entry in added.values()}, {digest_of(entry) for entry in added.values()}
    for meta in files.base_manifests(snapshot):
        if not meta.num_deleted_files:
            continue
        if many_entries([meta]):  # what is live is not added again: one that is named is gone
            is_named = bool(files.columns(meta).of_keys(digests).any())
        else:
            is_named = any(entry.file.file_name in added and entry.key() in keys for entry in files.manifest(meta))
        if is_named:
            raise InvalidCommit(
                f"Snapshot {snapshot.id} of {table} is not taken: it adds a file again that went, and the manifest {meta.file_name} of its "
                f"base tells of that: Paimon's readers leave it out. CALL sys.compact_manifest({literal(table.written())}) makes "
                "manifests that do not; look then at the latest snapshot, which may hold the rows in another file, and build it anew."
            )
