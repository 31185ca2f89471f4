"""The options page is what the declarations say; `make docs` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

from model.options.table import TABLE_OPTIONS
from server.settings.options import SERVER_OPTIONS
from sql.connectors import CONNECTORS
from sql.execution.session_settings import SQL_OPTIONS
from tests.lake.rewrite.test_option_effects import EFFECTS, SHOWN

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
HEAD = "# Options\n\nGenerated from the declarations by `make docs`; a test compares them.\n\n"


def shown() -> str:
    """The section that names a test, or a page whose statements a test runs, of each option of tables that works."""
    places: dict[str, list[str]] = {}
    for key, place in {**dict.fromkeys(EFFECTS, "tests/lake/rewrite/test_option_effects.py"), **SHOWN}.items():
        places.setdefault(place, []).append(key)
    head = "Where it is shown what an option does; the first ones are looked at with the option and without."
    first, *others = places.items()
    lines = [f"- `{place}`: {', '.join(f'`{key}`' for key in keys)}" for place, keys in [first, *sorted(others)]]
    return "\n".join(["", "## Tests of table options", "", head, "", *lines, ""])


def test_the_options_page_matches_the_declarations() -> None:
    groups = (SERVER_OPTIONS, SQL_OPTIONS, TABLE_OPTIONS, *(connector.options for connector in CONNECTORS.values()))
    expected = HEAD + "\n".join(group.markdown() for group in groups) + shown()
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected, "run `make docs` and commit the diff"
