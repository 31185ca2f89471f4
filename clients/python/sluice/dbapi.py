"""A Python DB-API 2.0 (PEP 249) driver over HTTP: ``sluice.connect("http://127.0.0.1:8083")``."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sluice.answers import Answer, Closer, breaking_off, notices
from sluice.batches import Batches
from sluice.columns import column
from sluice.errors import DatabaseError as DatabaseError
from sluice.errors import DataError as DataError
from sluice.errors import Error as Error
from sluice.errors import IntegrityError as IntegrityError
from sluice.errors import InterfaceError as InterfaceError
from sluice.errors import InternalError as InternalError
from sluice.errors import NotSupportedError as NotSupportedError
from sluice.errors import OperationalError as OperationalError
from sluice.errors import ProgrammingError as ProgrammingError
from sluice.errors import Warning as Warning  # noqa: A004 - PEP 249's name
from sluice.errors import refusal, suppress_refusal
from sluice.names import parts_of, rows_path
from sluice.plain_insert import PlainInsert
from sluice.transport import http_client
from sluice.values import BINARY as BINARY
from sluice.values import DATETIME as DATETIME
from sluice.values import NUMBER as NUMBER
from sluice.values import ROWID as ROWID
from sluice.values import STRING as STRING
from sluice.values import Binary as Binary
from sluice.values import Date as Date
from sluice.values import DateFromTicks as DateFromTicks
from sluice.values import Time as Time
from sluice.values import TimeFromTicks as TimeFromTicks
from sluice.values import Timestamp as Timestamp
from sluice.values import TimestampFromTicks as TimestampFromTicks
from sluice.values import Typed as Typed
from sluice.values import sent, sql_type

if TYPE_CHECKING:
    import httpx
    import pandas as pd
    import pyarrow as pa

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections; each has cursors of its own."""
paramstyle = "qmark"
"""A mapping of values for ``:name`` is taken as well."""
_ARRIVAL_SECONDS, _LOOK_SECONDS = 5.0, 0.05
"""How long a statement that is to be canceled may take to reach the server, and how often it is looked for."""
_UNSURE = 503
"""A server answers so where another one, which may know the statement, does not answer it."""

__all__ = [
    "BINARY", "Binary", "Connection", "Cursor", "DATETIME", "DataError", "DatabaseError", "Date", "DateFromTicks",
    "Error", "IntegrityError", "InterfaceError", "InternalError", "NUMBER", "NotSupportedError", "OperationalError",
    "ProgrammingError", "ROWID", "STRING", "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Typed",
    "Warning", "apilevel", "connect", "paramstyle", "threadsafety",
]  # fmt: skip

ARROW = "application/vnd.apache.arrow.stream"
Parameters = Sequence[Any] | Mapping[str, Any]


def connect(
    url: str = "http://127.0.0.1:8083",
    *,
    token: str | None = None,
    database: str | None = None,
    settings: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Connection:
    """A connection to the server at a URL; ``timeout`` (seconds) is each statement's. Nothing is sent yet."""
    return Connection(url, token=token, database=database, settings=settings, timeout=timeout)


class Connection:
    """A server as one caller sees it. Statements take effect when they are run: there are no transactions over several."""

    Warning, Error, InterfaceError, DatabaseError = Warning, Error, InterfaceError, DatabaseError
    DataError, OperationalError, IntegrityError = DataError, OperationalError, IntegrityError
    InternalError, ProgrammingError, NotSupportedError = InternalError, ProgrammingError, NotSupportedError

    def __init__(
        self, url: str, *, token: str | None, database: str | None, settings: Mapping[str, str] | None, timeout: float | None
    ) -> None:
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {})
        try:
            self._http: httpx.Client | None = http_client(url, headers)
        except ValueError as problem:
            raise InterfaceError(str(problem)) from problem
        self.database = database
        self._settings = dict(settings or {})
        self._timeout = timeout
        self.closer = Closer()
        """Lets go of answers whose cursors were dropped."""

    def cursor(self) -> Cursor:
        """A cursor of its own result."""
        self.http()
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Run a statement on a new cursor."""
        return self.cursor().execute(operation, parameters)

    def stream(self, operation: str, parameters: Parameters | None = None) -> Batches:
        """Follow a query's tables: batches of rows as they are committed, without end; closing the iterator ends it."""
        cursor = self.cursor()
        cursor._run(operation, parameters, mode="streaming")
        return Batches(cursor._batch, cursor.close, tuple(cursor.messages))

    def commit(self) -> None:
        """Nothing to do: every statement was committed when it ended."""
        self.http()

    def rollback(self) -> None:
        """Raise `NotSupportedError`: what ran has taken effect."""
        raise NotSupportedError("Every statement takes effect when it is run; there is nothing to roll back.")

    def close(self) -> None:
        """Let go of the connections; results that are still read break off."""
        http, self._http = self._http, None
        if http is not None:
            http.close()
        self.closer.stop()

    def http(self) -> httpx.Client:
        """What requests are sent with; raises `InterfaceError` after the close."""
        if self._http is None:
            raise InterfaceError("The connection is closed.")
        return self._http

    @property
    def zone(self) -> str:
        """The name of the zone in which statements read times that have none."""
        return self._settings.get("table.local-time-zone", "UTC")

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request and read only the answer's head; raises what the server refuses with."""
        import httpx

        http = self.http()
        try:
            request = http.build_request(method, path, **more)
        except (ValueError, TypeError) as problem:  # half a surrogate pair, an object inside of a Typed
            raise ProgrammingError(f"The statement or its values cannot be sent: {problem}") from problem
        try:
            response = http.send(request, stream=True)
            if response.is_success:
                return response
            with contextlib.closing(response):
                response.read()
        except httpx.HTTPError as problem:
            raise OperationalError(f"{http.base_url} cannot be reached: {problem}") from problem
        except RuntimeError as problem:
            if http.is_closed:
                raise InterfaceError("The connection was closed by another thread.") from problem
            raise
        raise refusal(response.status_code, response.text)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _body(self, operation: str, parameters: Parameters | None) -> dict[str, Any]:
        body: dict[str, Any] = {"statement": operation, "database": self.database, "timeout": self._timeout, "settings": self._settings}
        if parameters:
            named = isinstance(parameters, Mapping)
            body["parameters"] = {k: sent(v) for k, v in parameters.items()} if named else [sent(v) for v in parameters]  # type: ignore[union-attr]
        return {name: value for name, value in body.items() if value is not None}


