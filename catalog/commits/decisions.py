"""The decision of a commit with all that belongs to it, in one round trip: pointer, snapshot, partitions, and the keys it is made under."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import ClientCursor
from psycopg.types.json import Jsonb

from catalog.commits.idempotency import IdempotencyRepository, Key
from catalog.connection import CatalogConnection
from catalog.objects.partitions import AND_ADDED, COMMITTED
from catalog.objects.snapshots import BESIDE, FIRST_HELD, INSERT_MOVED, NEXT_HELD, Added, values_of_added
from catalog.records import IdempotencyRow
from model.identifier import MAIN_BRANCH, Identifier
from model.partition import PartitionStatistics

_PARTITIONS = f"""
    , parts AS (
        INSERT INTO table_partition AS p {COMMITTED}
        SELECT m.table_id, %(branch)s, c.name, c.spec::jsonb, c.records, c.size, c.files, c.last, c.buckets, %(by)s, %(by)s
        FROM moved m, unnest(%(names)s::text[], %(specs)s::text[], %(p_records)s::bigint[], %(p_sizes)s::bigint[], %(p_files)s::bigint[],
                             %(p_lasts)s::bigint[], %(p_buckets)s::int[]) AS c (name, spec, records, size, files, last, buckets)
        {AND_ADDED}
    )
"""  # noqa: S608 - literals of this package
_ALL_MINE = """
    AND (SELECT count(*) FROM idempotency_key k
         JOIN unnest(%(k_scopes)s::text[], %(k_keys)s::text[], %(k_owners)s::uuid[]) AS w (scope, key, owner)
           ON k.scope = w.scope AND k.key = w.key AND k.owner = w.owner
         WHERE k.answer IS NULL) = %(k_count)s
