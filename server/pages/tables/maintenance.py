"""What is done with a table: snapshots, options, merges, readers and grants, each change as a statement with a preview."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import request
from flask.typing import ResponseReturnValue

from lake import Lake
from lake.inspect.browse import file_sums
from lake.inspect.table_details import merges, readers, snapshot_page, streams
from model.access import ACCESSES, ResourceType, access_of, table_resource
from model.errors import BadRequest, LakeError
from model.options.masking import masked_all
from model.options.option import Option
from model.options.table import TABLE_OPTIONS
from model.text.sql_text import literal, quote
from model.work.job import Job
from server.pages.actions import Answer, act, run
from server.pages.rendering.statements import call, select
from server.pages.shell import bp, render
from server.pages.tables.sides import TableHead, address, head_of, number, tab
from server.pages.work import shown_job

_PAGE = 20
_MOST_RUNS = 40
_MOST_BUCKETS = 15


@tab("snapshots", "Snapshots", counts=True)
def snapshots(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """The timeline, newest first."""
    lines = snapshot_page(lake, head.opened, below=number("below"), limit=_PAGE + 1)
    return {
        "lines": lines[:_PAGE],
        "most_rows": max((abs(line.snapshot.delta_record_count) for line in lines), default=0) or 1,
        "below": lines[_PAGE - 1].snapshot.id if len(lines) > _PAGE else None,
        "paged": number("below") is not None,
        "tags": sorted(((row.name, int(row.snapshot["id"])) for row in lake.tags.all(head.opened)), key=lambda tag: -tag[1]),
        "time_travel": lambda id_: select(head.table, limit=100, scan__snapshot_id=str(id_)),
        "tagged": lambda tag_: select(head.table, limit=100, scan__tag_name=tag_),
        "changes": lambda id_: select(head.table, limit=100, incremental_between=f"{id_ - 1},{id_}"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionLine:
    """An option with its value in force."""

    key: str
    value: str | None
    """What the table says; None where the default holds."""
    default: str
    kind: str
    doc: str
    mutable: bool


@tab("options", "Options")
def options(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """Every option a table may have, those that are set first."""
    written = masked_all(head.opened.schema.options)
    lines = [_line(TABLE_OPTIONS.get(key), key, value) for key, value in sorted(written.items())]
    rest = [_line(option, option.key, None) for option in TABLE_OPTIONS if option.key not in written]
    edited = request.args.get("edit", "")
    known = TABLE_OPTIONS.get(edited) if edited else None
    return {"given": lines, "rest": rest, "edited": _line(known, edited, written.get(edited)) if edited else None}


def _line(option: Option[Any] | None, key: str, value: str | None) -> OptionLine:
    if option is None:
        return OptionLine(
            key=key, value=value, default="", kind="", doc="Kept for other clients; not an option of this server.", mutable=True
        )
    return OptionLine(
        key=key, value=value, default=option.default_text(), kind=option.parser.kind, doc=option.meaning(), mutable=option.mutable
    )


@tab("maintenance", "Maintenance", counts=True)
def maintenance(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """Small files, what was merged before, and what to do by hand."""
    sums = file_sums(lake, head.opened, head.snapshot)
    runs = merges(lake, head.opened, limit=_MOST_RUNS)
    crowded = sorted(sums.buckets, key=lambda share: (-share.files, share.partition, share.bucket))
    return {
        "sums": sums,
        "crowded": [share for share in crowded if share.files > 1][:_MOST_BUCKETS],
        "runs": runs,
        "most_runs": _MOST_RUNS,
        "largest_run": max((run.bytes_before for run in runs), default=1) or 1,
        "write_only": bool(TABLE_OPTIONS.read(head.opened.schema.options, "write-only")),
        "min_retained": TABLE_OPTIONS.read(head.opened.schema.options, "snapshot.num-retained.min"),
        "time_retained": masked_all(head.opened.schema.options).get("snapshot.time-retained", "1 h"),
    }


@tab("consumers", "Consumers", counts=True)
def consumers(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """Readers of streams and their lag, and the jobs that name the table."""
    return {
        "streams": streams(lake, head.opened),
        "readers": readers(lake, head.opened, head.snapshot),
        "latest": head.snapshot.id if head.snapshot else 0,
        "jobs": [shown_job(job) for job in lake.jobs.all() if not job.state.ended and _names(job, head)],
        "follow": select(head.table, consumer_id="my-reader", scan__mode="latest"),
    }


def _names(job: Job, head: TableHead) -> bool:
    """Whether a job's statement spells the table's name; one in another database may have the same."""
    text = job.statement.replace("`", "")
    return str(head.table) in text or (job.database == head.table.database and head.table.table in text)


@tab("access", "Access", data=False)
def access(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """Who may do what with it."""
    policies: list[Any] = []
    with contextlib.suppress(LakeError):  # shown to those alone who may set them
        policies = list(lake.permissions.policies(head.table))
    return {"grants": lake.permissions.grants_on(table_resource(head.table)), "policies": policies, "accesses": _GRANTABLE}


# Actions


_GRANTABLE = tuple(sorted(access.value for access in ACCESSES[ResourceType.TABLE]))


def _granted(action: str, word: str) -> str:
    """The access that is granted or revoked; raises `InvalidGrant` for a word that is none. Other actions name none."""
    return access_of(word).value if action in ("grant", "revoke") else ""


def _statement(head: TableHead, action: str) -> tuple[str, str]:
    """What an action runs, and the side of the table to go back to; raises `BadRequest` for what lacks a part."""
    name, form, quoted = head.table, request.values, head.table.quoted()
    key, value, who = form.get("key", "").strip(), form.get("value", "").strip(), form.get("name", "").strip()
    statements: dict[str, tuple[str, str]] = {
        "compact": (call("compact", table=name), "maintenance"),
        "compact-minor": (call("compact", table=name, compact_strategy="minor"), "maintenance"),
        "expire": (call("expire_snapshots", table=name), "maintenance"),
        "orphans": (call("remove_orphan_files", table=name), "maintenance"),
        "tag": (
            call("create_tag", table=name, tag=who, snapshot_id=number("snapshot"), time_retained=form.get("keep", "").strip() or None),
            "snapshots",
        ),
        "delete-tag": (call("delete_tag", table=name, tag=who), "snapshots"),
        "rollback": (call("rollback_to", table=name, snapshot_id=number("snapshot"), from_snapshot=number("latest")), "snapshots"),
        "reset-consumer": (call("reset_consumer", table=name, consumer_id=who, next_snapshot_id=number("next")), "consumers"),
        "forget-consumer": (call("reset_consumer", table=name, consumer_id=who), "consumers"),
        "set-option": (f"ALTER TABLE {quoted} SET ({literal(key)} = {literal(value)})", "options"),
        "reset-option": (f"ALTER TABLE {quoted} RESET ({literal(key)})", "options"),
        "grant": (f"GRANT {_granted(action, value)} ON {quoted} TO {quote(who)}", "access"),
        "revoke": (f"REVOKE {_granted(action, value)} ON {quoted} FROM {quote(who)}", "access"),
    }
    if action not in statements:
        raise BadRequest(f"There is no action {action!r} of tables; there are {', '.join(statements)}.")
    if action.endswith(("tag", "-consumer")) and not who:
        raise BadRequest("A name is missing.")
    if action == "rollback" and number("snapshot") is None:
        raise BadRequest("The snapshot to go back to is missing.")
    if action == "set-option" and not key:
        raise BadRequest("The option's key is missing.")
    return statements[action]


@bp.post("/tables/<database>/<name>/do/<action>")
def do(database: str, name: str, action: str) -> ResponseReturnValue:
    """Run an action on a table and go back to the side it belongs to."""
    _, head = head_of(database, name)
    sql, side = _statement(head, action)
    return act(sql, back=address(head, side))


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an action would do, and how it is worded."""

    title: str
    lead: str
    button: str
    danger: bool = False


