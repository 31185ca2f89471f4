"""Whatever removes by age is listed here, with who asks first whether the time can be believed (`lake.clock`), or why nobody need."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.test_architecture import MAY_IMPORT, ROOT, files

_ASKS = re.compile(r"clock\.(require|look)\(")
_BY_AGE = re.compile(
    r"DELETE FROM \w+ WHERE[^\"]*?[<>]=? ?now\(\)|expires_at <= now\(\)|dropped_at <= now\(\)"  # by Postgres's clock
    r"|(mtime|updated)_millis <|st_mtime >|\.expired\(now|limit = time\.time_ns"  # by this machine's
)
ASKED_BY = {
    "catalog/access/audit.py": "lake/access/audit.py",
    "catalog/commits/idempotency.py": "lake/commit/idempotency.py",
    "catalog/objects/drops.py": "lake/tables/drops.py",
    "catalog/objects/directories.py": "lake/tables/drops.py",
    "catalog/work/jobs.py": "jobs/runner.py",
    "lake/rewrite/auto_tags.py": "sql/statements/procedures/tags.py",
    "lake/rewrite/maintenance.py": "lake/rewrite/maintenance.py",
    "lake/rewrite/orphans.py": "lake/rewrite/orphans.py",
}
"""Of each place that removes by age, who asks the clock before; the rounds of maintenance ask for all that they call."""
NOBODY_NEEDS = {
    "catalog/access/logins.py": "a login that ended is forgotten with its cookie; after a jump it lives for hours at most",
    "catalog/access/quotas.py": "what each server uses is told anew each few seconds",
    "catalog/objects/branches.py": "a mark by which a late file is known: where it is gone, the file stays and is told of",
    "catalog/work/maintenance.py": "leases; who held one asks before each decision whether it still does",
    "catalog/work/servers.py": "a server's name; each that lives tells it anew",
    "lake/commit/clients/judgement.py": "refuses commits by their time, and removes nothing",
    "lake/register/restored/used_since.py": "keeps what is younger, and removes nothing",
    "table/scan/planning/column_cache.py": "half written files of a cache, which is made anew",
}


def removing() -> Iterator[str]:
    for package in MAY_IMPORT:
        for file in files(package):
            if _BY_AGE.search(file.read_text()):
                yield str(file.relative_to(ROOT))


def test_all_that_removes_by_age_is_known() -> None:
    assert set(removing()) == ASKED_BY.keys() | NOBODY_NEEDS.keys()


@pytest.mark.parametrize("place", ASKED_BY)
def test_who_removes_by_age_asks_the_clock(place: str) -> None:
    assert _ASKS.search((ROOT / ASKED_BY[place]).read_text()), place
