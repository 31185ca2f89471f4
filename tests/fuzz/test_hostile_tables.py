"""Tables whose metadata somebody rewrote past the server: manifests, lists, snapshots and schemas that are almost right."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.fuzz.inputs import drawn, mutated, value
from tests.fuzz.oracle import Flat, judged, sql, tree_digest
from tests.fuzz.records import retold, rewritten
from tests.lake.register.damage import forget_metadata
from tests.short import one_in

SHORT, PART, PARTS = 12, 1_250, 8
FAILED_ONCE = (7745, 9503)
"""Tags whose snapshot had numbers of other types."""
_READ = (
    "SELECT * FROM t", "SELECT COUNT(*) FROM t", "SELECT * FROM t$files", "SELECT * FROM t$manifests", "SELECT * FROM t$partitions",
    "SELECT * FROM t$snapshots", "SELECT * FROM t$tags", "CALL sys.check_table('t')",
    "SELECT * FROM t /*+ OPTIONS('scan.tag-name'='laid') */", "SELECT * FROM `t$branch_b`", "SELECT * FROM t$statistics",
    "SELECT * FROM t$buckets", "SELECT * FROM t$branches", "SELECT * FROM t$consumers", "SELECT * FROM t$schemas",
    "EXPLAIN SELECT * FROM t",
    "SELECT * FROM t /*+ OPTIONS('scan.snapshot-id'='2') */", "SELECT max(id) FROM t", "CALL sys.doctor('t')",
    "SELECT * FROM t /*+ OPTIONS('incremental-between'='1,2') */", "DESCRIBE t", "SELECT * FROM sys.tables",
)  # fmt: skip
_CHANGE = (
    "INSERT INTO t VALUES (9, 'z', 'z')", "CALL sys.expire_snapshots('t', 1)", "CALL sys.remove_orphan_files('t')", "CALL sys.compact('t')",
    "CALL sys.rollback_to('t', 1)", "CALL sys.create_tag('t', 'new')", "TRUNCATE TABLE t", "CALL sys.remove_unexisting_files('t')",
    "CALL sys.repair_table('t')", "CALL sys.rollback_to('t', 'laid')", "CALL sys.delete_tag('t', 'laid')", "CALL sys.expire_tags('t')",
    "CALL sys.delete_branch('t', 'b')", "CALL sys.fast_forward('t', 'b')", "CALL sys.create_branch('t', 'c', 'kept')",
    "CALL sys.drop_partition('t', 's=a')", "ALTER TABLE t ADD (n INT)", "INSERT OVERWRITE t VALUES (5, 'a', 'z')",
    "CALL sys.rollback_to('t', 'kept')",
    "CALL sys.rewrite_files('t')", "CALL sys.compact_manifest('t')",
)  # fmt: skip
_CANARY = "of-another-table"
_LAID = (
    "tag/tag-laid", "tag/tag-kept", "snapshot/snapshot-4", "snapshot/snapshot-3", "snapshot/snapshot-9", "snapshot/snapshot-0",
    "snapshot/LATEST",
    "snapshot/EARLIEST", "branch/branch-b/snapshot/snapshot-1", "branch/branch-b/schema/schema-0", "branch/branch-b/tag/tag-kept",
    "statistics/stat-x", "consumer/consumer-c", "schema/schema-1", "schema/schema-9", "tag/tag-..", "branch/branch-../schema/schema-0",
)  # fmt: skip
_FOREIGN = (
    "../../other", "../../other/bucket-0", "/etc/passwd", "file:///etc/passwd", "..", ".", "", "a/b", "\x00", "x" * 300, "snapshot-1",
)  # fmt: skip


def hurt(rng: random.Random, file: Path) -> None:
    """Change one file: its JSON by members, anything by bytes; names inside manifests to ones of the same length."""
    data = file.read_bytes()
    if data[:1] == b"{" and rng.random() < 0.8:
        body = json.loads(data)
        for name in rng.sample(sorted(body), rng.choice([1, 1, 2])):
            body[name] = rng.choice(_FOREIGN) if rng.random() < 0.5 else value(rng)
        made = json.dumps(body).encode("utf-8", "surrogatepass")
    elif rng.random() < 0.4 and (at := data.find(rng.choice([b"data-", b"manifest-"]))) >= 0:
        name = rng.choice(_FOREIGN).encode()[:40]
        made = data[:at] + name + data[at + len(name) :]
    else:
        made = mutated(rng, data, data[::-1])
    file.unlink()
    file.write_bytes(made)


class Place:
    """The directory of a table beside another one's, as somebody sees it who may write files there."""

    def __init__(self, directory: Path, other: Path) -> None:
        self._directory, self._other = directory, other
        self._reworded: set[Path] = set()
        files = [file for file in sorted(other.rglob("*")) if file.is_file()]
        self._foreign = (
            *_FOREIGN, *(str(file) for file in files), *(f"file://{file}" for file in files),
            *(f"../{file.relative_to(other.parent)}" for file in files), *(f"../../{file.relative_to(other.parent)}" for file in files),
        )  # fmt: skip

    def metadata(self) -> list[Path]:
        """What tells which rows there are."""
        parts = ("manifest", "snapshot", "schema", "tag", "index", "statistics", "branch", "consumer")
        files = (file for part in parts for file in (self._directory / part).rglob("*") if file.is_file() or file.is_symlink())
        return sorted(file for file in files if self._own(file))

    def _own(self, file: Path) -> bool:
        """Whether a path leads through no link, so that only this table is touched by whoever writes there."""
        return file.parent.resolve() == self._directory.resolve() / file.parent.relative_to(self._directory)

    def reword(self, rng: random.Random) -> None:
        """Change what a file says, so that it can still be read."""
        files = [file for file in self.metadata() if not file.is_symlink() and file not in self._reworded]
        if not files:
            return
        file = rng.choice(files)
        self._reworded.add(file)  # once: what it says now need not be readable
        data = file.read_bytes()
        if data[:3] == b"Obj":
            made = rewritten(rng, data, self._foreign)
        elif data[:1] == b"{":
            made = retold(rng, json.loads(data), self._foreign)
        else:
            made = rng.choice([str(value(rng))[:200].encode("utf-8", "replace"), b"2", b"1000000", b""])
        file.unlink()
        file.write_bytes(made)

    def forge(self, rng: random.Random) -> None:
        """Lay a file there that the server never wrote, made of one it did."""
        snapshots = sorted((self._directory / "snapshot").glob("snapshot-*"))
        try:
            body = json.loads(rng.choice(snapshots).read_bytes()) if snapshots else {}
        except ValueError:  # what `reword` left there
            return
        if not isinstance(body, dict):
            return
        body |= rng.choice([{}, {"id": rng.choice([0, -1, 4, 9, 2**63])}, {"schemaId": 7}, {"statistics": rng.choice(self._foreign)}])
        body |= rng.choice([{}, {"indexManifest": rng.choice(self._foreign)}, {"tagCreateTime": value(rng), "tagTimeRetained": value(rng)}])
        body |= rng.choice([{}, {"baseManifestList": rng.choice(self._foreign)}, {"deltaManifestList": rng.choice(self._foreign)}])
        name = rng.choice(_LAID)
        target = self._directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if self._own(target) and not target.exists() and not target.is_symlink():
            self._reworded.add(target)
            target.write_bytes(json.dumps(body).encode("utf-8", "surrogatepass"))

    def link(self, rng: random.Random) -> None:
        """Put a link to another table's file or directory where a file of this one was."""
        file = rng.choice([file for file in sorted(self._directory.rglob("*")) if file.is_file() and self._own(file)])
        if rng.random() < 0.5:
            file.unlink()
            file.symlink_to(rng.choice([one for one in sorted(self._other.rglob("*")) if one.is_file()]))
            return
        for directory in (file.parent, file.parent.parent):
            same = self._other / directory.relative_to(self._directory)
            if directory != self._directory and same.is_dir() and not directory.is_symlink():
                directory.rename(directory.with_name(f"{directory.name}-was"))
                directory.symlink_to(same)
                return

    def spoil(self, rng: random.Random) -> None:
        """One of these."""
        how = rng.choice([self.reword, self.reword, self.reword, self.forge, self.link])
        how(rng)


