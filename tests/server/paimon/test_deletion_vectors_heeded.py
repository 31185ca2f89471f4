"""The option by which Paimon's clients leave deleted rows out stays on as long as there are any, whoever asks for what."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.gateway import Gateway
from model.errors import InvalidOption
from model.identifier import Identifier
from model.schema.change import SetOption
from model.schema.schema import Schema
from model.snapshot import Snapshot
from tests.lake.stored import store_options
from tests.server.paimon.committing import Writer
from tests.server.paimon.speaking import Rest, new_table
from tests.server.paimon.speaking import schema as schema_with
from tests.server.paimon.test_judgement import live
from tests.table.vectors import with_deleted

T, PATH = Identifier("d", "t"), "databases/d/tables/t"
ENABLED, MODIFIABLE = "deletion-vectors.enabled", "deletion-vectors.modifiable"
OFF = ({"action": "removeOption", "key": ENABLED}, {"action": "setOption", "key": ENABLED, "value": "false"})


def schema_of(**options: str) -> dict[str, Any]:
    return {**schema_with(("id", "BIGINT NOT NULL")), "options": options}


def marked(rest: Rest, gateway: Gateway, **options: str) -> Writer:
    """Of a table with a deleted row."""
    rest.post("databases/d/tables", new_table(body=schema_of(**options)))
    writer = Writer(rest, gateway.lake)
    base = writer.commit(changes=[writer.file(rows=2)])
    (file,) = live(writer._files, base)
    vectors = with_deleted(writer._files, Snapshot.from_json(base), {file.file.file_name: [0]})
    writer.commit(commitKind="OVERWRITE", indexManifest=vectors.index_manifest)
    return writer


def is_on(gateway: Gateway, table: Identifier = T) -> bool:
    return gateway.lake.open(table).schema.options.get(ENABLED) == "true"


def altered(rest: Rest, *changes: dict[str, str], path: str = PATH) -> int:
    return rest.call("POST", path, {"changes": list(changes)}).status_code


@pytest.mark.parametrize("off", OFF, ids=lambda off: off["action"])
def test_it_is_not_switched_off_over_deleted_rows(rest: Rest, gateway: Gateway, off: dict[str, str]) -> None:
    marked(rest, gateway, **{ENABLED: "true"})
    gateway.run("CALL sys.create_tag('d.t', 'x')").close()
    rest.post(f"{PATH}/branches", {"branch": "b", "fromTag": "x"})
    assert altered(rest, off) == 400
    assert altered(rest, off, path=f"{PATH}$branch_b") == 400
    for text in (f"RESET ('{ENABLED}')", f"SET ('{ENABLED}' = 'false')"):
        with pytest.raises(InvalidOption, match="deleted rows"):
            gateway.run(f"ALTER TABLE d.t {text}").close()
    assert altered(rest, {"action": "setOption", "key": MODIFIABLE, "value": "true"}, off) == 400
    assert altered(rest, {"action": "setOption", "key": MODIFIABLE, "value": "true"}) == 200
    assert altered(rest, off) == 400, "rows are marked in its newest snapshot"
    assert is_on(gateway)
    for options in ({}, {ENABLED: "TRUE"}):
        rest.post(f"{PATH}/replace", {"schema": schema_of(**options)})
        assert (gateway.lake.open(T).schema.options[ENABLED]).lower() == "true", "earlier snapshots are read by it, too"
    answer = rest.call("POST", f"{PATH}/replace", {"schema": schema_of(**{ENABLED: "false"})})
    assert (answer.status_code, "deleted rows" in answer.text) == (400, True)
    assert altered(rest, {"action": "setOption", "key": MODIFIABLE, "value": "true"}) == 200
    assert altered(rest, off) == 400, "the tag and earlier snapshots are read by it"
    gateway.run("CALL sys.expire_snapshots('d.t', 1)").close()
    assert altered(rest, off) == 400, "the tag is"
    gateway.run("CALL sys.delete_tag('d.t', 'x')").close()
    assert altered(rest, off) == 200, "none is marked any more, and the table says that it may be"


def test_it_is_not_switched_off_over_rows_that_are_deleted_at_that_moment(rest: Rest, gateway: Gateway) -> None:
    """By a client that loaded the table before: it comes first, and the option stays; or too late, and is refused."""
    rest.post("databases/d/tables", new_table(body=schema_of(**{ENABLED: "true", MODIFIABLE: "true"})))
    writer = Writer(rest, gateway.lake)
    base = writer.commit(changes=[writer.file(rows=2)])

    def mark() -> int:
        (file,) = live(writer._files, base)
        vectors = with_deleted(writer._files, Snapshot.from_json(base), {file.file.file_name: [0]})
        body = writer.body(base, commitKind="OVERWRITE", indexManifest=vectors.index_manifest)
        return rest.call("POST", f"{writer.path}/commit", body).status_code

    def first(_: Schema) -> None:
        assert mark() == 200

    off, on = (SetOption(key=ENABLED, value=value) for value in ("false", "true"))
    gateway.lake.alter_table(T, [off])
    assert mark() == 400
    gateway.lake.alter_table(T, [on])
    with pytest.raises(InvalidOption, match="switched off while"):
        gateway.lake.alter_table(T, [off], check=first)
    assert is_on(gateway)


def test_it_is_free_before_there_is_a_snapshot(rest: Rest, gateway: Gateway) -> None:
    rest.post("databases/d/tables", new_table(body=schema_of(**{ENABLED: "true"})))
    assert [altered(rest, off) for off in OFF] == [200, 200]
    assert altered(rest, {"action": "setOption", "key": ENABLED, "value": "true"}) == 200
    Writer(rest, gateway.lake).commit()
    assert [altered(rest, off) for off in OFF] == [400, 400]


def test_a_table_whose_deleted_rows_are_not_heeded_is_told_and_mended(rest: Rest, gateway: Gateway) -> None:
    """As one that was altered before this was refused."""
    marked(rest, gateway, **{ENABLED: "true"})
    store_options(gateway.lake, T, {ENABLED: "false"})
    told = [row for row in gateway.run("CALL sys.check_table('d.t')").collect() if ENABLED in str(row)]
    assert len(told) == 1
    assert altered(rest, {"action": "setOption", "key": ENABLED, "value": "true"}) == 200
    assert not [row for row in gateway.run("CALL sys.check_table('d.t')").collect() if ENABLED in str(row)]


@pytest.mark.parametrize("key", ["blob-field", "blob-descriptor-field", "blob-view-field"])
def test_where_blobs_lie_does_not_change_either(rest: Rest, gateway: Gateway, key: str) -> None:
    rest.post("databases/d/tables", new_table())
    Writer(rest, gateway.lake).commit()
    answer = rest.call("POST", PATH, {"changes": [{"action": "setOption", "key": key, "value": "name"}]})
    assert (answer.status_code, "cannot change once" in answer.text) == (400, True), answer.text