_PREVIEWS = {
    "compact": Preview(title="Merge small files", lead="The files behind the large ones of each bucket are merged; no row and no order "
                       "changes, and nobody who writes or reads is disturbed.", button="Compact"),
    "expire": Preview(title="Expire snapshots", lead="Snapshots older than the table keeps them go, with the files only they needed. "
                      "Tags and consumers hold back what they need.", button="Expire", danger=True),
    "orphans": Preview(title="Remove orphan files", lead="Files no snapshot, tag or branch refers to, and older than a day, go: "
                       "writers that crashed leave them.", button="Remove", danger=True),
    "rollback": Preview(title="Roll back", lead="The snapshot becomes the latest again. Everything committed after it is gone for good, "
                        "with the tags on it.", button="Roll back", danger=True),
    "delete-tag": Preview(title="Delete tag", lead="Files that only this tag held go with it.", button="Delete tag", danger=True),
}  # fmt: skip


@bp.get("/tables/<database>/<name>/preview/<action>")
def preview(database: str, name: str, action: str) -> ResponseReturnValue:
    """What an action would do: its dry run, which changes nothing, and the button that does it."""
    lake, head = head_of(database, name)
    if action not in _PREVIEWS:
        raise BadRequest(f"There is no preview of {action!r}; there are {', '.join(_PREVIEWS)}.")
    sql, side = _statement(head, action)
    dry = f"{sql[:-1]}, dry_run => true)"
    answer: Answer | None = None
    problem = ""
    try:
        answer = run(dry, most=20)
    except LakeError as refused:
        problem = refused.message
    going = _going(lake, head) if action == "rollback" and head.tells_counts else []
    return render(
        "table/preview.html",
        here="Catalog",
        head=head,
        action=action,
        words=_PREVIEWS[action],
        sql=sql,
        dry=dry,
        answer=answer,
        problem=problem,
        going=going,
        values={key: value for key, value in request.args.items() if key in ("snapshot", "name")} | _seen(head, action),
        back=address(head, side),
    )


def _seen(head: TableHead, action: str) -> dict[str, int]:
    """What a button sends of what its preview was of: a rollback takes away nothing that it did not show."""
    return {"latest": head.snapshot.id} if action == "rollback" and head.snapshot is not None else {}


def _going(lake: Lake, head: TableHead) -> list[Any]:
    """The snapshots a rollback takes away, newest first; the first of them where they are many."""
    to = number("snapshot")
    lines = snapshot_page(lake, head.opened, below=None, limit=50)
    return [line for line in lines if to is not None and line.snapshot.id > to]
