"""The audit log: what was done is noted beside the work and written in batches, so that nobody waits for it.

It must not fill the disk that it tells of. A client that is refused for lack of space tries again, and again: such entries wait in memory
until there is space, and once half of the reserve is used all others do.
"""

from __future__ import annotations

import hmac
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

from catalog import CatalogStore
from catalog.records import AuditRow
from lake.clock import Clock
from lake.reserve import StorageReserve
from model.errors import LakeError, StorageFull
from model.identifier import Identifier
from model.options.masking import erases, masked_literals

_log = logging.getLogger(__name__)
_WRITE_SECONDS = 0.5
_FORGET_SECONDS = 3600.0
_MOST_BYTES = 64 << 20
"""Of entries kept while Postgres or its disk's space is away; older ones give way."""
_MOST_REFUSED = 10_000
_REFUSED_CHARS = 200
"""Of a text that was refused for lack of space, of which many may wait."""
_REFUSED = (StorageFull.error_class, str(StorageFull.status))
_ENTRY_BYTES = 500
"""What an entry takes besides its text."""
_OF_RIGHTS = re.compile(r"\b(GRANT|REVOKE)\b", re.IGNORECASE)
_OF_OPTIONS = re.compile(r"\s*ALTER\s+TABLE\s[^;()']*\b(UN)?SET\s*(TBLPROPERTIES\s*)?\([^;]*\)[\s;]*", re.IGNORECASE)
_REQUEST = re.compile(r"(POST|PUT|DELETE|PATCH) /")
_CALL = re.compile(r"\bCALL\b", re.IGNORECASE)
"""What names its table in a text of its own."""
_RENAME_TO = re.compile(r"\sRENAME\s++TO\s++", re.IGNORECASE)
_NAME_BEFORE = re.compile(r"([^\s`.;]+)`?\s*\Z")
_NAME_AFTER = re.compile(r"(?:[\w`]++\s*+\.\s*+)*+`?([^\s`.;]++)")
_LONGEST_NAME = 300
"""A table's name is looked for in so many characters before and behind RENAME TO: texts may be long and made to hurt."""
_ERASED = re.compile(r" /\* rows: (?:\d+|unknown), [^*]*\*/\Z")
"""What the log itself says behind a text that erases rows."""
_NAMES_A_TABLE = r"(?:\b(?:FROM|JOIN|INTO|TABLE|UPDATE|OVERWRITE|USING|EXISTS|DESC|DESCRIBE)\s+|')"
"""What stands before a table's name, and not before `alias.column`; the quote is that of a call's argument."""
Fewer = Callable[[str, str], str]
"""A text, and whose it is, as it is to be kept."""
Forgetting = Callable[[Fewer], int]
"""Tells what else keeps texts how to say less; returns how many texts said something."""
_BATCH = 5_000
_PAGE = 1_000


