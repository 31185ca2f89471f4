"""Clients of the REST catalog that commit, tag, branch and go back beside statements: no answer is a bug, all that is kept is whole."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from gateway.gateway import Gateway
from lake import Lake, LakeTable
from lake.rewrite.compaction import plan
from model.errors import LakeError
from model.identifier import Identifier
from model.snapshot import CommitKind, Snapshot
from server.app import create_app
from server.process.services import Services
from server.settings.settings import read_settings
from table.compaction.rewrite import rewrite
from table.format.rows.arrow import arrow_schema
from table.write.snapshot_builder import CommitRequest, build_snapshot, everything
from table.write.writer import write_batches
from tests.server.paimon.speaking import Rest
from tests.short import one_in
from tests.sql.statements.test_history_at_once import LAYOUTS, Historians, whole
from tests.sql.statements.test_names_at_once import TOLD

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261127"))
_STILL_USED = "still referenced by snapshots or tags"
"""The protocol wants a 500 for a schema that cannot go."""
_LOOKED_ANEW = ". Repeat it."
"""A tag, a branch or a snapshot became another while it was looked at: 503, which clients repeat."""
_KINDS = ("append", "append", "append", "overwrite", "compact")
Asked = tuple[str, str, Any]


class Clients(Historians):
    """Callers of whose requests one half are statements and the other half the protocol's."""

    told = (*TOLD, _STILL_USED, _LOOKED_ANEW)

    def __init__(self, gateways: Sequence[Gateway], lake: Lake, seed: int, directory: Path) -> None:
        super().__init__(gateways[0], lake, seed, *gateways[1:])
        settings = read_settings({"SLUICE_DATA": str(directory)})
        self._rests = [Rest(create_app(Services(gateway=gateway, settings=settings)).test_client()) for gateway in gateways]

    def _caller(self, number: int, statements: int) -> None:
        rng = random.Random(f"{self.seed} {number}")
        at = number % len(self.servers)
        for step in range(statements):
            row = number * 1_000_000 + step
            if rng.random() < 0.5:
                self._run(self.servers[at], rng, row)
            elif rng.random() < 0.5:
                self._send(at, *self._request(rng, row))
            else:
                self._commit(at, rng, row)

    def _send(self, server: int, method: str, path: str, body: Any) -> Any:
        """The answer, or None where there is none that is good."""
        answer = self._rests[server].call(method, path, body)
        found = answer.get_json(force=True) if answer.data else None
        if answer.status_code == 200:
            self.statuses[f"{method} {path.rpartition('/')[2]} 200"] += 1
            return found
        told = found or {}
        self._met(f"{method} {path} {body}", answer.status_code, told.get("message", ""), told.get("resourceType") or "")
        return None

    @staticmethod
    def _request(rng: random.Random, row: int) -> Asked:
        tag, branch, other_branch = rng.choice(("g1", "g2", "g3")), *rng.sample(("b1", "b2"), 2)
        main = "databases/default/tables/t"
        path = rng.choice((main, main, f"{main}$branch_{branch}"))
        partition = [{"p": str(row % 3)}]
        asked: Sequence[Asked] = (
            ("GET", path, None),
            ("GET", f"{path}/snapshot", None),
            ("GET", f"{path}/snapshots", None),
            ("GET", f"{path}/snapshots/{rng.choice(('EARLIEST', 'LATEST', tag, str(rng.randrange(1, 30))))}", None),
            ("GET", f"{path}/partitions", None),
            ("GET", f"{path}/tags", None),
            ("GET", f"{path}/tags/{tag}", None),
            ("GET", f"{path}/consumers", None),
            ("GET", f"{main}/branches", None),
            ("GET", "databases/default/table-details", None),
            ("POST", f"{path}/tags", {"tagName": tag}),
            ("POST", f"{path}/tags", {"tagName": tag, "snapshotId": rng.randrange(1, 40)}),
            ("DELETE", f"{path}/tags/{tag}", None),
            ("POST", f"{main}/branches", {"branch": branch, "fromTag": tag}),
            ("POST", f"{main}/branches", {"branch": branch}),
            ("DELETE", f"{main}/branches/{branch}", None),
            ("POST", f"{main}/branches/{branch}/rename", {"toBranch": other_branch}),
            ("POST", f"{main}/branches/{branch}/forward", {}),
            ("POST", f"{path}/rollback", {"instant": {"type": "tag", "tagName": tag}}),
            ("POST", f"{path}/rollback", {"instant": {"type": "snapshot", "snapshotId": rng.randrange(1, 40)}}),
            ("POST", f"{path}/rollback-schema", {"schemaId": rng.randrange(4)}),
            ("POST", f"{path}/consumers/reset", {"consumerId": "me", "nextSnapshotId": rng.randrange(1, 40)}),
            ("POST", f"{path}/partitions/drop", {"partitionSpecs": partition}),
            ("POST", f"{path}/partitions", {"partitionSpecs": partition}),
            ("POST", f"{path}/partitions/mark", {"specs": partition}),
            ("POST", main, {"changes": [{"action": "addColumn", "fieldNames": [f"d{row}"], "dataType": "INT"}]}),
            ("POST", main, {"changes": [{"action": "setOption", "key": "snapshot.num-retained.max", "value": "12"}]}),
        )
        return rng.choice(asked)

    def _commit(self, server: int, rng: random.Random, row: int) -> None:
        """Build a snapshot on the latest one, as clients do, and send it."""
        branch = rng.choice(("main", "main", "b1", "b2"))
        path = "databases/default/tables/t" + ("" if branch == "main" else f"$branch_{branch}")
        here = self._send(server, "GET", path, None)
        answer = self._send(server, "GET", f"{path}/snapshot", None) if here else None
        if here is None or answer is None:
            return
        latest = Snapshot.from_json(answer["snapshot"]["snapshot"])
        try:
            opened = self.servers[server].lake.open(Identifier("default", "t", branch))
            request = _built(opened, rng.choice(_KINDS), row)
            now = max(latest.time_millis + 1, time.time_ns() // 1_000_000)
            snapshot = build_snapshot(opened.files, opened.schema, latest, [request], uuid=str(uuid4()), time_millis=now)
        except (LakeError, OSError):  # the client's own trouble: what it began with is gone
            self.statuses["built 0"] += 1
            return
        body = {"tableId": here["id"], "baseSnapshotUuid": latest.uuid, "snapshot": snapshot.to_json(), "statistics": []}
        told = self._send(server, "POST", f"{path}/commit", body)
        self.statuses[f"commit {told and told['success']}"] += 1


def _built(opened: LakeTable, kind: str, row: int) -> CommitRequest:
    if kind == "compact":
        tasks = plan(opened, full=True)
        adds = [new for task in tasks for new in rewrite(opened.files, opened.schema, task)]
        gone = [entry for task in tasks for entry in task.inputs]
        return CommitRequest(kind=CommitKind.COMPACT, adds=tuple(adds), deletes=tuple(gone), commit_user="client")
    values = {"id": [row, row + 500_000], "p": [str(row % 3), str(row % 2)]}
    columns = {field.name: values.get(field.name, [None, None]) for field in opened.schema.fields}
    batch = pa.RecordBatch.from_pydict(columns, schema=arrow_schema(opened.schema.fields))
    adds = list(write_batches(opened.files, opened.schema, [batch]))
    if kind == "overwrite":
        return CommitRequest(kind=CommitKind.OVERWRITE, adds=tuple(adds), overwrite=everything, commit_user="client")
    return CommitRequest(kind=CommitKind.APPEND, adds=tuple(adds), commit_user="client")


def crowd(gateways: Sequence[Gateway], lake: Lake, warehouse: Path, layout: str, seed: int, *, callers: int, statements: int) -> None:
    gateways[0].run(f"CREATE TABLE t (id INT, p STRING) {LAYOUTS[layout]}").close()
    gateways[0].run("INSERT INTO t (id, p) VALUES (1, '1')").close()
    many = Clients(gateways, lake, seed, warehouse.parent)
    many.run(callers, statements)
    whole(many, warehouse, layout)
    assert many.statuses["commit True"] > callers / 2, many.statuses
    print(many.statuses)


@pytest.mark.parametrize("layout", one_in(3, LAYOUTS))
def test_the_past_is_whole_beside_clients(gateway: Gateway, other_server: Gateway, lake: Lake, warehouse: Path, layout: str) -> None:
    crowd([gateway, other_server], lake, warehouse, layout, SEED, callers=4, statements=30)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_past_is_whole_beside_clients_each_time(
    gateway: Gateway, other_server: Gateway, lake: Lake, warehouse: Path, layout: str, seed: int
) -> None:
    crowd([gateway, other_server][: 1 + seed % 2], lake, warehouse, layout, SEED + 1 + seed, callers=8, statements=80)
