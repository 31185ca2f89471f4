"""The command ``sluice``: `sql` and `load` are HTTP clients; `serve` and `migrate` start the server."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO
from uuid import uuid4

import click

from sluice.client import DEFAULT_URL, Client, ServerError, describe, lines
from sluice.names import table_of
from sluice.progress_bar import bar
from sluice.token_command import token as token_command

ACCEPTS = {
    "table": "application/json",
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}
CONTENT_TYPES = {
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".arrow": "application/vnd.apache.arrow.stream",
    ".arrows": "application/vnd.apache.arrow.stream",
}
_CHUNK = 1 << 20
_TAIL = 1 << 16
_LATE_ERROR = re.compile(rb'(?:^|\n)(?:\],"error":|\{"\$error":)(\{.*\})\}\n\Z', re.DOTALL)

_url = click.option("--url", envvar="SLUICE_URL", default=DEFAULT_URL, show_default=True, help="The server. [SLUICE_URL]")
_token = click.option("--token", envvar="SLUICE_TOKEN", default=None, help="The token the server asks for. [SLUICE_TOKEN]")


@click.group()
def main() -> None:
    """A catalog server with a SQL gateway for append-only lake tables."""


main.add_command(token_command)


@main.command()
def serve() -> None:
    """Start the server; its settings are SLUICE_* variables (docs/options.md)."""
    from server.__main__ import main as serve_forever

    serve_forever()


@main.command()
def migrate() -> None:
    """Bring the catalog's Postgres to the newest schema; settings as for `serve`."""
    from server.__main__ import migrate as migrate_catalog

    migrate_catalog()


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--files-to", metavar="PLACE", help="Also copy the warehouse's files that the backup names to this directory or bucket.")
def backup(file: Path, files_to: str | None) -> None:
    """Write the catalog to FILE, as of one moment; servers may run. Nothing expires and nothing is removed for good meanwhile."""
    from server.__main__ import backup as write

    write(file.absolute(), files_to=_place(files_to))


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Also where the catalog is not empty; what it holds is lost.")
@click.option("--files-from", metavar="PLACE", help="Put back what the warehouse lacks from a copy that backup --files-to made.")
@click.option("--table", "tables", multiple=True, metavar="DB.TABLE", help="Only this table, beside running servers; repeatable.")
@click.option("--as", "to", metavar="DB.TABLE", help="Another name for the one --table, with files of its own.")
@click.option("--database", "databases", multiple=True, help="Only this database, beside running servers; repeatable.")
def restore(file: Path, replace: bool, files_from: str | None, tables: tuple[str, ...], to: str | None, databases: tuple[str, ...]) -> None:
    """Put the backup FILE in the place of an empty catalog, and hold it against the warehouse (status 3 where they differ).

    With --table or --database only these come back, into the catalog that is there.
    """
    from server.__main__ import restore as put_back

    if to is not None and (len(tables) != 1 or databases):
        raise click.UsageError("--as goes with one --table.")
    if replace and (tables or databases):
        raise click.UsageError("--replace replaces the whole catalog: it does not go with --table and --database.")
    put_back(file.absolute(), replace=replace, tables=tables, to=to, databases=databases, files_from=_place(files_from))


def _place(location: str | None) -> str | None:
    """A local path made absolute; a URI stays as it is."""
    return location if location is None or "://" in location else str(Path(location).expanduser().absolute())


@main.command()
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the findings.")
def doctor(as_json: bool) -> None:
    """Look at the installation, the catalog, the warehouse and the running server; status 1 where something fails."""
    from server.__main__ import doctor as examine

    examine(as_json=as_json)


@main.command()
@click.option("--deep", is_flag=True, help="Read all of every file and verify its checksums; else sizes and footers are looked at.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the faults.")
@click.option("--parallelism", type=click.IntRange(1, 64), default=8, show_default=True, help="Files looked at at once.")
def check(deep: bool, as_json: bool, parallelism: int) -> None:
    """Hold every file that the catalog's tables name against what names it, beside running servers; status 1 where one is damaged."""
    from server.__main__ import check as look

    look(deep=deep, as_json=as_json, threads=parallelism)


@main.command("spark-archive")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def spark_archive(file: Path) -> None:
    """Write what Spark's executors on other machines need to FILE, a ZIP file for `SLUICE_SPARK_ARCHIVE`."""
    from server.__main__ import spark_archive as write

    write(file.absolute())


@main.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    click.echo(installed("sluice"))


