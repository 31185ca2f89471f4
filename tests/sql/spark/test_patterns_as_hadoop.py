"""What a pattern of files is checked for holds all that Spark finds by it: a stream hands Spark the pattern itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from model.errors import Forbidden, InvalidOption
from model.location import Location
from sql.connectors import ConnectorScope, ConnectorTable
from sql.connectors.filesystem import check_path
from sql.connectors.registry import connector_table
from sql.dialect import parse_one
from sql.spark.connectors.filesystem import SparkFilesystem
from tests.short import short

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
_IN_NAMES, _IN_PATTERNS = "ab^!-._]&z", "*?[[]]^^!!-..ab&z_"


def checked(pattern: str, imports: Path) -> set[str]:
    """The places that are looked at before the pattern is followed."""
    wanted: list[Location] = []
    check_path(pattern, ConnectorScope(import_dirs=(str(imports),), refuse_guarded=wanted.extend), may_be_empty=True)
    return {str(place) for place in wanted}


@pytest.fixture
def globbed(spark: SparkSession) -> Callable[[str], set[str]]:
    """What Hadoop's file system finds by a pattern."""
    jvm: Any = spark._jvm
    io = jvm.org.apache.hadoop.fs.FileSystem.getLocal(jvm.org.apache.hadoop.conf.Configuration())

    def found(pattern: str) -> set[str]:
        return {status.getPath().toUri().getPath() for status in io.globStatus(jvm.org.apache.hadoop.fs.Path(pattern)) or ()}

    return found


@pytest.mark.parametrize("seed", short(range(3), [1]))
def test_nothing_is_found_that_was_not_looked_at(globbed: Callable[[str], set[str]], tmp_path: Path, seed: int) -> None:
    rng = Random(seed)

    def word(letters: str, most: int) -> str:
        return "".join(rng.choice(letters) for _ in range(rng.randint(1, most)))

    names = {word(_IN_NAMES, 3) for _ in range(60)} - {".", ".."}
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / word("ab", 1)).touch()
    compared = met = 0
    for _ in range(400):
        name = word(_IN_PATTERNS, 6)
        if name in (".", ".."):
            continue
        pattern = f"{tmp_path}/{name}" + rng.choice(("", "/*", "/[^b]"))
        try:
            found = globbed(pattern)
        except Py4JJavaError:  # no pattern to Hadoop
            continue
        try:
            places = checked(pattern, tmp_path)
        except InvalidOption:
            continue
        compared += 1
        met += bool(found)
        assert found <= places, pattern
    assert compared > 150
    assert met > 50


@pytest.mark.parametrize(
    ("link", "patterns"),
    [
        ("lnk", ("*", "l*", "[^z]*", "[^z]?k", "[!z]*")),
        (".lnk", ("*", "?lnk", "[.]lnk", "[^z]*", "[!z]*", ".l*")),
        ("in/x=1", ("in", "i*", "linked", "l*", "[^z]*")),
    ],
)
@pytest.mark.parametrize("watched", [True, False])
def test_no_pattern_leads_out_by_a_link(tmp_path: Path, link: str, patterns: tuple[str, ...], watched: bool) -> None:
    """Also by one in a directory that another leads to: Spark follows them all."""
    imports, secret = tmp_path / "imports", tmp_path / "secret"
    secret.mkdir()
    (secret / "s.csv").write_text("secret\n")
    (imports / "in").mkdir(parents=True)
    (imports / link).symlink_to(secret)
    (imports / "linked").mkdir()
    (imports / "linked" / "y=1").symlink_to(imports / "in")
    (imports / "linked" / "z=1").symlink_to(imports / "linked")  # round and round
    scope = ConnectorScope(import_dirs=(str(imports),))
    for pattern in patterns:
        with pytest.raises(Forbidden):
            check_path(f"{imports}/{pattern}", scope, may_be_empty=watched)


@pytest.mark.parametrize("pattern", ["[^z]*.csv", "[!z]*.csv"])
def test_a_pattern_means_the_same_read_and_followed(spark: SparkSession, tmp_path: Path, pattern: str) -> None:
    imports = tmp_path / "imports"
    imports.mkdir()
    for name in ("a", "z", "^"):
        (imports / f"{name}.csv").write_text(f"{name}\n")
    scope = ConnectorScope(import_dirs=(str(imports),))
    text = f"CREATE TEMPORARY TABLE f (l STRING) WITH ('connector' = 'filesystem', 'path' = '{imports}/{pattern}', 'format' = 'csv')"
    table: ConnectorTable = connector_table("f", parse_one(text).args["definition"], scope)
    read = sorted(row[0] for row in SparkFilesystem().read(spark, table, scope).collect())
    writer = SparkFilesystem().follow(spark, table, scope).writeStream.format("parquet")
    writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    followed = sorted(row[0] for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert read == followed == ["^", "a"]