"""
_BESIDE_STILL = f"AND {BESIDE} = %(beside)s::text[]"
_ANSWER = """
    UPDATE idempotency_key k SET answer = w.answer::jsonb
    FROM unnest(%(k_scopes)s::text[], %(k_keys)s::text[], %(k_owners)s::uuid[], %(k_answers)s::text[]) AS w (scope, key, owner, answer)
    WHERE k.scope = w.scope AND k.key = w.key AND k.owner = w.owner AND EXISTS (
        SELECT 1 FROM table_snapshot s
        WHERE s.table_id = %(table)s AND s.branch = %(branch)s AND s.snapshot_id = %(id)s AND s.snapshot_uuid = %(uuid)s
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a decision takes for granted of its table or branch."""

    name: Identifier
    table_id: UUID
    location: str
    schema_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be decided of one branch."""

    held: Held
    base: str | None
    """The key of the snapshot it is built on."""
    snapshot_id: int
    key: str
    body: Mapping[str, Any]
    added: Added
    partitions: Sequence[tuple[str, PartitionStatistics]] = ()
    """What it adds to each partition, by name; it takes no partition's last file away."""
    by: str | None = None
    writer: str
    beside: Sequence[str] | None = None
    """`HeadRow.beside`, where that must be so still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a decision under keys."""

    moved: bool
    keys: Sequence[bool]
    """Of each key whether it is its owner's now; where one is not, nothing has moved."""
    others: Sequence[IdempotencyRow | None]
    """Of each key that is not, and that its owner had not claimed before, who has it and what was answered under it."""


class DecisionRepository:
    """Decides in a single round trip, which is a transaction of its own or ends the one of a turn."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def decide(self, one: Decision, *, turn: bool = False) -> bool:
        """`SnapshotRepository.advance`, with all that must hold of the table in the same statement; False where something did not.

        With ``turn``, in a turn's transaction, that is committed in the same round trip.
        """
        query, values = _query(one, turn=turn)
        if turn:
            return ClientCursor(self._conn).execute(f"{query}; COMMIT".encode(), values).rowcount == 1
        return self._conn.execute(query, values).rowcount == 1

    def decide_under(self, keys: Sequence[tuple[Key, Mapping[str, Any]]], one: Decision, *, turn: bool = False) -> Outcome:
        """The same under idempotency keys, whose answers are stored with it; those that nobody has claimed are claimed first.

        A key that was claimed stays so where nothing moved.
        """
        ordered = sorted(keys, key=lambda each: (each[0].scope, each[0].key))  # two servers' do not wait for each other
        query, values = _query(one, turn=turn, keys=ordered)
        claims = IdempotencyRepository(self._conn)
        with self._conn.at_once():
            had = {each: claims.hold_or_claim(each) for each, _ in ordered}
            looked = {each: claims.looking(each.scope, each.key, each.body_hash) for each, _ in ordered if not each.claimed}
            moved = self._conn.execute(query, values)
            self._conn.execute(_ANSWER, values)
        mine = [had[each].rowcount == 1 for each, _ in keys]
        others = [None if own or each not in looked else looked[each].fetchone() for own, (each, _) in zip(mine, keys, strict=True)]
        return Outcome(moved=moved.rowcount == 1, keys=mine, others=others)


_OF_BRANCH = """
    , held AS (
        SELECT t.table_id FROM of_table t JOIN table_branch b ON b.table_id = t.table_id
        WHERE b.name = %(branch)s AND b.schema_id = %(schema)s
        FOR KEY SHARE OF b
    )
"""
"""The branch's own row, after the table's as all take them: it may be dropped or renamed by whom the table's row was waited for."""


def _query(decision: Decision, *, turn: bool, keys: Sequence[tuple[Key, Mapping[str, Any]]] = ()) -> tuple[str, dict[str, Any]]:
    table = decision.held
    if table.name.branch == MAIN_BRANCH:
        schema, of_branch = "AND t.schema_id = %(schema)s", ""
    else:
        schema, of_branch = "", _OF_BRANCH
    values: dict[str, Any] = {
        "table": table.table_id, "database": table.name.database, "name": table.name.table, "branch": table.name.branch,
        "location": table.location, "schema": table.schema_id, "id": decision.snapshot_id, "uuid": decision.key, "base": decision.base,
        "body": Jsonb(dict(decision.body)), "writer": decision.writer, "turn": turn, **values_of_added(decision.added),
    }  # fmt: skip
    if decision.beside is not None:
        values["beside"] = list(decision.beside)
    if decision.partitions:
        parts = sorted(decision.partitions, key=lambda part: part[0])
        values |= {
            "by": decision.by,
            "names": [name for name, _ in parts],
            "specs": [json.dumps(dict(part.spec)) for _, part in parts],
            "p_records": [part.record_count for _, part in parts],
            "p_sizes": [part.file_size for _, part in parts],
            "p_files": [part.file_count for _, part in parts],
            "p_lasts": [part.last_file_millis for _, part in parts],
            "p_buckets": [part.total_buckets for _, part in parts],
        }
    if keys:
        values |= {
            "k_scopes": [key.scope for key, _ in keys],
            "k_keys": [key.key for key, _ in keys],
            "k_owners": [key.owner for key, _ in keys],
            "k_answers": [json.dumps(dict(answer)) for _, answer in keys],
            "k_count": len(keys),
        }
    query = f"""
        WITH {"of_table" if of_branch else "held"} AS (
            SELECT t.table_id FROM sluice_table t
            WHERE t.table_id = %(table)s AND t.database = %(database)s AND t.name = %(name)s AND t.location = %(location)s
              AND t.moving_from IS NULL AND t.diverged_at IS NULL {schema}
              AND NOT EXISTS (SELECT 1 FROM stale_file f WHERE f.table_id = t.table_id)
              {_ALL_MINE if keys else ""} {_BESIDE_STILL if decision.beside is not None else ""}
            FOR KEY SHARE OF t
        ) {of_branch}, moved AS ({FIRST_HELD if decision.base is None else NEXT_HELD} RETURNING table_id)
        {_PARTITIONS if decision.partitions else ""}
        {INSERT_MOVED}
    """  # noqa: S608 - literals of this package
    return query, values
