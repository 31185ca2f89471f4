"""What nobody can beat here: Flask on the same HTTP server, one guarded UPDATE and INSERT in the same Postgres, one file.

Run as ``python -m benchmarks.harness.stub DIRECTORY PORT``. It checks nothing, knows one kind of request, and forgets who asked.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import orjson
from flask import Flask, Response, request
from psycopg_pool import ConnectionPool

from server.http.wsgi import HttpServer
from server.process.postgres import EmbeddedPostgres
from server.settings.settings import read_settings

_TABLES = """
    CREATE TABLE pointer (name text PRIMARY KEY, snapshot_id bigint NOT NULL, uuid text);
    CREATE TABLE history (name text, snapshot_id bigint, body jsonb NOT NULL, PRIMARY KEY (name, snapshot_id));
"""
_DECIDE = """
    WITH moved AS (
        UPDATE pointer SET snapshot_id = %(id)s, uuid = %(uuid)s
        WHERE name = %(name)s AND uuid IS NOT DISTINCT FROM %(base)s AND snapshot_id = %(id)s - 1 RETURNING name
    ) INSERT INTO history SELECT name, %(id)s, %(body)s FROM moved
"""


def create_app(pool: Any, directory: Path) -> Flask:
    """The commit endpoint, and as much beside it as its clients need."""
    app = Flask("stub")

    def answer(body: object) -> Response:
        return Response(orjson.dumps(body), content_type="application/json")

    @app.get("/v1/sluice/databases/default/tables/<name>")
    def table(name: str) -> Response:
        with pool.connection() as conn:
            conn.execute("INSERT INTO pointer VALUES (%s, 0) ON CONFLICT DO NOTHING", (name,))
        (directory / name).mkdir(exist_ok=True)
        return answer({"id": name})

    @app.get("/v1/sluice/databases/default/tables/<name>/snapshot")
    def snapshot(name: str) -> Response:
        with pool.connection() as conn:
            row = conn.execute("SELECT snapshot_id, uuid FROM pointer WHERE name = %s", (name,)).fetchone()
        return answer({"snapshot": {"snapshot": {"id": row[0], "uuid": row[1]}}})

    @app.post("/v1/sluice/databases/default/tables/<name>/commit")
    def commit(name: str) -> Response:
        body = orjson.loads(request.get_data())
        made = body["snapshot"]
        text = orjson.dumps(made)
        values = {"id": made["id"], "uuid": made["uuid"], "name": name, "base": body["baseSnapshotUuid"], "body": text.decode()}
        with pool.connection() as conn:
            taken = conn.execute(_DECIDE, values).rowcount == 1
        if taken:
            (directory / name / f"snapshot-{made['id']}").write_bytes(text)
        return answer({"success": taken})

    return app


def main() -> None:
    """Serve until a line, or the end, comes on standard input."""
    directory = Path(sys.argv[1])
    postgres = EmbeddedPostgres(directory)
    with ConnectionPool(postgres.start(), min_size=4, max_size=16, kwargs={"autocommit": True}) as pool:
        with pool.connection() as conn:
            conn.execute(_TABLES)
        settings = read_settings({"SLUICE_LISTEN": f"127.0.0.1:{sys.argv[2]}", "SLUICE_DATA": str(directory)})
        HttpServer(create_app(pool, directory), settings).start_serving()
        sys.stdin.readline()
    postgres.stop()
    os._exit(0)


if __name__ == "__main__":
    main()
