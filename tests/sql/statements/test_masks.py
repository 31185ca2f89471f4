"""Masks show nothing that another mask, or a grant on columns, keeps from their reader, in whatever order they were made."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import InvalidGrant
from model.identifier import Identifier
from tests.lake.access.test_access import user

T = Identifier("default", "t")
READS, MASKS = (
    "CREATE MASKING POLICY a ON t (label) USING (CONCAT(name, card))",
    "CREATE MASKING POLICY b ON t (card) TO ada USING (NULL)",
)


@pytest.fixture
def ada(gateway: Gateway, lake: Lake) -> str:
    gateway.run("CREATE TABLE t (id INT, name STRING, card STRING, label STRING)").close()
    return user(lake, "ada")


def shown(lake: Lake, secret: str) -> Mapping[str, str]:
    """What the reader is shown in place of each masked column, and that Paimon's clients are told the same."""
    seen = lake.for_caller(lake.access.caller(secret))
    rules = seen.read_rules(seen.open(T))
    for mask in rules.masks.values():
        assert (mask.rule == {"name": "NULL"}) is (mask.sql == "NULL"), mask
    return {column: mask.sql for column, mask in rules.masks.items()}


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (MASKS, READS, r"The mask of column label reads column card, which is masked itself \(by b\)"),
        (READS, MASKS, r"Column card is read by the mask of column label.*DROP MASKING POLICY a ON default\.t first"),
    ],
)
def test_a_mask_reads_no_column_that_is_masked(gateway: Gateway, ada: str, first: str, second: str, told: str) -> None:
    gateway.run(first)
    with pytest.raises(InvalidGrant, match=told):
        gateway.run(second)
    assert len(gateway.run("SHOW POLICIES ON t").collect()) == 1
    gateway.run(
        "CREATE MASKING POLICY own ON t (name) USING (SUBSTRING(name, 1, 1))" if first == MASKS else f"DROP MASKING POLICY a ON t; {second}"
    )


def test_a_mask_of_a_column_that_was_masked_later_by_an_earlier_version_shows_nothing(gateway: Gateway, lake: Lake, ada: str) -> None:
    gateway.run(f"GRANT SELECT ON t TO ada; {READS}; CREATE MASKING POLICY b ON t (id) TO ada USING (NULL)")
    with lake.catalog.transaction() as tx:
        tx.policies._conn.execute("UPDATE table_policy SET column_name = 'card' WHERE name = 'b'")
    assert shown(lake, ada) == {"label": "NULL", "card": "NULL"}
    gateway.run("DROP MASKING POLICY b ON t")
    assert shown(lake, ada) == {"label": "CONCAT(name, card)"}


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        ("EXCEPT (card)", "NULL"),
        ("(id, label)", "NULL"),
        ("(name, card, label)", "CONCAT(name, card)"),
        ("EXCEPT (id)", "CONCAT(name, card)"),
    ],
)
def test_a_mask_shows_no_column_that_is_not_granted(gateway: Gateway, lake: Lake, ada: str, columns: str, label: str) -> None:
    gateway.run(f"{READS}; GRANT SELECT {columns} ON t TO ada")
    assert shown(lake, ada) == {"label": label}
