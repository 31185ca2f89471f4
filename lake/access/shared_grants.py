"""Grants that many callers have, to roles and to everybody: read whole only where Postgres says that they are not what they were."""

from __future__ import annotations

import threading
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cachetools import LRUCache

from catalog import CatalogTransaction
from model.access import Grant

_FEW = 200
"""So many are read at once, which takes no longer than asking whether they changed."""
_MOST_KEPT = 200_000
"""Grants, of all groups of names together."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The grants of some names, and the digest of what they were made of."""

    digest: str
    grants: tuple[Grant, ...]


class SharedGrants:
    """Answers as of the moment of a transaction that is consistent, whatever it remembers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: LRUCache[frozenset[str], _Known] = LRUCache(_MOST_KEPT, getsizeof=lambda known: len(known.grants))

    def of(self, tx: CatalogTransaction, principal: str, names: AbstractSet[str]) -> tuple[Grant, ...]:
        """What is granted to a principal, and then to the other names it has; the same objects where they did not change."""
        others = frozenset(names) - {principal}
        with self._lock:
            known = self._known.get(others)
        if known is not None and tx.grants.digest(others) == known.digest:
            return (*tx.grants.of([principal]), *known.grants)
        grants = tx.grants.of(names)
        shared = tuple(grant for grant in grants if grant.principal != principal)
        digest = tx.grants.digest(others) if len(shared) > _FEW else ""
        with self._lock:
            if digest and len(shared) <= _MOST_KEPT:
                self._known[others] = _Known(digest, shared)
            else:
                self._known.pop(others, None)
        return (*(grant for grant in grants if grant.principal == principal), *shared)
