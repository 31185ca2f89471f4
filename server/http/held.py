"""What requests hold in memory while they come and while they wait: bounded over all connections, and for each owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

_MOST_BYTES = 256 << 20
_MOST_OF_ONE = 128 << 20
"""Of one principal, or of one address that proved nothing: 128 bodies of a megabyte, 2,000 of what anybody may send."""


class HeldBytes:
    """Used by the event loop alone."""

    def __init__(self) -> None:
        self._of_each: dict[Hashable, tuple[str, int]] = {}
        self._of_owner = Counter[str]()
        self.total = 0

    def hold(self, request: Hashable, owner: str, size: int) -> None:
        """So many bytes of an owner's request are in memory now; 0 once it is over."""
        before, before_size = self._of_each.pop(request, (owner, 0))
        self._of_owner[before] -= before_size
        if not self._of_owner[before]:
            del self._of_owner[before]
        if size:
            self._of_each[request] = owner, size
            self._of_owner[owner] += size
        self.total += size - before_size

    def crowded(self, owner: str) -> bool:
        """Whether an owner's requests, or all, hold as much as they may: they go to the disk where they may, and else are refused."""
        return self._of_owner[owner] > _MOST_OF_ONE or self.total > _MOST_BYTES
