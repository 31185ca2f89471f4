"""Numbers that nobody can hold, or that `int` alone reads, are the client's error wherever a statement has one."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import LakeError
from model.identifier import Identifier
from tests.fix_gateway import Ask

_LONG, _WIDE = "9" * 5000, "9" * 20
_TEXTS = (
    "SELECT k FROM t LIMIT {n}",
    "SELECT * FROM t VERSION AS OF '{n}'",
    "SELECT * FROM t VERSION AS OF 'watermark-{n}'",
    "SELECT * FROM t /*+ OPTIONS('incremental-between' = '1,{n}') */",
    "SELECT * FROM t /*+ OPTIONS('incremental-between-timestamp' = '-{n},{n}') */",
    "SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '{n}') */",
    "SELECT CAST('2020-01-01 00:00:00' AS TIMESTAMP({n}))",
    "INSERT INTO t VALUES (CAST('{n}' AS INT))",
    "CALL sys.compact('t', buckets => '{n}')",
    "CALL sys.compact('t', buckets => '0-{n}')",
    "UNDROP TABLE t WITH ID {n}",
    "SET QUOTA statements.running = '{n}' FOR USER x",
    "CREATE TABLE u (v VECTOR<FLOAT, {n}>)",
    "CREATE TABLE u (v INT) WITH ('bucket' = '{n}', 'bucket-key' = 'v')",
    "CREATE TABLE u (v INT) WITH ('snapshot.num-retained.max' = '{n}')",
    "CREATE TABLE u (v INT) WITH ('target-file-size' = '{n} tb')",
    "CREATE TABLE u (v INT) WITH ('snapshot.time-retained' = '{n} d')",
)


@pytest.mark.parametrize("number", ["²", "--5", _WIDE, _LONG], ids=["power", "minus", "wide", "long"])
@pytest.mark.parametrize("text", _TEXTS)
def test_a_number_that_is_none_is_the_clients_error(gateway: Gateway, text: str, number: str) -> None:
    gateway.run("CREATE TABLE t (k INT) WITH ('bucket' = '2', 'bucket-key' = 'k')").close()
    gateway.run("INSERT INTO t VALUES (1)").close()
    with pytest.raises(LakeError):
        gateway.run(text.format(n=number)).close()
    assert gateway.run("SHOW TABLES").collect() == [("t",)]


@pytest.mark.parametrize("spelled", ["1_0", "٣", "2147483648", "0x2", "2."])
def test_buckets_are_spelled_as_every_client_reads_them(gateway: Gateway, spelled: str) -> None:
    with pytest.raises(LakeError, match="'bucket'"):
        gateway.run(f"CREATE TABLE t (a INT) WITH ('bucket' = '{spelled}', 'bucket-key' = 'a')")
    gateway.run("CREATE TABLE t (a INT)").close()
    with pytest.raises(LakeError, match="'bucket'"):
        gateway.run(f"ALTER TABLE t SET ('bucket' = '{spelled}')")


def test_blanks_that_java_does_not_trim_are_not_stored(gateway: Gateway, ask: Ask, lake: Lake) -> None:
    gateway.run("CREATE TABLE t (a INT, b INT) WITH ('bucket' = ' 2 ', 'bucket-key' = 'a , b', 'write-only' = 'true ')").close()
    gateway.run("ALTER TABLE t SET ('snapshot.num-retained.max' = ' 20', 'file-index.bloom-filter.columns' = 'a, b')").close()
    options = lake.open(Identifier("default", "t")).schema.options
    assert (options["bucket"], options["bucket-key"], options["write-only"]) == ("2", "a,b", "true")
    assert (options["snapshot.num-retained.max"], options["file-index.bloom-filter.columns"]) == ("20", "a,b")
    gateway.run("INSERT INTO t VALUES (1, 2)").close()
    assert ask("SELECT a, b FROM t WHERE b = 2") == [(1, 2)]
