"""What Java says, as a sentence that tells something."""

from __future__ import annotations

import time

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from model.errors import ExecutionError, LakeError, OutOfMemory, SnapshotNotExist, StorageFull, Unavailable
from sql.spark.session.damage import Reading, data_files_in
from sql.spark.session.errors import _java, failure_of, translating

LOST = "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 9) "
RAN = f"{LOST}(10.0.0.7 executor 4): ExecutorLostFailure (executor 4 exited caused by one of the running tasks) Reason: "
EXECUTORS = "^The statement needs more memory than Spark's executors have.* spark.executor.memory.* SLUICE_SPARK_CONF"
LACKS = "^An executor of Spark lacks what it needs of Python: "
PROGRAM = 'Cannot run program "python3".* Each needs a python3 .* SLUICE_SPARK_ARCHIVE names'
OLDER = "Python in worker has different version: 3.9 than that in driver: 3.11, PySpark cannot run with different minor versions."
NO_MODULE = "ModuleNotFoundError: No module named 'pyspark_sluice'"
TASK = f"org.apache.spark.SparkException: {LOST}(10.0.0.7 executor driver): "
WAITED = "org.apache.spark.SparkException: Exception thrown in awaitResult: "


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"{WAITED}\n\tat org.x.Y.z(Y.java:1)\nCaused by: java.io.IOException: the disk is gone\n\tat org.x.Y", "the disk is gone"),
        (f"{WAITED}\nCaused by: org.x.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.", "[DIVIDE_BY_ZERO] Division by zero."),
        (WAITED, "Spark failed (SparkException); its log says more."),
        ("java.lang.NullPointerException\n\tat org.x.Y", "Spark failed (NullPointerException); its log says more."),
        ("java.io.IOException: one: two", "one: two"),
        (f"{TASK}java.io.IOException: one: two", "one: two"),
        (f"{WAITED}\nAn error occurred while calling o5.getResult.\n: {WAITED}\n\tat x\nCaused by: {TASK}java.lang.X: one", "one"),
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


class _Said(PySparkException):
    """An exception of Spark's with these words and this condition."""

    def __init__(self, text: str, condition: str) -> None:
        self.text, self.condition = text, condition

    def __str__(self) -> str:
        return self.text

    def getCondition(self) -> str | None:  # noqa: N802 - Spark's name
        return self.condition

    def getQueryContext(self) -> list[object]:  # type: ignore[override]  # noqa: N802 - Spark's name
        return []


