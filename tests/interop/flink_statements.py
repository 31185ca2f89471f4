"""What a Flink user asks of append tables: each statement gives the same rows through Flink with Paimon's jar and through Sluice.

``{q}`` is a queue, ``{b}`` has three buckets, ``{p}`` two partitions, ``{u}`` no order, ``{e}`` nothing; all have the columns of `COLUMNS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

COLUMNS = (
    "id BIGINT, k INT, name STRING, price DECIMAL(10, 2), d DOUBLE, ok BOOLEAN, `day` DATE, ts TIMESTAMP(3), p STRING, "
    "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
)
Order = Literal["any", "whole", "by key"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement: how it runs, and which order its rows have."""

    text: str
    order: Order = "any"
    streaming: bool = False
    short: bool = False
    """Whether the short form has it."""


def _batch() -> list[Asked]:
    plain = """
SELECT * FROM {t}
SELECT id, name FROM {t} WHERE k = 2
SELECT id FROM {t} WHERE k IN (1, 3) AND price > 3.5
SELECT id FROM {t} WHERE name IS NULL
SELECT id FROM {t} WHERE name IS NOT NULL AND NOT ok
SELECT id FROM {t} WHERE name LIKE 'n1%'
SELECT id FROM {t} WHERE d BETWEEN 1.5 AND 4.5
SELECT id FROM {t} WHERE `day` >= DATE '2024-01-03'
SELECT id FROM {t} WHERE ts < TIMESTAMP '2024-01-01 00:02:00'
SELECT id FROM {t} WHERE k <> 2 OR ok IS NULL
SELECT id FROM {t} WHERE p = 'x' AND k = 1
SELECT COUNT(*), COUNT(name), COUNT(DISTINCT k), MIN(price), MAX(d), SUM(k) FROM {t}
SELECT k, COUNT(*), SUM(price), MAX(name) FROM {t} GROUP BY k
SELECT p, COUNT(*) FROM {t} GROUP BY p HAVING COUNT(*) > 1
SELECT DISTINCT p, ok FROM {t}
SELECT k, UPPER(name), price * 2, CASE WHEN ok THEN 'y' ELSE 'n' END FROM {t}
SELECT COALESCE(name, 'none'), ABS(k - 2), CHAR_LENGTH(name) FROM {t}
SELECT a.id, c.id FROM {t} a JOIN {t} c ON a.k = c.k AND a.id < c.id
SELECT a.id, c.name FROM {t} a LEFT JOIN {e} c ON a.id = c.id
SELECT id FROM {t} WHERE k = (SELECT MAX(k) FROM {t})
SELECT id FROM {t} WHERE EXISTS (SELECT 1 FROM {e})
SELECT id FROM {t} UNION ALL SELECT k FROM {t}
WITH big AS (SELECT * FROM {t} WHERE d > 2) SELECT COUNT(*) FROM big
SELECT id FROM {t} /*+ OPTIONS('scan.snapshot-id' = '2') */
SELECT id FROM {t} /*+ OPTIONS('scan.tag-name' = 'two') */
SELECT id FROM {t} /*+ OPTIONS('scan.version' = '1') */
SELECT id FROM {t} /*+ OPTIONS('scan.watermark' = '1704067260000') */
SELECT id FROM {t} /*+ OPTIONS('incremental-between' = '1,3') */
SELECT id FROM {t} /*+ OPTIONS('incremental-between' = '2,5') */
SELECT COUNT(*) FROM {t} /*+ OPTIONS('scan.mode' = 'compacted-full') */
"""
    ordered = """
SELECT id, name FROM {t} ORDER BY id DESC
SELECT id, k FROM {t} ORDER BY k, id LIMIT 3
SELECT id FROM {t} ORDER BY name NULLS LAST, id LIMIT 5
"""
    system = """
SELECT snapshot_id, schema_id, commit_kind, total_record_count, delta_record_count, `watermark` FROM {t}$snapshots
SELECT schema_id, partition_keys, primary_keys FROM {t}$schemas
SELECT tag_name, snapshot_id, schema_id, record_count FROM {t}$tags
SELECT `partition`, record_count, file_count FROM {t}$partitions
SELECT `partition`, bucket, record_count, file_count FROM {t}$buckets
SELECT `partition`, bucket, record_count, level, null_value_counts FROM {t}$files
SELECT rowkind, id FROM {t}$audit_log
SELECT id FROM {t}$ro
SELECT COUNT(*) FROM {t}$consumers
SELECT COUNT(*) FROM {t}$branches
"""
    return [
        *(Asked(line, short=at % 6 == 0) for at, line in enumerate(_lines(plain))),
        *(Asked(line, "whole", short=at == 0) for at, line in enumerate(_lines(ordered))),
        *(Asked(line, short=at == 0) for at, line in enumerate(_lines(system))),
    ]


