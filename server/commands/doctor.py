"""``sluice doctor``: what an installation, its catalog and its warehouse suffer from, each finding with the way out."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from catalog import CatalogStore
from lake import Lake
from lake.inspect.checked import last_checked
from lake.inspect.overview import Overview, consumer_table, overview
from lake.register.restored.after_restore import Difference, differences
from migrations import knows, newest, revision_of
from model.errors import LakeError
from model.identifier import Identifier
from model.schema.schema import other_kind
from model.text.sql_text import literal
from server.commands.backup import catalog_of, present_dsn
from server.settings.kinds import own_uri
from server.settings.options import LISTEN, TOKEN
from server.settings.settings import Settings

OK, WARN, FAIL = "ok", "warn", "fail"
_JAVA = 17
_LEAST_BYTES, _FEW_BYTES = 1 << 30, 10 << 30
_SKEW_SECONDS, _WRONG_SECONDS = 1.0, 30.0
_SLOW_COMMIT_SECONDS = 0.1
_LAG_SNAPSHOTS = 100
_MOST_TABLES = 20
"""So many are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report."""

    check: str
    level: str
    detail: str
    way_out: str = ""


Check = Iterator[Finding]


def examine(settings: Settings, *, java_home: str | None = None) -> list[Finding]:
    """Look at everything; what is away hides nothing else."""
    findings = [
        *_guarded("python", _python),
        *_guarded("java", lambda: _java(java_home)),
        *_guarded("spark", _spark),
        *_guarded("disk", lambda: _disk(settings)),
    ]
    findings += _guarded("server", lambda: _server(settings))
    with ExitStack() as cleanup:
        try:
            dsn = cleanup.enter_context(present_dsn(settings))
            at = revision_of(dsn)
        except LakeError as problem:
            return [
                *findings,
                Finding(check="postgres", level=FAIL, detail=problem.whole, way_out="Start it, or set SLUICE_CATALOG_DSN."),
            ]
        findings.append(_migrated(at))
        if at != newest():
            return findings
        catalog = catalog_of(settings, dsn)
        cleanup.callback(catalog.close)
        lake = Lake(catalog, settings.warehouse)
        cleanup.callback(lake.close)
        findings += _guarded("identity", lambda: _identity(lake))
        findings += _guarded("warehouse", lambda: _warehouse(lake))
        findings += _guarded("clock", lambda: _clock(catalog))
        findings += _guarded("expiry", lambda: _expiry(lake))
        findings += _guarded("commit", lambda: _commit(catalog))
        findings += _guarded("catalog", lambda: of_catalog(overview(catalog)))
        findings += _guarded("checked", lambda: _checked(lake))
        findings += _guarded("tables", lambda: of_tables(differences(catalog, settings.warehouse)))
    return findings


def _guarded(check: str, look: Callable[[], Check]) -> list[Finding]:
    try:
        return list(look())
    except LakeError as problem:
        return [Finding(check=check, level=FAIL, detail=problem.whole)]
    except OSError as problem:
        return [Finding(check=check, level=FAIL, detail=str(problem))]


def _python() -> Check:
    level = OK if sys.version_info >= (3, 11) else FAIL
    yield Finding(
        check="python", level=level, detail=sys.version.split()[0], way_out="" if level == OK else "Install Python 3.11 or newer."
    )


def _java(home: str | None) -> Check:
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    out = "" if java is None else subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    said = re.search(r'version "(\d+)[^"]*"', out)
    if said is None or int(said[1]) < _JAVA:
        detail = "none was found" if said is None else f"{java} is version {said[1]}"
        yield Finding(check="java", level=FAIL, detail=detail, way_out=f"Install Java {_JAVA} or newer, or set JAVA_HOME to it.")
        return
    yield Finding(check="java", level=OK, detail=f"{said[1]} at {java}")


def _spark() -> Check:
    yield Finding(check="spark", level=OK, detail=f"pyspark {version('pyspark')}")


def _disk(settings: Settings) -> Check:
    local = settings.warehouse.removeprefix("file://") if "://" not in settings.warehouse.removeprefix("file://") else None
    for name, path in (("data", settings.data), ("warehouse", None if local is None else Path(local))):
        while path is not None and not path.exists() and path != path.parent:
            path = path.parent
        if path is None:
            continue
        free = shutil.disk_usage(path).free
        level = FAIL if free < _LEAST_BYTES else WARN if free < _FEW_BYTES else OK
        way_out = "" if level == OK else f"Free space on the disk of {path}, or move {name} to another."
        yield Finding(check=f"disk of {name}", level=level, detail=f"{free >> 20:,} MB free at {path}", way_out=way_out)


def _server(settings: Settings) -> Check:
    import httpx

    url = own_uri(*settings[LISTEN], scheme="https" if settings.tls_certificate else "http")
    headers = {"Authorization": f"Bearer {settings[TOKEN]}"} if settings[TOKEN] else {}
    try:
        answer = httpx.get(f"{url}/readyz", headers=headers, timeout=30)
        said = answer.json()
    except httpx.ConnectError as problem:
        if "CERTIFICATE" in str(problem):
            yield Finding(check="server", level=WARN, detail=f"{url}: {problem}", way_out="Set SSL_CERT_FILE to its CA.")
            return
        yield Finding(check="server", level=OK, detail=f"none runs at {url}; the port is free")
        return
    except (httpx.HTTPError, ValueError) as problem:
        way_out = "Something else may listen there: set SLUICE_LISTEN to another port."
        yield Finding(check="server", level=FAIL, detail=f"{url} does not answer as a server of ours does: {problem}", way_out=way_out)
        return
    if answer.status_code in (401, 403):
        yield Finding(check="server", level=WARN, detail=f"{url} wants a token", way_out="Set SLUICE_TOKEN to the administrator's.")
        return
    bad = [f"{name}: {part.get('detail', '')}" for name, part in said.items() if isinstance(part, dict) and not part.get("ok", True)]
    level = OK if answer.status_code == 200 else WARN
    yield Finding(check="server", level=level, detail=f"{url} is {said.get('status')}{'; ' + '; '.join(bad) if bad else ''}")


def _migrated(at: str | None) -> Finding:
    if at == newest():
        return Finding(check="postgres", level=OK, detail=f"reachable, schema {at}")
    if at is not None and not knows(at):
        detail = f"the catalog's schema is {at}, and this Sluice knows {newest()}"
        return Finding(check="postgres", level=FAIL, detail=detail, way_out="Install the Sluice that made it, or a newer one.")
    detail = "it cannot be reached, or holds no catalog" if at is None else f"the catalog's schema is {at}; the newest is {newest()}"
    return Finding(check="postgres", level=FAIL, detail=detail, way_out="Run `sluice migrate`, which says more.")


def _warehouse(lake: Lake) -> Check:
    if lake.standing.mismatch:  # another catalog's, or a mistyped place, in which nothing is made
        yield Finding(check="warehouse", level=FAIL, detail=f"{lake.warehouse} is not tried: it is not known as the catalog's")
        return
    path, began = f"{lake.warehouse}/.sluice/doctor-{os.getpid()}", time.perf_counter()
    lake.file_io.write(path, b"")
    lake.file_io.delete(path)
    yield Finding(check="warehouse", level=OK, detail=f"{lake.warehouse} can be written ({(time.perf_counter() - began) * 1000:.0f} ms)")


def _identity(lake: Lake) -> Check:
    lake.standing.compare(look_only=True)
    level = FAIL if lake.standing.mismatch else WARN if lake.standing.warning else OK
    yield Finding(check="identity", level=level, detail=lake.standing.mismatch or lake.standing.warning or "the warehouse is the catalog's")


def _clock(catalog: CatalogStore) -> Check:
    before = dt.datetime.now(dt.UTC)
    with catalog.reading() as tx:
        theirs = tx.overview.sums().asked_at
    skew = max((before - theirs).total_seconds(), (theirs - dt.datetime.now(dt.UTC)).total_seconds(), 0.0)
    level = FAIL if skew > _WRONG_SECONDS else WARN if skew > _SKEW_SECONDS else OK
    way_out = "" if level == OK else "Let both machines keep their clocks by NTP."
    yield Finding(check="clock", level=level, detail=f"{skew:.3f} s from Postgres's", way_out=way_out)


def _expiry(lake: Lake) -> Check:
    doubt = lake.clock.look(note=False)
    yield Finding(check="expiry", level=OK if doubt is None else FAIL, detail=doubt or "the time is believed")


def _commit(catalog: CatalogStore) -> Check:
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        with catalog.transaction() as tx:
            tx.overview.write_something()
        seconds.append(time.perf_counter() - began)
    median = sorted(seconds)[2]
    level = WARN if median > _SLOW_COMMIT_SECONDS else OK
    way_out = "" if level == OK else "Every write waits for it: put Postgres's log on a faster disk, or nearer."
    yield Finding(check="commit", level=level, detail=f"a commit of Postgres takes {median * 1000:.1f} ms", way_out=way_out)


def _checked(lake: Lake) -> Check:
    """When each table's data files were looked at, those first that wait longest."""
    with lake.catalog.reading() as tx:
        tables = [row for row in tx.tables.all() if other_kind(row.schema["options"]) is None]
    checked = last_checked(lake.file_io, lake.warehouse)
    if not tables:
        return
    tables.sort(key=lambda row: (checked[row.table_id][0].timestamp() if row.table_id in checked else 0.0, row.database, row.name))
    lines = [f"{Identifier(row.database, row.name)} {_when(checked.get(row.table_id))}" for row in tables[:_MOST_TABLES]]
    more = f", {len(tables) - _MOST_TABLES:,} more later" if len(tables) > _MOST_TABLES else ""
    never = sum(row.table_id not in checked for row in tables)
    detail = f"{len(tables) - never:,} of {len(tables):,} tables by `sluice check` or sys.check_table: {', '.join(lines)}{more}"
    yield Finding(check="checked", level=OK, detail=detail)


