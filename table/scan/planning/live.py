"""Which entries of some manifests are live: found in columns, and by the plain rule entry by entry, which both follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from model.damage import CONTRADICTORY
from model.errors import TableDamaged
from model.snapshot import Snapshot
from table.format.cache import ByteCache
from table.format.manifests.columns import ManifestColumns, Mask, Numbers
from table.format.manifests.entries import EntryKind, ManifestEntry

_CACHED_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Netted:
    """Which entries of some manifests together neither went nor say that others went."""

    alive: tuple[Mask | None, ...]
    """By manifest; None where all are."""
    orphans: tuple[Numbers, ...]
    """By manifest: the DELETEs whose ADD is elsewhere."""

    @property
    def nbytes(self) -> int:
        """About what it takes."""
        return 64 + sum(mask.nbytes for mask in self.alive if mask is not None) + sum(int(o.nbytes) + 64 for o in self.orphans)


class Irregular(Exception):
    """A history in which a file comes twice or goes before it comes: told by the plain rule, entry by entry."""


_KNOWN: ByteCache[tuple[str, ...], Netted] = ByteCache(_CACHED_BYTES, lambda netted: netted.nbytes)


def netted(names: Sequence[str], manifests: Sequence[ManifestColumns]) -> Netted:
    """What is live in manifests of these names (unique ones), in their order.

    Remembered, so that a commit on top costs what it added. Raises `Irregular`.
    """
    if not any(columns.deletes for columns in manifests):
        firsts = [columns.keys[0].tobytes() for columns in manifests if len(columns)]
        if len(set(firsts)) < len(firsts):
            raise Irregular
        return Netted((None,) * len(manifests), (_NONE,) * len(manifests))
    key = tuple(names)
    known = _KNOWN.get(key)
    if known is not None:
        return known
    before = 0
    for before in range(len(key) - 1, -1, -1):
        known = _KNOWN.get(key[:before]) if before else None
        if known is not None:
            break
    known = _extended(known, manifests[:before], manifests[before:]) if known is not None else _extended(None, (), manifests)
    _KNOWN.put(key, known)
    return known


_NONE: Numbers = np.zeros(0, dtype=np.int64)


def _extended(base: Netted | None, before: Sequence[ManifestColumns], added: Sequence[ManifestColumns]) -> Netted:
    """The base's outcome with further manifests: of the base only entries that those speak of are looked at."""
    new = np.concatenate([columns.keys for columns in added])
    wanted = pa.array(np.unique(new[:, 0]))
    rows: list[Numbers] = []
    for at, columns in enumerate(before):
        assert base is not None
        met = pc.is_in(pa.array(columns.keys[:, 0]), value_set=wanted).to_numpy(zero_copy_only=False)
        mask = base.alive[at]
        if mask is not None:
            met &= mask
            met[base.orphans[at]] = pc.is_in(pa.array(columns.keys[base.orphans[at], 0]), value_set=wanted).to_numpy(zero_copy_only=False)
        rows.append(np.flatnonzero(met))
    rows += [np.arange(len(columns)) for columns in added]
    manifests = [*before, *added]
    dead, orphans = _net(manifests, rows)
    old = [None] * len(added) if base is None else [*base.alive, *[None] * len(added)]
    alive = tuple(_without(mask, gone, len(columns)) for mask, gone, columns in zip(old, dead, manifests, strict=True))
    earlier = [*base.orphans, *[_NONE] * len(added)] if base is not None else [_NONE] * len(added)
    # An orphan met again is counted anew: it is an orphan still, or the history is irregular.
    left = tuple(np.union1d(was, now).astype(np.int64) for was, now in zip(earlier, orphans, strict=True))
    return Netted(alive, left)


def _without(mask: Mask | None, gone: Numbers, rows: int) -> Mask | None:
    if not len(gone):
        return mask
    alive = np.ones(rows, dtype=bool) if mask is None else mask.copy()
    alive[gone] = False
    return alive