def _bounded() -> list[Asked]:
    first = "'scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1'"
    plain = [
        f"SELECT id, k, p FROM {{t}} /*+ OPTIONS({first}, 'scan.bounded.watermark' = '{bound}') */"
        for bound in (0, 1704067260000, 1704067330000)
    ]
    plain += [
        "SELECT id, k, p FROM {t} /*+ OPTIONS('scan.bounded.watermark' = '1704067260000') */",
        "SELECT id, k, p FROM {t} /*+ OPTIONS('scan.mode' = 'from-snapshot-full', 'scan.snapshot-id' = '2', "
        "'scan.bounded.watermark' = '1704067330000') */",
        "SELECT id, k, p FROM {t} /*+ OPTIONS('scan.mode' = 'compacted-full', 'scan.bounded.watermark' = '1704067260000') */",
        f"SELECT id, k, p FROM {{t}} /*+ OPTIONS({first}, 'scan.bounded.watermark' = '1704067330000', "
        "'streaming-read-append-overwrite' = 'true') */",
        f"SELECT id, k, p FROM {{t}} /*+ OPTIONS({first}, 'scan.bounded.watermark' = '1704067330000') */ WHERE k = 2",
        f"SELECT id, k, p FROM {{t}} /*+ OPTIONS({first}, 'scan.bounded.watermark' = '1704067330000') */ WHERE p = 'x'",
    ]
    source = f"(SELECT * FROM {{t}} /*+ OPTIONS({first}, 'scan.bounded.watermark' = '1704067330000') */)"
    windows = [
        f"SELECT window_start, window_end, {values} FROM TABLE({window}) GROUP BY window_start, window_end{more}"
        for window in (
            f"TUMBLE({source}, DESCRIPTOR(ts), INTERVAL '1' MINUTES)",
            f"HOP({source}, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '1' MINUTES)",
            f"CUMULATE({source}, DESCRIPTOR(ts), INTERVAL '30' SECONDS, INTERVAL '2' MINUTES)",
        )
        for values, more in (("COUNT(id)", ""), ("k, SUM(price), MAX(d)", ", k"))
    ]
    return [
        *(Asked(line, "by key", streaming=True, short=at in (2, 6)) for at, line in enumerate(plain)),
        *(Asked(line, streaming=True, short=at == 0) for at, line in enumerate(windows)),
    ]


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


STATEMENTS = [*_batch(), *_bounded()]
DIFFERENT: dict[str, str] = {
    "SELECT id FROM {t} /*+ OPTIONS('scan.version' = '1') */": "Paimon 1.3 has no 'scan.version'; 1.4 and Spark's have it",
    "SELECT `partition`, record_count, file_count FROM {t}$partitions": "Paimon 1.3 shows {x}, later ones p=x as here",
    "SELECT `partition`, bucket, record_count, level, null_value_counts FROM {t}$files": "Paimon 1.3 shows no JSON",
}
"""Statements of which the rows differ, and why that is meant; asked of the table with partitions, they must differ."""
