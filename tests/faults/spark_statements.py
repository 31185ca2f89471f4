"""What Spark does to a table, as a client asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.faults.maintenance import has_statistics
from tests.faults.operation import BEFORE, Told
from tests.faults.operations import of_both
from tests.faults.world import World

ADDED = "SELECT CAST(id AS INT), CAST(id % 2 AS STRING) FROM range(7, 9)"
"""Rows that a table's two columns take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What Spark does to a table ``{t}`` that holds `BEFORE`."""

    name: str
    text: str
    after: Sequence[int] = BEFORE
    before: Sequence[str] = ()
    """What is done to the table first."""
    rows: Sequence[tuple[object, ...]] | None = None
    """What it answers, sorted, where that is to be compared."""
    check: Callable[[World, str, Told], str] = lambda world, table, told: table
    """See `Operation`."""


BULK = Statement(name="bulk INSERT", text=f"INSERT INTO {{t}} {ADDED}", after=(*BEFORE, 7, 8))
OVERWRITE = Statement(name="INSERT OVERWRITE by Spark", text=f"INSERT OVERWRITE {{t}} {ADDED}", after=(7, 8))
SORT = Statement(name="sort compaction", text="CALL sys.compact(`table` => '{t}', order_strategy => 'order', order_by => 'id')")

SELECT = Statement(
    name="SELECT by Spark", text="SELECT s, count(*), sum(id + 1) FROM {t} GROUP BY s HAVING sum(id) > 0", rows=(("a", 3, 12), ("b", 3, 15))
)
COPY = Statement(
    name="INSERT from a table by Spark",
    text="INSERT INTO {t} SELECT id + 6, max(s) FROM {t} WHERE id < 3 GROUP BY id",
    after=(*BEFORE, 7, 8),
)

_ERASABLE = ("ALTER TABLE {t} SET ('rows.erasable' = 'true')",)
_SOURCE = "SELECT CAST(id AS INT) AS id FROM range(6, 8)"
DELETE = Statement(name="DELETE by Spark", text="DELETE FROM {t} WHERE id % 3 = 2", after=(1, 3, 4, 6), before=_ERASABLE)
UPDATE = Statement(name="UPDATE", text="UPDATE {t} SET id = 20 + id % 2 WHERE id = 2", after=(1, 3, 4, 5, 6, 20), before=_ERASABLE)
MERGE = Statement(
    name="MERGE",
    text=f"MERGE INTO {{t}} t USING ({_SOURCE}) s ON t.id = s.id "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, 'c')",
    after=(1, 2, 3, 4, 5, 7),
    before=_ERASABLE,
)
SET = Statement(
    name="statement set",
    text=f"EXECUTE STATEMENT SET BEGIN INSERT INTO {{t}} {ADDED}; "
    "INSERT INTO {t}_too SELECT CAST(id AS INT), 'c' FROM range(9, 10); "
    "INSERT INTO {t} SELECT CAST(id AS INT), 'c' FROM range(10, 11); END",
    after=(*BEFORE, 7, 8, 10),
    before=("CREATE TABLE {t}_too (id INT, s STRING)", "INSERT INTO {t}_too VALUES (1, 'a')"),
    check=of_both,
)
ANALYZE = Statement(name="sys.analyze_table", text="CALL sys.analyze_table('{t}')", check=has_statistics)
ERASE = Statement(name="sys.erase", text="CALL sys.erase('{t}', 'id % 3 = 2')", after=(1, 3, 4, 6), before=_ERASABLE)
