"""Every codec of both formats is written and read by the server and by Spark; a file Spark cannot unpack is told as such."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from model.errors import UnsupportedType
from model.options import rules
from sql.spark.session.errors import _packed
from table.format import formats
from tests.short import one_in

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("format_", "codec"), one_in(2, [(format_, codec) for format_, codecs in rules._CODECS.items() for codec in codecs])
)
def test_each_codec_is_written_and_read_by_both(on_spark: Gateway, format_: str, codec: str) -> None:
    on_spark.run(f"CREATE TABLE t (id INT, s STRING) WITH ('file.format' = '{format_}', 'file.compression' = '{codec}')").close()
    on_spark.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')").close()
    on_spark.run("INSERT INTO t SELECT CAST(id AS INT), CAST(id AS STRING) FROM range(10, 20)").close()
    assert on_spark.run("SELECT count(DISTINCT s), sum(id) FROM t").collect() == [(12, 148)]
    assert len(on_spark.run("SELECT id FROM t").collect()) == 12


def test_names_of_earlier_versions_are_written_as_what_is_nearest() -> None:
    written = {(name, option): codec for name, codecs in formats._CODECS.items() for option, codec in codecs.items()}
    assert written["orc", "gzip"] == "zlib"
    assert written["parquet", "brotli"] == written["orc", "brotli"] == "zstd"


def test_a_file_that_spark_cannot_unpack_is_read_by_the_servers_reader(on_spark: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """As versions wrote it that took brotli."""
    on_spark.run("CREATE TABLE t (id INT, s STRING) WITH ('rows.erasable' = 'true')").close()
    with monkeypatch.context() as earlier:
        earlier.setitem(formats._CODECS["parquet"], "zstd", "brotli")
        on_spark.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (5, 'e')").close()
    on_spark.run("INSERT INTO t VALUES (3, 'c')").close()
    for _ in range(2):  # looked at, and known
        assert on_spark.run("SELECT count(DISTINCT s), sum(id) FROM t").collect() == [(4, 11)]
    on_spark.run("DELETE FROM t WHERE length(concat(s, CAST(id AS STRING))) = 2 AND id % 2 = 0").close()
    assert on_spark.run("SELECT s FROM t ORDER BY upper(s)").collect() == [("a",), ("c",), ("e",)]


def test_where_nothing_looks_first_the_file_and_its_codec_are_named() -> None:
    """As on an object store."""
    cause = "Caused by: BadConfigurationException: Class org.apache.hadoop.io.compress.BrotliCodec was not found"
    error = _packed(f"reading s3a://b/w/t/data-1.parquet\n{cause}")
    assert isinstance(error, UnsupportedType)
    assert error.message.startswith("data-1.parquet is packed with brotli, which Spark cannot unpack")
    assert error.message.endswith("give Spark the class by SLUICE_SPARK_JARS."), "the file of SLUICE_SPARK_CONF takes no spark.jars"
