"""Numbers that Spark rounds to compare them with a column: files are left out by what the comparison says of their rows, and no other."""

from __future__ import annotations

import pytest

from tests.short import short
from tests.sql.spark.conftest import Run

pytestmark = pytest.mark.spark
NUMBERS = (
    "0.5", "-0.5", "1.4", "0.9999999999999999999", "1.0000000000000000001", "0.00000000000000000001", "9223372036854775807.5",
    "0.50000000000000000000000000000000000001", "1.0000000000000000000000000000000000001", "1.00000000000000000000000000000000000",
)  # fmt: skip


TYPES = ["BIGINT", "INT", "DECIMAL(38, 0)", "DECIMAL(38, 18)", "DECIMAL(20, 19)", "DECIMAL(10, 2)"]


@pytest.mark.parametrize("type_", short(TYPES, ["BIGINT", "DECIMAL(38, 18)"]))
def test_a_number_of_more_digits_than_fit_beside_the_columns(run: Run, type_: str) -> None:
    """Each row lies in a file of its own, whose bounds are its value."""
    run(f"CREATE TABLE t (d {type_}) WITH ('bucket' = '-1')")
    for value in ("0", "1"):
        run(f"INSERT INTO t VALUES ({value})")
    for number in NUMBERS:
        conditions = [f"d = {number}", f"d < {number}", f"{number} <= d", f"d IN (7, {number})", f"d IN (5000000000, {number})"]
        sums = ", ".join(f"SUM(IF({condition}, 1, 0))" for condition in conditions)
        ((*told,),) = run(f"SELECT {sums} FROM t")
        counts = " UNION ALL ".join(f"SELECT {at}, COUNT(d + 1) FROM t WHERE {condition}" for at, condition in enumerate(conditions))
        assert sorted(run(counts)) == list(enumerate(told)), number
