"""What Flink's clients 2.3.0 were recorded to send, and the answers they understood: the same requests get the same answers.

The recordings are of the SQL client with ``-i init.sql -f file.sql`` and, after it, of a program on the JDBC driver. Handles and job ids
stand in them as ``<handle-1>``; what the server makes up for one the first time stands for it from then on.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

HERE = Path(__file__).parent / "recorded"
CLIENTS = ("sql_client", "jdbc_driver")
_MADE_UP = re.compile(r"<(?:handle|job)-\d+>")
_ID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}"


def test_the_recorded_conversations(client: FlaskClient) -> None:
    for name in CLIENTS:
        _replay(client, name)


def _replay(client: FlaskClient, name: str) -> None:
    known: dict[str, str] = {}
    for number, line in enumerate((HERE / f"{name}.jsonl").read_text().splitlines(), start=1):
        said = json.loads(line)
        path, body = (_MADE_UP.sub(lambda found: known[found[0]], said[part]) for part in ("path", "body"))
        response = _ask(client, said["method"], path, body)
        assert response.status_code == said["status"], f"{name}:{number}: {response.text}"
        assert _same(said["answer"], response.text, known), f"{name}:{number}: {response.text}\nwas {said['answer']}"


def _ask(client: FlaskClient, method: str, path: str, body: str) -> TestResponse:
    """As the clients send it, and again as long as the answer is that the statement still runs."""
    while True:
        headers = {"Connection": "close"}
        response = client.open(path, method=method, data=body, content_type="application/json; charset=UTF-8", headers=headers)
        if '"NOT_READY"' not in response.text:
            return response


def _same(recorded: str, answer: str, known: dict[str, str]) -> bool:
    """Whether an answer is the recorded one but for what is made up, which becomes known."""
    pattern, at = "", 0
    for found in _MADE_UP.finditer(recorded):
        group = found[0][1:-1].replace("-", "_")
        own = f"(?P={group})" if f"(?P<{group}>" in pattern else f"(?P<{group}>{_ID})"
        pattern += re.escape(recorded[at : found.start()]) + (re.escape(known[found[0]]) if found[0] in known else own)
        at = found.end()
    matched = re.fullmatch(pattern + re.escape(recorded[at:]), answer)
    if matched is not None:
        known |= {f"<{group.replace('_', '-')}>": value for group, value in matched.groupdict().items()}
    return matched is not None
