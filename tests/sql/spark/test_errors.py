"""What Java says, as a sentence that tells something."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from model.errors import Unavailable
from sql.spark.errors import _java, translating

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


@pytest.mark.parametrize("said", ["Python worker failed to connect back.", "Timed out while waiting for the Python worker to connect back"])
def test_a_machine_too_busy_to_start_a_process_is_no_fault_of_the_statement(said: str) -> None:
    """Spark waits ten seconds for a process of Python."""
    problem = PySparkException(f"Job aborted\norg.apache.spark.SparkException: {said}")
    with pytest.raises(Unavailable, match="did not start in time"), translating("SELECT 1", {}, lambda: None):
        raise problem


class _OfTheDeadJvm(PySparkException):
    def __init__(self) -> None:
        pass

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")

    def getCondition(self) -> str | None:  # noqa: N802 - Spark's name
        raise Py4JNetworkError("An error occurred while trying to connect to the Java server")


class _JavasOwn(Py4JJavaError):  # type: ignore[misc]
    def __init__(self) -> None:
        self.java_exception = _OfTheDeadJvm()

    __str__ = _OfTheDeadJvm.__str__


@pytest.mark.parametrize(
    "problem", [_OfTheDeadJvm(), _JavasOwn(), Py4JNetworkError("Answer from Java side is empty"), ConnectionResetError()]
)
def test_an_error_whose_words_died_with_the_jvm_says_that_spark_went_away(problem: Exception) -> None:
    """Words of Java's exceptions are asked for in the JVM: one that ran out of memory answers no more."""
    lost: list[int] = []
    with pytest.raises(Unavailable, match="Spark went away"), translating("SELECT 1", {}, lambda: lost.append(1)):
        raise problem
    assert lost == [1]