@main.command()
@click.argument("statement", required=False)
@click.option("--file", "-f", type=click.File("r", encoding="utf-8"), help="Read the statements from a file; - is standard input.")
@click.option("--format", "format_", type=click.Choice(list(ACCEPTS)), default="table", show_default=True)
@click.option("--database", "-d", help="The database names without one are looked up in.")
@click.option("--timeout", type=float, help="Seconds after which the statements are canceled.")
@_url
@_token
def sql(
    statement: str | None, file: TextIO | None, format_: str, database: str | None, timeout: float | None, url: str, token: str | None
) -> None:
    """Run one or several statements and print the last one's rows. Without STATEMENT the text is read from standard input."""
    text = statement if statement is not None else (file or sys.stdin).read()
    if statement is not None and file is not None:
        raise click.UsageError("Give the statement or --file, not both.")

    def work(client: Client) -> None:
        request_id = uuid4().hex
        with contextlib.ExitStack() as open_:
            with bar(client, request_id):
                response = open_.enter_context(
                    client.sql(text, accept=ACCEPTS[format_], database=database, timeout=timeout, request_id=request_id)
                )
            for notice in response.headers.get_list("X-Notice"):
                click.echo(json.loads(f'"{notice}"'), err=True)
            if format_ == "table":
                from sluice.table_view import draw

                for line in draw(lines(response)):
                    click.echo(line)
                return
            out = sys.stdout.buffer
            tail = b""
            for chunk in response.iter_bytes():
                out.write(chunk)
                tail = (tail + chunk)[-_TAIL:]
            out.flush()
            _check_tail(tail)

    _with_client(url, token, work)


@main.command()
@click.argument("table")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--retry-key", help="Makes a repeat of this command safe: files loaded under this key before are not loaded again (24 h).")
@_url
@_token
def load(table: str, files: tuple[Path, ...], retry_key: str | None, url: str, token: str | None) -> None:
    """Append FILES (Parquet, CSV, NDJSON or Arrow, told by their names) to TABLE; each file is one commit.

    TABLE is a name or DATABASE.NAME; a part with a dot in it stands in backquotes.
    """
    try:
        table_of(table)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="TABLE") from None
    for file in files:
        if file.suffix.lower() not in CONTENT_TYPES:
            raise click.UsageError(f"{file}: its name must end in one of {', '.join(CONTENT_TYPES)}.")
    key = retry_key or uuid4().hex

    def work(client: Client) -> None:
        try:
            _load_all(client, table, files, key)
        except ServerError:
            click.echo(f"To go on without loading a file twice, repeat the command with --retry-key {key}", err=True)
            raise

    _with_client(url, token, work)


def _check_tail(tail: bytes) -> None:
    """A failure after the first row stands at the end of the answer (`docs/http.md`); raises `ServerError` for it."""
    error = _LATE_ERROR.search(tail)
    if error:
        document = json.loads(error[1])
        raise ServerError(describe(document), status=document.get("status"), document=document)


def _load_all(client: Client, table: str, files: tuple[Path, ...], key: str) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for number, file in enumerate(files):
            size = file.stat().st_size
            task = progress.add_task(file.name, total=size)

            def body(file: Path = file, task: TaskID = task) -> Iterator[bytes]:
                progress.reset(task)
                return _chunks(file, lambda sent: progress.advance(task, sent))

            answer = client.append(
                table,
                body,
                content_type=CONTENT_TYPES[file.suffix.lower()],
                length=size,
                key=f"{key}/{number}",
                retrying=lambda error: console.print(f"[yellow]trying again:[/yellow] {error}"),
            )
            again = ", loaded before under this key" if answer.get("replayed") else ""
            progress.console.print(f"{file.name}: {answer['rows']} rows, snapshot {answer['snapshotId']}{again}", highlight=False)


def _chunks(file: Path, sent: Callable[[int], None]) -> Iterator[bytes]:
    with file.open("rb") as source:
        while chunk := source.read(_CHUNK):
            yield chunk
            sent(len(chunk))


def _with_client(url: str, token: str | None, work: Callable[[Client], None]) -> None:
    """Run a piece of work against the server; what goes wrong is one message and status 1."""
    client = Client(url, token)
    try:
        work(client)
    except ServerError as error:
        click.echo(f"sluice: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:  # `sluice sql … | head` has seen enough
        sys.stderr.close()
        sys.exit(0)
    finally:
        client.close()
