"""How many small files each bucket has, kept up to date from deltas: a few numbers a bucket, however large the table is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from model.schema.schema import Schema
from table.compaction.candidates import BucketKey, CompactionRules
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.scan.planning.live_files import BucketSums


@dataclass(slots=True)
class CompactionBacklog:
    """The small files of one bucket."""

    files: int = 0
    size: int = 0
    changed: float = 0.0
    """When the last one came, by the ledger's clock in seconds."""


class BacklogLedger:
    """Small files by partition and bucket; only buckets that have some take space."""

    def __init__(self, rules: CompactionRules, clock: Callable[[], float]) -> None:
        self.rules = rules
        self._clock = clock
        self._debts: dict[BucketKey, CompactionBacklog] = {}

    def begin(self, sums: Iterable[BucketSums]) -> None:
        """Start from the small files a table has."""
        now = self._clock()
        self._debts = {
            (bucket.partition, bucket.bucket): CompactionBacklog(files=bucket.files, size=bucket.size, changed=now) for bucket in sums
        }

    def apply(self, entries: Iterable[ManifestEntry]) -> set[BucketKey]:
        """Count added and removed files; returns the buckets that got small ones."""
        now = self._clock()
        grown: set[BucketKey] = set()
        for entry in entries:
            if not self.rules.small(entry):
                continue
            key = (entry.partition, entry.bucket)
            debt = self._debts.setdefault(key, CompactionBacklog())
            sign = 1 if entry.kind is EntryKind.ADD else -1
            debt.files += sign
            debt.size += sign * entry.file.file_size
            if sign > 0:
                debt.changed = now
                grown.add(key)
            if debt.files <= 0:
                del self._debts[key]
                grown.discard(key)
        return grown

    def total(self) -> CompactionBacklog:
        """All buckets' small files together; may be asked from another thread."""
        debts = list(self._debts.values())
        return CompactionBacklog(files=sum(debt.files for debt in debts), size=sum(debt.size for debt in debts))

    def __len__(self) -> int:
        return len(self._debts)

    def items(self) -> Iterator[tuple[BucketKey, CompactionBacklog]]:
        """The buckets with small files."""
        return iter(list(self._debts.items()))


def due(schema: Schema, debt: CompactionBacklog, rules: CompactionRules, *, now: float, patience: float) -> str | None:
    """Why a bucket may be worth a look, or None: enough files, enough bytes, or, without order, nothing new for long."""
    if debt.files < 2:
        return None
    if schema.bucket > 0:
        if debt.files >= rules.max_files:
            return "files"
        return "size" if debt.files >= rules.min_files and debt.size >= rules.target_bytes else None
    if debt.files >= rules.min_files:
        return "files"
    if debt.size + debt.files * rules.open_cost >= 2 * rules.target_bytes:
        return "size"
    return "age" if now - debt.changed >= patience else None
