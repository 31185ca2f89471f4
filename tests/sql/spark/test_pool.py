"""What Spark is started with: where the driver can be reached, further settings, what executors need; no Spark is started."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from sql.spark.driver.archive import PACKAGES, write_archive
from sql.spark.session.settings import SparkSettings, configuration, driver_address, read_conf


@pytest.mark.parametrize(
    "master",
    [
        "local[*]",
        "local",
        "local-cluster[2,1,1024]",
        "spark://127.0.0.1:7077",
        "spark://localhost:7077,127.0.0.2:7077",
        "spark://[::1]:7077",
    ],
)
def test_a_master_on_this_machine_reaches_the_driver_over_loopback(master: str) -> None:
    assert driver_address(SparkSettings(master=master)) == {"spark.driver.host": "127.0.0.1"}


@pytest.mark.parametrize(
    "master", ["spark://spark-master:7077", "spark://127.0.0.1:7077,10.0.0.7:7077", "yarn", "k8s://https://127.0.0.1:6443"]
)
def test_any_other_master_leaves_the_address_to_spark(master: str) -> None:
    assert driver_address(SparkSettings(master=master)) == {}


def test_a_named_address_is_told_to_executors_and_every_interface_listens() -> None:
    given = SparkSettings(master="spark://spark-master:7077", driver_host="gateway-1")
    assert driver_address(given) == {"spark.driver.host": "gateway-1", "spark.driver.bindAddress": "0.0.0.0"}


def test_a_file_of_settings_is_read_as_spark_reads_its_own() -> None:
    text = "# ours\n\nspark.executor.memory 4g\nspark.a.b=c = d\n  spark.e :f g \n! no\nspark.driver.extraJavaOptions -Xlog:gc\n"
    told = {"spark.executor.memory": "4g", "spark.a.b": "c = d", "spark.e": "f g", "spark.driver.extraJavaOptions": "-Xlog:gc"}
    assert read_conf(text) == told
    conf = configuration(SparkSettings(conf=read_conf(text)), scratch=Path("/s"), pools=Path("/s/p"), ours=Path("/o"))
    assert conf["spark.executor.memory"] == "4g"
    ours = '-Duser.timezone=UTC "-Djava.io.tmpdir=/s" "-XX:OnOutOfMemoryError=: > /s/out-of-memory"'
    assert conf["spark.driver.extraJavaOptions"] == f"{ours} -Xlog:gc"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spark.executor.memory", "line 1 is not of the form"),
        ("\nexecutor.memory 4g", "line 2 is not of the form"),
        ("spark.a b\\", "line 1 is not of the form"),
        ("spark.sql.ansi.enabled false", "the meaning of statements depends on it"),
        ("spark.pyspark.python python3", "which the server sets by itself"),
        ("spark.master local", "SLUICE_SPARK_MASTER sets"),
        ("spark.a 1\nspark.a 2", "line 2 sets spark.a once more"),
    ],
)
def test_a_file_of_settings_that_cannot_be_is_refused_by_its_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_conf(text)


def test_servers_share_a_standalone_master_unless_a_file_says_otherwise() -> None:
    master = SparkSettings(master="spark://h:7077", conf={"spark.executor.cores": "4"})
    conf = configuration(master, scratch=Path("/s"), pools=Path("/s/p"), ours=Path("/o"))
    assert (conf["spark.dynamicAllocation.enabled"], conf["spark.executor.cores"]) == ("true", "4")
    local = configuration(SparkSettings(), scratch=Path("/s"), pools=Path("/s/p"), ours=Path("/o"))
    assert "spark.dynamicAllocation.enabled" not in local


@pytest.mark.torture
def test_the_archive_holds_all_that_executors_import(tmp_path: Path) -> None:
    """Executors import it in `tests/e2e/test_cluster.py`, too, as far as their work takes them."""
    assert write_archive(tmp_path / "environment.zip") > 1000
    assert [path.name for path in tmp_path.iterdir()] == ["environment.zip"]
    with zipfile.ZipFile(tmp_path / "environment.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    brought = sorted((Path(spec.origin).parent / "python" / "lib").glob("*.zip"))
    modules = (
        ", ".join(f"sql.spark.write.{name}" for name in ("bucket", "compaction", "sorting", "writes", "zorder"))
        + ", pyspark_sluice, pandas"
    )
    script = f"import {modules}; print(*({', '.join(f'__import__({name!r}).__file__' for name in (*PACKAGES, 'pyarrow'))}))"
    path = os.pathsep.join(map(str, [tmp_path / "unpacked", *brought]))
    environment = {"PYTHONPATH": path, "PATH": os.environ["PATH"]}
    python = str(Path(sys.executable).resolve())  # without the packages of the environment made from it
    done = subprocess.run(
        [python, "-S", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [file for file in done.stdout.split() if not file.startswith(str(tmp_path / "unpacked"))] == []
