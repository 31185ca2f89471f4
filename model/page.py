"""A page of anything listed, with the token of the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some items in name order, and the token that continues after the last of them."""

    items: tuple[T, ...]
    next_token: str | None = None
