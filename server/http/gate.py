"""Who may be connected: limits per address for connections that proved nothing, per principal for the others, and over all."""

from __future__ import annotations

import ipaddress
import logging
import resource
from collections import Counter
from typing import Protocol

_log = logging.getLogger(__name__)
_OTHER_FILES = 2048
"""Open files kept for tables, Postgres, Spark and Flight; half of all where there are few."""
_MOST_BUFFERED = 1 << 30
"""Bytes that wait for readers who are behind, of all connections."""
Group = tuple[str, str]


class Closable(Protocol):
    """A connection as the gate sees it."""

    group: Group

    @property
    def waits(self) -> bool:
        """Whether the server owes it no answer."""
        ...

    @property
    def jammed(self) -> bool:
        """Whether its client is behind with reading its answer."""
        ...

    def dismiss(self) -> None:
        """Close it, for another needs its place."""
        ...


class Gate:
    """Counts connections. For a newcomer the oldest goes that is owed no answer, else one that is behind with reading its own.

    Where all others of its group are being answered it is the newcomer that goes: the others' places are none of its group's.
    """

    def __init__(self, most: int, per_group: int) -> None:
        self.most = most
        self.per_group = per_group
        self._total = 0
        self._groups: dict[Group, dict[Closable, None]] = {}
        self._buffered: dict[Closable, int] = {}
        """What waits for readers who are behind; who has been longest stands first."""
        self._buffered_bytes = 0

    @classmethod
    def shared(cls, most: int, of_one: int) -> Gate:
        """A gate of which one principal, or one address that proved nothing, has ``of_one`` places and at most three quarters."""
        return cls(most, min(of_one, max(8, most * 3 // 4)))

    def enter(self, connection: Closable, address: str) -> None:
        """A connection was made from an address."""
        self._total += 1
        if not self._join(connection, ("address", network(address))):
            self._dismiss(connection)
        elif self._total > self.most:
            self._close_idle(connection)

    def prove(self, connection: Closable, principal: str) -> bool:
        """A connection showed who speaks through it; returns whether its principal has a place for it."""
        group = ("principal", principal)
        if connection.group == group:
            return True
        self._part(connection)
        if self._join(connection, group):
            return True
        self._part(connection)  # until it is closed it takes no place of those that have one
        self._join(connection, ("refused", principal))
        return False

    def buffer(self, connection: Closable, size: int) -> None:
        """So many bytes wait for a connection's reader, who is behind; 0 once it is not. Past the bound one of who buffers most goes."""
        self._buffered_bytes += size - self._buffered.get(connection, 0)
        if size:
            self._buffered[connection] = size
        else:
            self._buffered.pop(connection, None)
        if self._buffered_bytes <= _MOST_BUFFERED:
            return
        of_groups = Counter[Group]()
        for each, buffered in self._buffered.items():
            of_groups[each.group] += buffered
        most = max(of_groups, key=of_groups.__getitem__)
        self._dismiss(next(each for each in self._buffered if each.group == most))

    def leave(self, connection: Closable) -> None:
        """A connection has ended."""
        self._buffered_bytes -= self._buffered.pop(connection, 0)
        if self._part(connection):
            self._total -= 1

    def close_idle(self) -> None:
        """One that the server owes nothing goes, for there are no files left."""
        self._close_idle(None)

    def counts(self) -> dict[str, float]:
        """Connections that proved who they are, and those that did not."""
        proved = sum(len(members) for (kind, _), members in self._groups.items() if kind == "principal")
        return {"authenticated": proved, "unauthenticated": self._total - proved}

    def _join(self, connection: Closable, group: Group) -> bool:
        connection.group = group
        members = self._groups.setdefault(group, {})
        members[connection] = None
        return self._dismiss_some_of(group, len(members) - self.per_group, but=connection)

    def _part(self, connection: Closable) -> bool:
        members = self._groups.get(connection.group)
        if members is None or connection not in members:
            return False
        del members[connection]
        if not members:
            del self._groups[connection.group]
        return True

    def _close_idle(self, but: Closable | None) -> None:
        """Those who were refused go first, then those who proved nothing, of the address that has most of them."""
        kinds = ("principal", "address", "refused")
        groups = sorted(self._groups, key=lambda group: (kinds.index(group[0]), len(self._groups[group])), reverse=True)
        if not any(self._dismiss_some_of(group, 1, but=but) for group in groups) and but is not None:
            but.dismiss()

    def _dismiss_some_of(self, group: Group, count: int, *, but: Closable | None) -> bool:
        """Dismiss so many, or none and return False where so many cannot go."""
        if count <= 0:
            return True
        others = [each for each in self._groups[group] if each is not but]
        going = [each for each in others if each.waits] + [each for each in others if each.jammed and not each.waits]
        if len(going) < count:
            return False
        for each in going[:count]:
            self._dismiss(each)
        return True

    def _dismiss(self, connection: Closable) -> None:
        self.leave(connection)
        connection.dismiss()


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
