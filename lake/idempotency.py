"""Claims on idempotency keys: a write under a key lands once, also when server or client had to start again."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from catalog import CatalogStore, CatalogTransaction
from catalog.idempotency import LEASE
from model.errors import IdempotencyInProgress, IdempotencyMismatch, LakeError


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyClaim:
    """The right to do a key's work, once."""

    scope: str
    key: str
    owner: UUID

    def finish(self, tx: CatalogTransaction, answer: Mapping[str, Any]) -> None:
        """Store the answer in the transaction that does the work; raises when another server took the claim over."""
        if not tx.idempotency.finish(self.scope, self.key, owner=self.owner, answer=answer):
            raise IdempotencyInProgress(f"The idempotency key '{self.key}' was taken over by another server; ask again for its outcome.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What the key's work answered when it was done."""

    answer: Mapping[str, Any]


class Idempotency:
    """Claims keys and keeps the claims of running work alive."""

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog
        self._held: set[UUID] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def claim(self, key: str, *, scope: str, body_hash: str) -> IdempotencyClaim | Replay:
        """Take the key, or get its answer; raises `IdempotencyMismatch` for another body, `IdempotencyInProgress` while it runs."""
        owner = uuid4()
        with self._catalog.transaction() as tx:
            found = tx.idempotency.claim(scope, key, body_hash=body_hash, owner=owner)
        if found is None:
            self._hold(owner)
            return IdempotencyClaim(scope=scope, key=key, owner=owner)
        if found.body_hash != body_hash:
            raise IdempotencyMismatch(f"The idempotency key '{key}' was used before with another body; take a new key for new work.")
        if found.answer is None:
            raise IdempotencyInProgress(f"The work under the idempotency key '{key}' is still running; ask again later.")
        return Replay(answer=found.answer)

    def finish(self, claim: IdempotencyClaim, answer: Mapping[str, Any]) -> None:
        """Store the answer of work that committed nothing; work that commits stores it in its own transaction."""
        with self._catalog.transaction() as tx:
            claim.finish(tx, answer)
        self.release(claim)

    def abandon(self, claim: IdempotencyClaim) -> None:
        """Give the key back after a failure that changed nothing."""
        self.release(claim)
        # Where Postgres is away the lease runs out by itself.
        with contextlib.suppress(LakeError), self._catalog.transaction() as tx:
            tx.idempotency.abandon(claim.scope, claim.key, owner=claim.owner)

    def release(self, claim: IdempotencyClaim) -> None:
        """Stop keeping a claim alive."""
        with self._lock:
            self._held.discard(claim.owner)

    def _hold(self, owner: UUID) -> None:
        with self._lock:
            self._held.add(owner)
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_alive, name="idempotency-leases", daemon=True)
                self._thread.start()

    def _keep_alive(self) -> None:
        while not self._stop.wait(LEASE.total_seconds() / 3):
            with self._lock:
                held = list(self._held)
            with contextlib.suppress(LakeError), self._catalog.transaction() as tx:
                if held:
                    tx.idempotency.renew(held)
                tx.idempotency.forget_old()

    def close(self) -> None:
        """Stop the thread; claims still held run out."""
        self._stop.set()
