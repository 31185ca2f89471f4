"""Fixtures of the instruments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from table.format.io import object_store
from tests.faults.below import below as below
from tests.faults.s3_campaign import s3_campaign as s3_campaign
from tests.faults.shim import shim_library as shim_library
from tests.faults.world import World, world
from tests.fix_s3 import Bucket
from tests.fix_s3_proxy import Proxy


@pytest.fixture
def lakeside(bucket: Bucket, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> str:
    """The warehouse's location, reached through the proxy."""
    for name, value in {**bucket.environment, "AWS_ENDPOINT_URL": s3_proxy.endpoint}.items():
        monkeypatch.setenv(name, value)
    return f"s3://{bucket.name}/lake"


BRISK_SECONDS = 3.0


@pytest.fixture
def brisk_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A request that is not answered is given up sooner than by a server: most of a test would be waiting for that."""
    sooner = BRISK_SECONDS / object_store._S3_ANSWER_SECONDS
    for name in ("_S3_ANSWER_SECONDS", "_S3_PUT_SECONDS", "_S3_PATIENT_SECONDS"):
        monkeypatch.setattr(object_store, name, sooner * getattr(object_store, name))
    object_store._s3.cache_clear()
    yield
    object_store._s3.cache_clear()


@pytest.fixture
def on_s3(dsn: str, tmp_path: Path, lakeside: str) -> Iterator[World]:
    """A server whose warehouse is on S3, with a table of two rows."""
    with world(dsn, tmp_path, warehouse=lakeside) as made:
        made.must("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
        yield made
