"""``sluice check``: every file of every table, held against what names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lake import Lake
from lake.register.check import Fault
from migrations import NewerSchema, knows, newest, revision_of
from model.catalog_errors import MetadataOnlyTable
from model.errors import IllegalMove, LakeError, TableNotExist
from model.identifier import Identifier
from server.commands.backup import catalog_of, present_dsn
from server.settings.settings import Settings
from server.sql.orc import orc_decoded_beside


def check_warehouse(settings: Settings, *, deep: bool, threads: int, told: Callable[[str], None]) -> Iterator[tuple[str, Fault]]:
    """The faults of all tables, table by table; ``told`` hears how far it is. Raises `IllegalMove` for a catalog of another version."""
    with present_dsn(settings) as dsn, orc_decoded_beside(settings):
        if (at := revision_of(dsn)) != newest():
            if at is not None and not knows(at):
                raise IllegalMove(str(NewerSchema(at)))
            raise IllegalMove(f"The catalog's schema is {at}, and this Sluice's is {newest()}: run `sluice migrate`.")
        catalog = catalog_of(settings, dsn)
        lake = Lake(catalog, settings.warehouse)
        try:
            with catalog.reading() as tx:
                names = [Identifier(row.database, row.name) for row in tx.tables.all()]
            for at_table, name in enumerate(names, 1):
                counts = [0, 0, 0]
                for fault in _of_table(lake, name, counts, deep=deep, threads=threads):
                    counts[2] += 1
                    yield str(name), fault
                told(f"{at_table}/{len(names)} {name}: {counts[0]:,} files, {counts[1]:,} bytes, {counts[2]} damaged")
        finally:
            lake.close()
            catalog.close()


def _of_table(lake: Lake, name: Identifier, counts: list[int], *, deep: bool, threads: int) -> Iterator[Fault]:
    def checked(files: int, size: int) -> None:
        counts[0] += files
        counts[1] += size

    try:
        yield from lake.check_table(lake.open(name), deep=deep, threads=threads, checked=checked)
    except (MetadataOnlyTable, TableNotExist):  # no files of ours, or dropped meanwhile
        return
    except LakeError as problem:
        yield Fault(branch=name.branch, snapshot_id=None, partition="", file="", rows=None, problem=problem.whole)
