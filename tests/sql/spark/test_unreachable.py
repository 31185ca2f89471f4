"""What Spark's executors cannot reach is no fault of the statement and no damage of the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from jobs.run import _stays
from lake import Lake
from model.errors import ExecutionError, LakeError, TableDamaged, Unavailable
from model.identifier import Identifier
from sql.spark.session.damage import Reading
from sql.spark.session.errors import translating
from table.scan.checks import verify
from table.scan.planning.entry_scan import plan_scan
from tests.lake.register.damage import data_files
from tests.sql.spark.test_errors import _Said

REFUSED = (
    "org.apache.hadoop.fs.s3a.AWSClientIOException: getFileStatus on s3a://b/w/t/data-1.parquet: software.amazon.awssdk.core.exception."
    "SdkClientException: Unable to execute HTTP request: Connect to 10.0.0.9:9000 failed: Connection refused"
)
FRAME_OF_S3 = "org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:214)"
DENIED = (
    "java.nio.file.AccessDeniedException: s3a://b/w/t: org.apache.hadoop.fs.s3a.auth.NoAwsCredentialsException: No AWS Credentials provided"
)
PAGE = "org.apache.parquet.hadoop.ParquetFileReader$Chunk.readAllPages(ParquetFileReader.java:1734)"
UTIL = "org.apache.parquet.format.Util.read(Util.java:366)"


def failed_read(file: str, said: str, *frames: str) -> str:
    """How Spark tells of a failure in reading a file."""
    at = "".join(f"\n\tat {frame}" for frame in frames)
    return (
        f"org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file s3a://b/w/t/bucket-0/{file}. "
        "SQLSTATE: KD001\n\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:920)\n"
        f"Caused by: {said}{at}\n\tat org.apache.spark.sql.execution.datasources.FileScanRDD.x(F.scala:1)"
    )


@pytest.fixture
def file(gateway: Gateway, warehouse: Path) -> str:
    gateway.run("CREATE TABLE t (id INT)")
    gateway.run("INSERT INTO t VALUES (1)")
    return data_files(warehouse / "default.db/t")[0].name


def told(lake: Lake, said: str, condition: str = "FAILED_READ_FILE.NO_HINT") -> LakeError:
    """What a client is told of a query that failed so."""
    table = lake.open(Identifier("default", "t"))
    with pytest.raises(LakeError) as raised, translating("SELECT", {}, lambda: None, Reading(table)):
        raise _Said(said, condition)
    return raised.value


@pytest.mark.parametrize(
    ("said", "frames", "words"),
    [
        (REFUSED, [FRAME_OF_S3], "SdkClientException, Unable to execute HTTP request"),
        (DENIED, [FRAME_OF_S3], "No AWS Credentials"),
        (
            "java.io.FileNotFoundException: /w/x.parquet (Too many open files)",
            ["java.io.FileInputStream.open0(F.java)"],
            "Too many open files",
        ),
        (
            "java.io.FileNotFoundException: File file:/w/x.parquet does not exist",
            ["org.apache.hadoop.fs.Raw.x(R.java)"],
            "executors must reach",
        ),
        ("java.net.SocketTimeoutException: Read timed out", ["java.base/java.net.Socket.read(S.java)"], "SocketTimeoutException"),
        (
            "java.io.EOFException: Reached the end of stream",
            ["org.apache.parquet.hadoop.util.H2.read(H.java)"],
            r"nothing \(EOFException\)",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", [PAGE], "needs more memory"),
    ],
)
def test_what_keeps_an_executor_from_reading_says_nothing_about_the_file(
    lake: Lake, file: str, said: str, frames: Sequence[str], words: str
) -> None:
    """It was damage of the table, which ended jobs for good and stood in `/readyz`."""
    verify.forget()
    error = told(lake, failed_read(file, said, *frames))
    assert not isinstance(error, TableDamaged)
    assert (error.status, _stays(error)) == (507 if "heap" in said else 503, False), error
    with pytest.raises(LakeError, match=words):
        raise error
    assert "s3a:" not in error.message
    assert not is_read_here(lake)


def is_read_here(lake: Lake) -> bool:
    table = lake.open(Identifier("default", "t"))
    files = plan_scan(table.files, table.schema, table.latest()).files
    return verify.sound(table.files, files, table.schema_at) == [False]


@pytest.mark.parametrize(
    ("said", "frames"),
    [
        ("org.apache.parquet.io.ParquetDecodingException: could not verify page integrity", []),
        ("java.io.IOException: can not read class org.apache.parquet.format.PageHeader: Socket is closed by peer.", [UTIL]),
        ("java.lang.NullPointerException", [PAGE]),
        ("java.lang.NegativeArraySizeException: -3", ["java.base/java.util.Arrays.copyOf(A.java:1)", PAGE]),
    ],
)
def test_a_file_whose_bytes_are_no_rows_for_spark_is_read_by_the_server(lake: Lake, file: str, said: str, frames: Sequence[str]) -> None:
    """A job that met it begins again, and then has the file read so."""
    verify.forget()
    error = told(lake, failed_read(file, said, *frames))
    assert isinstance(error, TableDamaged)
    assert "cannot be read by Spark" in error.problem
    assert not _stays(error)
    assert is_read_here(lake)


@pytest.mark.parametrize(
    "said", [REFUSED, DENIED, "java.net.UnknownHostException: store", "org.x.AWSStatus500Exception: PUT: 503 SlowDown"]
)
def test_a_write_for_which_the_store_is_away_is_no_fault_of_the_statement(said: str) -> None:
    text = f"[TASK_WRITE_FAILED] Task failed while writing rows to s3a://b/w/t. SQLSTATE: 58030\nCaused by: {said}"
    with pytest.raises(Unavailable, match=r"could not reach or use.*Its executors need") as raised, translating("INSERT", {}, lambda: None):
        raise _Said(text, "TASK_WRITE_FAILED")
    assert "s3a:" not in raised.value.message
    for values in (f"[USER_RAISED_EXCEPTION] {said}", f"[CAST_INVALID_INPUT] The value '{said}' is malformed. SQLSTATE: 22018"):
        with pytest.raises(ExecutionError), translating("INSERT", {}, lambda: None):
            raise _Said(values, "TASK_WRITE_FAILED")
