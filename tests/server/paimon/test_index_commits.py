"""Clients' commits of what lies beside the data files: deletion vectors, which take rows away, and indexes of values, which do not."""

from __future__ import annotations

import io
from typing import Any
from uuid import uuid4

import fastavro
import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.access.callers import Caller
from model.access import Access, Grant, Policy, table_resource
from model.catalog_errors import InvalidCommit
from model.errors import Forbidden
from model.identifier import Identifier
from model.snapshot import Snapshot
from server.paimon.messages.snapshots import client_commit
from tests.server.paimon.committing import Writer
from tests.server.paimon.speaking import PLAIN, Rest, new_table
from tests.server.paimon.test_judgement import gone, live
from tests.table.vectors import INDEX_MANIFEST, with_deleted

T = Identifier("d", "t")


@pytest.fixture
def writer(rest: Rest, gateway: Gateway) -> Writer:
    """Of a table of two files, one with a deleted row."""
    rest.post("databases/d/tables", new_table(body={**PLAIN, "options": {"deletion-vectors.enabled": "true"}}))
    made = Writer(rest, gateway.lake)
    for rows in (2, 3):
        made.commit(changes=[made.file(rows=rows)])
    base = latest(made)
    first = live(made._files, base)[0].file.file_name
    marked = with_deleted(made._files, Snapshot.from_json(base), {first: [0]})
    made.commit(commitKind="OVERWRITE", indexManifest=marked.index_manifest)
    return made


def latest(writer: Writer) -> dict[str, Any]:
    found = writer.latest()
    assert found is not None
    return found


def ada(lake: Lake, *accesses: Access) -> Lake:
    grants = tuple(Grant(resource=table_resource(T), access=access, principal="ada") for access in accesses)
    return lake.for_caller(Caller(principal="ada", grants=grants))


def indexed(writer: Writer, records: list[dict[str, Any]], **changed: Any) -> dict[str, Any]:
    """A commit with these lines of an index manifest."""
    out, name = io.BytesIO(), f"index-manifest-{uuid4()}-0"
    fastavro.writer(out, INDEX_MANIFEST, records, codec="zstandard")
    writer._files.io.add(writer._files.layout.manifest(name), out.getvalue())
    return writer.body(latest(writer), **({"indexManifest": name} | changed))


def lines(writer: Writer) -> list[dict[str, Any]]:
    return writer._files.index_manifest(latest(writer)["indexManifest"])


def index_line() -> dict[str, Any]:
    """As `create_global_index` adds them."""
    return {
        "_VERSION": 1, "_KIND": 0, "_PARTITION": b"\0\0\0\0", "_BUCKET": 0, "_INDEX_TYPE": "btree",
        "_FILE_NAME": f"global-index-{uuid4()}.index", "_FILE_SIZE": 9, "_ROW_COUNT": 5, "_DELETIONS_VECTORS_RANGES": None,
    }  # fmt: skip


def test_an_index_takes_no_delete(writer: Writer, gateway: Gateway) -> None:
    lake = ada(gateway.lake, Access.SELECT, Access.UPDATE)
    before = lines(writer)
    assert lake.client_commit(T, client_commit(indexed(writer, [*before, index_line()])))
    assert lake.client_commit(T, client_commit(indexed(writer, before))), "and goes so"
    with pytest.raises(Forbidden, match="takes UPDATE"):
        ada(gateway.lake, Access.DELETE).client_commit(T, client_commit(indexed(writer, [*before, index_line()])))


@pytest.mark.parametrize("how", ["more", "fewer", "another file", "none"])
def test_other_deletion_vectors_take_delete(writer: Writer, gateway: Gateway, how: str) -> None:
    (line,) = lines(writer)
    ranges = line["_DELETIONS_VECTORS_RANGES"]
    unmarked = live(writer._files, latest(writer))[1].file.file_name
    other = {
        "more": {**line, "_DELETIONS_VECTORS_RANGES": [*ranges, {**ranges[0], "f0": unmarked}]},
        "fewer": {**line, "_DELETIONS_VECTORS_RANGES": []},
        "another file": {**line, "_FILE_NAME": "index-other-0"},
        "none": index_line(),
    }[how]
    body = indexed(writer, [other, index_line()], commitKind="OVERWRITE")
    with pytest.raises(Forbidden, match="takes DELETE"):
        ada(gateway.lake, Access.SELECT, Access.UPDATE).client_commit(T, client_commit(body))
    assert ada(gateway.lake, Access.DELETE).client_commit(T, client_commit(body))


def test_a_compaction_with_another_index_keeps_its_rows(writer: Writer, gateway: Gateway) -> None:
    """Only deleted rows that are gone make it hold fewer."""
    old = live(writer._files, latest(writer))
    changed = {"changes": [*map(gone, old), writer.file(rows=4)], "commitKind": "COMPACT"}
    with pytest.raises(InvalidCommit, match="leaves their mark"):
        gateway.lake.client_commit(T, client_commit(indexed(writer, [*lines(writer), index_line()], **changed)))
    assert gateway.lake.client_commit(T, client_commit(indexed(writer, [index_line()], **changed)))


def test_no_one_adds_an_index_of_whom_a_part_is_kept(writer: Writer, gateway: Gateway) -> None:
    """Readers leave rows out by it, and nobody compares it with them."""
    gateway.lake.permissions.create_policy(T, Policy(name="p", column=None, principals=(), sql="a > 1", rule={}))
    with pytest.raises(Forbidden, match="keeps a part"):
        ada(gateway.lake, Access.SELECT, Access.UPDATE).client_commit(T, client_commit(indexed(writer, [*lines(writer), index_line()])))


def test_a_compaction_that_does_not_know_of_deleted_rows_is_refused(writer: Writer, gateway: Gateway) -> None:
    """It was planned before they were deleted, and is sent on the snapshot that deleted them."""
    old = live(writer._files, latest(writer))
    assert latest(writer)["totalRecordCount"] == 5
    for rows, left in ((5, lines(writer)), (4, lines(writer)), (5, [index_line()]), (3, [index_line()])):
        changed = {"changes": [*map(gone, old), writer.file(rows=rows)], "commitKind": "COMPACT"}
        with pytest.raises(InvalidCommit, match="leaves their mark" if left == lines(writer) else "keeps the number of rows"):
            gateway.lake.client_commit(T, client_commit(indexed(writer, left, **changed)))
    unmarked = {"changes": [gone(old[1]), writer.file(rows=3)], "commitKind": "COMPACT"}
    assert gateway.lake.client_commit(T, client_commit(indexed(writer, lines(writer), **unmarked)))


@pytest.mark.parametrize("how", ["no such file", "one that goes", "twice"])
def test_a_mark_is_of_one_file_that_is_there(writer: Writer, gateway: Gateway, how: str) -> None:
    (line,) = lines(writer)
    (marked,) = line["_DELETIONS_VECTORS_RANGES"]
    other = live(writer._files, latest(writer))[1]
    name = {"no such file": "x", "one that goes": other.file.file_name, "twice": marked["f0"]}[how]
    changes = [gone(other)] if how == "one that goes" else []
    wrong = {**line, "_DELETIONS_VECTORS_RANGES": [marked, {**marked, "f0": name}]}
    with pytest.raises(InvalidCommit, match="two deletion vectors" if how == "twice" else "does not have"):
        gateway.lake.client_commit(T, client_commit(indexed(writer, [wrong], commitKind="OVERWRITE", changes=changes)))
