"""What is damaged can be let go: branches, tags and later snapshots whose files cannot be read are no reason to keep them.

What is left of a damaged table is not let go by age.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.rewrite.maintenance import maintain
from model.errors import TableDamaged
from model.identifier import Identifier
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub
from tests.lake.register.damage import change, cut, forget_metadata, remove

T = Identifier("default", "t")
HURT = pytest.mark.parametrize("hurt", [remove, cut])


@pytest.fixture
def place(gateway: Gateway, warehouse: Path) -> Path:
    gateway.run("CREATE TABLE t (id INT)")
    for id_ in (1, 2, 3):
        gateway.run(f"INSERT INTO t VALUES ({id_})")
    return warehouse / "default.db/t"


def lists_of(lake: Lake, place: Path, branch: str = "main") -> list[Path]:
    snapshot = lake.open(Identifier("default", "t", branch)).latest()
    assert snapshot is not None
    return [place / "manifest" / name for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)]


@pytest.mark.damages
@HURT
def test_a_branch(gateway: Gateway, lake: Lake, place: Path, hurt: Callable[[Path], None]) -> None:
    gateway.run("CALL sys.create_tag('t', 'one', 1)")
    gateway.run("CALL sys.create_branch('t', 'b', 'one')")
    gateway.run("INSERT INTO `t$branch_b` VALUES (9)")
    for path in lists_of(lake, place, "b"):
        hurt(path)
    forget_metadata()
    assert gateway.run("CALL sys.delete_branch('t', 'b')").collect()[0][0] == "b"
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []
    assert len(gateway.run("SELECT * FROM t").collect()) == 3


@pytest.mark.damages
@HURT
def test_a_tag(gateway: Gateway, lake: Lake, place: Path, hurt: Callable[[Path], None]) -> None:
    paths = lists_of(lake, place)
    gateway.run("CALL sys.create_tag('t', 'late', 3)")
    gateway.run("INSERT INTO t VALUES (4)")
    gateway.run("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)")
    for path in paths:
        hurt(path)
    forget_metadata()
    assert "late" in str(gateway.run("CALL sys.delete_tag('t', 'late')").collect())
    assert lake.tags.all(lake.open(T)) == []
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []


@pytest.mark.damages
@HURT
def test_later_snapshots(gateway: Gateway, lake: Lake, place: Path, hurt: Callable[[Path], None]) -> None:
    for path in lists_of(lake, place):
        hurt(path)
    forget_metadata()
    gateway.run("CALL sys.rollback_to('t', 2)")
    assert sorted(gateway.run("SELECT * FROM t").collect()) == [(1,), (2,)]
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []
    gateway.run("INSERT INTO t VALUES (5)")


@pytest.mark.damages
@HURT
def test_snapshots_that_expire(gateway: Gateway, lake: Lake, place: Path, hurt: Callable[[Path], None]) -> None:
    paths = lists_of(lake, place)
    gateway.run("INSERT INTO t VALUES (4)")
    for path in paths:
        hurt(path)
    forget_metadata()
    gateway.run("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)")
    assert [row[0] for row in gateway.run("SELECT snapshot_id FROM t$snapshots").collect()] == [4]
    assert len(gateway.run("SELECT * FROM t").collect()) == 4
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []


EXPIRE = "CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)"


@pytest.mark.damages
@pytest.mark.parametrize(("what", "hurt"), [("base list", remove), ("delta list", cut), ("manifest", remove), ("manifest", change)])
def test_nothing_expires_while_the_newest_snapshot_cannot_be_read(
    gateway: Gateway, lake: Lake, place: Path, what: str, hurt: Callable[[Path], None]
) -> None:
    gateway.run("ALTER TABLE t SET ('snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '1')")
    base, delta = lists_of(lake, place)
    newest = lake.open(T).latest()
    assert newest is not None
    (manifest,) = [meta.file_name for meta in lake.open(T).files.delta_manifests(newest)]
    hurt({"base list": base, "delta list": delta, "manifest": place / "manifest" / manifest}[what])
    forget_metadata()
    lake.tags.create(lake.open(T), "first", snapshot_id=1)
    before = sorted(place.rglob("*"))
    for text in (EXPIRE, EXPIRE.replace(")", ", dry_run => true)"), "CALL sys.expire_tags('t', '2999-01-01 00:00:00')"):
        with pytest.raises(TableDamaged, match=r"nothing expires meanwhile.*CALL sys\.repair_table\('default\.t', true\)"):
            gateway.run(text)
    with pytest.raises(TableDamaged):
        maintain(lake, lake.open(T))
    assert sorted(place.rglob("*")) == before
    gateway.run("CALL sys.repair_table('t')")
    assert sorted(gateway.run("SELECT * FROM t").collect()) == [(1,), (2,)]
    gateway.run(EXPIRE)
    assert gateway.run("SELECT snapshot_id FROM t$snapshots").collect() == [(2,)]
