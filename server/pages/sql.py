"""The SQL page: a statement goes in, its rows, its plan or a file come out; scripts make it quicker, nothing needs them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from flask import Response, make_response, request
from flask.typing import ResponseReturnValue

from catalog.records import AuditRow
from gateway.recent import RecentStatements
from lake import Owner
from model.errors import BadRequest, LakeError, UnsupportedStatement
from model.options.masking import masked_text
from server.access.access import caller
from server.errors import Failure, failure_of, problem_document, request_id
from server.formats import FORMATS, NDJSON
from server.formats.texts import python_rows
from server.pages.shell import bp, in_menu, render
from server.process.services import services
from server.settings.options import STATEMENT_WORDS
from server.sql.pending import can_be_held, held
from server.sql.request import MODE
from server.sql.statements import streamed
from server.sql.streaming import stream
from sql.dialect import is_query, parse_one, split
from sql.execution.results import ResultSet, Waiting
from sql.parsing.size import check_words
from sql.parsing.turns import read_for

SHOWN_ROWS = 1000
_LIVE_ROWS = 200
_LIVE_SECONDS = 3.0
"""Without scripts a page shows what of a stream comes in so long."""
_PAST = 40
_LOOKED_AT = 400
"""Entries of the audit log looked through for statements of this page and of programs."""
_PROTOCOLS = frozenset({"sql", "flink", "flight"})
DOWNLOADS = {
    "csv": ("text/csv", "CSV"),
    "parquet": ("application/vnd.apache.parquet", "Parquet"),
    "arrow": ("application/vnd.apache.arrow.stream", "Arrow"),
}
_EXPLAIN = "EXPLAIN JSON_EXECUTION_PLAN "
EDITOR = Path(__file__).parent / "static" / "vendor" / "editor.js"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the form holds."""

    statement: str
    database: str
    live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A result as a table."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]]
    numeric: Sequence[bool]
    more: bool
    seconds: float
    live: bool
    query: bool
    """Whether it can be asked again, for a file of all its rows."""
    notices: Sequence[str]
    """What its reader is to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A failure, with the piece of the statement it is about."""

    failure: Failure
    before: str
    at: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A statement that ran."""

    text: str
    outcome: str
    at: Any
    seconds: float
    error: str
    protocol: str


@bp.get("/sql")
@in_menu("SQL")
def sql() -> ResponseReturnValue:
    """The editor, with the statement the address names, if any."""
    args = request.args
    return _page(Asked(statement=args.get("statement", ""), database=args.get("database", ""), live=args.get("live") == "yes"))


@bp.post("/sql")
def run_form() -> ResponseReturnValue:
    """Run or explain what the form holds, and show what came of it on the same page.

    A script that takes a ``part`` of the page is told 200 also of a failure: it shows it, and to browsers other answers are complaints.
    """
    form = request.form
    form_values = Asked(statement=form.get("statement", ""), database=form.get("database", ""), live=form.get("live") == "yes")
    if not form_values.statement.strip():
        return _page(form_values, trouble=_trouble(BadRequest("There is no statement to run; write one above."), ""), status=400)
    try:
        if form.get("action") == "explain":
            return _page(form_values, picture=_explained(form_values))
        began = time.monotonic()
        result = _started(form_values)
        if result.waiting is not None and can_be_held():
            return _live_later(form_values, result, result.waiting, began)
        return _page(form_values, result=_ran(form_values, result, began))
    except LakeError as refused:
        trouble = _trouble(refused, form_values.statement)
        return _page(form_values, trouble=trouble, status=200 if form.get("part") == "yes" else trouble.failure.status)


@bp.post("/sql/live")
def follow() -> ResponseReturnValue:
    """The rows of a statement in streaming mode, as NDJSON, while the page waits for them.

    A failure is the line of a late one also where it comes before any row: to browsers other answers than 200 are complaints.
    """
    form = request.form
    settings, database = {MODE: "streaming"}, form.get("database") or None
    try:
        text = form.get("statement", "")
        return streamed(text, NDJSON, NDJSON.media_type, database=database, settings=settings, caller=caller(), name=request_id())
    except LakeError as refused:
        line = json.dumps({"$error": problem_document(refused, request_id())})
        return Response(f"{line}\n", mimetype=NDJSON.media_type, headers={"Cache-Control": "no-store"})


@bp.post("/sql/download")
def download() -> ResponseReturnValue:
    """All rows of a query as a file."""
    chosen = request.form.get("format", "")
    if chosen not in DOWNLOADS:
        raise BadRequest(f"A result can be downloaded as {', '.join(DOWNLOADS)}.")
    text = request.form.get("statement", "")
    with read_for(caller().principal):
        check_words(text, services().settings[STATEMENT_WORDS])
    if not _asks_only(text):
        raise UnsupportedStatement("Only a query's rows are downloaded: anything else would do its work a second time.")
    result = services().gateway.run(text, database=request.form.get("database") or None, caller=caller(), name=request_id())
    answer = stream(result, FORMATS[DOWNLOADS[chosen][0]], release=lambda: None)
    answer.headers["Content-Disposition"] = f'attachment; filename="result.{chosen}"'
    answer.headers["Cache-Control"] = "no-store"
    return answer


@bp.get("/sql/complete")
def complete_text() -> ResponseReturnValue:
    """What may stand at a place of the text, as the gateway's completion says it."""
    position = request.args.get("position", type=int)
    if position is None or position < 0:
        raise BadRequest("A position is a number of characters.")
    text, database = request.args.get("text", ""), request.args.get("database", "")
    candidates = services().gateway.complete(None, text, position, database=database, caller=caller())
    return Response(json.dumps({"candidates": candidates[:100]}), mimetype="application/json", headers={"Cache-Control": "no-store"})


