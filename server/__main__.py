"""``python -m server``: the only place that reads the environment."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from migrations import NewerSchema
from model.errors import InvalidOption, LakeError
from model.identifier import Identifier
from model.text.name_parts import parse_name
from server.process.process import catalog_dsn, serve
from server.settings.settings import PREFIX, Settings, read_settings

if TYPE_CHECKING:
    from lake.register.restored.after_restore import Difference

_M_ARENA_MAX = -8
"""glibc's name for it in `mallopt(3)`."""
_ARENAS = 4
_USAGE = (
    "`python -m server` starts the server, as `sluice serve` does; its settings are SLUICE_* variables (docs/options.md). "
    "`sluice --help` lists the other commands."
)
_DIFFERENT = 3
"""Status of a restore after which catalog and warehouse differ."""


def main() -> NoReturn:
    """Serve with the settings of the environment, until SIGTERM or SIGINT."""
    run(serve)


def migrate() -> NoReturn:
    """Bring the catalog's Postgres to the newest schema and end."""
    run(_migrate)


def backup(path: Path, *, files_to: str | None = None, verify: bool = False) -> NoReturn:
    """Write the catalog to a file, copy the warehouse's files where that is asked for, and end, with 3 where some are damaged."""

    def work(settings: Settings) -> int:
        from server.commands.backup import backup as write

        done, troubles = write(settings, path, files_to=files_to, verify=verify)
        return _tell(done, troubles)

    run(work)


def restore(  # noqa: PLR0913 - each is an option of the command
    path: Path,
    *,
    replace: bool,
    tables: Sequence[str] = (),
    to: str | None = None,
    databases: Sequence[str] = (),
    files_from: str | None = None,
    verify: bool = False,
) -> NoReturn:
    """Put a backup, or tables and databases of it, into the catalog, say how the warehouse differs and end, with 3 where it does."""

    def work(settings: Settings) -> int:
        from server.commands.backup import restore_parts
        from server.commands.restore import restore as put_back

        if not tables and not databases:
            printed: list[Difference] = []

            def tell(difference: Difference) -> None:
                printed.append(difference)
                _line(difference)

            done, differences = put_back(settings, path, replace=replace, files_from=files_from, verify=verify, tell=tell)
            return _tell(done, differences, but=printed)
        named = [_table(name) for name in tables]
        done, differences = restore_parts(
            settings, path, tables=named, to=None if to is None else _table(to), databases=databases, files_from=files_from, verify=verify
        )
        return _tell(done, differences)

    run(work)


def _table(text: str) -> Identifier:
    parts = parse_name(text)
    if len(parts) != 2:
        raise InvalidOption(f"{text} is no table's name: DATABASE.TABLE is, a part with a dot in it in backquotes.")
    return Identifier(*parts)


def _tell(done: str, differences: Sequence[Difference], *, but: Sequence[Difference] = ()) -> int:
    """Print what was done and what differs, ``but`` what was printed before."""
    print(done)
    for difference in differences:
        if difference not in but:
            _line(difference)
    return _DIFFERENT if differences else 0


def _line(difference: Difference) -> None:
    of_files = "" if difference.table == "the catalog" else " Bring the files back."
    way_out = f" {difference.statement};" if difference.statement else of_files
    print(f"{difference.table}: {difference.what}.{way_out}", flush=True)


def check(*, deep: bool, as_json: bool, threads: int) -> NoReturn:
    """Say which files of the warehouse are damaged and end, with 1 where some are."""

    def work(settings: Settings) -> int:
        from server.commands.check import check_warehouse

        faults = []
        for table, fault in check_warehouse(settings, deep=deep, threads=threads, told=lambda line: print(line, file=sys.stderr)):
            faults.append({"table": table, **asdict(fault)})
            if not as_json:
                print(f"{table}: {fault.file} {fault.problem}")
        if as_json:
            print(json.dumps(faults, indent=1))
        return int(bool(faults))

    run(work)


