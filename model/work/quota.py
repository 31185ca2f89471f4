"""Quotas: how much of everything a user, or each user with a role, may take at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from model.errors import InvalidOption, nearest
from model.options.option import Parser, memory_size


class Holder(StrEnum):
    """Whom a quota binds."""

    USER = "USER"
    ROLE = "ROLE"
    """Each user with the role, by itself."""


def _count() -> Parser[int]:
    def parse(raw: str) -> int:
        if not raw.isdecimal():
            raise ValueError("a whole number from 0 on is expected")
        return int(raw)

    return Parser("integer", parse)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaKind:
    """One thing that can be limited."""

    name: str
    parser: Parser[int]
    help: str

    def value(self, text: str) -> int:
        """A value as SQL spells it; raises `InvalidOption`."""
        try:
            return self.parser.parse(text)
        except ValueError as problem:
            raise InvalidOption(f"{text!r} is no value for the quota {self.name}: {problem}.") from None


def _kinds(*kinds: QuotaKind) -> Mapping[str, QuotaKind]:
    return {kind.name: kind for kind in kinds}


RUNNING, QUEUED, SECONDS = "statements.running", "statements.queued", "statements.seconds"
SPOOL, RESULT, INGEST = "spool.bytes", "result.bytes", "ingest.bytes-per-minute"
SESSIONS, STREAMS, SPARK_STREAMS, JOBS = "sessions.open", "streams.open", "streams.spark", "jobs.running"
QUOTAS = _kinds(
    QuotaKind(name=RUNNING, parser=_count(), help="Statements that run on Spark at once; more wait for their turn."),
    QuotaKind(name=QUEUED, parser=_count(), help="Statements that wait for Spark at once."),
    QuotaKind(name=SECONDS, parser=_count(), help="Seconds one statement may take, waiting included, whatever limit its client names."),
    QuotaKind(name=SPOOL, parser=memory_size(), help="Bytes that results in the spool hold together while they wait to be read."),
    QuotaKind(name=RESULT, parser=memory_size(), help="Bytes one result in the spool may hold."),
    QuotaKind(
        name=INGEST,
        parser=memory_size(),
        help="Bytes of rows taken in within a minute, by body, Flight or literal INSERT; what begins below it is taken whole.",
    ),
    QuotaKind(name=SESSIONS, parser=_count(), help="Open sessions."),
    QuotaKind(name=STREAMS, parser=_count(), help="Open streaming queries."),
    QuotaKind(name=SPARK_STREAMS, parser=_count(), help="Open streaming queries that run on Spark."),
    QuotaKind(name=JOBS, parser=_count(), help="Jobs that have not ended."),
)
"""All there are, in the order they are shown; one that is not set is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One limit as it was set."""

    holder: Holder
    principal: str
    name: str
    value: int

    @property
    def shown(self) -> str:
        """The value as SQL spells it."""
        return QUOTAS[self.name].parser.show(self.value) if self.name in QUOTAS else str(self.value)


def quota_kind(name: str) -> QuotaKind:
    """What a name means; raises `InvalidOption` for one that means nothing."""
    kind = QUOTAS.get(name.lower())
    if kind is None:
        close = nearest(name, QUOTAS)
        raise InvalidOption(f"There is no quota {name}{f'; did you mean {close}?' if close else '.'} The quotas are {', '.join(QUOTAS)}.")
    return kind


def limits_of(quotas: Iterable[Quota], principal: str, roles: frozenset[str]) -> dict[str, int]:
    """What binds a user: its own quotas; else the largest of its roles'; else that of everybody (the role public)."""
    ranked: dict[str, tuple[int, int]] = {}
    for quota in quotas:
        if quota.holder is Holder.USER:
            rank = 2 if quota.principal == principal else -1
        elif quota.principal == "public":
            rank = 0
        else:
            rank = 1 if quota.principal in roles else -1
        if rank >= 0:
            ranked[quota.name] = max(ranked.get(quota.name, (rank, quota.value)), (rank, quota.value))
    return {name: value for name, (_, value) in ranked.items()}
