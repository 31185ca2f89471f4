"""A manifest or list in the place of another of the same size is told by its name: counts, buckets and partitions are the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import TableDamaged
from model.identifier import Identifier
from table.format.manifests.avro_name import named, wrong_name
from table.format.manifests.codec import encode_manifest_list
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub
from tests.lake.register.damage import forget_metadata

T = Identifier("default", "t")
MOST_INSERTS = 60
NAME, OTHER = (f"manifest-list-00000000-0000-0000-0000-00000000000{n}-0" for n in range(2))


def alike(paths: Sequence[Path]) -> tuple[Path, Path] | None:
    """Two files of the same size, of which the second is younger."""
    by_size = defaultdict(list)
    for path in paths:
        by_size[path.stat().st_size].append(path)
    return next(((same[0], same[1]) for same in by_size.values() if len(same) > 1), None)


def swap(first: Path, second: Path) -> None:
    first_bytes, second_bytes = first.read_bytes(), second.read_bytes()
    first.write_bytes(second_bytes)
    second.write_bytes(first_bytes)


@pytest.mark.parametrize("kind", ["manifest", "list"])
def test_swapped_files_of_the_same_size_are_told(gateway: Gateway, lake: Lake, warehouse: Path, kind: str) -> None:
    gateway.run("CREATE TABLE t (id INT) WITH ('write-only' = 'true', 'snapshot.num-retained.min' = '1000')")
    files, paths, pair = lake.open(T).files, [], None
    for n in range(1, MOST_INSERTS):
        gateway.run(f"INSERT INTO t VALUES ({n})")
        snapshot = lake.open(T).latest()
        assert snapshot is not None
        name = snapshot.delta_manifest_list if kind == "list" else files.delta_manifests(snapshot)[0].file_name
        paths.append(warehouse / "default.db/t/manifest" / name)
        if (pair := alike(paths)) is not None:
            break
    assert pair is not None
    at = paths.index(pair[0]) + 1
    swap(*pair)
    forget_metadata()
    # Without names the files of the first would be those of the second: a wrong result, and nothing tells.
    with pytest.raises(TableDamaged, match=f"is another file, by its own header {pair[1].name}"):
        list(files.live_entries(files.read_snapshot(at)))
    told = {row[3]: row[5] for row in gateway.run("CALL sys.check_table('t')").collect()}
    assert set(told) >= set(map(str, pair))
    assert all("is another file, by its own header" in str(told[str(path)]) for path in pair)
    swap(*pair)
    forget_metadata()
    assert len(gateway.run("SELECT * FROM t").collect()) == len(paths)
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []


def test_names_are_read_from_whole_headers_only() -> None:
    data = encode_manifest_list([], name=NAME)
    assert wrong_name(data, NAME) is None
    assert wrong_name(data, OTHER) == f"is another file, by its own header {NAME}"
    assert wrong_name(data, "manifest-list-of-somebody") is None
    assert wrong_name(encode_manifest_list([], name=""), OTHER) is not None
    for cut in range(60):  # such bytes are told by the decoder
        assert wrong_name(data[:cut], NAME) is None
        wrong_name(data[:cut] + b"\xff" * 40, OTHER)
    assert named(NAME) == {"sluice.file": NAME}


@pytest.mark.parametrize("header", [b"\xff" * (8 << 20), b"\xfe\xff\xff\xff\x0f" + b"\0" * (8 << 20)], ids=["a number", "pairs"])
def test_a_header_without_an_end_is_passed_over_at_once(header: bytes) -> None:
    """What its reader would take minutes for; it ends within the test's own time or not at all."""
    assert wrong_name(b"Obj\x01" + header, OTHER) is None