class Cursor:
    """One statement at a time, and its rows, which are fetched as they are asked for."""

    arraysize = 1000

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self.messages: list[tuple[type[Warning], Warning]] = []
        """What the server told beside the rows of what was run last, such as that a table is behind its warehouse (PEP 249's extension)."""
        self._request_id: str | None = None
        self._asking = False
        """Whether a statement's answer has not begun."""
        self._answer: Answer | None = None
        self._watching: Callable[[], object] = lambda: None
        self._reader: pa.RecordBatchReader | None = None
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self._closed = False

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Run a statement with values for its ``?`` (a sequence) or ``:name`` (a mapping)."""
        self.messages.clear()
        self._run(operation, parameters)
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Cursor:
        """Run a statement for many values: ``INSERT INTO t [(…)] VALUES (?, …)`` as one commit, anything else one by one."""
        self.messages.clear()
        rows = list(seq_of_parameters)
        insert = PlainInsert.of(operation)
        if insert is not None and rows and all(isinstance(row, Sequence) for row in rows):
            self._insert(insert, rows)
            return self
        count = 0
        for number, row in enumerate(rows):
            try:
                self._run(operation, row)
            except Error as problem:
                self.rowcount = count
                if number:
                    problem.args = (f"{problem}\nTook effect before it: the first {number} of {len(rows)} rows of values.",)
                raise
            count += max(0, self.rowcount)
        self.rowcount = count
        return self

    def cancel(self) -> None:
        """Stop the statement that runs, from another thread; one that was sent a moment ago is waited for.

        Raises where nothing was canceled: `ProgrammingError` where none runs, or none any more, and `OperationalError` where one does not
        arrive, or its server is gone.
        """
        if self._request_id is None:
            raise ProgrammingError("Nothing was canceled: this cursor runs no statement.")
        until = time.monotonic() + _ARRIVAL_SECONDS
        while True:
            try:
                self.connection.request("DELETE", f"/statements/{self._request_id}").close()
                return
            except (ProgrammingError, OperationalError) as unknown:
                if isinstance(unknown, OperationalError) and not (self._asking and unknown.status == _UNSURE):
                    raise
                if not self._asking:
                    raise ProgrammingError("Nothing was canceled: the statement has ended.") from unknown
                if time.monotonic() > until:
                    raise OperationalError("Nothing was canceled: no server knows the statement (yet). Try again.") from unknown
            time.sleep(_LOOK_SECONDS)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        self._check_result()
        return self._row()

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, `arraysize` of them without a number."""
        self._check_result()
        wanted = self.arraysize if size is None else size
        return list(islice(iter(self._row, None), wanted))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        self._check_result()
        return list(iter(self._row, None))

    def fetch_arrow(self) -> pa.Table:
        """All rows as an Arrow table, the fastest way; call it instead of the other fetches, not after them."""
        import pyarrow as pa

        self._check_result()
        assert self._reader is not None
        return pa.Table.from_batches(list(iter(self._batch, None)), self._reader.schema)

    def fetch_df(self) -> pd.DataFrame:
        """All rows as a pandas data frame."""
        frame: pd.DataFrame = self.fetch_arrow().to_pandas()
        return frame

    def close(self) -> None:
        """Let the result go; a statement that still runs is canceled."""
        self._let_go()
        self._closed = True
        self.messages.clear()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing needs it."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing needs it."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchone, None)

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self, operation: str, parameters: Parameters | None, *, mode: str | None = None) -> None:
        import pyarrow.ipc as ipc

        if self._closed:
            raise InterfaceError("The cursor is closed.")
        self._let_go()
        self._request_id = uuid4().hex
        headers = {"Accept": ARROW, "X-Request-Id": self._request_id}
        body = self.connection._body(operation, parameters) | ({"mode": mode} if mode else {})
        self._asking = True
        try:
            response = self.connection.request("POST", "/sql", json=body, headers=headers)
        finally:
            self._asking = False
        answer = self._answer = Answer(response)
        earlier = {str(message) for _, message in self.messages}  # by the rows of values before
        self.messages += [(Warning, Warning(notice)) for notice in notices(response) if notice not in earlier]
        self._watching = self.connection.closer.watch(self, answer).detach
        with breaking_off():
            self._reader = ipc.open_stream(io.BufferedReader(answer, buffer_size=1 << 20))
        assert self._reader is not None
        affected = response.headers.get("X-Affected-Rows")
        self.rowcount = -1 if affected is None else int(affected)
        if affected is not None or response.headers.get("X-Result-Kind") == "SUCCESS":
            while self._batch() is not None:
                pass
            return
        self.description = [(field.name, sql_type(field.type), None, None, *_digits(field.type), None) for field in self._reader.schema]

    def _insert(self, insert: PlainInsert, rows: Sequence[Any]) -> None:
        """Rows as Arrow in the table's own types; what has no such form, or is refused so, goes as one INSERT with all its values."""
        if wrong := next((row for row in rows if len(row) != insert.width), None):
            raise ProgrammingError(f"{len(wrong)} values for the {insert.width} placeholders of: {insert.text.strip()}")
        arrays = self._columns(insert, rows)
        place = (self.connection.database or "default", *parts_of(insert.table))
        if arrays is not None:
            with suppress_refusal():
                self.rowcount = self._append(place[-2], place[-1], arrays)
                return
        self._run(insert.of_rows(len(rows)), [value for row in rows for value in row])

    def _columns(self, insert: PlainInsert, rows: Sequence[Any]) -> pa.Table | None:
        """The rows in the types of the columns they fill, which who may only write cannot ask for; None where the server must judge."""
        import pyarrow as pa

        with suppress_refusal(of_reading=True):
            self._run(insert.asking_types(), None)
            schema = self.fetch_arrow().schema
            if len(schema) == insert.width:
                arrays = [column([row[at] for row in rows], field.type, self.connection.zone) for at, field in enumerate(schema)]
                return None if any(array is None for array in arrays) else pa.table(arrays, schema=schema)
        return None

    def _append(self, database: str, table: str, rows: pa.Table) -> int:
        import pyarrow.ipc as ipc

        sink = io.BytesIO()
        with ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        headers = {"Content-Type": ARROW, "Idempotency-Key": uuid4().hex}
        response = self.connection.request("POST", rows_path(database, table), content=sink.getvalue(), headers=headers)
        with contextlib.closing(response):
            response.read()
            return int(response.json()["rows"])

    def _check_result(self) -> None:
        if self._closed:
            raise InterfaceError("The cursor is closed.")
        if self.description is None:
            raise ProgrammingError("There is no result to fetch: no statement was run that answers with rows.")

    def _row(self) -> tuple[Any, ...] | None:
        while (row := next(self._rows, None)) is None:
            batch = self._batch()
            if batch is None:
                return None
            self._rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return row

    def _batch(self) -> pa.RecordBatch | None:
        """The next rows, as they come; None at the end, where the answer is let go."""
        while self._reader is not None and self._answer is not None:
            with breaking_off():
                batch = next(self._reader, None)
            if batch is None:
                self._close_answer()
            elif batch.num_rows:
                return batch
        return None

    def _let_go(self) -> None:
        self._close_answer()
        self.description, self.rowcount, self._reader, self._rows = None, -1, None, iter(())

    def _close_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.let_go()
            self._watching()


def _digits(type_: pa.DataType) -> tuple[int | None, int | None]:
    return getattr(type_, "precision", None), getattr(type_, "scale", None)
