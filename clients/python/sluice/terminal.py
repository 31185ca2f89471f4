"""Text of other people on its way to a terminal."""

from __future__ import annotations

import re
import unicodedata

_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, marks that turn or hide what is written, halves of characters, and other ends of lines."""
_JOINERS = "\u200c\u200d"
"""Of those, what only joins or parts the letters beside it: some languages, and many pictures, are written with them."""
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_SUSPECT = re.compile(r"[^\x20-\x7e\xa1-\xac\xae-\u05ff]")
"""What may be harmful; most texts have nothing of it."""


def printable(text: str, *, keep: str = "") -> str:
    r"""A text with everything a terminal would obey spelled out, as ``\n``, ``\x1b`` or ``\u202e``, but for the characters to keep."""
    return _SUSPECT.sub(lambda found: found[0] if found[0] in keep else _spelled(found[0]), text)


def printable_lines(text: str) -> str:
    """The same for a message, which may have several lines."""
    return printable(text, keep="\n\t")


def _spelled(char: str) -> str:
    if unicodedata.category(char) not in _HARMFUL or char in _JOINERS:
        return char
    code = ord(char)
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
