"""Every SQL example of the access page is run, top to bottom, by an administrator."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.gateway import Gateway
from sql.dialect import split
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
STATEMENTS = [statement.text for block in re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.M | re.S) for statement in split(block)]


def test_the_examples_run_from_top_to_bottom(gateway: Gateway) -> None:
    for statement in STATEMENTS:
        gateway.run(statement).close()
    assert len(STATEMENTS) > 15
