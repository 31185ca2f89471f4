"""A warehouse on S3: SQL, the REST catalog and pypaimon work on the same objects; credentials stay on the server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.fix_s3 import Bucket
from tests.fix_server import StartServer
from tests.running import Refused, RunningServer

ROOT = Path(__file__).parents[2]
READ = """
import sys, json
from pypaimon import CatalogFactory
import pyarrow as pa
options = {"metastore": "rest", "uri": sys.argv[1], "warehouse": "sluice", "token.provider": "bear", "token": "any"}
table = CatalogFactory.create(options | json.loads(sys.argv[2])).get_table("default.t")
def read():
    builder = table.new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits()).sort_by("id").to_pylist()
before = read()
builder = table.new_batch_write_builder()
writer, commit = builder.new_write(), builder.new_commit()
writer.write_arrow(pa.table({"id": pa.array([10], pa.int32()), "s": ["by pypaimon"]}))
commit.commit(writer.prepare_commit())
print(json.dumps([before, read()]))
"""


@pytest.fixture
def on_s3(start_server: StartServer, bucket: Bucket) -> RunningServer:
    token = f"fs.s3.endpoint={bucket.endpoint},fs.s3.accessKeyId=narrow,fs.s3.accessKeySecret=secret,fs.s3.region=us-east-1"
    server = start_server(SLUICE_WAREHOUSE=f"s3://{bucket.name}/lake", SLUICE_DATA_TOKEN=token, **bucket.environment)
    server.sql("CREATE TABLE t (id INT, s STRING); INSERT INTO t VALUES (1, 'a'); INSERT INTO t VALUES (2, 'b')")
    return server


def objects(bucket: Bucket) -> str:
    """The names of all objects, as S3 lists them."""
    return httpx.get(f"{bucket.endpoint}/{bucket.name}").text


def test_sql_on_s3(on_s3: RunningServer, bucket: Bucket) -> None:
    assert on_s3.sql("SELECT * FROM t") == [[1, "a"], [2, "b"]]
    assert on_s3.value("SELECT COUNT(*) FROM t") == 2
    listed = objects(bucket)
    for name in ("schema/schema-0", "snapshot/snapshot-1", "snapshot/snapshot-2", "snapshot/LATEST"):
        assert f"<Key>lake/default.db/t/{name}</Key>" in listed
    on_s3.sql("CALL sys.create_tag('t', 'two'); ALTER TABLE t ADD (x INT); INSERT INTO t VALUES (3, 'c', 4)")
    on_s3.sql("ALTER TABLE t RENAME TO moved; CREATE TABLE t (id INT); INSERT INTO t VALUES (7)")
    assert on_s3.sql("SELECT * FROM moved") == [[1, "a", None], [2, "b", None], [3, "c", 4]]
    assert on_s3.sql("SELECT * FROM t") == [[7]]
    on_s3.sql("TRUNCATE TABLE moved; DROP TABLE moved PURGE; DROP TABLE t PURGE")
    assert ".parquet" not in objects(bucket)
    with pytest.raises(Refused):
        on_s3.sql("SELECT * FROM t")


def test_what_was_written_outlives_the_server(on_s3: RunningServer) -> None:
    on_s3.kill()
    on_s3.start()
    assert on_s3.sql("INSERT INTO t VALUES (3, 'c'); SELECT * FROM t") == [[1, "a"], [2, "b"], [3, "c"]]


@pytest.mark.spark
@pytest.mark.torture
def test_spark_on_s3(start_server: StartServer, bucket: Bucket) -> None:
    """The warehouse is all that is set: Spark fetches what it needs for S3 by itself, 700 MB into Ivy's cache."""
    server = start_server(SLUICE_WAREHOUSE=f"s3://{bucket.name}/lake", **bucket.environment)
    try:
        server.wait_for_spark(timeout=600)
    except TimeoutError:
        log = server.data / "logs" / "spark.log"
        if log.exists() and "unresolved dependenc" in log.read_text(errors="replace"):
            pytest.skip("hadoop-aws cannot be had here: Spark on S3 is not tried.")
        raise
    server.sql("CREATE TABLE t (id BIGINT, s STRING) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    server.sql("INSERT INTO t SELECT id, concat('n', id) FROM range(100)")
    assert server.sql("SELECT SUM(id), COUNT(DISTINCT s) FROM t") == [[4950, 100]]
    server.sql("INSERT OVERWRITE t SELECT id + 1, s FROM t WHERE id < 10")
    assert server.sql("SELECT MIN(id), MAX(id), COUNT(*) FROM t") == [[1, 10, 10]]
    assert "_temporary" not in objects(bucket)


@pytest.mark.interop
def test_pypaimon_reads_and_writes_with_a_data_token(on_s3: RunningServer, bucket: Bucket) -> None:
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    config = httpx.get(f"{on_s3.url}/v1/config").json()
    assert config["overrides"] == {"data-token.enabled": "true"}
    assert "secret" not in str(config)
    assert httpx.get(f"{on_s3.url}/v1/sluice/databases/default/tables/t").json()["path"] == f"s3://{bucket.name}/lake/default.db/t"
    done = subprocess.run([str(python), "-c", READ, on_s3.url, "{}"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (
        '[{"id": 1, "s": "a"}, {"id": 2, "s": "b"}], [{"id": 1, "s": "a"}, {"id": 2, "s": "b"}, {"id": 10, "s": "by pypaimon"}]'
        in done.stdout
    )
    assert on_s3.sql("SELECT id FROM t") == [[1], [2], [10]]


def test_a_backup_of_a_bucket_goes_to_a_bucket_and_back(on_s3: RunningServer, bucket: Bucket, tmp_path: Path) -> None:
    def sluice(*words: str) -> str:
        given = {"SLUICE_DATA": str(on_s3.data), "SLUICE_WAREHOUSE": f"s3://{bucket.name}/lake", **bucket.environment}
        command = [str(Path(sys.executable).parent / "sluice"), *words]
        done = subprocess.run(command, env=os.environ | given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    file, copies = str(tmp_path / "catalog.tar.gz"), f"s3://{bucket.name}/backup"
    sluice("backup", file, "--files-to", copies)
    assert "<Key>backup/default.db/t/snapshot/snapshot-2</Key>" in objects(bucket)
    on_s3.sql("DROP TABLE t PURGE")
    sluice("restore", file, "--files-from", copies, "--table", "default.t", "--as", "default.t_again")
    assert on_s3.sql("SELECT * FROM t_again") == [[1, "a"], [2, "b"]]
