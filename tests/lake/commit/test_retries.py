"""How often a commit that loses its race is tried again, where the table says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake
from lake.commit.retries import Retries
from model.errors import Unavailable
from model.schema.change import SetOption
from model.snapshot import CommitKind
from table.write.snapshot_builder import CommitRequest
from tests.lake.test_commit import T
from tests.lake.test_commit import table as table


def nothing() -> CommitRequest:
    """A commit without files."""
    return CommitRequest(kind=CommitKind.APPEND, commit_user="u")


@pytest.mark.parametrize(
    ("options", "lands"),
    [
        ({}, True),
        ({"commit.max-retries": "0"}, False),
        ({"commit.max-retries": "1"}, True),
        ({"commit.timeout": "0 ms"}, False),
        ({"commit.timeout": "10 min", "commit.max-retries": "5"}, True),
        ({"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}, True),
    ],
)
@pytest.mark.usefixtures("table")
def test_a_lost_race_is_tried_again_as_the_table_says(
    catalog: CatalogStore, lake: Lake, warehouse: Path, options: Mapping[str, str], lands: bool
) -> None:
    lake.alter_table(T, [SetOption(key=key, value=value) for key, value in options.items()])
    overtaken: list[bool] = []

    def overtake(step: str) -> None:
        if step == "built" and not overtaken:
            overtaken.append(True)
            lake.commit(lake.open(T), nothing())

    slow = Lake(catalog, str(warehouse), hook=overtake)
    if lands:
        assert slow.commit(slow.open(T), nothing()).id == 2
    else:
        with pytest.raises(Unavailable, match=r"has lost 1 races .* 'commit\.max-retries' or 'commit\.timeout' .* Nothing was committed"):
            slow.commit(slow.open(T), nothing())
        assert slow.commit(slow.open(T), nothing()).id == 2
    slow.close()


@pytest.mark.parametrize(
    ("options", "pauses"),
    [
        ({}, [0, 0, 0]),
        ({"commit.min-retry-wait": "1 s"}, [1, 2, 4, 8, 10, 10]),
        ({"commit.max-retry-wait": "15 ms"}, [0.01, 0.015, 0.015]),
        ({"commit.min-retry-wait": "1 s", "commit.max-retry-wait": "3 s"}, [1, 2, 3, 3]),
    ],
)
def test_pauses_grow_to_the_longest(options: Mapping[str, str], pauses: list[float]) -> None:
    retries = Retries.of(options)
    assert [retries.pause(lost) for lost in range(1, len(pauses) + 1)] == pauses
    assert retries.pause(10_000) == pauses[-1]
