"""How results are written on our own door, and which way a client asked for."""

from __future__ import annotations

from model.errors import NotAcceptable
from server.formats.writers import FORMATS, JSON, NDJSON, BrokenStream, Format

__all__ = ["FORMATS", "JSON", "NDJSON", "BrokenStream", "Format", "negotiate"]


def negotiate(accept: str | None) -> Format:
    """The format an `Accept` header asks for; JSON without one. Raises `NotAcceptable` where none of ours will do."""
    if accept is None or not accept.strip():
        return JSON
    from werkzeug.datastructures import MIMEAccept
    from werkzeug.http import parse_accept_header

    chosen = parse_accept_header(accept, MIMEAccept).best_match(list(FORMATS))
    if chosen is None:
        raise NotAcceptable(f"None of what the client accepts ({accept}) is written here: {', '.join(FORMATS)}.")
    return FORMATS[chosen]
