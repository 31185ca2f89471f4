"""What no input may do: answer 5xx (but 503 and 507), show a traceback, end or hang a process, leave files open or memory taken."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from server.errors import speaks_flink
from tests.waiting import eventually

FAILED = Path(__file__).parent / "failed"
"""What ever failed, a file each: a line that says what it was, then its bytes. Those of a kind in `REPLAYED` are sent again by each run."""
REPLAYED = ("rows", "sql", "spark", "request", "rights", "http", "flight")
"""What begins the line of those; the others depend on a table that was made before, and are told by their seed (`FAILED_ONCE`)."""
MOST_SECONDS = 60.0
"""For one input: what takes longer hangs."""
_CLOSES_SECONDS = 60.0
_FINE = (501, 503, 507)
"""501 is what a part of a protocol answers that is not here."""


@contextmanager
def kept_if_it_fails(what: str, sent: bytes) -> Iterator[None]:
    """Around one input: where the block raises, or takes longer than `MOST_SECONDS`, the input stays as a file in `FAILED`."""
    begun = time.monotonic()
    try:
        yield
        took = time.monotonic() - begun
        assert took <= MOST_SECONDS, f"{what} took {took:.0f} s"
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # also pytest's own, where it hangs until the test's time is over
        line = what.encode("utf-8", "backslashreplace").replace(b"\n", b" ")
        FAILED.mkdir(exist_ok=True)
        kept = FAILED / f"{hashlib.sha256(line + sent).hexdigest()[:12]}.bin"
        kept.write_bytes(line + b"\n" + sent)
        problem.add_note(f"kept as {kept.name}")
        raise


def failed_once(kind: str) -> Iterator[tuple[str, str, bytes]]:
    """What ever failed of a kind in `REPLAYED`: the name of its file, what the line says behind the kind, and the bytes."""
    assert kind in REPLAYED
    for kept in sorted(FAILED.glob("*.bin")):
        line, _, sent = kept.read_bytes().partition(b"\n")
        begin, _, rest = line.decode().partition(" ")
        if begin == kind:
            yield kept.name, rest, sent


def judged(send: Callable[[], TestResponse], what: str, sent: bytes) -> TestResponse:
    """The answer to an input; `AssertionError` for one that is the server's fault, and the input is kept."""
    with kept_if_it_fails(what, sent):
        response = send()
        text = response.get_data(as_text=True)
        bad = response.status_code >= 500 and response.status_code not in _FINE
        if speaks_flink(response.request.path):  # where every failure of a statement is a 500
            bad = bad and "InternalError" in text
        fault = bad or "Traceback (most recent" in text or "InternalError" in text
        assert not fault, f"{what}: {response.status_code} {text[:300]}"
    return response


class Flat:
    """Memory and open files of this process, before and after."""

    def __init__(self) -> None:
        gc.collect()
        self._process = psutil.Process()
        self._files = self._process.num_fds()
        self._memory = self._process.memory_info().rss

    def check(self, *, memory: int = 300 << 20, files: int = 20) -> None:
        """Raise `AssertionError` where more is held than at the beginning; who closes files may need a moment."""
        gc.collect()
        assert eventually(lambda: self._process.num_fds() <= self._files + files, _CLOSES_SECONDS), self._process.num_fds() - self._files
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