@pytest.mark.parametrize(
    ("said", "condition", "kind", "told", "gone"),
    [
        ("java.io.IOException: Mkdirs failed to create file:/w/t/_temporary", "", Unavailable, "Mkdirs failed to create", False),
        ("Task failed while writing: Mkdirs failed to create x", "TASK_WRITE_FAILED", Unavailable, "Mkdirs failed to create", False),
        ("Task failed while writing: No space left on device", "TASK_WRITE_FAILED", StorageFull, "No space left", False),
        ("x.fs.FSError: java.io.IOException: Input/output error", "", Unavailable, "use the disk .*: Input/output error", False),
        ("x.fs.FSError: java.io.IOException: No space left on device", "", StorageFull, "No space left", False),
        ("Task failed while writing: x.fs.FSError", "TASK_WRITE_FAILED", StorageFull, "No space left", False),
        ("java.lang.NoClassDefFoundError: Could not initialize class org.xerial.snappy.Snappy", "", Unavailable, "Spark went away", True),
        ("java.lang.IllegalStateException: Illegal size 5 of collection, expected 6", "", Unavailable, "memory is damaged", True),
        ("[USER_RAISED_EXCEPTION] Illegal size 5 of collection", "USER_RAISED_EXCEPTION", ExecutionError, "Illegal size", False),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", "", Unavailable, "lost each other", False),
        (f"{RAN}Command exited with code 52", "", OutOfMemory, EXECUTORS, False),
        (f"{RAN}The executor with id 4 exited with exit code 137(SIGKILL, possible container OOM).", "", OutOfMemory, EXECUTORS, False),
        (f"{RAN}Container from a bad node: container_1 on host: n. Exit status: 143. Diagnostics:", "", OutOfMemory, EXECUTORS, False),
        (f"{RAN}Container killed by YARN for exceeding physical memory limits. 1.5 GB of", "", OutOfMemory, EXECUTORS, False),
        (f"{RAN}Remote RPC client disassociated. Likely due to containers exceeding thresholds, or", "", OutOfMemory, EXECUTORS, False),
        (f"{LOST}(n7 executor 4): java.lang.OutOfMemoryError: Java heap space", "", OutOfMemory, EXECUTORS, False),
        (f"{LOST}(n7 executor driver): java.lang.OutOfMemoryError: Java heap space", "", OutOfMemory, "SPARK_DRIVER_MEMORY", True),
        (f"{RAN}Executor heartbeat timed out after 150000 ms", "", Unavailable, "lost each other", False),
        (
            f"{LOST}(n7 executor 4): ExecutorLostFailure (executor 4 exited unrelated to the running tasks) Reason: "
            "Command exited with code 143",
            "",
            Unavailable,
            "lost each other",
            False,
        ),
        (f"{LOST}(n executor driver): ExecutorLostFailure (executor driver exited caused by", "", Unavailable, "Spark went away", True),
        (f"[USER_RAISED_EXCEPTION] {RAN}Command exited with code 52", "USER_RAISED_EXCEPTION", ExecutionError, "code 52", False),
        ("x.FetchFailedException: Connection from /10.0.0.1 closed", "", Unavailable, "lost each other", False),
        (
            'x.IOException: Cannot run program "/opt/env/bin/python3": error=2, No such file or directory',
            "",
            Unavailable,
            LACKS + PROGRAM,
            False,
        ),
        ('Cannot run program "python3": Exec failed, error: 13 (Permission denied) ', "", Unavailable, LACKS + PROGRAM, False),
        ('Cannot run program "python3": error=11, Resource temporarily unavailable', "", Unavailable, "did not start in time", False),
        (
            f"Traceback …\npyspark.errors…: [PYTHON_VERSION_MISMATCH] {OLDER}",
            "",
            Unavailable,
            LACKS + "Python in worker has.* SLUICE_SPARK",
            False,
        ),
        (
            f"Traceback …\n{NO_MODULE}",
            "PYTHON_DATA_SOURCE_ERROR",
            Unavailable,
            LACKS + "No module named 'pyspark_sluice'. Each needs",
            False,
        ),
        (
            "[USER_RAISED_EXCEPTION] Python worker exited unexpectedly",
            "USER_RAISED_EXCEPTION",
            ExecutionError,
            "Python worker exited",
            False,
        ),
        (f"[USER_RAISED_EXCEPTION] {NO_MODULE}", "USER_RAISED_EXCEPTION", ExecutionError, "No module named", False),
        (f"[CAST_INVALID_INPUT] The value '{NO_MODULE}' SQLSTATE: 22018", "CAST_INVALID_INPUT", ExecutionError, "The value", False),
        ("Traceback …\nmodel.errors.StorageFull: No space.\n", "PYTHON_DATA_SOURCE_ERROR", StorageFull, "^No space.$", False),
        ("Traceback …\nmodel.errors.Unavailable: Postgres is away.", "PYTHON_DATA_SOURCE_ERROR", Unavailable, "^Postgres is away.$", False),
        (
            "Traceback …\nmodel.errors.SnapshotNotExist: Table d.t was rolled back.",
            "PYTHON_DATA_SOURCE_ERROR",
            SnapshotNotExist,
            "^Table d.t was rolled back.$",
            False,
        ),
        ("Traceback …\nmodel.errors.InvalidData: No such row.", "PYTHON_DATA_SOURCE_ERROR", ExecutionError, "^No such row.$", False),
    ],
)
def test_what_is_not_the_statements_fault_is_not_told_as_such(
    said: str, condition: str, kind: type[LakeError], told: str, gone: bool
) -> None:
    lost: list[int] = []
    with pytest.raises(kind, match=told), translating("SELECT 1", {}, lambda: lost.append(1)):
        raise _Said(said, condition)
    assert lost == [1] * gone


