"""An embedded Postgres of an older major version is brought to this one: dumped by its own binaries, restored into a new cluster beside it.

The old cluster is only read, and kept as ``postgres.<version>``. The new one takes its place once every table holds as many rows; what a
crash leaves is either a half made cluster, which is made anew, or a whole one, which the next start puts in place.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from model.errors import Unavailable
from server.process.postmaster import running_postmaster

_log = logging.getLogger(__name__)
WHOLE = "sluice-upgraded"
"""A file in a new cluster that holds all of the old one."""
_STILL_AT_WORK_SECONDS = 60.0
"""After a kill, for an initdb that was begun."""
_LOOK_SECONDS = 0.2
_DATABASE = "postgres"
_LOCAL_ONLY = "local all all trust\n"
"""In a directory that only Postgres's own user and root can enter."""


def binaries_by_version(root: Path) -> dict[str, Path]:
    """The Postgres installations of a wheel, by major version."""
    by_version = {}
    for path in root.glob("pginstall*/bin/postgres"):
        said = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False).stdout
        if version := re.search(r"\b(\d+)(?:\.|beta|rc|devel)", said):
            by_version[version[1]] = path.parent
    return by_version


def finish_upgrade(directory: Path) -> None:
    """Put a whole new cluster in place, where an upgrade was cut off after the old one was moved aside."""
    fresh, dump = _fresh(directory), _dump_of(directory)
    if dump.is_file():
        dump.unlink()
    if not directory.exists() and (fresh / WHOLE).exists():
        fresh.rename(directory)


def upgrade_cluster(directory: Path, *, old: tuple[str, Path], new: tuple[str, Path], runner: Mapping[str, Any]) -> Path:
    """Replace a cluster of ``old`` (version, binaries) by one of ``new``; returns where the old one is kept. Raises `Unavailable`.

    Nobody may use the cluster meanwhile: the caller holds the lock of the data directory.
    """
    old_cluster, fresh = directory.with_name(f"{directory.name}.{old[0]}"), _fresh(directory)
    if old_cluster.exists():
        raise Unavailable(
            f"{directory} is of Postgres {old[0]}, and {old_cluster}, where it would be kept, is there already: move that away."
        )
    _log.warning("The catalog's Postgres is of version %s and brought to %s; the old one is kept in %s", old[0], new[0], old_cluster)
    dump = _dump_of(directory)
    with tempfile.TemporaryDirectory(prefix="sluice-pg-") as name:
        place = Path(name)
        if "user" in runner:
            os.chown(place, runner["user"], runner["group"])
        hba = place / "hba.conf"
        hba.write_text(_LOCAL_ONLY)
        hba.chmod(0o644)
        try:
            _clear(fresh, new[1], runner)
            with _running(directory, old[1], place, hba, runner) as dsn:
                others = _others(dsn)
                if others:
                    raise Unavailable(
                        f"{directory} holds more than the catalog ({', '.join(others)}): run pg_upgrade {old[0]} to {new[0]}."
                    )
                before = _rows(dsn)
                _make_private(dump, runner)
                dumping = ["--format=custom", f"--file={dump}", f"--host={place}", "--username=postgres", _DATABASE]
                _run([str(new[1] / "pg_dump"), *dumping], runner)
            fresh.mkdir(mode=0o700)
            if "user" in runner:
                os.chown(fresh, runner["user"], runner["group"])
            _run([str(new[1] / "initdb"), "--auth=peer", "--encoding=utf8", "-U", "postgres", "-D", str(fresh)], runner)
            with _running(fresh, new[1], place, hba, runner) as dsn:
                restoring = ["--exit-on-error", f"--host={place}", "--username=postgres", f"--dbname={_DATABASE}", str(dump)]
                _run([str(new[1] / "pg_restore"), *restoring], runner)
                if (after := _rows(dsn)) != before:
                    wrong = sorted(table for table in before | after if before.get(table) != after.get(table))
                    raise Unavailable(f"The new Postgres does not hold what the old one does ({', '.join(wrong)}).")
        except (Unavailable, psycopg.Error, OSError) as problem:
            shutil.rmtree(fresh, ignore_errors=True)
            dump.unlink(missing_ok=True)
            said = problem.message if isinstance(problem, Unavailable) else str(problem)
            raise Unavailable(
                f"{directory} is of Postgres {old[0]} and could not be brought to {new[0]}: {said} "
                "It is as it was; an earlier Sluice opens it."
            ) from problem
    dump.unlink()
    _put(fresh / WHOLE)
    os.sync()
    directory.rename(old_cluster)
    fresh.rename(directory)
    return old_cluster


