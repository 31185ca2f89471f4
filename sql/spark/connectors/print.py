"""Rows become lines of the server's output, in the order of the frame."""

from __future__ import annotations

import re
import sys

from pyspark.sql import DataFrame

from sql.connectors import ConnectorScope, ConnectorTable
from sql.connectors.print import IDENTIFIER, STANDARD_ERROR
from sql.spark.connectors.base import SparkConnector

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class SparkPrint(SparkConnector):
    """Prints rows as Flink does: ``+I[1, a]``."""

    def write(self, frame: DataFrame, table: ConnectorTable, scope: ConnectorScope) -> int:
        """Print the rows, a few at a time."""
        identifier = IDENTIFIER.read(table.options)
        prefix = f"{identifier}> " if identifier else ""
        out = sys.stderr if STANDARD_ERROR.read(table.options) else sys.stdout
        count = 0
        for row in frame.toLocalIterator():
            out.write(f"{in_one_line(prefix)}+I[{in_one_line(', '.join(map(shown, row)))}]\n")
            count += 1
        out.flush()
        return count


def in_one_line(text: str) -> str:
    """The text with line breaks and other control characters as escapes: rows are no lines of the server's log."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown(value: object) -> str:
    """A value as Flink prints it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case bytes() | bytearray():
            return "[" + ", ".join(str(byte - 256 if byte > 127 else byte) for byte in value) + "]"
        case dict():
            return "{" + ", ".join(f"{shown(key)}={shown(item)}" for key, item in value.items()) + "}"
        case tuple():
            return f"+I[{', '.join(map(shown, value))}]"
        case list():
            return f"[{', '.join(map(shown, value))}]"
    return str(value)
