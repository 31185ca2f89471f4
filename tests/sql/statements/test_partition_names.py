"""Partitions that are two to the rows and one directory to the files: NULL and the empty text."""

from __future__ import annotations

from gateway.gateway import Gateway


def rows(gateway: Gateway, text: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in gateway.run(text).collect()]


def test_null_and_the_empty_text_are_inserted_together_and_counted_once(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (id INT, s STRING) PARTITIONED BY (s)").close()
    gateway.run("INSERT INTO t VALUES (1, NULL), (2, ''), (3, 'a'), (4, ' ')").close()
    gateway.run("INSERT INTO t VALUES (5, ''), (6, NULL)").close()
    assert sorted(rows(gateway, "SELECT id FROM t")) == [(1,), (2,), (3,), (4,), (5,), (6,)]
    names = [row[0] for row in rows(gateway, "SHOW PARTITIONS t")]
    assert len(names) == len(set(names))
    assert sum(int(str(row[0])) for row in rows(gateway, "SELECT record_count FROM sys.partitions WHERE table_name = 't'")) == 6
    gateway.run("CALL sys.drop_partition('t', 's=__DEFAULT_PARTITION__')").close()
    assert (3,) in rows(gateway, "SELECT id FROM t")
