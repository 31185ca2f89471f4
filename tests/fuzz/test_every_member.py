"""Every member of a table's metadata with every telling value of its kind: read as damage or as what it says, never a bug."""

from __future__ import annotations

import copy
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pytest
from flask.testing import FlaskClient

from server.pages.tables.sides import TABS
from tests.fuzz.oracle import judged, sql
from tests.fuzz.records import BYTES, NUMBERS, places
from tests.lake.register.damage import forget_metadata
from tests.short import one_in

_READS = (
    "SELECT * FROM t", "SELECT * FROM t WHERE s = 'a' AND id > 0", "SELECT COUNT(*) FROM t", "SELECT max(id) FROM t",
    "SELECT * FROM t$files",
    "SELECT * FROM t$manifests", "SELECT * FROM t$partitions", "SELECT * FROM t$buckets", "SELECT * FROM t$snapshots",
    "SELECT * FROM t$tags",
    "SELECT * FROM t$statistics", "SELECT * FROM t$schemas", "SELECT * FROM t$file_key_ranges", "SELECT * FROM t$debt", "SHOW PARTITIONS t",
    "SELECT * FROM t$compaction", "CALL sys.check_table('t')", "CALL sys.doctor('t')", "EXPLAIN SELECT * FROM t WHERE s = 'a'",
    "EXPLAIN JSON_EXECUTION_PLAN SELECT * FROM t", "SELECT * FROM t /*+ OPTIONS('scan.tag-name'='kept') */", "SELECT * FROM sys.partitions",
    "SELECT * FROM t /*+ OPTIONS('scan.snapshot-id'='1') */", "CALL sys.compact(`table` => 't', dry_run => true)",
    "SELECT * FROM sys.tables",
    "CALL sys.expire_snapshots(`table` => 't', retain_max => 1, dry_run => true)", "SELECT * FROM t$table_indexes",
    "CALL sys.remove_orphan_files(`table` => 't', dry_run => true)", "CALL sys.repair_table('t', true)",
)  # fmt: skip
_PAGES = ("", *sorted(f"/{name}" for name in TABS))
_REST = ("snapshot", "snapshots", "tags/kept", "tags", "partitions", "branches")
_TEXTS = ("", "\x00", "x" * 300, "..", "../other", "/etc/passwd", "é", "NaN")
Change = tuple[str, bytes]
"""What was changed, and what the file holds then."""


def _others(held: Any) -> Iterator[Any]:
    """Telling values of the same kind, and none."""
    yield None
    if isinstance(held, bool):
        yield not held
    elif isinstance(held, int):
        yield from NUMBERS
    elif isinstance(held, str):
        yield from _TEXTS
    elif isinstance(held, bytes):
        yield from (*BYTES, held[:-1], held[::-1])
    elif isinstance(held, list):
        yield from ([], held * 2, held * 50)
    else:
        yield from (0, 2**63 - 1, -1, "", b"", b"\x01", [], [""], ["../x"])


def of_avro(data: bytes) -> Iterator[Change]:
    """The file with one member of its first record changed."""
    reader = fastavro.reader(io.BytesIO(data))
    records, schema = list(reader), reader.writer_schema
    for at in range(len(list(places(records[0])) if records else [])):
        for number, _ in enumerate(_others(_member(records, at)[1])):
            changed = copy.deepcopy(records)
            name, held, holder, key = *_member(changed, at), *list(places(changed[0]))[at]
            holder[key] = list(_others(held))[number]
            made = io.BytesIO()
            try:
                fastavro.writer(made, schema, changed, codec="deflate")
            except (ValueError, TypeError, OverflowError, AttributeError, KeyError):  # its type cannot say that
                continue
            yield f"{name} = {str(holder[key])[:40]}", made.getvalue()


def _member(records: list[Any], at: int) -> tuple[str, Any]:
    holder, key = list(places(records[0]))[at]
    return str(key), holder[key]


def of_json(data: bytes) -> Iterator[Change]:
    """The document with one member changed or left out."""
    document = json.loads(data)
    for at, (holder, key) in enumerate(list(places(document))):
        for other in (*_others(holder[key]), {}, 1.5, "9" * 400, [[[]]], _MISSING):
            changed = copy.deepcopy(document)
            inside, name = list(places(changed))[at]
            if other is _MISSING:
                del inside[name]
            else:
                inside[name] = other
            yield f"{name} = {str(other)[:40]}", json.dumps(changed, default=str).encode("utf-8", "surrogatepass")


_MISSING = object()
_KINDS: dict[str, Callable[[bytes], Iterator[Change]]] = {
    "manifest/manifest-list-*": of_avro,
    "manifest/manifest-????????-*": of_avro,
    "snapshot/snapshot-2": of_json,
    "schema/schema-0": of_json,
    "tag/tag-kept": of_json,
}


def sweep(client: FlaskClient, place: Path, pattern: str, *, every: int = 1) -> Counter[int]:
    """Change a file of that name, one member after the other; ask of the table whatever reads it. Of all changes each ``every``-th."""
    answered: Counter[int] = Counter()
    count = 0
    for file in sorted(place.glob(pattern)):
        data = file.read_bytes()
        for what, made in _KINDS[pattern](data):
            count += 1
            if count % every:
                continue
            file.unlink()
            file.write_bytes(made)
            forget_metadata()
            for text in _READS if every == 1 else _READS[count % 3 :: 3]:
                send = partial(client.post, "/sql", data=text, headers={"Content-Type": "application/sql"}, buffered=True)
                response = judged(send, f"member {file.name} {what}: {text}", text.encode())
                answered[response.status_code] += 1
            for path in [f"/v1/sluice/databases/default/tables/t/{part}" for part in _REST] + [
                f"/ui/tables/default/t{tab}" for tab in _PAGES
            ]:
                answer = client.get(path)
                assert "Something is wrong in the server" not in answer.text, (file.name, what, path)
                assert "Traceback" not in answer.text, (file.name, what, path)
                answered[answer.status_code] += 1
        file.unlink()
        file.write_bytes(data)
        forget_metadata()
    assert count, f"nothing is called {pattern}"
    return answered


@pytest.fixture
def place(client: FlaskClient, tmp_path: Path) -> Path:
    sql(client, "CREATE TABLE t (id INT, s STRING, n DECIMAL(10, 2)) PARTITIONED BY (s)")
    sql(client, "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', NULL)")
    sql(client, "CALL sys.create_tag('t', 'kept')")
    sql(client, "INSERT INTO t VALUES (3, 'a', 2.5)")
    return tmp_path / "warehouse" / "default.db" / "t"


@pytest.mark.parametrize("pattern", one_in(2, _KINDS))
def test_a_member_that_says_something_else_is_no_bug(client: FlaskClient, place: Path, pattern: str) -> None:
    sweep(client, place, pattern, every=20)


@pytest.mark.torture
@pytest.mark.parametrize("pattern", _KINDS)
def test_every_member_says_something_else(client: FlaskClient, place: Path, pattern: str) -> None:
    answered = sweep(client, place, pattern)
    print(pattern, dict(answered))
