"""What Flink does of the client matrix; one statement a line, in Flink's own environment."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment


def main(create_catalog: str) -> None:
    """One request a line: the text of a statement."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Flink's JVM writes there, too
    environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    environment.get_config().set("parallelism.default", "1")
    environment.execute_sql(create_catalog)
    environment.execute_sql("USE CATALOG sluice")
    for line in sys.stdin:
        text = json.loads(line)
        answer: dict[str, Any]
        try:
            result = environment.execute_sql(text)
            if text.startswith("INSERT") or " AS SELECT " in text:  # a job, whose result is its end
                result.wait()
                answer = {"rows": []}
            else:
                with result.collect() as rows:
                    answer = {"rows": [list(row) for row in rows]}
        except Exception as problem:  # whatever it is, the test tells it
            causes = [part.strip() for part in str(problem).splitlines() if "Caused by" in part or "Exception" in part]
            answer = {"error": (causes[-1] if causes else str(problem))[:1000]}
        print(json.dumps(answer, default=str), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
