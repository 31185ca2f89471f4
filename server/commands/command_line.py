"""What the command ``sluice`` does where the server is installed; declared in `pyproject.toml` as ``sluice.commands``."""

from __future__ import annotations

import signal
from pathlib import Path

import click


@click.command()
def serve() -> None:
    """Start the server; its settings are SLUICE_* variables (docs/options.md)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a script's background children ignore it, and what is told to stop while it starts must
    from server.__main__ import main as serve_forever

    serve_forever()


@click.command()
def migrate() -> None:
    """Bring the catalog's Postgres to the newest schema; settings as for `serve`."""
    from server.__main__ import migrate as migrate_catalog

    migrate_catalog()


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--files-to", metavar="PLACE", help="Also copy the warehouse's files that the backup names to this directory or bucket.")
@click.option("--verify", is_flag=True, help="Then read all of the copy and verify its checksums, also what was there already.")
def backup(file: Path, files_to: str | None, verify: bool) -> None:
    """Write the catalog to FILE, as of one moment; servers may run. Nothing expires and nothing is removed for good meanwhile."""
    from server.__main__ import backup as write

    if verify and files_to is None:
        raise click.UsageError("--verify reads the copy that --files-to makes.")
    write(file.absolute(), files_to=_place(files_to), verify=verify)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Also where the catalog is not empty; what it holds is lost.")
@click.option("--files-from", metavar="PLACE", help="Put back what the warehouse lacks from a copy that backup --files-to made.")
@click.option("--verify", is_flag=True, help="Read all of what the copy puts back and verify its checksums; else sizes and footers.")
@click.option("--table", "tables", multiple=True, metavar="DB.TABLE", help="Only this table, beside running servers; repeatable.")
@click.option("--as", "to", metavar="DB.TABLE", help="Another name for the one --table, with files of its own.")
@click.option("--database", "databases", multiple=True, help="Only this database, beside running servers; repeatable.")
def restore(  # noqa: PLR0913 - each is an option of the command
    file: Path,
    replace: bool,
    files_from: str | None,
    verify: bool,
    tables: tuple[str, ...],
    to: str | None,
    databases: tuple[str, ...],
) -> None:
    """Put the backup FILE in the place of an empty catalog, and hold it against the warehouse (status 3 where they differ).

    With --table or --database only these come back, into the catalog that is there.
    """
    from server.__main__ import restore as put_back

    if to is not None and (len(tables) != 1 or databases):
        raise click.UsageError("--as goes with one --table.")
    if replace and (tables or databases):
        raise click.UsageError("--replace replaces the whole catalog: it does not go with --table and --database.")
    if verify and files_from is None and to is None:
        raise click.UsageError("--verify reads what --files-from puts back; without it `sluice check --deep` reads the warehouse.")
    places = {"to": to, "files_from": _place(files_from)}
    put_back(file.absolute(), replace=replace, tables=tables, databases=databases, verify=verify, **places)


def _place(location: str | None) -> str | None:
    """A local path made absolute; a URI stays as it is."""
    return location if location is None or "://" in location else str(Path(location).expanduser().absolute())


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the findings.")
def doctor(as_json: bool) -> None:
    """Look at the installation, the catalog, the warehouse and the running server; status 1 where something fails."""
    from server.__main__ import doctor as examine

    examine(as_json=as_json)


@click.command()
@click.option("--deep", is_flag=True, help="Read all of every file and verify its checksums; else sizes and footers are looked at.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the faults.")
@click.option("--parallelism", type=click.IntRange(1, 64), default=8, show_default=True, help="Files looked at at once.")
def check(deep: bool, as_json: bool, parallelism: int) -> None:
    """Hold every file that the catalog's tables name against what names it, beside running servers; status 1 where one is damaged."""
    from server.__main__ import check as look

    look(deep=deep, as_json=as_json, threads=parallelism)


@click.command("spark-archive")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def spark_archive(file: Path) -> None:
    """Write what Spark's executors on other machines need to FILE, a ZIP file for `SLUICE_SPARK_ARCHIVE`."""
    from server.__main__ import spark_archive as write

    write(file.absolute())