class AuditLog:
    """One server's writer of the log, and the log's reader."""

    def __init__(
        self,
        catalog: CatalogStore,
        *,
        kept: timedelta,
        erasures: bool = False,
        reserve: StorageReserve | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``erasures``: whether it keeps what texts named of rows that were erased; ``clock``: what tells whether the time is believed."""
        self._catalog = catalog
        self._kept = kept
        self._erasures = erasures
        self._reserve = reserve or StorageReserve()
        self._clock = clock or Clock(catalog)
        self._lock = threading.Lock()
        self._key: bytes | None = None
        self._elsewhere: list[Forgetting] = []
        self._waiting: deque[AuditRow] = deque()
        self._waiting_bytes = 0
        self._refused: deque[AuditRow] = deque()
        """Entries of what was refused for lack of space."""
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._lost = 0
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="sluice-audit", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def digest(self, named: bytes) -> str | None:
        """A keyed digest of what an erasure named; None while its key cannot be read."""
        try:
            if self._key is None:
                with self._catalog.reading() as tx:
                    self._key = tx.state.erasure_key()
        except (LakeError, LookupError):
            return None
        return hmac.new(self._key, named, "sha256").hexdigest()

    def note(self, row: AuditRow) -> None:
        """Put a row into the log, soon."""
        with self._lock:
            if row.error_class in _REFUSED:
                self._refused.append(replace(row, action=row.action[:_REFUSED_CHARS]))
                if len(self._refused) > _MOST_REFUSED:
                    self._refused.popleft()
                    self._lost += 1
                return
            self._waiting.append(row)
            self._waiting_bytes += _size(row)
            self._bound()

    def _bound(self) -> None:
        while self._waiting_bytes > _MOST_BYTES:
            self._waiting_bytes -= _size(self._waiting.popleft())
            self._lost += 1

    def flush(self) -> None:
        """Write what waits, as far as its disk has space; raises `Unavailable` while Postgres is away, and nothing is lost then."""
        with self._writing:
            while self._reserve.nearly_gone() is None and (rows := self._next()):
                try:
                    with self._catalog.transaction() as tx:
                        tx.audit.add(rows)
                except BaseException:
                    self._put_back(rows)
                    raise
            lost, self._lost = self._lost, 0
            if lost:
                _log.error("%d entries of the audit log were lost while Postgres was away, or space for it", lost)

    def _next(self) -> list[AuditRow]:
        """The oldest entries that may be written now, which are taken off."""
        with self._lock:
            rows = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            self._waiting_bytes -= sum(map(_size, rows))
            if not rows and self._refused and self._reserve.short() is None:
                rows = [self._refused.popleft() for _ in range(min(_BATCH, len(self._refused)))]
            return rows

    def _put_back(self, rows: list[AuditRow]) -> None:
        with self._lock:
            if rows[0].error_class in _REFUSED:
                self._refused.extendleft(reversed(rows))
                return
            self._waiting.extendleft(reversed(rows))
            self._waiting_bytes += sum(map(_size, rows))
            self._bound()

    def newest(self, principal: str | None) -> Iterator[AuditRow]:
        """What is in the log, of one principal or of all, the newest first."""
        self.flush()
        before: int | None = None
        while True:
            with self._catalog.reading() as tx:
                page = tx.audit.newest(principal=principal, before=before, limit=_PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            before = page[-1].id

    def forgets(self, elsewhere: Forgetting) -> None:
        """Let something else that keeps texts forget rows with the log."""
        self._elsewhere.append(elsewhere)

    @property
    def keeps_erasures(self) -> bool:
        """Whether it keeps what texts named of rows that were erased."""
        return self._erasures

    def forget_rows(self, table: Identifier, *, by: str | None = None, dry_run: bool = False) -> int:
        """Put stars for what texts say that name a table of this name, or of one it had before; returns how many said something.

        Which text told of which rows nobody knows, so that all that name such a table lose their literals. ``by`` is a caller that speaks
        for the one table: of others' texts only those that name it with its database lose theirs, and only its own are counted.
        Texts that give rights or set options keep theirs, and where erasures are kept all do. Raises `Unavailable`.
        """
        if self._erasures:
            return 0
        self.flush()
        names = self._names_of(table.table, by)
        word = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, names))})(?!\w)", re.IGNORECASE)
        parts = (re.escape(table.database), re.escape(table.table))
        whole = re.compile(r"{}`?{}`?\s*\.\s*`?{}(?!\w)".format(_NAMES_A_TABLE, *parts), re.IGNORECASE)

        def fewer(text: str, principal: str) -> str:
            return _fewer(text, word if by in (None, principal) else whole)

        changed: set[int | None] = set()
        for name in names:
            for page in self._naming(name):
                less = [new for row in page if (new := replace(row, action=fewer(row.action, row.principal))) != row]
                changed |= {row.id for row in less if by in (None, row.principal)}
                if not dry_run and less:
                    with self._catalog.transaction() as tx:
                        tx.audit.retell(less)
        if not dry_run:
            for elsewhere in self._elsewhere:
                elsewhere(fewer)
        return len(changed)

    def _naming(self, word: str) -> Iterator[list[AuditRow]]:
        after = 0
        while True:
            with self._catalog.reading() as tx:
                page = tx.audit.naming(word, after=after, limit=_PAGE)
            yield page
            if len(page) < _PAGE:
                return
            after = page[-1].id or 0

    def _names_of(self, table: str, by: str | None) -> list[str]:
        """The name and those before it, as far as the log tells of renaming: for ``by`` what that one said, as others' texts may lie."""
        renamed = [
            (old.lower(), new.lower())
            for page in self._naming("rename")
            for row in page
            if row.outcome == "FINISHED" and by in (None, row.principal)
            for old, new in _renamed(row.action)
        ]
        names = [table.lower()]
        for name in names:  # it grows
            names += [old for old in dict.fromkeys(old for old, new in renamed if new == name) if old not in names]
        return names

    def close(self) -> None:
        """Write the last rows and stop."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._try()

    def _run(self) -> None:
        forgotten = 0.0
        while not self._stop.wait(_WRITE_SECONDS):
            self._try()
            if time.monotonic() - forgotten > _FORGET_SECONDS:
                forgotten = time.monotonic()
                self._try_to_forget()

    def forget_old(self) -> None:
        """Drop what was kept long enough; nothing while the time is in doubt."""
        if self._clock.look() is not None:
            return
        with self._catalog.transaction() as tx:
            tx.audit.forget(self._kept)

    def _try(self) -> None:
        try:
            self.flush()
            self._said = ""
        except LakeError as problem:
            if problem.message != self._said:  # it is tried twice a second
                _log.warning("The audit log waits: %s", problem.message)
            self._said = problem.message
        except Exception:  # it is written as long as the server lives
            _log.exception("The audit log could not be written")

    def _try_to_forget(self) -> None:
        try:
            self.forget_old()
        except Exception:
            _log.warning("Old entries of the audit log could not be dropped", exc_info=True)


def _size(row: AuditRow) -> int:
    return _ENTRY_BYTES + len(row.action)


def _fewer(text: str, word: re.Pattern[str]) -> str:
    """A text with stars for what it may say of rows of tables that ``word`` finds."""
    if _REQUEST.match(text):
        return text
    plain = masked_literals(text)
    named = word.search(text if _CALL.search(plain) else plain)
    if not named or _OF_RIGHTS.search(plain) or _OF_OPTIONS.fullmatch(text):
        return text
    ours = _ERASED.search(text) if erases(text) else None
    return plain if ours is None else masked_literals(text[: ours.start()]) + ours[0]


def _renamed(text: str) -> Iterator[tuple[str, str]]:
    """What a text names before and behind RENAME TO, without databases."""
    for match in _RENAME_TO.finditer(text):
        old = _NAME_BEFORE.search(text[max(0, match.start() - _LONGEST_NAME) : match.start()])
        new = _NAME_AFTER.match(text[match.end() : match.end() + 2 * _LONGEST_NAME])
        if old and new:
            yield old[1], new[1]
