"""Runs statements in Flink with Paimon's jar; lives in Flink's environment. A line of JSON for each: its rows, or its error."""

from __future__ import annotations

import datetime as dt
import json
import sys
from decimal import Decimal
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

EPOCH = dt.datetime(1970, 1, 1)


def spelled(value: Any) -> Any:
    """As `canonical` spells them."""
    match value:
        case dt.datetime():
            return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
        case dt.date():
            return (value - EPOCH.date()).days
        case Decimal():
            return format(value, "f")
        case bytes() | bytearray():
            return "0x" + value.hex()
        case list() | tuple():
            return [spelled(item) for item in value]
    return value


def environment(create_catalog: str, *, streaming: bool) -> TableEnvironment:
    """One that runs everything in one task, so that rows keep their order."""
    settings = EnvironmentSettings.in_streaming_mode() if streaming else EnvironmentSettings.in_batch_mode()
    made = TableEnvironment.create(settings)
    made.get_config().set("parallelism.default", "1")
    made.get_config().set("table.local-time-zone", "UTC")
    made.get_config().set("execution.checkpointing.interval", "500 ms")
    made.execute_sql(create_catalog)
    made.execute_sql("USE CATALOG sluice")
    return made


def main() -> None:
    asked = json.load(sys.stdin)
    environments = {mode: environment(asked["catalog"], streaming=mode) for mode in (False, True)}
    for statement in asked["statements"]:
        try:
            with environments[statement["streaming"]].execute_sql(statement["text"]).collect() as rows:
                answer: dict[str, Any] = {"rows": [[spelled(value) for value in row] for row in rows]}
        except Exception as problem:  # whatever it is, it is compared
            answer = {"error": str(problem)[:3000]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
