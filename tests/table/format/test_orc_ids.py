"""ORC files say what they hold: Paimon's ids on every column and part, under Paimon's name and Iceberg's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from model.schema.schema import new_schema
from model.schema.types import Field
from table.format.io.file_io import LocalFileIO
from table.format.store import TableFiles
from tests.table.format.test_parquet_footer import NESTED, ROWS, wanted_ids
from tests.table.scan.test_files import ALL_TYPES, a_row, batch_of, insert


def ids(field: Any, path: str = "") -> dict[str, dict[str, str]]:
    """What stands with every field of a file, by its way from the top."""
    name = f"{path}.{field.name}" if path else field.name
    kind = field.type
    parts = [kind.key_field, kind.item_field] if pa.types.is_map(kind) else [kind.field(i) for i in range(kind.num_fields)]
    found = {name: {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}}
    for part in parts:
        found |= ids(part, name)
    return found


@pytest.mark.parametrize("columns", [NESTED, ALL_TYPES], ids=["nested", "all types"])
def test_our_files_have_the_ids_of_all_parts(tmp_path: Path, columns: list[Field]) -> None:
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    schema = new_schema(columns, options={"bucket": "-1", "file.format": "orc"})
    rows = ROWS if columns is NESTED else [a_row(i) for i in range(20)]
    insert(files, schema, None, rows)
    (path,) = (tmp_path / "t").rglob("*.orc")
    found = {name.replace(".item", ".element"): told for field in orc.ORCFile(path).schema for name, told in ids(field).items()}
    wanted = wanted_ids(schema) if columns is NESTED else {field.name: field.id for field in schema.fields}
    assert {name: told for name, told in found.items() if name in wanted} == {
        name: {"paimon.id": str(id_), "iceberg.id": str(id_)} for name, id_ in wanted.items()
    }
    assert all(told.keys() == {"paimon.id", "iceberg.id"} for told in found.values())
    assert len(orc.read_table(path)) == len(batch_of(schema, rows))
