"""Paths mean the files they name: no sign in them stands for others, and none hides them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from model.errors import InvalidOption
from sql.spark.session.pool import SparkPool

pytestmark = pytest.mark.spark


@pytest.fixture
def imports(tmp_path: Path) -> Path:
    """The one import directory, with a file, and one beside it."""
    made = tmp_path / "in"
    made.mkdir()
    (made / "fine.csv").write_text("fine\n")
    (tmp_path / "secret.csv").write_text("secret\n")
    return made


@pytest.fixture
def gateway(lake: Lake, pool: SparkPool, imports: Path) -> Iterator[Gateway]:
    """It may read files of the import directory."""
    made = Gateway(lake, pool, limits=GatewayLimits(local_threads=2, spark_statements=1, import_dirs=(str(imports),)))
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("pattern", ["{../.,x/y}/secret.csv", "{fine,../secret}.csv", "\\\\.\\\\./secret.csv", "x{a,b}/../../secret.csv"])
@pytest.mark.parametrize("watched", [False, True])
def test_no_pattern_climbs_out_of_an_import_directory(gateway: Gateway, imports: Path, pattern: str, *, watched: bool) -> None:
    options = f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{imports}/{pattern}'"
    options += ", 'source.monitor-interval' = '1 s'" if watched else ""
    with pytest.raises(InvalidOption, match="which no path and no pattern may have"):
        gateway.run(f"CREATE TEMPORARY TABLE f (s STRING) WITH ({options})")


def test_a_name_in_an_import_directory_is_no_pattern_for_spark(gateway: Gateway, imports: Path) -> None:
    (imports / "a*").mkdir()
    (imports / "a*" / "one.csv").write_text("one\n")
    (imports / "ab").mkdir()
    (imports / "ab" / "one.csv").write_text("other\n")
    create = "CREATE TEMPORARY TABLE f (s STRING) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}')"
    session = gateway.open_session()
    gateway.run(create.format(imports / "a[*]" / "*"), session=session).close()
    assert gateway.run("SELECT upper(s) FROM f", session=session).collect() == [("ONE",)]


@pytest.mark.parametrize(
    "option",
    [
        "'data-file.prefix' = '*-'",
        "'data-file.prefix' = '_x-'",
        "'data-file.prefix' = '..'",
        "'data-file.path-directory' = '{../o,x/y}'",
    ],
)
def test_data_files_are_read_whatever_signs_their_names_have(gateway: Gateway, option: str) -> None:
    gateway.run(f"CREATE TABLE t (id BIGINT, s STRING) WITH ('bucket' = '-1', {option})").close()
    gateway.run("INSERT INTO t VALUES (1, 'a')").close()
    gateway.run("INSERT INTO t SELECT id + 1, upper(s) FROM t").close()
    assert sorted(gateway.run("SELECT id, lower(s) || '!' FROM t").collect()) == [(1, "a!"), (2, "a!")]