def _page(
    form_values: Asked,
    *,
    result: Rows | None = None,
    picture: Mapping[str, Any] | None = None,
    trouble: Trouble | None = None,
    status: int = 200,
) -> ResponseReturnValue:
    lake = services().gateway.lake.for_caller(caller())
    return render(
        "sql.html",
        here="SQL",
        status=status,
        asked=form_values,
        databases=lake.list_databases(),
        result=result,
        picture=_pictured(picture) if picture else None,
        trouble=trouble,
        past=list(_past()),
        downloads=DOWNLOADS,
        editor=EDITOR.exists(),
        most=SHOWN_ROWS,
    )


# Running


def _started(form_values: Asked) -> ResultSet:
    settings = {MODE: "streaming"} if form_values.live else {}
    return services().gateway.run(
        form_values.statement, database=form_values.database or None, settings=settings, caller=caller(), name=request_id()
    )


def _ran(form_values: Asked, result: ResultSet, began: float) -> Rows:
    with result:
        rows, more = _live(result) if result.unbounded else _first(result)
    return _shown(form_values, result, rows, more, began)


def _live_later(form_values: Asked, result: ResultSet, waiting: Waiting, began: float) -> Response:
    """The page of what comes in the next moments; nobody's thread waits for it."""
    batches, types, rows = result.batches(), result.types, list[tuple[Any, ...]]()

    def make(over: bool) -> bytes | None:
        try:
            for batch in batches:
                rows.extend(python_rows(batch.slice(0, _LIVE_ROWS - len(rows)), types))
                if len(rows) >= _LIVE_ROWS or (over and not batch.num_rows):
                    break
                if not batch.num_rows:
                    return None
            page = _page(form_values, result=_shown(form_values, result, rows, True, began))
        except LakeError as refused:
            page = _page(form_values, trouble=_trouble(refused, form_values.statement))
        result.close()
        return make_response(page).get_data()

    answer = held(waiting, make, seconds=_LIVE_SECONDS, content_type="text/html; charset=utf-8")
    answer.headers["Cache-Control"] = "no-store"
    answer.call_on_close(result.close)
    return answer


def _shown(form_values: Asked, result: ResultSet, rows: Sequence[Sequence[Any]], more: bool, began: float) -> Rows:
    types = [str(type_) for type_ in result.types]
    return Rows(
        columns=[(column.name, type_) for column, type_ in zip(result.columns, types, strict=True)],
        rows=rows,
        numeric=[_is_number(type_) for type_ in types],
        more=more,
        seconds=time.monotonic() - began,
        live=result.unbounded,
        query=_asks_only(form_values.statement) and not result.unbounded,
        notices=result.notices,
    )


def _is_number(type_: str) -> bool:
    return type_.split("(")[0].split(" ")[0] in ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE")


def _first(result: ResultSet) -> tuple[list[tuple[Any, ...]], bool]:
    rows: list[tuple[Any, ...]] = []
    for batch in result.batches():
        rows += python_rows(batch.slice(0, SHOWN_ROWS + 1 - len(rows)), result.types)
        if len(rows) > SHOWN_ROWS:
            return rows[:SHOWN_ROWS], True
    return rows, False