def said(client: FlaskClient, text: str, where: str) -> TestResponse:
    """The answer to a statement, which the oracle has nothing against."""
    sent = text.encode()
    headers = {"Content-Type": "application/sql"}
    return judged(lambda: client.post("/sql", data=sent, headers=headers, buffered=True), f"{where}: {text}", sent)


def campaign(client: FlaskClient, warehouse: Path, seeds: Iterable[int]) -> None:
    """Make a table, hurt its metadata, and do with it what people do; nothing of another table changes."""
    others = tree_digest(warehouse / "default.db" / "other")
    for seed in seeds:
        rng = drawn("hostile", seed)
        sql(client, "CREATE TABLE t (id INT, s STRING, c STRING) PARTITIONED BY (s)")
        sql(client, "INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x')")
        sql(client, "INSERT INTO t VALUES (3, 'a', 'y')")
        sql(client, "CALL sys.create_tag('t', 'kept')")
        (place,) = (one for one in (warehouse / "default.db").iterdir() if one.name != "other")
        if seed % 2:
            written = Place(place, warehouse / "default.db" / "other")
            for _ in range(rng.choice([1, 1, 2, 3])):
                written.spoil(rng)
        else:
            metadata = sorted(path for part in ("manifest", "snapshot", "schema", "tag") for path in (place / part).glob("*"))
            for file in rng.sample(metadata, rng.choice([1, 1, 2, 5])):
                hurt(rng, file)
        forget_metadata()
        for text in (*rng.sample(_READ, 3), rng.choice(_CHANGE), rng.choice(_READ), rng.choice(_CHANGE)):
            response = said(client, text, f"hostile seed {seed}")
            assert _CANARY not in response.text, f"seed {seed}: {text} shows another table's rows"
        for path in ("snapshot", "snapshots", "tags/kept", "partitions"):
            # Damage is a 500 in Paimon's protocol, whose clients repeat a 503 for half a minute.
            answer = client.get(f"/v1/sluice/databases/default/tables/t/{path}")
            assert "InternalError" not in answer.text
            assert _CANARY not in answer.text, (seed, path)
            assert "Something is wrong in the server" not in answer.text, (seed, path)
        sql(client, "DROP TABLE IF EXISTS t PURGE")
        assert tree_digest(warehouse / "default.db" / "other") == others, f"seed {seed} reached another table"


