"""What clients have asked for and not fetched yet: results by ticket, prepared statements by handle."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

import pyarrow as pa

from lake import Owner
from model.errors import InvalidParameter, OperationNotExist, StatementTooLarge, TooManyStatements
from model.work.fair_share import may_have_another
from model.work.handle import NO_SERVER, handle_bytes
from sql.execution.array_memory import memory_of, memory_of_columns
from sql.execution.results import Analysed, ResultSet
from sql.parameters.parameters import NONE as NO_PARAMETERS
from sql.parameters.parameters import Parameters

PREPARED_BYTES = 256 << 20
"""Texts and parameters of prepared statements that nobody has closed; of more, those longest unused of whoever holds most go."""

MOST_HELD = 10_000
"""Results that wait for whoever brings their tickets, of all principals; they are counted by their bytes, too."""

MOST_PREPARED = 1000
"""Prepared statements of one principal; of more, its own that are longest unused go, and nobody else's."""

_ANALYSED_BYTES = 1 << 20
"""What a plan is taken to hold in the JVM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldResult:
    """A result that waits for its reader."""

    result: ResultSet
    owner: Owner
    since: float = field(default_factory=time.monotonic)


class Results:
    """Results by ticket; each is read once."""

    def __init__(self, server: int = NO_SERVER) -> None:
        """``server`` is the number of this one, which tickets tell."""
        self._server = server
        self._lock = threading.Lock()
        self._held: dict[bytes, HeldResult] = {}
        self._read: dict[bytes, HeldResult] = {}
        """Those whose reader has come; they are gone when it ends."""
        self._of: Counter[str] = Counter()
        """How many of each principal wait."""

    def __len__(self) -> int:
        return len(self._held) + len(self._read)

    def check_place(self, principal: str) -> None:
        """Raise `TooManyStatements` where no more results can wait, or none of a principal's; to be asked before anything is done."""
        with self._lock:
            own, total = self._of[principal], len(self._held)
        if not may_have_another(own, total, MOST_HELD):
            raise TooManyStatements(
                f"{own} results of {principal} and {total} of all wait to be fetched by their tickets, of {MOST_HELD} that may. "
                "Nothing was done; fetch or cancel some, or try again later."
            )

    def hold(self, result: ResultSet, owner: Owner) -> bytes:
        """Keep a result for whoever brings the ticket returned."""
        ticket = handle_bytes(self._server)
        with self._lock:
            self._held[ticket] = HeldResult(result=result, owner=owner)
            self._of[owner.principal] += 1
        return ticket

    def _unheld(self, ticket: bytes) -> HeldResult | None:
        """Take one that waits out, where it does; under the lock."""
        if (pending := self._held.pop(ticket, None)) is not None:
            self._of[pending.owner.principal] -= 1
            if not self._of[pending.owner.principal]:
                del self._of[pending.owner.principal]
        return pending

    def take(self, ticket: bytes, caller: Owner) -> ResultSet:
        """The result of a ticket, which is its reader's from now on; raises `OperationNotExist`."""
        with self._lock:
            pending = self._held.get(ticket)
            if pending is None or not pending.owner.admits(caller):
                raise OperationNotExist(
                    "There is no result under this ticket: it was fetched before, canceled, or waited too long. Run the statement again."
                )
            self._unheld(ticket)
            self._read[ticket] = pending
        pending.result.on_close(lambda: self._forget(ticket))
        return pending.result

    def cancel(self, ticket: bytes, caller: Owner) -> bool:
        """Free the result of a ticket, also while it is read; False where there is none."""
        with self._lock:
            pending = self._held.get(ticket) or self._read.get(ticket)
            if pending is None or not pending.owner.admits(caller):
                return False
            self._unheld(ticket)
        pending.result.close()
        return True

    def _forget(self, ticket: bytes) -> None:
        with self._lock:
            self._read.pop(ticket, None)

    def tend(self, seconds: float) -> None:
        """Free what nobody came for in so many seconds."""
        until = time.monotonic() - seconds
        with self._lock:
            late = [ticket for ticket, pending in self._held.items() if pending.since < until]
            freed = [pending.result for ticket in late if (pending := self._unheld(ticket)) is not None]
        for result in freed:
            result.close()

    def close(self) -> None:
        """Free all; whoever reads is told that the result was closed."""
        self.tend(-1)
        with self._lock:
            reading = list(self._read.values())
        for pending in reading:
            pending.result.close()


