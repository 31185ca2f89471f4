"""Lengths of texts in casts."""

import pytest

from model.errors import UnsupportedType
from sql.analysis.to_spark import spark_sql
from sql.dialect import parse_one


@pytest.mark.parametrize("type_", ["CHAR(0)", "VARCHAR(0)", "VARCHAR(2147483648)", "CHAR(MAX)", "VARCHAR(1, 2)"])
def test_a_length_that_no_text_has_is_refused(type_: str) -> None:
    with pytest.raises(UnsupportedType, match=r"a text has 1 to 2147483647 characters"):
        spark_sql(parse_one(f"SELECT CAST(a AS {type_}) FROM t"))
