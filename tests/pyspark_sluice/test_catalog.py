"""The connection of the Spark source to its server."""

from __future__ import annotations

import ssl

import pytest

from model.errors import Unavailable
from pyspark_sluice.catalog import RemoteTable
from pyspark_sluice.options import SourceOptions
from sluice.transport import http_client


@pytest.mark.parametrize(
    ("url", "proxy", "loads"),
    [
        ("http://127.0.0.1:1", "", False), ("HTTP://127.0.0.1:1", "http://127.0.0.1:2", False), ("https://127.0.0.1:1", "", True),
        ("http://127.0.0.1:1", "https://127.0.0.1:2", True),
    ],
)  # fmt: skip
def test_authorities_are_loaded_where_tls_is_spoken(monkeypatch: pytest.MonkeyPatch, url: str, proxy: str, loads: bool) -> None:
    """They take a third of a second, for each query and each write; also of the client."""
    made: list[object] = []
    create = ssl.create_default_context

    def noted(*arguments: object, **options: object) -> ssl.SSLContext:
        made.append(options)
        return create(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl, "create_default_context", noted)
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(Unavailable):
        RemoteTable(SourceOptions.read({"uri": url, "path": "d.t"}), patience=0)
    assert bool(made) == loads
    made.clear()
    http_client(url, {}).close()
    assert bool(made) == loads
