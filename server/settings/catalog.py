"""What can be set of the catalog's Postgres when the server starts; `server.settings.options` declares it among the rest."""

from __future__ import annotations

from model.options.option import Option, integer, one_of, optional, text

DSN = Option(
    "catalog.dsn",
    optional(text()),
    None,
    "Postgres that holds the catalog, as a libpq URI or keywords. Without it a Postgres is started in `data`.",
)
POOLER = Option(
    "catalog.pooler",
    one_of("none", "transaction"),
    "none",
    "`transaction`: `catalog.dsn` leads to a pooler in transaction mode, such as PgBouncer. Nothing is prepared then, and limits of "
    "time are set in each transaction; see [operations](operations.md#behind-pgbouncer).",
)
DIRECT_DSN = Option(
    "catalog.direct-dsn",
    optional(text()),
    None,
    "The same Postgres past its pooler: one connection of each server, by which it hears of commits, and `sluice migrate`, `backup`, "
    "`restore`, `check` and `doctor`. Without it streams ask for commits twice a second, and `sluice restore` is refused.",
)
CONNECTIONS = Option(
    "catalog.connections",
    integer(at_least=2, at_most=1000),
    16,
    "Connections to the catalog's Postgres at most, besides up to 8 for turns and 2 for leases, signs of life and `/readyz`.",
)
