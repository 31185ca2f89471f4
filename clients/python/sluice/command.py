"""The command ``sluice``: what it does over HTTP, and what the server adds where it is installed (``serve``, ``backup`` …)."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, entry_points
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TextIO
from uuid import uuid4

import click

from sluice.answers import notices
from sluice.client import DEFAULT_URL, Client, ServerError, describe, lines
from sluice.names import table_of
from sluice.progress_bar import bar
from sluice.terminal import printable_lines
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
COMMANDS = "sluice.commands"
"""The group of entry points by which other distributions add commands."""
SERVER_COMMANDS = frozenset({"backup", "check", "doctor", "migrate", "restore", "serve", "spark-archive"})
_CHUNK = 1 << 20
_TAIL = 1 << 16
_LATE_ERROR = re.compile(rb'(?:^|\n)(?:\],"error":|\{"\$error":)(\{.*\})\}\n\Z', re.DOTALL)

_url = click.option("--url", envvar="SLUICE_URL", default=DEFAULT_URL, show_default=True, help="The server. [SLUICE_URL]")
_token = click.option("--token", envvar="SLUICE_TOKEN", default=None, help="The token the server asks for. [SLUICE_TOKEN]")


class _Commands(click.Group):
    """The client's commands, and those of distributions beside it, which are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Ours and theirs, by name."""
        return sorted({*super().list_commands(ctx), *entry_points(group=COMMANDS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; one that only the server has is named as such where the server is not installed."""
        if own := super().get_command(ctx, cmd_name):
            return own
        for declared in entry_points(group=COMMANDS, name=cmd_name):
            command: click.Command = declared.load()
            return command
        if cmd_name in SERVER_COMMANDS:
            ctx.fail(f"{cmd_name!r} is a command of the server, which is not installed in this environment.")
        return None


@click.group(cls=_Commands)
def main() -> None:
    """A catalog server with a SQL gateway for append-only lake tables."""


main.add_command(token_command)


@main.command()
def version() -> None:
    """Print the version, of the server too where it is installed."""
    for distribution in ("sluice-client", "sluice-server"):
        with contextlib.suppress(PackageNotFoundError):
            click.echo(f"{distribution} {installed_version(distribution)}")


@main.command()
@click.argument("statement", required=False)
@click.option("--file", "-f", type=click.File("r", encoding="utf-8"), help="Read the statements from a file; - is standard input.")
@click.option("--format", "format_", type=click.Choice(list(ACCEPTS)), default="table", show_default=True)
@click.option("--database", "-d", help="The database names without one are looked up in.")
@click.option("--timeout", type=float, help="Seconds after which the statements are canceled.")
@_url
@_token
def sql(  # noqa: PLR0913 - the command's options, which click gives by name
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
            for notice in notices(response):
                click.echo(printable_lines(notice), err=True)
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
                retrying=lambda error: console.print(f"trying again: {printable_lines(str(error))}", style="yellow", markup=False),
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
    try:
        with contextlib.closing(Client(url, token)) as client:
            work(client)
    except ServerError as error:
        click.echo(f"sluice: {printable_lines(str(error))}", err=True)
        sys.exit(1)
    except BrokenPipeError:  # `sluice sql … | head` has seen enough
        sys.stderr.close()
        sys.exit(0)
