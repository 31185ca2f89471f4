"""Places of streaming queries on Spark, and that nobody waits for one to end."""

from __future__ import annotations

import threading

import pytest

from model.errors import TooManyStatements
from sql.execution.open_streams import OpenStreams
from tests.waiting import eventually


class _Stream:
    principal = "ada"

    def __init__(self) -> None:
        self.looks = 0
        self.over = False
        self.may_end = threading.Event()
        self.ended = threading.Event()

    def look(self) -> bool:
        self.looks += 1
        if self.over:
            raise RuntimeError("what nobody expected")
        return False

    def end(self) -> None:
        self.ended.set()
        assert self.may_end.wait(60)
        raise OSError("what it held cannot be freed")


def test_a_place_is_free_again_when_spark_has_ended_the_query() -> None:
    streams = OpenStreams(1)
    streams.take("ada")
    with pytest.raises(TooManyStatements, match=r"^1 streaming queries on Spark are open .* SLUICE_SPARK_STREAMS"):
        streams.take("ada")
    stream = _Stream()
    streams.watch(stream)
    streams.end(stream)  # and does not wait for it
    assert stream.ended.wait(60)
    with pytest.raises(TooManyStatements):
        streams.take("ada")
    assert not streams.wait_for_none(0.0)
    stream.may_end.set()
    assert streams.wait_for_none(60)
    streams.take("ada")
    streams.give_back("ada")
    assert len(streams) == 0


def test_one_principal_leaves_places_to_others() -> None:
    streams = OpenStreams(5)
    for _ in range(4):
        streams.take("ada")
    with pytest.raises(TooManyStatements, match="4 streaming queries of ada on Spark are open; the rest of SLUICE_SPARK_STREAMS = 5 is"):
        streams.take("ada")
    streams.take("bob")
    with pytest.raises(TooManyStatements, match="5 streaming queries on Spark are open on this server"):
        streams.take("bob")
    streams.give_back("ada")
    streams.give_back("ada")
    streams.take("ada")


def test_one_that_hangs_holds_up_no_other_and_one_thread_looks_after_all() -> None:
    streams = OpenStreams(20)
    many = [_Stream() for _ in range(10)]
    for stream in many:
        streams.take("ada")
        streams.watch(stream)
    assert eventually(lambda: all(stream.looks for stream in many), 60)
    many[0].over = True  # it fails; the others are looked at as before
    before = many[1].looks
    assert eventually(lambda: many[1].looks > before + 1, 60)
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("sluice-spark-streams") >= 1
    streams.end(many[0])
    assert many[0].ended.wait(60)
    for stream in many[1:]:
        stream.may_end.set()
        streams.end(stream)
    assert eventually(lambda: len(streams) == 1, 60)
    many[0].may_end.set()
    assert streams.wait_for_none(60)
