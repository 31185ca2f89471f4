"""CALL sys.doctor: findings of a real table, none of a good one."""

from __future__ import annotations

from gateway.gateway import Gateway


def test_a_table_nobody_merges_is_told_of(gateway: Gateway) -> None:
    with gateway.run("CREATE TABLE `o'neil` (id INT) WITH ('bucket' = '-1', 'write-only' = 'true')"):
        pass
    with gateway.run("CALL sys.doctor('o''neil')") as result:
        assert result.collect() == []
    for n in range(6):
        gateway.run(f"INSERT INTO `o'neil` VALUES ({n})").close()
    with gateway.run("CALL sys.doctor('o''neil')") as result:
        ((what, why, statement),) = result.collect()
    assert what == "6 small files could be merged"
    assert "'write-only'" in why
    gateway.run(statement).close()
    with gateway.run("CALL sys.doctor('o''neil')") as result:
        assert result.collect() == []
