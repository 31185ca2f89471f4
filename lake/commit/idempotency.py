"""Claims on idempotency keys: a write under a key lands once, also when server or client had to start again."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from catalog import CatalogStore, CatalogTransaction
from catalog.commits.idempotency import LEASE, Key, Taken, work_of
from catalog.records import IdempotencyRow
from lake.clock import Clock
from lake.commit.claims import DONE
from model.catalog_errors import IdempotencyKeyTaken
from model.errors import IdempotencyInProgress, IdempotencyMismatch, LakeError, OutcomeUnknown, Unavailable
from model.repeats import REPEATS

_log = logging.getLogger(__name__)
_DOUBT_SECONDS = 1.0
"""Between two tries to end claims of which nobody knows whether they are there."""


@dataclass(slots=True, kw_only=True, eq=False)
class IdempotencyClaim:
    """The right to do a key's work, once; of short work it is claimed in the decision of its commit, and until then may be another's."""

    scope: str
    key: str
    body_hash: str
    owner: UUID
    taken: bool
    """Whether it is claimed in Postgres."""
    holds: Callable[[UUID], None]
    """Keeps it alive once it is."""
    again: bool = False
    """Whether a try before, of which nobody knows what it did, had claimed it."""
    other: IdempotencyRow | None = None
    """Who had the key when it was to be claimed, and what was answered under it."""
    is_held: Callable[[], bool] | None = None
    """Tells whether the key is held, once the transaction that does the work has sent something."""

    @property
    def order(self) -> tuple[str, str]:
        """`Claim.order`."""
        return self.scope, self.key

    @property
    def work(self) -> UUID:
        """What is known by this id was made by a try of the same work: of a server that died, where the claim is held now."""
        return work_of(self.scope, self.key, self.body_hash)

    @property
    def as_key(self) -> Key:
        """What the decision is told of it."""
        return Key(scope=self.scope, key=self.key, body_hash=self.body_hash, owner=self.owner, claimed=self.taken)

    def had(self, mine: bool, other: IdempotencyRow | None = None) -> None:
        """Whether the key was its owner's when something was decided; raises `IdempotencyKeyTaken` for one nobody had claimed before."""
        if mine and not self.taken:
            self.taken = True
            self.holds(self.owner)
        elif not mine and not self.taken:
            self.other = other
            raise IdempotencyKeyTaken(f"The idempotency key '{self.key}' is in use by another request; ask again for its outcome.")

    def begin(self, tx: CatalogTransaction) -> None:
        """Hold the key in the transaction that does the work, before anything else is locked there."""
        self.is_held = tx.idempotency.holding(self.as_key) if self.taken else None
        if not self.taken and tx.idempotency.hold_or_claim(self.as_key).rowcount != 1:
            self.had(False)

    def finish(self, tx: CatalogTransaction, answer: Mapping[str, Any]) -> None:
        """Store the answer in the transaction that does the work; raises when another server took the claim over."""
        is_held, self.is_held = self.is_held, None
        if is_held is not None and is_held():  # then it costs no round trip of its own
            tx.idempotency.finish_held(self.scope, self.key, owner=self.owner, answer=answer)
        elif not tx.idempotency.finish(self.scope, self.key, owner=self.owner, answer=answer):
            raise _taken_over(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What the key's work answered when it was done."""

    answer: Mapping[str, Any]


class Idempotency:
    """Claims keys and keeps the claims of running work alive."""

    def __init__(self, catalog: CatalogStore, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock
        self._held: set[UUID] = set()
        self._doubted: dict[tuple[str, str, UUID], float] = {}
        """Claims (scope, key, owner) under which nothing was done and which may be there, and until when, by `time.monotonic`."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

    def claim(self, key: str, *, scope: str, body_hash: str) -> IdempotencyClaim | Replay:
        """Take the key, or get its answer; raises `IdempotencyMismatch` for another body, `IdempotencyInProgress` while it runs."""
        return self.take(self.later(key, scope=scope, body_hash=body_hash))

    def later(self, key: str, *, scope: str, body_hash: str) -> IdempotencyClaim:
        """A key that is claimed when its work is decided, or by `take`."""
        return IdempotencyClaim(scope=scope, key=key, body_hash=body_hash, owner=uuid4(), taken=False, holds=self._hold)

    def take(self, claim: IdempotencyClaim) -> IdempotencyClaim | Replay:
        """Claim a key now; raises what `claim` raises, and `Unavailable` where Postgres is away: nothing was done under it."""
        try:
            claimed = self._claimed(claim)
        except OutcomeUnknown:  # whether it is its owner's by now: who may claim it again, while all others would wait until it runs out
            try:
                claimed = self._claimed(claim)
            except (OutcomeUnknown, Unavailable) as lost:
                self._doubt(claim)
                raise Unavailable(
                    f"The catalog database went away while the idempotency key '{claim.key}' was being claimed. This request did nothing "
                    "under it; try again in a moment. It may be 409 IdempotencyInProgress until this server has reached the database "
                    f"again, or for {LEASE.total_seconds():.0f} seconds."
                ) from lost
        if isinstance(claimed, Taken):
            claim.had(True)
            claim.again = claimed.again
            return claim
        return _told(claim, claimed)

    def _claimed(self, claim: IdempotencyClaim) -> IdempotencyRow | Taken:
        idle = [owner for scope, key, owner in self._in_doubt() if (scope, key) == claim.order]
        with self._catalog.deciding() as tx:
            return tx.idempotency.claim(claim.scope, claim.key, body_hash=claim.body_hash, owner=claim.owner, idle=idle)

    def answered(self, claim: IdempotencyClaim) -> Replay | None:
        """What was answered under a key that is not claimed; None where nobody works or has worked under it. Raises what `claim` raises."""
        with self._catalog.reading() as tx:
            answer = tx.idempotency.look(claim.scope, claim.key, claim.body_hash)
        return None if answer is None or (answer.answer is None and not answer.alive) else _told(claim, answer)

    def answer_instead(self, claim: IdempotencyClaim, error: LakeError) -> Replay | None:
        """What was answered before, where work failed whose key was to be claimed in its commit: a repeat may fail, or lose its key.

        None where the key is to be taken and the work done again; raises the error where it is the work's own.
        """
        if claim.taken or isinstance(error, OutcomeUnknown):
            raise error
        if isinstance(error, IdempotencyKeyTaken) and claim.other is not None and claim.other.answer is not None:
            return _told(claim, claim.other)  # an answer never changes
        done = self.answered(claim)
        if done is None and not isinstance(error, IdempotencyKeyTaken):
            raise error
        return done

    def finish(self, claim: IdempotencyClaim, answer: Mapping[str, Any]) -> None:
        """Store the answer of work that is done, and release the claim.

        What the transaction that decided it has stored stays, but for `DONE`, which says less.
        Where Postgres is away the work is done all the same: its caller is told so, not of an answer that could not be kept.
        """
        try:
            self._keep(claim, answer)
        except (Unavailable, OutcomeUnknown) as away:
            _log.warning("The answer under the idempotency key '%s' may not have been kept: %s", claim.key, away, extra=REPEATS)
        finally:  # a claim that cannot be finished must run out, not be kept alive
            self.release(claim)

    def _keep(self, claim: IdempotencyClaim, answer: Mapping[str, Any]) -> None:
        if not claim.taken and isinstance(self.take(claim), Replay):
            raise IdempotencyKeyTaken(f"The idempotency key '{claim.key}' was used by another request; ask again for its outcome.")
        with self._catalog.deciding() as tx:
            if not tx.idempotency.finish(claim.scope, claim.key, owner=claim.owner, answer=answer, instead=DONE):
                there = tx.idempotency.look(claim.scope, claim.key, claim.body_hash)
                if there is None or there.owner != claim.owner or there.answer is None:
                    raise _taken_over(claim.key)

    def known(self, key: str, *, scope: str) -> bool:
        """Whether work is or was done under a key."""
        with self._catalog.reading() as tx:
            return tx.idempotency.known(scope, key)

    def abandon(self, claim: IdempotencyClaim) -> None:
        """Give the key back after a failure that changed nothing."""
        self.release(claim)
        if not claim.taken:
            return
        # What failed may have met a connection that broke, and others with it: the second try has a new one.
        for _ in range(2):
            with contextlib.suppress(LakeError), self._catalog.deciding() as tx:
                tx.idempotency.abandon(claim.scope, claim.key, owner=claim.owner)
                tx.idempotency.let_go(claim.owner)
                return
        self._doubt(claim)

    def let_go(self, claim: IdempotencyClaim) -> None:
        """Nobody works on under a claim, and nobody knows what was done: it runs out by itself, or what it has answered is the last."""
        self.release(claim)
        with contextlib.suppress(LakeError), self._catalog.deciding() as tx:
            tx.idempotency.let_go(claim.owner)

    def release(self, claim: IdempotencyClaim) -> None:
        """Stop keeping a claim alive."""
        with self._lock:
            self._held.discard(claim.owner)

    def _hold(self, owner: UUID) -> None:
        with self._lock:
            self._held.add(owner)
            self._begin_to_keep()

    def _doubt(self, claim: IdempotencyClaim) -> None:
        """End a claim that may be there as soon as Postgres answers; again until it would have run out, as its COMMIT may still come."""
        with self._lock:
            self._doubted[claim.scope, claim.key, claim.owner] = time.monotonic() + LEASE.total_seconds()
            self._begin_to_keep()
        self._woken.set()

    def _in_doubt(self) -> list[tuple[str, str, UUID]]:
        with self._lock:
            now = time.monotonic()
            self._doubted = {claim: until for claim, until in self._doubted.items() if until > now}
            return list(self._doubted)

    def _begin_to_keep(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_alive, name="idempotency-leases", daemon=True)
            self._thread.start()

    def _keep_alive(self) -> None:
        while True:
            self._woken.wait(_DOUBT_SECONDS if self._in_doubt() else LEASE.total_seconds() / 3)
            self._woken.clear()
            if self._stop.is_set():
                return
            with self._lock:
                claims = list(self._held)
            doubted = self._in_doubt()
            try:
                if claims:  # first: work that goes on must not lose its keys to what else is waited for
                    with contextlib.suppress(LakeError), self._catalog.deciding() as tx:
                        tx.idempotency.renew(claims, decided=DONE)
                if doubted:
                    with contextlib.suppress(LakeError), self._catalog.deciding() as tx:
                        tx.idempotency.run_out(doubted)
                with contextlib.suppress(LakeError):
                    self.forget_old()
            except Exception:  # claims are kept alive as long as the server lives
                _log.exception("Idempotency keys could not be kept alive")

    def forget_old(self) -> None:
        """Remove keys older than a day; until the time can be believed they stay, and count: a repeat would write its rows again."""
        if self._clock.look() is None:
            with self._catalog.deciding() as tx:
                tx.idempotency.forget_old()

    def close(self) -> None:
        """Stop the thread; claims still held run out."""
        self._stop.set()
        self._woken.set()


def _told(claim: IdempotencyClaim, row: IdempotencyRow) -> Replay:
    """What a key that is another's means for who wanted it."""
    if row.body_hash != claim.body_hash:
        raise IdempotencyMismatch(f"The idempotency key '{claim.key}' was used before with another body; take a new key for new work.")
    if row.answer is None or (row.answer == DONE and row.alive):  # decided, and what it made is about to be told
        raise IdempotencyInProgress(f"The work under the idempotency key '{claim.key}' is still running; ask again later.")
    return Replay(answer=row.answer)


def _taken_over(key: str) -> IdempotencyInProgress:
    return IdempotencyInProgress(f"The idempotency key '{key}' was taken over by another server; ask again for its outcome.")