@pytest.fixture
def warehouse(client: FlaskClient, tmp_path: Path) -> Path:
    sql(client, "CREATE TABLE other (id INT, s STRING, c STRING) PARTITIONED BY (s)")
    sql(client, f"INSERT INTO other VALUES (1, 'a', '{_CANARY}'), (2, 'b', '{_CANARY}')")
    return tmp_path / "warehouse"


def test_hostile_metadata_is_damage_and_reaches_nothing_else(client: FlaskClient, warehouse: Path) -> None:
    flat = Flat()
    campaign(client, warehouse, range(SHORT))
    flat.check()
    assert sql(client, "SELECT COUNT(*) FROM other").get_json()["rows"] == [[2]]


def test_what_failed_once(client: FlaskClient, warehouse: Path) -> None:
    campaign(client, warehouse, FAILED_ONCE)


def test_a_hint_that_is_a_link_writes_into_no_other_table(client: FlaskClient, warehouse: Path) -> None:
    other = warehouse / "default.db" / "other"
    others = tree_digest(other)
    sql(client, "CREATE TABLE t (id INT, s STRING, c STRING) PARTITIONED BY (s)")
    for number, make in enumerate((Path.symlink_to, Path.hardlink_to)):
        sql(client, f"INSERT INTO t VALUES ({number}, 'a', 'x')")
        for hint in ("LATEST", "EARLIEST"):
            file = warehouse / "default.db" / "t" / "snapshot" / hint
            file.unlink()
            make(file, other / "snapshot" / hint)
        forget_metadata()
        sql(client, "INSERT INTO t VALUES (9, 'a', 'x')")
    assert tree_digest(other) == others
    assert sql(client, "SELECT COUNT(*) FROM t").get_json()["rows"] == [[4]]