def _when(seen: tuple[dt.datetime, bool] | None) -> str:
    return "never" if seen is None else f"at {seen[0]:%Y-%m-%d %H:%M} UTC{' (deep)' if seen[1] else ''}"


def of_tables(differing: Iterable[Difference]) -> Check:
    """Tables whose files are newer or older than the catalog, and those it does not know: a restored or lagging catalog has them."""
    for difference in differing:
        way_out = f"{difference.statement};" if difference.statement else "Only a copy of the files brings it back."
        yield Finding(
            check="tables",
            level=FAIL if difference.known else WARN,
            detail=f"{difference.table}: {difference.what}",
            way_out=way_out,
        )


def of_catalog(known: Overview) -> Check:
    """What needs attention in the catalog; one line where nothing does."""
    clean = True
    for database, name, path in known.sums.diverged:
        clean, table = False, Identifier(database, name).of_file(path)
        way_out = f"CALL sys.repair_table({literal(table.written())}, dry_run => true) shows what a repair does."
        yield Finding(check="diverged", level=FAIL, detail=f"{table} was written to past the catalog; commits stop", way_out=way_out)
    for row in known.small:
        clean = False
        detail = f"{row.database}.{row.table_name} has {row.file_count:,} files of {row.file_size // row.file_count >> 10:,} kB on average"
        yield Finding(
            check="small files",
            level=WARN,
            detail=detail,
            way_out=f"CALL sys.compact({literal(Identifier(row.database, row.table_name).written())})",
        )
    if count := known.sums.expired_table_leases + known.sums.expired_job_leases:
        clean = False
        way_out = "A server was killed: another takes over within 15 s, where one runs with compaction and jobs enabled."
        yield Finding(check="leases", level=WARN, detail=f"{count} ran out and nobody took over", way_out=way_out)
    for job in known.jobs:
        if job.state == "FAILED" or job.attempts:
            clean = False
            level, last = (FAIL if job.state == "FAILED" else WARN), (job.error or "").split("\n")[0][:200]
            way_out = f"Mend the cause, then ALTER JOB '{job.job_id}' RESTART."
            yield Finding(
                check="jobs", level=level, detail=f"{job.name} is {job.state} after {job.attempts} failures: {last}", way_out=way_out
            )
    for lag in known.lagging:
        if lag.behind > _LAG_SNAPSHOTS:
            clean = False
            detail = f"{lag.name} is {lag.behind:,} snapshots behind {consumer_table(lag)}, which cannot expire"
            way_out = f"Start its reader, or CALL sys.reset_consumer({literal(consumer_table(lag))}, {literal(lag.name)})."
            yield Finding(check="consumers", level=WARN, detail=detail, way_out=way_out)
    if clean:
        yield Finding(
            check="catalog", level=OK, detail=f"{known.sums.tables} tables, nothing needs attention; `sluice check` reads their data files"
        )
