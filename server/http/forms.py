"""Forms of the pages: bounded before they are taken apart, for each field becomes objects."""

from __future__ import annotations

import io
from typing import IO, Any

from flask import Request, request
from werkzeug.datastructures import MultiDict
from werkzeug.formparser import FormDataParser

from model.errors import StatementTooLarge, UnsupportedMediaType
from server.http.compression import PlainBody
from server.process.services import services
from server.settings.options import STATEMENT_BYTES
from server.sql.bodies import too_large

_ENVELOPE_BYTES = 64 << 10
_MOST_FIELDS = 1_000
_FORM = "application/x-www-form-urlencoded"
Parsed = tuple[IO[bytes], MultiDict[str, str], MultiDict[str, Any]]


class FormParser(FormDataParser):
    """Reads what browsers send for the pages here: plain, fields without files, a statement at most."""

    def parse(self, stream: IO[bytes], mimetype: str, content_length: int | None, options: dict[str, str] | None = None) -> Parsed:
        """The form's fields, none of a body of another type; raises `UnsupportedMediaType` or `StatementTooLarge`."""
        if mimetype != _FORM:
            return stream, self.cls(), self.cls()
        if isinstance(request.environ["wsgi.input"], PlainBody):
            raise UnsupportedMediaType("A form that is compressed is not read here; send it plain.")
        most = 3 * services().settings[STATEMENT_BYTES] + _ENVELOPE_BYTES  # a sign may be three in a form
        body = stream.read(most + 1)
        if len(body) > most:
            raise too_large(most)
        if body.count(b"&") >= _MOST_FIELDS:
            raise StatementTooLarge(f"The form has more than {_MOST_FIELDS} fields.")
        return super().parse(io.BytesIO(body), mimetype, len(body), options)


class PageRequest(Request):
    """A request whose form is bounded."""

    form_data_parser_class = FormParser
