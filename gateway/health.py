"""What of Postgres, Spark and the warehouse can be used now; one that is away does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.asked_spark import Checkable
from lake import Lake
from lake.register.standing import Trouble
from model.errors import LakeError, Unavailable

_ASLEEP = "It starts with the first statement that needs it."


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHealth:
    """One part: usable or not, and what it said."""

    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The parts a gateway stands on."""

    postgres: PartHealth
    spark: PartHealth
    warehouse: PartHealth
    disk: PartHealth = PartHealth(ok=True)
    """Whether there is space for new rows; without it reads go on."""
    catalog: PartHealth = PartHealth(ok=True)
    """Whether catalog and warehouse belong together, and this version knows the catalog's schema; where not nothing is written."""
    clock: PartHealth = PartHealth(ok=True)
    """Whether the time is believed; where not nothing expires by age."""
    troubles: Sequence[Trouble] = ()
    """Tables that need a hand; all others work."""

    @property
    def ok(self) -> bool:
        """Whether all parts can be used."""
        return self.postgres.ok and self.spark.ok and self.warehouse.ok and self.catalog.ok


def check_health(lake: Lake, spark: Checkable, outliving: Sequence[str] = (), lingering: Sequence[str] = ()) -> Health:
    """Ask each part once. ``outliving`` and ``lingering`` are the statements that `gateway.execution.canceller` calls so."""
    return Health(
        postgres=_ask(lambda: _ask_postgres(lake)),
        spark=PartHealth(ok=True, detail=_ASLEEP) if spark.asleep else _ask(lambda: _ask_spark(spark, outliving), _goes_on(lingering)),
        warehouse=_ask(lambda: _ask_warehouse(lake)),
        disk=_ask(lake.reserve.require),
        catalog=PartHealth(ok=lake.standing.refusal is None, detail=lake.standing.refusal or lake.standing.warning or ""),
        clock=PartHealth(ok=lake.clock.doubt is None, detail=lake.clock.doubt or ""),
        troubles=lake.standing.troubles(),
    )


def _ask(question: Callable[[], object], detail: str = "") -> PartHealth:
    """``detail`` is what is told where the part can be used."""
    try:
        question()
    except LakeError as problem:
        return PartHealth(ok=False, detail=problem.message)
    return PartHealth(ok=True, detail=detail)


def _goes_on(lingering: Sequence[str]) -> str:
    if not lingering:
        return ""
    return f"Statement {lingering[0]} goes on without tasks, as while it is planned, though it was told to stop; Spark does all else."


def _ask_postgres(lake: Lake) -> None:
    lake.catalog.ping()
    lake.catalog.require_whole()


def _ask_spark(spark: Checkable, outliving: Sequence[str]) -> None:
    spark.check()
    if spark.starting:
        raise Unavailable("Spark is still starting.")
    if outliving:
        raise Unavailable(
            f"Tasks of statement {outliving[0]} go on although it was told to stop; Spark is started anew if they do not end."
        )


def _ask_warehouse(lake: Lake) -> None:
    """A small file is written and deleted: a full or read-only disk lists as well as a good one."""
    path = f"{lake.warehouse}/.sluice/health"
    lake.file_io.write(path, b"")
    lake.file_io.delete(path)