@dataclass(slots=True, kw_only=True)
class PreparedStatement:
    """A text, and the parameters bound to it."""

    text: str
    owner: Owner
    is_query: bool
    schema: pa.Schema
    parameters: pa.Schema
    bound: list[pa.RecordBatch] = field(default_factory=list)
    analysed: Analysed | None = None
    """What running it goes on from the first time."""

    @property
    def principal(self) -> str:
        """Whose it is, whatever their rights."""
        return self.owner.principal

    def row(self, batch: pa.RecordBatch, number: int) -> Parameters:
        """The values in one row of parameters, for the statement's placeholders in order."""
        names = self.parameters.names
        if len(names) != batch.num_columns:
            raise InvalidParameter(f"The statement takes {len(names)} parameters, and {batch.num_columns} were sent.")
        named = any(not name.isdecimal() for name in names)
        row = batch.slice(number, 1)
        if named and set(batch.schema.names) == set(names):
            row = row.select(names)
        columns = [_as_wanted(column, field.type) for column, field in zip(row.columns, self.parameters, strict=True)]
        return Parameters.from_arrow(pa.RecordBatch.from_arrays(columns, names), 0, named=named)

    def only_row(self) -> Parameters:
        """The values bound to a query; raises `InvalidParameter` where they are several rows."""
        rows = [batch for batch in self.bound if batch.num_rows]
        if not rows:
            return NO_PARAMETERS
        if sum(batch.num_rows for batch in rows) > 1:
            raise InvalidParameter("A query is run with one row of parameters; send several to a statement that writes.")
        return self.row(rows[0], 0)

    def size(self) -> int:
        """Bytes it holds."""
        analysed = _ANALYSED_BYTES if self.analysed is not None else 0
        columns = len(self.schema) + len(self.parameters)
        return len(self.text) + sum(map(memory_of, self.bound)) + 1000 + memory_of_columns(columns) + analysed


def _as_wanted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A whole number or a time in the size the statement wants, where it fits: clients send the largest they have."""
    types = pa.types
    if (types.is_integer(column.type) and types.is_integer(wanted)) or (types.is_timestamp(column.type) and types.is_timestamp(wanted)):
        with contextlib.suppress(pa.ArrowInvalid):
            return column if getattr(column.type, "tz", None) != getattr(wanted, "tz", None) else column.cast(wanted)
    return column


class PreparedStatements:
    """Prepared statements by handle."""

    def __init__(self, server: int = NO_SERVER) -> None:
        """``server`` is the number of this one, which handles tell."""
        self._server = server
        self._lock = threading.Lock()
        self._of: dict[str, OrderedDict[bytes, PreparedStatement]] = {}
        """Each principal's by handle, longest unused first."""
        self._sizes: dict[bytes, int] = {}
        self._held: Counter[str] = Counter()
        """Bytes of each principal's."""

    def add(self, statement: PreparedStatement) -> bytes:
        """Keep a statement; returns its handle. Raises `StatementTooLarge`."""
        handle = handle_bytes(self._server)
        _check_size(statement)
        with self._lock:
            while len(own := self._of.get(statement.principal, ())) >= MOST_PREPARED:
                self._forget(next(iter(own)), statement.principal)
            self._keep(handle, statement)
        return handle

    def get(self, handle: bytes, caller: Owner) -> PreparedStatement:
        """A statement by handle; raises `OperationNotExist`."""
        with self._lock:
            statement = self._own(handle, caller)
            if statement is not None:
                self._of[statement.principal].move_to_end(handle)
        if statement is None:
            raise OperationNotExist(
                "There is no prepared statement of this handle on this server: it was closed, "
                f"or gave way to newer ones, of which one user may have {MOST_PREPARED}. Prepare it again."
            )
        return statement

    def bind(self, handle: bytes, statement: PreparedStatement, batches: list[pa.RecordBatch]) -> None:
        """Give a statement its parameters; raises `StatementTooLarge`."""
        with self._lock:
            before, statement.bound = statement.bound, batches
            try:
                _check_size(statement)
            except StatementTooLarge:
                statement.bound = before
                raise
            self._forget(handle, statement.principal)
            self._keep(handle, statement)

    def analysed(self, statement: PreparedStatement) -> Analysed | None:
        """What was found when the statement was prepared, to the first who runs it."""
        with self._lock:
            analysed, statement.analysed = statement.analysed, None
        return analysed

    def close(self, handle: bytes, caller: Owner) -> None:
        """Forget a statement of the caller's own; twice is fine, and of another's nothing is told."""
        with self._lock:
            if self._own(handle, caller) is not None:
                self._forget(handle, caller.principal)

    def _own(self, handle: bytes, caller: Owner) -> PreparedStatement | None:
        statement = self._of.get(caller.principal, OrderedDict()).get(handle)
        return statement if statement is not None and statement.owner.admits(caller) else None

    def _keep(self, handle: bytes, statement: PreparedStatement) -> None:
        """Keep a statement; of too many bytes those longest unused of whoever holds most go."""
        size = statement.size()
        self._of.setdefault(statement.principal, OrderedDict())[handle] = statement
        self._sizes[handle] = size
        self._held[statement.principal] += size
        while self._held.total() > PREPARED_BYTES:
            others = {principal: next((one for one in own if one != handle), None) for principal, own in self._of.items()}
            holder = max((principal for principal, oldest in others.items() if oldest is not None), key=self._held.__getitem__)
            self._forget(others[holder] or handle, holder)

    def _forget(self, handle: bytes, principal: str) -> None:
        own = self._of.get(principal, OrderedDict())
        if own.pop(handle, None) is None:
            return
        self._held[principal] -= self._sizes.pop(handle)
        if not own:
            del self._of[principal], self._held[principal]


def _check_size(statement: PreparedStatement) -> None:
    """Raise `StatementTooLarge` for one that would need more than half of what there is for all."""
    size, most = statement.size(), PREPARED_BYTES // 2
    if size > most:
        raise StatementTooLarge(f"The statement and its parameters take {size} bytes; the most kept of one is {most}. Bind fewer rows.")
