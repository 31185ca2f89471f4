"""MAPs whose values of one key lie in a column, as Java writes them by `map.storage-layout`: told by name, and never as damage."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import LakeTable
from lake.rewrite.compaction import check_mergeable
from model.errors import UnsupportedType
from model.identifier import Identifier
from tests.server.paimon.speaking import Rest, new_table
from tests.shredded import commit_shredded

_MAP = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}
T = Identifier("d", "t")


@pytest.fixture
def table(rest: Rest, gateway: Gateway) -> LakeTable:
    """A table with a row of ours, and two of Java's."""
    fields = [{"id": 0, "name": "id", "type": "INT"}, {"id": 1, "name": "m", "type": _MAP}]
    options = {"bucket": "-1", "fields.m.map.storage-layout": "shared-shredding"}
    rest.post("databases/d/tables", new_table(body={"fields": fields, "partitionKeys": [], "primaryKeys": [], "options": options}))
    commit_shredded(gateway.lake, T)
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
