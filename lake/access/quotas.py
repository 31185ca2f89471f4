"""Quotas in force: what users may take, what they take here and on the catalog's other servers.

Rules and what others take are read from Postgres by a thread of their own, every two seconds while users do anything; what is asked
here is answered from memory, so that a lock may be held. Two servers that let somebody in within the same seconds may let one too many in.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import uuid4

from cachetools import LRUCache

from catalog import CatalogStore
from lake.access.callers import Caller
from lake.commit.claims import Claim, claimed_in
from lake.commit.decided import follow
from model.access import check_principal
from model.errors import AccessNotExist, InvalidGrant, LakeError, QuotaExceeded
from model.repeats import REPEATS
from model.work.quota import INGEST, QUOTAS, SPOOL, Holder, Quota, limits_of, quota_kind

_log = logging.getLogger(__name__)
ROUND_SECONDS = 2.0
_MINUTE = 60
Usage = Mapping[tuple[str, str], int]
"""What is taken, by (principal, quota)."""


def exceeded(principal: str, name: str, most: int, has: str) -> QuotaExceeded:
    """The refusal of one more."""
    limit = QUOTAS[name].parser.show(most)
    return QuotaExceeded(name, f"{principal} has {has}, as many as the quota {name} = {limit} lets. Try again later, or end some.")


def _forget_before(sent: Counter[int], second: int) -> None:
    for old in [earlier for earlier in sent if earlier < second]:
        del sent[old]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """A quota as it is shown."""

    quota: Quota
    taken: int
    """What its user takes of it on all servers; of a role's, whoever takes most."""


