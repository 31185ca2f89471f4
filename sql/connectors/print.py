"""``'connector' = 'print'``: rows become lines of the server's log, as Flink's become lines of its task manager's."""

from __future__ import annotations

from model.options.option import Option, boolean, text
from sql.connectors.base import Connector, options_of

PRINT_OPTIONS = options_of("print", "A sink that writes each row as a line `+I[value, …]` to the server's output.")
IDENTIFIER = PRINT_OPTIONS.declare(Option("print-identifier", text(), "", "Stands before every line, with `> ` behind it.", per_query=True))
STANDARD_ERROR = PRINT_OPTIONS.declare(Option("standard-error", boolean(), False, "Whether lines go to standard error.", per_query=True))


class Print(Connector):
    """Prints all rows."""

    name = "print"
    options = PRINT_OPTIONS
    source = False
    sink = True
