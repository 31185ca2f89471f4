"""An S3 server on this machine (moto's), for tests of object stores."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.running import free_port


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """An empty bucket, and how it is reached."""

    name: str
    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """What AWS's own libraries read."""
        return {
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint, "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the S3 server of this run answers."""
    command = shutil.which("moto_server", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if command is None:
        pytest.skip("moto cannot be had here: S3 is not tried.")
    port = free_port()
    with (tmp_path_factory.mktemp("moto") / "log").open("wb") as log:
        process = subprocess.Popen([command, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
        endpoint = f"http://127.0.0.1:{port}"
        try:
            for _ in range(1200):
                try:
                    httpx.get(endpoint, timeout=5)
                    break
                except httpx.TransportError:
                    assert process.poll() is None, "the S3 server died"
                    time.sleep(0.1)
            else:
                pytest.fail("The S3 server does not answer.")
            yield endpoint
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture
def bucket(s3_endpoint: str) -> Bucket:
    """A bucket of the test's own."""
    made = Bucket(name=f"b-{uuid4().hex[:12]}", endpoint=s3_endpoint)
    assert httpx.put(f"{s3_endpoint}/{made.name}").status_code == 200
    return made
