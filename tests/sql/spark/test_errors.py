"""What Java says, as a sentence that tells something."""

from __future__ import annotations

import pytest

from sql.spark.errors import _java

WAITED = "org.apache.spark.SparkException: Exception thrown in awaitResult: "


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"{WAITED}\n\tat org.x.Y.z(Y.java:1)\nCaused by: java.io.IOException: the disk is gone\n\tat org.x.Y", "the disk is gone"),
        (f"{WAITED}\nCaused by: org.x.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.", "[DIVIDE_BY_ZERO] Division by zero."),
        (WAITED, "Spark failed (SparkException); its log says more."),
        ("java.lang.NullPointerException\n\tat org.x.Y", "Spark failed (NullPointerException); its log says more."),
        ("java.io.IOException: one: two", "one: two"),
    ],
)
def test_the_cause_is_told_and_not_that_somebody_waited(said: str, told: str) -> None:
    assert _java(said, "", {}).message == told
