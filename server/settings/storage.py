"""What can be set of object stores; `server.settings.options` declares it among the rest."""

from __future__ import annotations

from model.options.option import Option, number

PATIENCE = Option(
    "storage.patience-seconds",
    number(at_least=1),
    30.0,
    "How long an object store may refuse requests of one statement or leave them without an answer, in all; then the statement is "
    "answered 503 and names the object. What is answered costs nothing of it. See [scaling](scaling.md#a-store-that-does-not-answer).",
)