def _net(manifests: Sequence[ManifestColumns], rows: Sequence[Numbers]) -> tuple[list[Numbers], list[Numbers]]:
    """Of some rows of each manifest: those that are not live, and the DELETEs among them that took nothing away."""
    keys = np.concatenate([columns.keys[picked] for columns, picked in zip(manifests, rows, strict=True)])
    deletes = np.concatenate([columns.numbers("kind")[picked] == EntryKind.DELETE for columns, picked in zip(manifests, rows, strict=True)])
    order = np.argsort(keys[:, 0], kind="stable")
    keys, gone = keys[order], deletes[order]
    again = np.flatnonzero(keys[1:, 0] == keys[:-1, 0])
    # Regular is: a DELETE right behind its ADD, both of the same 128 bits, and nothing else of that key.
    if np.any(np.diff(again) == 1) or np.any(keys[again, 1] != keys[again + 1, 1]) or np.any(gone[again]) or not np.all(gone[again + 1]):
        raise Irregular
    taken = np.zeros(len(order), dtype=bool)
    taken[again] = taken[again + 1] = True
    bounds = np.cumsum([0, *(len(picked) for picked in rows)])
    dead, orphans = np.sort(order[taken | gone]), np.sort(order[gone & ~taken])
    return _by_manifest(dead, bounds, rows), _by_manifest(orphans, bounds, rows)


def _by_manifest(places: Numbers, bounds: Numbers, rows: Sequence[Numbers]) -> list[Numbers]:
    cuts = np.searchsorted(places, bounds)
    return [picked[places[a:b] - start] for picked, a, b, start in zip(rows, cuts[:-1], cuts[1:], bounds[:-1], strict=True)]


# The plain rule


def merge_entries(entries: Iterable[ManifestEntry], *, table: str) -> Iterator[ManifestEntry]:
    """What is left after each DELETE took its ADD away; a DELETE without an ADD is kept (its ADD may be in other manifests)."""
    alive: dict[tuple[object, ...], ManifestEntry] = {}
    for entry in entries:
        key = entry.key()
        before = alive.get(key)
        if entry.kind is EntryKind.ADD:
            if before is not None and before.kind is EntryKind.ADD:
                raise corrupt(table, entry, "is added twice")
            alive[key] = entry
        elif before is not None and before.kind is EntryKind.ADD:
            del alive[key]
        else:
            alive[key] = entry
    return iter(alive.values())


Key = tuple[object, ...]
"""What tells a file from others: `ManifestEntry.key`."""


def settle(live: dict[Key, ManifestEntry], entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Let entries change what is live, and return those that contradict it: DELETEs of what is not live, ADDs of what is.

    They change nothing, so that of manifests that contradict each other is left what is there.
    """
    wrong = []
    for entry in entries:
        key = entry.key()
        if (entry.kind is EntryKind.ADD) == (key in live):
            wrong.append(entry)
        elif entry.kind is EntryKind.ADD:
            live[key] = entry
        else:
            del live[key]
    return wrong


def only_added(manifests: Iterable[Sequence[ManifestEntry]], *, table: str) -> Iterator[ManifestEntry]:
    """The entries of manifests that remove nothing; where two begin with the same file, one lies in the other's place."""
    firsts: set[tuple[object, ...]] = set()
    for entries in manifests:
        if entries:
            first = entries[0].key()
            if first in firsts:
                raise corrupt(table, entries[0], "is added twice")
            firsts.add(first)
        yield from entries


def corrupt(table: str, entry: ManifestEntry, what: str, snapshot_id: int | None = None) -> TableDamaged:
    """The failure of a table whose manifests contradict each other."""
    return TableDamaged(table, file=entry.file.file_name, problem=f"{what}: {CONTRADICTORY}", snapshot_id=snapshot_id)


def never_added(table: str, snapshot: Snapshot, entry: ManifestEntry) -> TableDamaged:
    """The failure of a snapshot that removes a file it does not have."""
    return corrupt(table, entry, "is removed without having been added", snapshot.id)
