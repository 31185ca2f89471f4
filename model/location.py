"""Locations: where files lie, as values. Nobody else takes a path apart, puts one together or compares two."""

from __future__ import annotations

import re
from dataclasses import dataclass

from model.errors import InvalidOption

MAX_NAME_BYTES = 255
"""The longest name of a file that file systems hold."""
MAX_KEY_BYTES = 1024
"""The longest name of an object, with all it lies in, that object stores hold."""
_MAX_BYTES = 4095
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3"}
_WITHOUT_HOST = frozenset({"hdfs", "viewfs"})
"""Stores with a default host."""
_USUAL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,199}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place in a store: ``/x``, ``file:/x``, ``file:///x/`` and ``//x/./y/..`` are one. Nothing is unquoted, as in Hadoop."""

    scheme: str
    """Lower case; empty for this machine's files."""
    authority: str
    """The bucket or host; empty for this machine's files."""
    parts: tuple[str, ...]
    """The names on the way, from the store's root."""

    @classmethod
    def parse(cls, text: str) -> Location:  # noqa: C901 - a check behind another
        """The location a text means; raises `InvalidOption` for one that is relative, names a host for a file, or cannot be a path."""
        if len(text) > _MAX_BYTES or any(ord(c) < 0x20 or c == "\x7f" or 0xD800 <= ord(c) <= 0xDFFF for c in text):
            raise InvalidOption(f"The location {text[:200]!r} is too long or has a character no path may have.")
        uri = None if text.startswith("/") else _URI.match(text)
        if uri is None:
            scheme, authority, path = "", "", text
        else:
            scheme = uri[1].lower()
            scheme, authority, path = _SAME_SCHEME.get(scheme, scheme), "", uri[2]
            if scheme == "file":
                scheme = ""
            if path.startswith("//"):
                authority, slash, rest = path[2:].partition("/")
                path = slash + rest
            if scheme and not authority and scheme not in _WITHOUT_HOST:
                raise InvalidOption(f"The location {text} names no bucket or host; it is written as {scheme}://bucket/path.")
            if not scheme and authority not in ("", "localhost"):
                raise InvalidOption(f"The location {text} names a host; a local one is written as /path or file:///path.")
            authority = authority if scheme else ""
            if scheme and not path:
                path = "/"
        if not path.startswith("/"):
            raise InvalidOption(f"'{text}' is no absolute path; the server has no directory of its callers.")
        parts: list[str] = []
        for part in path.split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        return cls(scheme=scheme, authority=authority, parts=tuple(parts))

    def __str__(self) -> str:
        path = "/" + "/".join(self.parts)
        return f"{self.scheme}://{self.authority}{path}" if self.scheme else path

    @property
    def local(self) -> bool:
        """Whether it is a place of this machine, where links may lie."""
        return not self.scheme

    @property
    def name(self) -> str:
        """The last name on the way; empty for a store's root."""
        return self.parts[-1] if self.parts else ""

    @property
    def parent(self) -> Location:
        """The directory it lies in; a root lies in itself."""
        return Location(scheme=self.scheme, authority=self.authority, parts=self.parts[:-1])

    def same_store(self, other: Location) -> bool:
        """Whether files of both can be read by one `FileIO`."""
        return (self.scheme, self.authority) == (other.scheme, other.authority)

    def contains(self, other: Location) -> bool:
        """Whether the other is this place or lies somewhere inside it."""
        return self.same_store(other) and other.parts[: len(self.parts)] == self.parts

    def overlaps(self, other: Location) -> bool:
        """Whether one of both contains the other."""
        return self.contains(other) or other.contains(self)

    def below(self, other: Location) -> tuple[str, ...]:
        """The names on the way from a place that contains this one to it."""
        assert other.contains(self)
        return self.parts[len(other.parts) :]

    def common(self, other: Location) -> Location:
        """The deepest place of the store that contains both."""
        count = 0
        while count < min(len(self.parts), len(other.parts)) and self.parts[count] == other.parts[count]:
            count += 1
        return Location(scheme=self.scheme, authority=self.authority, parts=self.parts[:count])

    def child(self, name: str) -> Location:
        """What lies directly inside it under this name; raises `InvalidOption` for what is no plain name."""
        if not is_plain_name(name):
            raise InvalidOption(
                f"{name[:200]!r} is no plain file name: it may not be '.', '..', hold a separator or be longer than 255 bytes."
            )
        return Location(scheme=self.scheme, authority=self.authority, parts=(*self.parts, name))


def is_plain_name(name: str) -> bool:
    """Whether a name, joined to a directory, is a file directly inside it."""
    if _USUAL_NAME.match(name):
        return True
    if not name or name in (".", "..") or any(c in "/\\" or ord(c) < 0x20 or c == "\x7f" or 0xD800 <= ord(c) <= 0xDFFF for c in name):
        return False
    return len(name.encode()) <= MAX_NAME_BYTES
