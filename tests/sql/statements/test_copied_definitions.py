"""Tables that other clients defined, made again from SHOW CREATE TABLE's text and by LIKE: the copy is as its source."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import InvalidOption
from model.identifier import Identifier
from model.options.table import told_apart
from model.schema.schema import Schema, column, new_schema
from model.schema.types import ArrayType, DataType, Field, IntType, MapType, VarCharType

SOURCE, COPY = Identifier("default", "source"), Identifier("default", "copy")
_FLAT = (IntType(nullable=False), VarCharType())
_NESTED = (ArrayType(element=IntType()), MapType(key=VarCharType(nullable=False), value=IntType()))
_STORED: tuple[dict[str, str], ...] = (
    {}, {"x.y": "z"}, {"bucket": "-1"}, {"bucket": "1", "bucket-key": "a"}, {"bucket": "3", "bucket-key": "b"},
    {"file.format": "orc"}, {"row-tracking.enabled": "true"}, {"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    {"owner": "o", "provider": "paimon", "path": "/elsewhere"}, {"write-only": "true", "target-file-size": "1 mb"},
)  # fmt: skip
DEFINITIONS = [
    pytest.param(types, keys, options, id=f"{types[0]} by {keys} {options}")
    for types in (_FLAT, _NESTED)
    for keys in ((), ("b",))
    for options in _STORED
    if not (types == _NESTED and (keys or "bucket-key" in options)) and not (keys and options.get("bucket-key") == "b")
]


def _kind(schema: Schema) -> tuple[object, ...]:
    """What a definition makes of a table; an option that is not stored is its default."""
    return schema.fields, schema.partition_keys, schema.bucket, schema.bucket_keys, {**told_apart(schema.options)[0], "bucket": None}


@pytest.mark.parametrize(("types", "keys", "options"), DEFINITIONS)
def test_a_copy_is_as_its_source(
    gateway: Gateway, lake: Lake, types: tuple[DataType, ...], keys: tuple[str, ...], options: dict[str, str]
) -> None:
    columns = [Field(id=-1, name=name, type=type_) for name, type_ in zip("ab", types, strict=True)]
    lake.create_table(SOURCE, new_schema(columns, partition_keys=keys, options=options))
    source = lake.open(SOURCE).schema
    gateway.run("CREATE TABLE `copy` LIKE source").close()
    assert _kind(lake.open(COPY).schema) == _kind(source)
    ((text,),) = gateway.run("SHOW CREATE TABLE source").collect()
    lake.drop_table(SOURCE)
    gateway.run(text).close()
    assert _kind(lake.open(SOURCE).schema) == _kind(source)


def test_a_statement_says_the_buckets_itself(gateway: Gateway, lake: Lake) -> None:
    lake.create_table(SOURCE, new_schema([column("a", "INT")], options={"x.y": "z"}))
    gateway.run("CREATE TABLE `copy` WITH ('bucket' = '2', 'bucket-key' = 'a') LIKE source (INCLUDING OPTIONS)").close()
    assert lake.open(COPY).schema.bucket == 2
    gateway.run("CREATE TABLE queue LIKE source (EXCLUDING OPTIONS)").close()
    assert lake.open(Identifier("default", "queue")).schema.bucket == 1
    with pytest.raises(InvalidOption, match="is in both tables"):
        gateway.run("CREATE TABLE again WITH ('bucket' = '2') LIKE `copy` (INCLUDING OPTIONS)")
