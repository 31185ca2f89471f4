"""What no input may do: answer 5xx (but 503 and 507), show a traceback, end or hang a process, leave files open or memory taken."""

from __future__ import annotations

import gc
import hashlib
from pathlib import Path

import psutil
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from server.errors import speaks_flink

FAILED = Path(__file__).parent / "failed"
"""Every input that ever failed; `test_replayed` sends them again."""
_FINE = (501, 503, 507)
"""501 is what a part of a protocol answers that is not here."""


def judge(response: TestResponse, what: str, body: bytes) -> None:
    """Raise `AssertionError` for an answer that is the server's fault, and keep the input."""
    text = response.get_data(as_text=True)
    bad = response.status_code >= 500 and response.status_code not in _FINE
    if speaks_flink(response.request.path):  # where every failure of a statement is a 500
        bad = bad and "InternalError" in text
    if bad or "Traceback (most recent" in text or "InternalError" in text:
        FAILED.mkdir(exist_ok=True)
        kept = FAILED / f"{hashlib.sha256(body).hexdigest()[:12]}.bin"
        kept.write_bytes(what.encode() + b"\n" + body)
        raise AssertionError(f"{what}: {response.status_code} {text[:300]} (kept as {kept.name})")


class Flat:
    """Memory and open files of this process, before and after."""

    def __init__(self) -> None:
        gc.collect()
        self._process = psutil.Process()
        self._files = self._process.num_fds()
        self._memory = self._process.memory_info().rss

    def check(self, *, memory: int = 300 << 20, files: int = 20) -> None:
        """Raise `AssertionError` where more is held than at the beginning."""
        gc.collect()
        assert self._process.num_fds() <= self._files + files
        assert self._process.memory_info().rss <= self._memory + memory


def tree_digest(directory: Path) -> str:
    """The bytes of every file below a directory."""
    digest = hashlib.sha256()
    for file in sorted(directory.rglob("*")):
        if file.is_file():
            digest.update(str(file.relative_to(directory)).encode() + file.read_bytes())
    return digest.hexdigest()


def sql(client: FlaskClient, text: str) -> TestResponse:
    """Run a text that must work."""
    response = client.post("/sql", data=text)
    assert response.status_code == 200, response.text
    return response
