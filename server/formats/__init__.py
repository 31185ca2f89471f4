"""How results are written over our own HTTP, and which way a client asked for."""

from __future__ import annotations

from model.errors import NotAcceptable
from server.formats.parquet import PARQUET
from server.formats.writers import ENDLESS, JSON, NDJSON, BrokenStream, Format
from server.formats.writers import FORMATS as _STREAMED

FORMATS = {**_STREAMED, PARQUET.media_type: PARQUET}
"""Every way a result that ends can be written."""

__all__ = ["ENDLESS", "FORMATS", "JSON", "NDJSON", "BrokenStream", "Format", "negotiate"]


def negotiate(accept: str | None, *, endless: bool = False) -> Format:
    """The format an `Accept` header asks for; JSON without one, NDJSON for rows without end.

    Raises `NotAcceptable` where none of ours will do.
    """
    formats = ENDLESS if endless else FORMATS
    if accept is None or not accept.strip():
        return NDJSON if endless else JSON
    from werkzeug.datastructures import MIMEAccept
    from werkzeug.http import parse_accept_header

    chosen = parse_accept_header(accept, MIMEAccept).best_match(list(formats))
    if chosen is None:
        what = "A streaming query's rows are written as" if endless else "Written here are"
        raise NotAcceptable(f"None of what the client accepts ({accept}) will do. {what} {', '.join(formats)}.")
    return formats[chosen]