def test_a_failure_that_lies_in_values_says_so_by_its_sqlstate() -> None:
    said = "[STREAM_FAILED] Query failed: [CAST_INVALID_INPUT] The value 'Mkdirs failed to create' is malformed. SQLSTATE: 22018"
    with pytest.raises(ExecutionError) as raised, translating("SELECT 1", {}, lambda: None):
        raise _Said(f"{said} SQLSTATE: XXKST", "STREAM_FAILED")
    assert raised.value.sqlstate == "22018"


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


@pytest.mark.parametrize(
    "problem", [Py4JNetworkError("Error while sending or receiving"), Py4JError("An error occurred while calling o1.schema")]
)
def test_what_pyspark_makes_of_a_dead_jvm_says_that_spark_went_away(problem: Exception) -> None:
    """It takes the loss of its peer for columns that it cannot read, where it asks for a result's."""
    from pyspark.sql.classic.dataframe import DataFrame

    class Dead:
        def schema(self) -> None:
            raise problem

    lost: list[int] = []
    frame = DataFrame.__new__(DataFrame)
    frame._jdf = Dead()
    with pytest.raises(Unavailable, match="Spark went away"), translating("SELECT 1", {}, lambda: lost.append(1)):
        print(frame.schema)
    assert lost == [1]

    def again() -> None:
        try:
            raise Unavailable("once") from Py4JNetworkError("Answer from Java side is empty")
        except Unavailable:
            raise _Said("[DIVIDE_BY_ZERO] Division by zero.", "DIVIDE_BY_ZERO")  # noqa: B904 - as where a statement runs again

    with pytest.raises(ExecutionError), translating("SELECT 1", {}, lambda: lost.append(1)):
        again()
    assert lost == [1], "what an earlier Spark died of says nothing about this one"


def test_no_place_of_a_machine_is_told() -> None:
    lost = (
        "Job aborted due to stage failure: Task 0 in stage 4.0 failed 1 times, most recent failure: Lost task 0.0 in stage 4.0 (TID 4) "
        "(10.0.0.7 executor driver): java.lang.IllegalStateException: cannot read file:/srv/lake/default.db/t/bucket-0/data-1.parquet"
    )
    assert _java(f"org.apache.spark.SparkException: {lost}", "", {}).message == "cannot read data-1.parquet"


_AGAIN = ("Job aborted due to stage failure: ", "Job aborted due to stage failure: most recent failure: Lost task 0 in stage 0 (TID 0) (")


_OF_A_CHAIN = ("exited caused by one of the running tasks) Reason: ", 'Cannot run program "python3"', "is bigger than ", "a.parquet_", "\n")


@pytest.mark.parametrize("again", _OF_A_CHAIN)
def test_words_that_may_name_a_file_or_an_executor_hold_nobody_up(again: str) -> None:
    problem = _Said("[USER_RAISED_EXCEPTION] " + again * (400_000 // len(again)), "USER_RAISED_EXCEPTION")
    began = time.process_time()
    assert isinstance(failure_of(problem, "", {}, lambda: None, Reading()), ExecutionError)
    assert time.process_time() - began < 20


def test_a_data_file_is_known_by_its_name_in_whatever_stands_around_it() -> None:
    text = "cannot read file:/w/d.db/t/bucket-0/data-1.parquet, ('x.orc') of a.parquet.b and \"y%20.avro\" or parquet"
    assert list(data_files_in(text)) == ["data-1.parquet", "x.orc", "a.parquet", "y%20.avro"]


@pytest.mark.parametrize("again", [*_AGAIN, " ", " If necessary set "])
def test_words_of_a_caller_hold_nobody_up(again: str) -> None:
    """Looked for at each place, they took the server's interpreter for minutes."""
    said = "[USER_RAISED_EXCEPTION] " + again * (400_000 // len(again)) + "."
    began = time.process_time()
    _java(said, "", {})
    assert time.process_time() - began < 20
