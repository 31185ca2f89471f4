"""Bodies in zstd and gzip: those of requests are read as if they were plain, answers are written as the client accepts them."""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Protocol

from flask import Response, request

from model.errors import BadRequest, StatementTooLarge, UnsupportedMediaType
from server.sql.streaming import ResultBody

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ARROW = "application/vnd.apache.arrow.stream"
_CHUNK = 1 << 16
_SMALL_BYTES = 1024
"""A shorter answer is one packet anyway."""
_SMALL_PIECE = 1 << 16
"""A piece of a stream below this size is sent at once; larger ones are followed by others soon."""
_COMPRESSED = ("text/", "application/json", "application/problem+json", "application/x-ndjson", ARROW)
_FREE_BYTES = 64 << 20
_MOST_UNFOLDED = 200
"""Times a body's own size that it may unfold to, beyond the first 64 MB: rows as text stay far below (10 to 30 times)."""
_ZSTD_LEVEL = 1
_GZIP_LEVEL = 1


class _Decompressor(Protocol):
    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gunzip:
    """zlib's decompressor, keeping what it did not come to as zstd's does."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {"gzip": _Gunzip, "x-gzip": _Gunzip, "zstd": zstd.ZstdDecompressor}


class PlainBody(io.RawIOBase):
    """A compressed body as the bytes it stands for, a bounded piece at a time; raises `BadRequest` where it is damaged or cut short."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self.folded = stream
        """The body as it comes."""
        self._encoding = encoding
        self._make = _DECOMPRESSORS[encoding]
        self._part: _Decompressor = self._make()
        self._begun = False
        self._came = self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._piece(len(buffer))
        except (zlib.error, zstd.ZstdError) as problem:
            raise BadRequest(f"The body is not {self._encoding}, as its Content-Encoding says: {problem}.") from None
        except (ValueError, OSError) as problem:  # a chunk that is none, a reset, a stall
            raise BadRequest("The request's body ended before all of it had come.") from problem
        self._given += len(data)
        if self._given > _FREE_BYTES + _MOST_UNFOLDED * self._came:
            raise StatementTooLarge(
                f"The body unfolds to more than {_MOST_UNFOLDED} times the {self._came} bytes that came of it; send it plain, or in parts."
            )
        buffer[: len(data)] = data
        return len(data)

    def _piece(self, most: int) -> bytes:
        piece = b""
        while True:
            if self._part.eof:  # one stream may follow another, as `cat a.gz b.gz` makes it
                piece, self._part, self._begun = self._part.unused_data, self._make(), False
            if data := self._part.decompress(piece, most):
                self._begun = True
                return data
            if self._part.eof:
                continue
            piece = self.folded.read(_CHUNK)
            self._came += len(piece)
            if not piece:
                if self._begun:
                    raise BadRequest(f"The request's body ended in the middle of its {self._encoding} stream.")
                return b""
            self._begun = True


def decode_request() -> None:
    """Make the present request's body plain; raises `UnsupportedMediaType` for an encoding that is not read here."""
    named = [part.strip().lower() for part in request.headers.get("Content-Encoding", "").split(",")]
    encodings = [part for part in named if part and part != "identity"]
    if not encodings:
        return
    if len(encodings) > 1 or encodings[0] not in _DECOMPRESSORS:
        raise UnsupportedMediaType(f"A body in the encoding {', '.join(encodings)} is not read here; gzip and zstd are.")
    environ = request.environ
    environ["wsgi.input"] = PlainBody(environ["wsgi.input"], encodings[0])
    environ["wsgi.input_terminated"] = True  # it tells its own end
    environ.pop("CONTENT_LENGTH", None)
    environ.pop("HTTP_CONTENT_ENCODING", None)


def encode_response(response: Response) -> Response:
    """Write an answer as its client accepts it."""
    if (
        not (response.mimetype or "").startswith(_COMPRESSED)
        or response.status_code in (204, 304)
        or "Content-Encoding" in response.headers
    ):
        return response
    response.vary.add("Accept-Encoding")
    encoding = _accepted(arrow=response.mimetype == ARROW)
    if encoding is None or request.method == "HEAD":
        return response
    body = response.response
    if isinstance(body, ResultBody):
        response.response = _Encoded(body, encoding)
        response.headers.pop("Content-Length", None)
    elif response.is_streamed or len(whole := response.get_data()) < _SMALL_BYTES:
        return response
    else:
        response.set_data(b"".join(_pieces([whole], encoding, endless=False)))
    response.headers["Content-Encoding"] = encoding
    return response


def _accepted(*, arrow: bool) -> str | None:
    """What the client would rather have than plain bytes.

    Arrow is made faster than gzip writes, and clients accept gzip without thinking of it: it is compressed for those that want zstd more.
    """
    accepted = request.accept_encodings
    zstd_wish, gzip_wish = (accepted.quality(coding) for coding in ("zstd", "gzip"))
    if arrow:
        return "zstd" if zstd_wish > gzip_wish else None
    if max(zstd_wish, gzip_wish) <= 0:
        return None
    return "zstd" if zstd_wish >= gzip_wish else "gzip"


class _Encoded:
    """A result's body on its way through a compressor; closing it closes the result."""

    def __init__(self, body: ResultBody, encoding: str) -> None:
        self._body = body
        self._encoding = encoding

    def __iter__(self) -> Iterator[bytes]:
        return _pieces(self._body, self._encoding, endless=self._body.endless)

    def close(self) -> None:
        self._body.close()


def _pieces(chunks: Iterable[bytes], encoding: str, *, endless: bool) -> Iterator[bytes]:
    """The chunks compressed. What is small comes out at once: rows of a stream, and the signs of life between them.

    A failure among the chunks leaves the compressed stream without its end, too.
    """
    compress, flush, end = _compressor(encoding)
    for chunk in chunks:
        if not chunk:
            yield chunk
            continue
        data = compress(chunk)
        if endless or len(chunk) < _SMALL_PIECE:
            data += flush()
        if data:
            yield data
    yield end()


def _compressor(encoding: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes], Callable[[], bytes]]:
    if encoding == "zstd":
        made = zstd.ZstdCompressor(level=_ZSTD_LEVEL)
        return made.compress, lambda: made.flush(made.FLUSH_BLOCK), lambda: made.flush(made.FLUSH_FRAME)
    zipped = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31)
    return zipped.compress, lambda: zipped.flush(zlib.Z_SYNC_FLUSH), zipped.flush
