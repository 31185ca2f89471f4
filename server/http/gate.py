"""Who may be connected: limits per address for connections that proved nothing, per principal for the others, and over all."""

from __future__ import annotations

import ipaddress
import logging
import resource
from typing import Protocol

_log = logging.getLogger(__name__)
_OTHER_FILES = 2048
"""Open files kept for tables, Postgres, Spark and Flight; half of all where there are few."""
Group = tuple[str, str]


class Closable(Protocol):
    """A connection as the gate sees it."""

    group: Group

    @property
    def waits(self) -> bool:
        """Whether the server owes it no answer."""
        ...

    def dismiss(self) -> None:
        """Close it, for another needs its place."""
        ...


class Gate:
    """Counts connections. A newcomer always gets in: of those that owe their place to nothing, the oldest goes for it."""

    def __init__(self, most: int, per_group: int) -> None:
        self.most = most
        self.per_group = per_group
        self._total = 0
        self._groups: dict[Group, dict[Closable, None]] = {}

    @classmethod
    def shared(cls, most: int, of_one: int) -> Gate:
        """A gate of which one principal, or one address that proved nothing, has ``of_one`` places and at most three quarters."""
        return cls(most, min(of_one, max(8, most * 3 // 4)))

    def enter(self, connection: Closable, address: str) -> None:
        """A connection was made from an address."""
        self._total += 1
        self._join(connection, ("address", network(address)))
        if self._total > self.most:
            self._close_idle(connection)

    def prove(self, connection: Closable, principal: str) -> None:
        """A connection showed who speaks through it."""
        group = ("principal", principal)
        if connection.group != group:
            self._part(connection)
            self._join(connection, group)

    def leave(self, connection: Closable) -> None:
        """A connection has ended."""
        if self._part(connection):
            self._total -= 1

    def close_idle(self) -> None:
        """One that the server owes nothing goes, for there are no files left."""
        self._close_idle(None)

    def counts(self) -> dict[str, float]:
        """Connections that proved who they are, and those that did not."""
        proved = sum(len(members) for (kind, _), members in self._groups.items() if kind == "principal")
        return {"authenticated": proved, "unauthenticated": self._total - proved}

    def _join(self, connection: Closable, group: Group) -> None:
        connection.group = group
        members = self._groups.setdefault(group, {})
        members[connection] = None
        if len(members) > self.per_group:
            self._dismiss_one_of(group, but=connection)

    def _part(self, connection: Closable) -> bool:
        members = self._groups.get(connection.group)
        if members is None or connection not in members:
            return False
        del members[connection]
        if not members:
            del self._groups[connection.group]
        return True

    def _close_idle(self, but: Closable | None) -> None:
        """Those who proved nothing go first, of the address that has most of them."""
        groups = sorted(self._groups, key=lambda group: (group[0] == "address", len(self._groups[group])), reverse=True)
        if not any(self._dismiss_one_of(group, but=but) for group in groups) and but is not None:
            but.dismiss()

    def _dismiss_one_of(self, group: Group, *, but: Closable | None) -> bool:
        for connection in self._groups[group]:
            if connection is not but and connection.waits:
                self.leave(connection)
                connection.dismiss()
                return True
        return False


def network(address: str) -> str:
    """What one attacker has for free: an address, or the 64 bits below an IPv6 prefix."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def raise_open_files() -> int:
    """Let this process open as many files as its hard limit allows; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, 1 << 20)
    if soft < hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard
        except (ValueError, OSError):
            _log.warning("The limit of open files stays at %d", soft, exc_info=True)
    return soft


def connections_allowed(wanted: int) -> int:
    """How many of the connections wanted the process's open files allow."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return wanted
    return max(16, min(wanted, files - min(_OTHER_FILES, files // 2)))
