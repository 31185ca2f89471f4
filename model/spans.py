"""Spans of work, for tracing: nothing is done about them until a server that traces installs a maker."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import Context, ContextVar
from types import TracebackType
from typing import Protocol

Value = str | int | float | bool


class Span(Protocol):
    """A piece of work being traced."""

    @property
    def trace_id(self) -> str:
        """The trace it belongs to, in hexadecimal."""
        ...

    def set(self, key: str, value: Value) -> None:
        """Say something of it."""
        ...


class _NoSpan:
    """What stands for a span while nobody traces; one for all, since it holds nothing."""

    __slots__ = ()
    trace_id = ""

    def set(self, key: str, value: Value) -> None:
        return None

    def __enter__(self) -> Span:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None


class SpanMaker(Protocol):
    """Makes spans; the one installed is a tracer's."""

    def __call__(self, name: str, attributes: Mapping[str, Value], since: float | None) -> AbstractContextManager[Span]:
        """A span below the one this thread is in, begun at ``since`` (seconds since 1970) or now."""
        ...


NO_SPAN = _NoSpan()
CURRENT: ContextVar[Span] = ContextVar("span", default=NO_SPAN)
"""The span this thread is in; the maker's to set."""
_maker: SpanMaker | None = None


def install(maker: SpanMaker | None) -> None:
    """Let spans be made from now on; None ends it."""
    global _maker
    _maker = maker


def span(name: str, attributes: Mapping[str, Value] | None = None, *, since: float | None = None) -> AbstractContextManager[Span]:
    """A span of the work in the block, or since an earlier moment; an error that leaves the block is the span's too."""
    return NO_SPAN if _maker is None else _maker(name, attributes or {}, since)


def tracing() -> bool:
    """Whether spans are made."""
    return _maker is not None


def trace_id() -> str:
    """The trace this thread works in; empty for none."""
    return CURRENT.get().trace_id


def carry(context: Context) -> None:
    """Let what runs in the context go on below the span this thread is in."""
    if _maker is not None:
        context.run(CURRENT.set, CURRENT.get())
