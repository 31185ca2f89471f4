"""``'connector' = 'blackhole'``: takes rows and forgets them, as Flink's does."""

from __future__ import annotations

from sql.connectors.base import Connector, options_of


class Blackhole(Connector):
    """Takes all rows and keeps none."""

    name = "blackhole"
    options = options_of("blackhole", "A sink that forgets what it is given: for measuring the rest.")
    source = False
    sink = True
