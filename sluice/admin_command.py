"""``sluice backup`` and ``sluice restore``: they work on the catalog itself, with the settings of `serve`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from server.options import Settings

_DIFFERENT = 3
"""Status of a restore after which catalog and warehouse differ."""


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def backup(file: Path) -> None:
    """Write the catalog to FILE, as of one moment; servers may run. The warehouse's files are not in it."""

    def work(settings: Settings) -> int:
        from server.backup import backup as write

        click.echo(write(settings, file.absolute()))
        return 0

    _run(work)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the findings.")
def doctor(as_json: bool) -> None:
    """Look at the installation, the catalog, the warehouse and the running server; status 1 where something fails, else 0."""

    def work(settings: Settings) -> int:
        from dataclasses import asdict

        from server.doctor import FAIL, examine

        found = examine(settings)
        if as_json:
            click.echo(json.dumps([asdict(one) for one in found], indent=1))
        else:
            for one in found:
                click.echo(f"{one.level:4}  {one.check}: {one.detail}" + (f"\n      {one.way_out}" if one.way_out else ""))
        return int(any(one.level == FAIL for one in found))

    _run(work)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--replace", is_flag=True, help="Also where the catalog is not empty; what it holds is lost.")
def restore(file: Path, replace: bool) -> None:
    """Put the backup FILE in the place of an empty catalog, and hold it against the warehouse (status 3 where they differ)."""

    def work(settings: Settings) -> int:
        from server.backup import restore as put_back

        done, differences = put_back(settings, file.absolute(), replace=replace)
        click.echo(done)
        for one in differences:
            click.echo(f"{one.table}: {one.what}." + (f" {one.statement};" if one.statement else " Bring the files back."))
        return _DIFFERENT if differences else 0

    _run(work)


def _run(work: Callable[[Settings], int]) -> None:
    from server.__main__ import run

    run(work)
