"""pypaimon on a server with tokens: grants, columns, row filters and masks."""

from __future__ import annotations

import os
import subprocess

import httpx
import pytest

from tests.fix_server import StartServer
from tests.interop.conftest import HERE, ROOT

pytestmark = pytest.mark.interop


def test_grants_columns_and_rules_hold_for_pypaimon(start_server: StartServer) -> None:
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    server = start_server(SLUICE_TOKEN="r00t")
    admin = {"Authorization": "Bearer r00t"}
    ada = httpx.post(f"{server.url}/tokens", json={"name": "ada"}, headers=admin).json()["token"]

    def as_users(parts: str) -> None:
        command = [str(python), str(HERE / "pypaimon_access.py"), parts, server.url, "r00t", ada]
        done = subprocess.run(command, env=os.environ | {"no_proxy": "*"}, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]

    def sql(*statements: str) -> None:
        for statement in statements:
            response = httpx.post(f"{server.url}/sql", content=statement.encode(), headers=admin, timeout=60)
            assert response.status_code == 200, response.text

    as_users("grants,columns")
    sql(
        "GRANT SELECT ON acl.t TO ada",
        "CREATE POLICY europe ON acl.t TO ada USING (region = 'eu' AND id IS NOT NULL)",
        "CREATE MASKING POLICY short ON acl.t (name) TO ada USING (substring(name, 1, 2))",
        "CREATE MASKING POLICY hidden ON acl.t (region) TO ada USING ('***')",
    )
    as_users("rules")