def _live(result: ResultSet) -> tuple[list[tuple[Any, ...]], bool]:
    until = time.monotonic() + _LIVE_SECONDS
    rows: list[tuple[Any, ...]] = []
    for batch in result.batches():  # an empty one comes every moment
        rows += python_rows(batch.slice(0, _LIVE_ROWS - len(rows)), result.types)
        if len(rows) >= _LIVE_ROWS or time.monotonic() > until:
            break
    return rows, True


def _asks_only(text: str) -> bool:
    """Whether a text is one query, so that running it again changes nothing."""
    try:
        with read_for(caller().principal):
            check_words(text, services().settings[STATEMENT_WORDS])
            texts = split(text)
            return len(texts) == 1 and is_query(parse_one(texts[0].text))
    except LakeError:
        return False


def _trouble(error: LakeError, statement: str) -> Trouble:
    """The failure, and the line of the statement it stands in, parted where it stands."""
    failure = failure_of(error, request_id())
    lines = statement.split("\n")
    if error.line is None or not 1 <= error.line <= len(lines):
        return Trouble(failure=failure, before="", at="", after="")
    line, column = lines[error.line - 1].rstrip("\r"), max(0, (error.column or 1) - 1)
    length = max(1, len((error.fragment or " ").split("\n")[0]))
    return Trouble(failure=failure, before=line[:column], at=line[column : column + length] or " ", after=line[column + length :])


# EXPLAIN as a picture


def _explained(form_values: Asked) -> Mapping[str, Any]:
    text = _EXPLAIN + form_values.statement.rstrip().rstrip(";")
    try:
        with services().gateway.run(text, database=form_values.database or None, caller=caller(), name=request_id()) as result:
            ((plan,),) = result.collect()
    except LakeError as refused:
        if refused.line == 1 and refused.column is not None:  # the place in what was written here
            refused.column = max(1, refused.column - len(_EXPLAIN))
        raise
    return dict(json.loads(plan))


_FATES = (("kept", "read"), ("partition", "skipped by partition"), ("bucket", "skipped by bucket"), ("statistics", "skipped by statistics"))


def _pictured(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**plan, "tables": [_pictured_table(table) for table in plan["tables"]]}


def _pictured_table(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table's files by partition, largest first, and how many met which fate."""
    fates = table["fates"]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for file in fates or ():
        groups.setdefault(file["partition"] or "all files", []).append(file)
    largest = max((file["bytes"] for file in fates or ()), default=0)
    counts = [(name, label, [file for file in fates or () if file["fate"] == name]) for name, label in _FATES]
    legend = [(name, label, len(ones), sum(file["bytes"] for file in ones)) for name, label, ones in counts if ones]
    lines = [(name, sum(file["fate"] == "kept" for file in ones), ones) for name, ones in sorted(groups.items())]
    return {**table, "groups": lines, "largest": largest, "legend": legend, "labels": dict(_FATES)}


# What ran before


def _past() -> Iterator[Past]:
    """The caller's statements, the newest first, each text once: from the audit log, or of this server where none is kept."""
    seen: set[str] = set()
    for statement in _all_past():
        if statement.text not in seen and not statement.text.startswith(_EXPLAIN):
            seen.add(statement.text)
            yield statement
        if len(seen) == _PAST:
            return


def _all_past() -> Iterator[Past]:
    gateway, me = services().gateway, caller()
    if not services().settings.audit_kept:
        for ended in gateway.recent.newest(me.owner):
            if ended.protocol in _PROTOCOLS:
                at = ended.submitted * 1000
                yield Past(
                    text=ended.text,
                    outcome=ended.state.value,
                    at=at,
                    seconds=ended.seconds,
                    error=ended.error or "",
                    protocol=ended.protocol,
                )
        return
    rows = islice(gateway.lake.audit.newest(me.principal), _LOOKED_AT)
    yield from map(partial(_of_log, gateway.recent, me.owner), (row for row in rows if row.statement_id and row.protocol in _PROTOCOLS))


def _of_log(recent: RecentStatements, caller: Owner, row: AuditRow) -> Past:
    known = recent.find(row.statement_id)
    error = (known.error if known is not None and known.owner.admits(caller) else None) or row.error_class or ""
    seconds = row.millis / 1000
    return Past(text=masked_text(row.action), outcome=row.outcome, at=row.time, seconds=seconds, error=error, protocol=row.protocol)
