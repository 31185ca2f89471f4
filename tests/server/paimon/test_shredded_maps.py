"""MAPs whose values of one key lie in a column, as Java writes them by `map.storage-layout`: told by name, and never as damage."""

from __future__ import annotations

import io
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.gateway import Gateway
from lake import LakeTable
from lake.rewrite.compaction import check_mergeable
from model.errors import UnsupportedType
from model.identifier import Identifier
from model.snapshot import CommitKind
from table.format.rows.arrow import arrow_schema
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.server.paimon.speaking import Rest, new_table

_MAP = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}
_SHREDDED = pa.struct([("__field_mapping", pa.list_(pa.int32())), ("__col_0", pa.int32()), ("__overflow", pa.map_(pa.int32(), pa.int32()))])
T = Identifier("d", "t")


@pytest.fixture
def table(rest: Rest, gateway: Gateway) -> LakeTable:
    """A table with a row of ours, and two of Java's."""
    fields = [{"id": 0, "name": "id", "type": "INT"}, {"id": 1, "name": "m", "type": _MAP}]
    options = {"bucket": "-1", "fields.m.map.storage-layout": "shared-shredding"}
    rest.post("databases/d/tables", new_table(body={"fields": fields, "partitionKeys": [], "primaryKeys": [], "options": options}))
    made = gateway.lake.open(T)
    batch = pa.RecordBatch.from_pylist([{"id": 1, "m": [("k", 1)]}], schema=arrow_schema(made.schema.fields))
    (ours,) = write_batches(made.files, made.schema, [batch])
    out = io.BytesIO()
    shredded = pa.array([{"__field_mapping": [0], "__col_0": 2, "__overflow": None}] * 2, _SHREDDED)
    pq.write_table(pa.table({"id": pa.array([2, 4], pa.int32()), "m": shredded}), out)
    file = replace(ours.file, file_name=f"data-{uuid4()}-0.parquet", file_size=len(out.getvalue()), row_count=2, value_stats_cols=())
    theirs = replace(ours, file=file)
    made.files.io.add(made.files.layout.data_file(made.schema, (), 0, file.file_name), out.getvalue())
    gateway.lake.commit(made, CommitRequest(kind=CommitKind.APPEND, adds=(ours, theirs), commit_user="java"))
    return gateway.lake.open(T)


def test_they_are_refused_by_name(gateway: Gateway, table: LakeTable) -> None:
    assert sorted(gateway.run("SELECT id FROM d.t").collect()) == [(1,), (2,), (4,)], "the other columns are read"
    with pytest.raises(UnsupportedType, match=r"fields\.m\.map\.storage-layout"):
        gateway.run("SELECT m FROM d.t").collect()
    assert gateway.run("CALL sys.check_table('d.t')").collect() == []


def test_they_are_not_merged(rest: Rest, gateway: Gateway, table: LakeTable) -> None:
    with pytest.raises(UnsupportedType, match="shared-shredding"):
        check_mergeable(table)
    rest.post("databases/d/tables/t", {"changes": [{"action": "removeOption", "key": "fields.m.map.storage-layout"}]})
    check_mergeable(gateway.lake.open(T))


def test_rows_of_files_that_this_server_wrote_are_deleted(rest: Rest, gateway: Gateway, table: LakeTable) -> None:
    """Whatever the option says: in these a MAP lies as pairs. Rows in Java's files stay, and their refusal changes nothing."""
    rest.post("databases/d/tables/t", {"changes": [{"action": "setOption", "key": "rows.erasable", "value": "true"}]})
    gateway.run("INSERT INTO d.t VALUES (1, MAP['k', 3]), (3, MAP['k', 4])").close()
    with pytest.raises(UnsupportedType, match=r"fields\.m\.map\.storage-layout"):
        gateway.run("DELETE FROM d.t WHERE id = 2").close()
    assert sorted(gateway.run("SELECT id FROM d.t").collect()) == [(1,), (1,), (2,), (3,), (4,)]
    gateway.run("DELETE FROM d.t WHERE id = 1").close()
    assert sorted(gateway.run("SELECT id FROM d.t").collect()) == [(2,), (3,), (4,)]