@pytest.mark.parametrize(
    "name", one_in(2, ["tag/tag-x", "consumer/consumer-x", "snapshot/snapshot-2", "schema/schema-0", "branch/branch-b/schema/schema-0"])
)
def test_json_nested_without_end_is_damage_of_its_file(client: FlaskClient, warehouse: Path, name: str) -> None:
    sql(client, "CREATE TABLE t (id INT, s STRING, c STRING) PARTITIONED BY (s)")
    sql(client, "INSERT INTO t VALUES (1, 'a', 'x')")
    sql(client, "INSERT INTO t VALUES (3, 'a', 'y')")
    file = warehouse / "default.db" / "t" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.write_bytes(b'{"id":' + b"[" * 200_000)
    forget_metadata()
    for text in (*_READ, *_CHANGE):
        said(client, text, name)


def test_a_tag_that_is_a_link_elsewhere_keeps_no_other_tag_from_anybody(client: FlaskClient, warehouse: Path) -> None:
    sql(client, "CREATE TABLE t (id INT)")
    sql(client, "INSERT INTO t VALUES (1)")
    sql(client, "CALL sys.create_tag('t', 'kept')")
    (warehouse / "default.db" / "t" / "tag" / "tag-laid").symlink_to(warehouse / "default.db" / "other" / "snapshot" / "snapshot-1")
    assert sql(client, "SELECT tag_name FROM t$tags").get_json()["rows"] == [["kept"]]
    sql(client, "INSERT INTO t VALUES (2)")
    sql(client, "CALL sys.expire_snapshots('t', 1)")
    sql(client, "CALL sys.delete_tag('t', 'kept')")


_PIPES = (
    "snapshot/LATEST", "snapshot/EARLIEST", "snapshot/snapshot-2", "schema/schema-0", "tag/tag-kept", "tag/tag-laid", "consumer/consumer-c",
    "manifest/manifest-*", "s=a/bucket-0/data-*", "branch/branch-b/snapshot/snapshot-1", "branch/branch-b/schema/schema-0",
    "snapshot/snapshot-3",
)  # fmt: skip


@pytest.mark.parametrize("name", one_in(3, _PIPES))
def test_nobody_waits_for_a_pipe_in_place_of_a_file(client: FlaskClient, warehouse: Path, name: str) -> None:
    sql(client, "CREATE TABLE t (id INT, s STRING, c STRING) PARTITIONED BY (s)")
    sql(client, "INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x')")
    sql(client, "INSERT INTO t VALUES (3, 'a', 'y')")
    sql(client, "CALL sys.create_tag('t', 'kept')")
    place = warehouse / "default.db" / "t"
    for file in list(place.glob(name)) or [place / name]:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    forget_metadata()
    for text in (*_READ, *_CHANGE):
        said(client, text, name)
    sql(client, "DROP TABLE IF EXISTS t PURGE")
    assert sql(client, "SELECT COUNT(*) FROM other").get_json()["rows"] == [[2]]


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_hostile_tables(client: FlaskClient, warehouse: Path, part: int) -> None:
    flat = Flat()
    campaign(client, warehouse, range(SHORT + part * PART, SHORT + (part + 1) * PART))
    flat.check()


def test_numbers_of_other_scripts_are_no_internal_error(client: FlaskClient, warehouse: Path) -> None:
    place = warehouse / "default.db" / "other"
    for name in ("snapshot/snapshot-²", "schema/schema-²", "tag/tag-²"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"{}")
    forget_metadata()
    hints = ("'scan.version'='²'", "'incremental-between'='²,2'", "'scan.version'='watermark-²'")
    texts = [f"SELECT * FROM other /*+ OPTIONS({hint}) */" for hint in hints]
    for text in (
        *texts,
        "INSERT INTO other VALUES (9, 'a', 'x')",
        "CALL sys.check_table('other')",
        "CALL sys.remove_orphan_files('other')",
    ):
        said(client, text, "numbers of other scripts")