class Quotas:
    """Asked by whatever gives users something; one for all callers of a lake."""

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog
        self._server = uuid4()
        self._lock = threading.Lock()
        self._rules: list[Quota] = []
        self._elsewhere: Usage = {}
        self._roles: LRUCache[str, frozenset[str]] = LRUCache(10_000)
        self._held: Counter[tuple[str, str]] = Counter()
        self._ingested: dict[str, Counter[int]] = {}
        """Bytes of each second, by principal."""
        self._gauges: list[Callable[[], Usage]] = []
        self._listeners: list[Callable[[], None]] = []
        self._told: Usage = {}
        self._round = threading.Lock()
        self._busy = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def measure(self, gauge: Callable[[], Usage]) -> None:
        """Ask for what users take of something that counts by itself."""
        self._gauges.append(gauge)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call back when there may be more than before."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin to read rules and tell usage; twice is fine."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="sluice-quotas", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; what this server told counts no more after some seconds."""
        self._closed.set()
        self._busy.set()
        if self._thread is not None:
            self._thread.join(5)

    # What is asked

    def note(self, caller: Caller) -> None:
        """Somebody does something: its roles are known from now on, and rules are read anew within seconds."""
        with self._lock:
            self._roles[caller.principal] = caller.roles
        self._busy.set()

    def limit(self, caller: Caller, name: str) -> int | None:
        """How much of it the caller may have on all servers together; None is no limit."""
        self.note(caller)
        return self._limit(caller.principal, name)

    def left(self, principal: str, name: str) -> int | None:
        """How much of it a user may have on this server: what others have given is gone."""
        most = self._limit(principal, name)
        return None if most is None else max(0, most - self._elsewhere.get((principal, name), 0))

    def take(self, caller: Caller, name: str, what: str) -> Callable[[], None]:
        """Take one more and get what gives it back; raises `QuotaExceeded`."""
        self.note(caller)
        key = (caller.principal, name)
        most = self._limit(caller.principal, name)
        with self._lock:
            taken = self._held[key] + self._elsewhere.get(key, 0)
            if most is not None and taken >= most:
                raise exceeded(caller.principal, name, most, f"{taken} {what}")
            self._held[key] += 1
        given_back = threading.Event()

        def give_back() -> None:
            with self._lock:
                if not given_back.is_set():
                    given_back.set()
                    self._held[key] -= 1
                    if not self._held[key]:
                        del self._held[key]

        return give_back

    def check(self, caller: Caller, name: str, what: str) -> None:
        """Raise `QuotaExceeded` where `take` would, before what it is to count costs anything."""
        self.take(caller, name, what)()

    def check_ingest(self, caller: Caller) -> None:
        """Raise `QuotaExceeded` for who took in as much as it may within the last minute."""
        self.note(caller)
        most = self._limit(caller.principal, INGEST)
        if most is None:
            return
        taken = self._ingested_by(caller.principal) + self._elsewhere.get((caller.principal, INGEST), 0)
        if taken >= most:
            raise exceeded(caller.principal, INGEST, most, f"taken in {taken} bytes within the last minute")

    def check_spooled(self, principal: str) -> None:
        """Raise `QuotaExceeded` for whose results on disk hold as much as they may, whatever keeps them."""
        left = self.left(principal, SPOOL)
        if left is not None and (used := self.usage().get((principal, SPOOL), 0)) >= max(left, 1):
            most = self._limit(principal, SPOOL) or 0
            raise exceeded(principal, SPOOL, most, f"results of {used} bytes here that wait to be read")

    def ingested(self, caller: Caller, size: int) -> None:
        """Count bytes of rows a caller sent."""
        second = int(time.monotonic())
        with self._lock:
            sent = self._ingested.setdefault(caller.principal, Counter())
            sent[second] += size
            if len(sent) > _MINUTE:
                _forget_before(sent, second - _MINUTE)

    def _ingested_by(self, principal: str) -> int:
        with self._lock:
            sent = self._ingested.get(principal)
            if sent is None:
                return 0
            _forget_before(sent, int(time.monotonic()) - _MINUTE)
            if not sent:
                del self._ingested[principal]
            return sum(sent.values())

    def _limit(self, principal: str, name: str) -> int | None:
        rules = self._rules
        if not rules:
            return None
        return limits_of(rules, principal, self._roles.get(principal, frozenset())).get(name)

    # Setting and showing

    def set(self, caller: Caller, holder: Holder, principal: str, name: str, text: str, *, claim: Claim | None = None) -> None:
        """Set a quota; in force here at once, on other servers within seconds. Raises `InvalidOption`, `InvalidGrant`, `Forbidden`."""
        caller.administers()
        check_principal(principal)
        kind = quota_kind(name)
        quota = Quota(holder=holder, principal=principal, name=kind.name, value=kind.value(text))
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            roles = tx.roles.names()
            if holder is Holder.ROLE and principal not in roles:
                raise AccessNotExist(f"There is no role {principal}; CREATE ROLE makes one, and public stands for everybody.")
            if holder is Holder.USER and principal in roles:
                raise InvalidGrant(f"{principal} is a role: SET QUOTA … FOR ROLE {principal}.")
            tx.quotas.put(quota)
        self._follow()

    def reset(self, caller: Caller, holder: Holder, principal: str, name: str, *, claim: Claim | None = None) -> None:
        """Take a quota away, once under a claim; raises `AccessNotExist` where there is none."""
        caller.administers()
        kind = quota_kind(name)
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            if not tx.quotas.remove(holder, principal, kind.name):
                raise AccessNotExist(f"The quota {kind.name} is not set for {holder.value.lower()} {principal}.")
        self._follow()

    def _follow(self) -> None:
        follow(self.refresh, "The quotas that were changed are not known on this server yet")

    def shown(self, caller: Caller) -> list[QuotaRow]:
        """The quotas as they are in Postgres now, with what is taken: all to an administrator, those that bind it to others."""
        self.note(caller)
        self.refresh()
        with self._catalog.reading() as tx:
            rules, taken = tx.quotas.all(), Counter(tx.quotas.taken(self._server))
        taken.update(self.usage())
        names = caller.names
        return [
            QuotaRow(quota=quota, taken=self._taken(quota, taken))
            for quota in rules
            if caller.administrator or (quota.principal == caller.principal if quota.holder is Holder.USER else quota.principal in names)
        ]

    def _taken(self, quota: Quota, taken: Mapping[tuple[str, str], int]) -> int:
        def bound(principal: str) -> bool:
            if quota.holder is Holder.USER:
                return principal == quota.principal
            return quota.principal == "public" or quota.principal in self._roles.get(principal, frozenset())

        return max((amount for (principal, name), amount in taken.items() if name == quota.name and bound(principal)), default=0)

    # Between servers

    def usage(self) -> dict[tuple[str, str], int]:
        """What this server's users take."""
        with self._lock:
            usage = Counter(dict(self._held))
            senders = list(self._ingested)
        for gauge in self._gauges:
            usage.update(gauge())
        usage.update({(sender, INGEST): self._ingested_by(sender) for sender in senders})
        return {key: amount for key, amount in usage.items() if amount}

    def refresh(self) -> None:
        """Read the rules, and tell and read what is taken; raises `Unavailable`."""
        with self._round:
            with self._catalog.reading() as tx:
                rules = tx.quotas.all()
            usage = self.usage() if rules else {}
            if usage or self._told:
                with self._catalog.transaction() as tx:
                    tx.quotas.tell(self._server, usage)
            if rules:
                with self._catalog.reading() as tx:
                    self._elsewhere = tx.quotas.taken(self._server)
            else:
                self._elsewhere = {}
            self._told, self._rules = usage, rules
        for listener in self._listeners:
            listener()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._busy.wait()
            self._busy.clear()
            if self._closed.is_set():
                return
            try:
                self.refresh()
            except LakeError as problem:
                _log.info("Quotas cannot be read for now; the last known hold: %s", problem.message, extra=REPEATS)
            except Exception:  # quotas are read as long as the server lives
                _log.exception("Quotas could not be read")
            if self._told:  # what is taken must go on being told, and its end
                self._busy.set()
            self._closed.wait(ROUND_SECONDS)