def spark_archive(path: Path) -> None:
    """Write what Spark's executors on other machines need (`SLUICE_SPARK_ARCHIVE`)."""
    from sql.spark.driver.archive import write_archive

    count = write_archive(path)
    print(f"{path}: {count:,} files, {path.stat().st_size >> 20} MB")


def doctor(*, as_json: bool) -> NoReturn:
    """Say what the installation suffers from and end, with 1 where something fails."""

    def work(settings: Settings) -> int:
        from server.commands.doctor import FAIL, examine

        findings = examine(settings, java_home=os.environ.get("JAVA_HOME"))
        if as_json:
            print(json.dumps([asdict(finding) for finding in findings], indent=1))
        else:
            for finding in findings:
                print(f"{finding.level:4}  {finding.check}: {finding.detail}" + (f"\n      {finding.way_out}" if finding.way_out else ""))
        return int(any(finding.level == FAIL for finding in findings))

    run(work)


def _migrate(settings: Settings) -> None:
    from migrations import upgrade

    with catalog_dsn(settings) as dsn:
        upgrade(dsn)
    print("The catalog is up to date.")


def _bound_memory() -> None:
    """Keep freed memory from piling up in every thread that once wrote a result: 25 MB each with Arrow's own allocator (measured).

    Must come before pyarrow is imported.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with contextlib.suppress(OSError, AttributeError):  # another C library has other ways
        ctypes.CDLL("libc.so.6").mallopt(_M_ARENA_MAX, _ARENAS)


def _quiet_grpc() -> None:
    """Keep gRPC from preparing for forks, of which there are none here but those that start programs, and from telling of them.

    Must come before it is imported.
    """
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


def _forget_settings() -> None:
    """Keep the token and the catalog's password from the processes that are started here: Spark's JVM, workers, Postgres."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]


def run(work: Callable[[Settings], int | None]) -> NoReturn:
    """Do the work and leave: with what it returns, 2 for settings that cannot be, 1 for the rest, each with one line."""
    status = 0
    try:
        settings = read_settings(os.environ)
    except LakeError as problem:
        _leave(2, problem.whole)
    _forget_settings()
    _bound_memory()
    _quiet_grpc()
    from server.observe.logs import set_up

    set_up(settings)
    try:
        status = work(settings) or 0
    except LakeError as problem:
        _leave(2 if isinstance(problem, InvalidOption) else 1, problem.whole)
    except NewerSchema as problem:
        _leave(2, str(problem))
    except OSError as problem:
        _leave(1, f"{problem.strerror or problem}{f': {problem.filename}' if problem.filename else ''}")
    except Exception as problem:
        from catalog.damage import damage_met

        if (damage := damage_met(problem)) is not None:
            _leave(1, damage.whole)
        if (words := _of_postgres(problem)) is None:
            raise
        _leave(1, f"The catalog's Postgres (SLUICE_CATALOG_DSN) cannot be used: {words}")
    _leave(status)


def _of_postgres(problem: BaseException | None) -> str | None:
    """What Postgres, or the way to it, says, in a line; None for other failures. Alembic wraps it in an error of its library's."""
    from psycopg import OperationalError

    while problem is not None:
        if isinstance(problem, OperationalError):
            return " ".join(str(problem).split())
        problem = problem.__cause__
    return None


def _leave(status: int, message: str = "") -> NoReturn:
    """End the process at once: everything is closed, and a thread stuck in a dead statement must not hold it."""
    if message:
        print(f"sluice: {message}", file=sys.stderr)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _take(arguments: Sequence[str]) -> None:
    """End the process where arguments are given, before anything is opened: a server has none."""
    if not arguments:
        return
    if set(arguments) <= {"-h", "--help"}:
        print(_USAGE)
        _leave(0)
    _leave(2, f"`python -m server` takes no arguments, and was given {arguments[0]!r}. {_USAGE}")


if __name__ == "__main__":
    _take(sys.argv[1:])
    main()
