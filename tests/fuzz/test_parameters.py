"""Parameters of Flight, read as a worker does: messages that are almost right neither end nor fill its process, nor show its memory."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lake import Owner
from model.errors import LakeError
from server.flight.pending import PreparedStatement
from server.flight.wire.received import PLACE_BYTES, Message, ReceivedRows
from sql.parameters.parameters import Parameter
from tests.fuzz.inputs import arrow, drawn, most_held, mutated
from workers.arrow import ArrowHere

SHORT, PART, PARTS = 1_000, 25_000, 4
_MOST_BYTES, _MOST_SECONDS = 1 << 30, 60.0
_BATCH, _ROWS = 3, 100
_TELLING = (0, 1, -1, 2, 7, 8, 9, 127, 128, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**63 - 1, -(2**63))


def messages(rng: random.Random) -> list[Message]:
    """An Arrow stream's messages, with damage to headers and bodies, some exchanged for another stream's."""
    sent = [Message(one.metadata.to_pybytes(), one.body.to_pybytes()) for one in pa.ipc.MessageReader.open_stream(arrow(rng))]
    others = [Message(one.metadata.to_pybytes(), one.body.to_pybytes()) for one in pa.ipc.MessageReader.open_stream(arrow(rng))]
    for _ in range(rng.choice([1, 1, 2, 3])):
        at = rng.randrange(len(sent))
        one, other = sent[at], rng.choice(others)
        match rng.randrange(8):
            case 0:
                sent[at] = Message(mutated(rng, one.header, other.header), one.body)
            case 1 | 2:
                sent[at] = Message(told_otherwise(rng, one.header), one.body)
            case 3 | 4:
                sent[at] = Message(one.header, told_otherwise(rng, one.body))  # offsets of texts and lists, sizes before what is compressed
            case 5:
                body = mutated(rng, one.body, other.body)
                sent[at] = Message(one.header, (body + bytes(len(one.body)))[: len(one.body)])  # as long as its header says
            case 6:
                sent[at] = Message(other.header, one.body)
            case _:
                sent[at] = other
    return sent


def told_otherwise(rng: random.Random, data: bytes) -> bytes:
    """The same with some aligned number of 2, 4 or 8 bytes replaced by a telling one."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        size = rng.choice([2, 4, 4, 8, 8])
        if len(found) >= size:
            at = rng.randrange(len(found) // size) * size
            number = rng.choice([*_TELLING, rng.randrange(256), len(found), len(found) - at])
            found[at : at + size] = struct.pack("<Q", number & 2**64 - 1)[:size]
    return bytes(found)


def texts(value: object) -> Iterator[bytes]:
    """Every text and byte string in a value, however deep."""
    match value:
        case bytes():
            yield value
        case str():
            yield value.encode()
        case dict():
            for part in value.values():
                yield from texts(part)
        case list() | tuple():
            for part in value:
                yield from texts(part)


def bound(sent: list[Message]) -> bool:
    """Decode and bind parameters as a statement does; whether they were taken. Raises for whatever a statement would answer 5xx to."""
    whole = b"".join(one.header + one.body for one in sent)
    try:
        compressed = any(one.kind == _BATCH and one.is_compressed for one in sent)
        batches = [batch for batch in ReceivedRows(iter(sent), PLACE_BYTES, ArrowHere(), "").batches() if batch.num_rows]
    except LakeError:
        return False
    for batch in batches:
        wanted = pa.schema([(str(number), pa.null()) for number in range(batch.num_columns)])
        statement = PreparedStatement(text="", owner=Owner(), is_query=False, schema=pa.schema([]), parameters=wanted)
        for number in range(min(batch.num_rows, _ROWS)):
            try:
                parameters = statement.row(batch, number)
            except LakeError:
                continue
            values = [one.value for one in parameters.positional if isinstance(one, Parameter)]
            assert compressed or all(text in whole for text in texts(values)), "a value holds what was not sent"
    return True


def campaign(first: int, last: int) -> None:
    """Bind the messages of some seeds in this process; prints each seed before it is read, and how many were taken."""
    answered = {True: 0, False: 0}
    for seed in range(first, last):
        print(f"seed {seed}", flush=True)
        begun = time.process_time()
        answered[bound(messages(drawn("parameters", seed)))] += 1
        took = time.process_time() - begun
        assert took < _MOST_SECONDS, f"{seed} took {took:.0f} s"
        peak = most_held()
        assert peak < _MOST_BYTES, f"{seed}: {peak:,} bytes"
    print(f"done {answered}", flush=True)


def run(first: int, last: int, directory: Path) -> None:
    """The campaign in a process of its own, which alone may end; where it does, what ended it is told."""
    told = directory / "told"
    code = f"from tests.fuzz.test_parameters import campaign; campaign({first}, {last})"
    place, seconds = Path(__file__).parents[2], 600 + (last - first) // 10
    with told.open("wb") as out:
        ended = subprocess.run([sys.executable, "-c", code], stdout=out, stderr=out, cwd=place, timeout=seconds, check=False)
    words = told.read_text(errors="replace")
    assert ended.returncode == 0, words[-3_000:]
    assert words.splitlines()[-1].startswith("done")
    assert "True: 0" not in words, "no message was almost right"
    assert "False: 0" not in words, "no message was wrong"


def test_messages_that_are_almost_right_are_bound_or_refused(tmp_path: Path) -> None:
    run(0, SHORT, tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_messages(tmp_path: Path, part: int) -> None:
    run(SHORT + part * PART, SHORT + (part + 1) * PART, tmp_path)


def test_a_value_that_was_not_sent_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([("0", pa.binary())])) as writer:
        writer.write_batch(pa.record_batch({"0": [b"sent"]}))
    sent = [Message(one.metadata.to_pybytes(), one.body.to_pybytes()) for one in pa.ipc.MessageReader.open_stream(sink.getvalue())]
    assert bound(sent)
    monkeypatch.setattr(ReceivedRows, "batches", lambda _: iter([pa.record_batch({"0": [[{"a": b"of others"}]]})]))
    with pytest.raises(AssertionError, match="not sent"):
        bound(sent)