def _fresh(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.upgrading")


def _dump_of(directory: Path) -> Path:
    """With the data, and not among what is temporary: it holds the whole catalog, and a killed server leaves it.

    Whatever has its name is removed, so it is none that an operator's own dump would have.
    """
    return directory.with_name(f"{directory.name}.upgrading.dump")


def _make_private(dump: Path, runner: Mapping[str, Any]) -> None:
    """An empty file that only whoever Postgres runs as can read."""
    dump.unlink(missing_ok=True)
    os.close(os.open(dump, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if "user" in runner:
        os.chown(dump, runner["user"], runner["group"])


def _clear(fresh: Path, binaries: Path, runner: Mapping[str, Any]) -> None:
    """Take away the half made cluster of a server that was killed, and what still runs in it."""
    until = time.monotonic() + _STILL_AT_WORK_SECONDS
    while fresh.exists():
        _stop([str(binaries / "pg_ctl"), "-D", str(fresh), "-w", "-t", "60", "-m", "immediate", "stop"], fresh, runner)
        shutil.rmtree(fresh, ignore_errors=time.monotonic() < until)  # its initdb may still write there
        time.sleep(_LOOK_SECONDS if fresh.exists() else 0)


def _put(path: Path) -> None:
    with path.open("wb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def _running(cluster: Path, binaries: Path, place: Path, hba: Path, runner: Mapping[str, Any]) -> Iterator[str]:
    """The cluster, started where only we reach it; stopped cleanly when the block ends."""
    ctl = [str(binaries / "pg_ctl"), "-D", str(cluster), "-w", "-t", "600"]
    stop = [*ctl, "-m", "fast", "stop"]
    options = f"-h '' -k {place} -c hba_file={hba} -c archive_mode=off"
    start = [*ctl, "-l", str(place / "log"), "-o", options, "start"]
    _stop(stop, cluster, runner)
    try:
        _run(start, runner)
    except Unavailable:
        if running_postmaster(cluster) is None:
            raise
        _run(stop, runner)  # what a killed server had begun to start is up only by now
        _run(start, runner)
    try:
        yield f"postgresql://postgres@/{_DATABASE}?host={quote(str(place), safe='')}"
    finally:
        _run(stop, runner)


def _stop(command: list[str], cluster: Path, runner: Mapping[str, Any]) -> None:
    """Stop what a killed server left running in a cluster: pg_ctl signals whoever has the pid of its file, also after a restart."""
    if running_postmaster(cluster) is not None:
        with contextlib.suppress(Unavailable):  # it may have ended by itself
            _run(command, runner)


def _run(command: list[str], runner: Mapping[str, Any]) -> None:
    with tempfile.TemporaryFile() as words:  # a pipe would be held open by the server that pg_ctl starts
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, check=False, **runner)
        words.seek(0)
        said = " ".join(words.read().decode(errors="replace").split())
    if done.returncode:
        raise Unavailable(f"{Path(command[0]).name} says: {said[-500:]}")


def _others(dsn: str) -> list[str]:
    """Databases and roles that are none of the catalog's."""
    query = """
        SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'
        UNION ALL SELECT rolname FROM pg_roles WHERE rolname <> 'postgres' AND rolname !~ '^pg_'
    """
    with psycopg.connect(dsn) as conn:
        return [name for (name,) in conn.execute(query)]


def _rows(dsn: str) -> dict[str, int]:
    """How many rows each table holds."""
    with psycopg.connect(dsn) as conn:
        query = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        counts = {}
        for schema, table in conn.execute(query).fetchall():
            row = conn.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table))).fetchone()
            counts[f"{schema}.{table}"] = int(row[0]) if row is not None else 0
        return counts
