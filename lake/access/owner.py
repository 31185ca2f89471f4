"""Whose something is that is kept for who made it: sessions, statements and results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A principal as it was when it made something: several tokens speak for one, and not all of them have all its rights."""

    principal: str = ""
    administrator: bool = False
    roles: frozenset[str] = frozenset()

    def admits(self, other: Owner) -> bool:
        """Whether the other one is of the same principal and has no fewer rights: to any other what was made does not exist.

        A result may hold what an administrator sees, or one to whom an issuer's claims give more roles; a session what was put into it.
        """
        if other.principal != self.principal:
            return False
        return other.administrator or (not self.administrator and self.roles <= other.roles)
