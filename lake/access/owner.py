"""Whose something is that is kept for who made it: sessions, statements and results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A principal as it was when it made something: several tokens speak for one, and not all of them have all its rights."""

    principal: str = ""
    administrator: bool = False
    claimed: frozenset[str] = frozenset()
    """Roles that the claims of its token's issuer gave it; those granted here are every token's of a principal."""

    def admits(self, other: Owner) -> bool:
        """Whether the other one is of the same principal, with an administrator's rights or equal ones: to any other it does not exist.

        A result may hold what an administrator sees, a session what was put into it. Of roles no more are better than no fewer: one gives
        rights, and another binds to policies.
        """
        if other.principal != self.principal:
            return False
        return other.administrator or (not self.administrator and self.claimed == other.claimed)
