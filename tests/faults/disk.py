"""What a power cut leaves of a directory: flushed contents under flushed names, by the journal of `shim.c`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Left(Enum):
    """What a disk without power made of that which nobody flushed."""

    NOTHING = "nothing"
    """Neither names nor contents: the least that the operating system promises."""
    NAMES = "names"
    """Names reached the disk, contents did not: files are empty or as they were when they were last flushed."""


@dataclass(eq=False)
class _File:
    flushed: bytes = b""
    dropped: bool = False
    """Whether a flush failed: Linux takes what it could not write for clean, and the next flush writes nothing and succeeds."""


@dataclass(eq=False)
class _Directory:
    now: dict[str, _Node] = field(default_factory=dict)
    flushed: dict[str, _Node] = field(default_factory=dict)
    dropped: bool = False
    """The same, until an entry is made or taken away."""


_Node = _File | _Directory


def lines_of(journal: Path) -> list[str]:
    """The lines of a journal."""
    return journal.read_text(errors="surrogateescape").splitlines() if journal.exists() else []


class Disk:
    """A directory tree, its journal replayed; all that was there when the journal began is taken as flushed."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self.top = self._scanned(root)

    def _scanned(self, path: Path) -> _Directory:
        found: dict[str, _Node] = {}
        if path.is_dir():
            for entry in os.scandir(path):
                inner = Path(entry.path)
                found[entry.name] = self._scanned(inner) if entry.is_dir(follow_symlinks=False) else _File(inner.read_bytes())
        return _Directory(dict(found), dict(found))

    def replay(self, journal: Path) -> int:
        """Take in a journal; returns how many lines it holds."""
        return self._take(lines_of(journal), journal)

    def replay_until_sent(self, journal: Path, text: str, *, after: int = 0) -> int:
        """Take in the lines after so many, up to the one that sends a text to another process; returns the number of that line."""
        lines = lines_of(journal)
        end = next(number for number in range(after, len(lines)) if lines[number].startswith("Q\t") and text in lines[number])
        self._take(lines[after:end], journal)
        return end

    def kept(self, path: Path) -> bytes | None:
        """What a power cut now would leave of a file at the least; None where nothing would lead to it."""
        at: _Node = self.top
        for part in path.relative_to(self._root).parts:
            inner = at.flushed.get(part) if isinstance(at, _Directory) else None
            if inner is None:
                return None
            at = inner
        return at.flushed if isinstance(at, _File) else None

    def _take(self, lines: Sequence[str], journal: Path) -> int:
        for line in lines:
            what, _, one, other = line.split("\t")
            self._apply(what, one, other, journal)
        return len(lines)

    def _apply(self, what: str, one: str, other: str, journal: Path) -> None:
        holder, name = self._found(one, make=what in ("C", "M"))
        if holder is not None and what in ("C", "M", "U", "R", "L"):
            holder.dropped = False
        match what:
            case "C" if holder is not None:
                holder.now[name] = _File()
            case "M" if holder is not None:
                holder.now.setdefault(name, _Directory())
            case "U" if holder is not None:
                holder.now.pop(name, None)
            case "R" | "L":
                target, new = self._found(other, make=True)
                node = (holder.now.pop(name, None) if what == "R" else holder.now.get(name)) if holder is not None else None
                if target is not None and node is not None:
                    target.now[new] = node
                    target.dropped = False
            case "S" | "E" | "F":
                node = self.top if one == self._root else (holder.now.get(name) if holder is not None else None)
                if node is None or node.dropped:
                    return
                if what == "F":
                    node.dropped = True
                elif isinstance(node, _File):
                    node.flushed = journal.with_name(f"{journal.name}.{other}").read_bytes()
                elif isinstance(node, _Directory):
                    node.flushed = dict(node.now)

    def _found(self, path: str, *, make: bool = False) -> tuple[_Directory | None, str]:
        """The directory a path lies in, and its name there; with ``make`` it is there, though its own line may come later.

        Of two threads that make a directory the one that finds it there may go on before the other's call is written down.
        """
        if not path.startswith(f"{self._root}/"):
            return None, ""
        *above, name = path.removeprefix(f"{self._root}/").split("/")
        at: _Node = self.top
        for part in above:
            if not isinstance(at, _Directory):
                return None, name
            inner = at.now.get(part)
            if inner is None:
                if not make:
                    return None, name
                inner = at.now[part] = _Directory()
            at = inner
        return (at if isinstance(at, _Directory) else None), name

    def write(self, target: Path, left: Left) -> None:
        """Make the directory what the power cut left of it."""
        for entry in target.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        self._written(self.top, target, left)

    def _written(self, directory: _Directory, target: Path, left: Left) -> None:
        target.mkdir(exist_ok=True)
        for name, node in (directory.now if left is Left.NAMES else directory.flushed).items():
            if isinstance(node, _Directory):
                self._written(node, target / name, left)
            else:
                (target / name).write_bytes(node.flushed)
