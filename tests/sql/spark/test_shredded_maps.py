"""MAPs in Java's other layout, read by Spark: refused by name, and no hindrance to queries that leave them out."""

from __future__ import annotations

import pytest

from lake import Lake
from model.errors import UnsupportedType
from model.identifier import Identifier
from tests.shredded import commit_shredded
from tests.sql.spark.conftest import Run

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_they_are_refused_by_name_and_the_other_columns_read_on(run: Run, lake: Lake, format_: str) -> None:
    run(f"CREATE TABLE t (id INT, m MAP<STRING, INT>) WITH ('bucket' = '-1', 'file.format' = '{format_}')")
    commit_shredded(lake, Identifier("default", "t"))
    others = "SELECT id, COUNT(*) FROM t GROUP BY id ORDER BY id"
    assert run(others) == [(1, 1), (2, 1), (4, 1)]
    for _ in range(2):
        with pytest.raises(UnsupportedType, match=r"fields\.m\.map\.storage-layout"):
            run("SELECT id, COUNT(*) FROM t WHERE m['k'] = 1 GROUP BY id")
        assert run(others) == [(1, 1), (2, 1), (4, 1)]
