"""Whose a `commitUser` is: nobody's commit is taken for another principal's, by the server or by that one's own client."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.access.callers import Caller
from lake.job_records import InTarget, JobRecords
from lake.jobs import BatchClaim
from model.access import Access, Grant, table_resource
from model.errors import Forbidden
from model.identifier import Identifier
from model.snapshot import CommitKind
from model.work.job import JobLease
from server.paimon.messages.snapshots import client_commit
from table.write.snapshot_builder import CommitRequest
from tests.server.paimon.committing import BATCH, Writer
from tests.server.paimon.speaking import Rest, new_table

T = Identifier("d", "t")


@pytest.fixture
def writer(rest: Rest, gateway: Gateway) -> Writer:
    rest.post("databases/d/tables", new_table())
    return Writer(rest, gateway.lake)


def holding(lake: Lake, principal: str, *accesses: Access) -> Lake:
    grants = tuple(Grant(resource=table_resource(T), access=access, principal=principal) for access in accesses)
    return lake.for_caller(Caller(principal=principal, roles=frozenset({"writers"}), grants=grants))


def body(writer: Writer, identifier: int, user: str = "flink-1", rows: int = 1, *, decides: bool = False) -> dict[str, Any]:
    """A commit on what is there; where its identifier decides, a repeat comes with other files."""
    made = writer.body(writer.latest(), changes=[writer.file(rows=rows)] * bool(rows), commitUser=user, commitIdentifier=identifier)
    return made | {"identifierDecides": decides}


@pytest.mark.parametrize("identifier", [42, 1000, BATCH], ids=["next", "far", "batch"])
def test_nobody_commits_as_anothers_writer_without_delete(writer: Writer, gateway: Gateway, identifier: int) -> None:
    ada, mallory = (holding(gateway.lake, name, Access.UPDATE) for name in ("ada", "mallory"))
    assert ada.client_commit(T, client_commit(body(writer, 41)))
    for _ in range(2):  # as this process remembers the table, and as it asks
        with pytest.raises(Forbidden, match=r"commitUser flink-1 is a writer of another principal.*DELETE on d\.t"):
            mallory.client_commit(T, client_commit(body(writer, identifier, rows=0)))
    assert mallory.client_commit(T, client_commit(body(writer, BATCH, "mallory-1")))
    assert ada.client_commit(T, client_commit(body(writer, 42)))
    assert ada.client_commit(T, client_commit(body(writer, 43)))
    assert (writer.latest() or {})["totalRecordCount"] == 4


def test_a_repeat_is_of_the_same_principal(writer: Writer, gateway: Gateway) -> None:
    """Also where another's commit of the name is there, of a time when it was taken or of somebody with DELETE."""
    ada, bob = holding(gateway.lake, "ada", Access.UPDATE, Access.DELETE), holding(gateway.lake, "bob", Access.UPDATE, Access.DELETE)
    first = body(writer, 42)
    assert bob.client_commit(T, client_commit(body(writer, 42, rows=0)))
    assert not ada.client_commit(T, client_commit(first)), "a race lost, to be built anew, and no repeat"
    again = body(writer, 42)
    assert ada.client_commit(T, client_commit(again))
    assert ada.client_commit(T, client_commit(body(writer, 42, decides=True))), "a repeat"
    assert (writer.latest() or {})["id"] == again["snapshot"]["id"]


def test_a_server_without_tokens_knows_repeats_as_before(writer: Writer, gateway: Gateway) -> None:
    assert writer.post(body(writer, 42))
    latest = writer.latest()
    assert writer.post(body(writer, 42, decides=True))
    repeated = client_commit(body(writer, 42, decides=True))
    assert holding(gateway.lake, "ada", Access.UPDATE).client_commit(T, repeated), "the same client, given a token"
    assert writer.latest() == latest
    assert holding(gateway.lake, "ada", Access.UPDATE).client_commit(T, client_commit(body(writer, 43)))
    assert writer.post(body(writer, 44))


def test_batches_that_share_a_user_are_taken(writer: Writer, gateway: Gateway) -> None:
    for name in ("ada", "bob"):
        assert holding(gateway.lake, name, Access.UPDATE).client_commit(T, client_commit(body(writer, BATCH, "batches")))


def test_a_job_finds_its_own_batches_alone(writer: Writer, gateway: Gateway) -> None:
    lease = JobLease(job_id="0e5d43f2-0a3f-4a52-8d9f-8f7d6c5b4a39", epoch=1)  # type: ignore[arg-type]
    checkpoint = "b1a7e0d4-6f0e-4a53-9c11-2b3c4d5e6f70"
    user = BatchClaim(lease=lease, part="0", checkpoint=checkpoint, batch=0, rows=0, watermark=None).commit_user
    ada, mallory = holding(gateway.lake, "ada", Access.UPDATE), holding(gateway.lake, "mallory", Access.UPDATE)
    with pytest.raises(Forbidden, match="the form of a job's"):
        mallory.client_commit(T, client_commit(body(writer, 0, user, rows=0)))
    owner = holding(gateway.lake, "bob", Access.UPDATE, Access.DELETE)
    assert owner.client_commit(T, client_commit(body(writer, 7, user, rows=0)))
    records = JobRecords(gateway.lake.catalog)
    table = gateway.lake.open(T)
    assert records.last_in([table], user, by="ada") == InTarget(-1, whole=True)
    made = ada.commit(ada.open(T), CommitRequest(kind=CommitKind.APPEND, commit_user=user, commit_identifier=7))
    assert made.id == 2, "no repeat of another's"
    assert ada.commit(ada.open(T), CommitRequest(kind=CommitKind.APPEND, commit_user=user, commit_identifier=7)).id == 2
    assert records.last_in([table], user, by="ada") == InTarget(7, whole=True)
    ada.commit(ada.open(T), CommitRequest(kind=CommitKind.APPEND, commit_user="other", commit_identifier=1))
    gateway.run(f"CALL sys.expire_snapshots(`table` => '{T}', retain_max => 1)").close()
    assert records.last_in([table], user, by="ada") == InTarget(-1, whole=False), "it may have been there"
