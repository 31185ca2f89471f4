"""A warehouse on S3 whose requests are refused, lost, cut and held back: nothing is lost or doubled, and errors say which object."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from model.errors import Unavailable
from table.format.io.file_io import file_io_for
from tests.faults.s3_campaign import PATIENT, nth, since
from tests.faults.world import World, world
from tests.fix_s3_proxy import Fate, Proxy

_AWAY_SECONDS = 2.0
"""What a statement waits for a store that is away: as long as servers do would be most of a test."""


def test_a_small_object_is_one_put(lakeside: str, s3_proxy: Proxy) -> None:
    io = file_io_for(lakeside)
    s3_proxy.reset()
    io.add(f"{lakeside}/manifest-1", b"x" * 100_000)
    assert [request.split()[0] for request in s3_proxy.requests] == ["PUT"]
    assert io.read(f"{lakeside}/manifest-1") == b"x" * 100_000


@pytest.mark.parametrize("fate", PATIENT, ids=lambda fate: fate.name)
def test_a_request_that_fails_once_is_tried_again(on_s3: World, s3_proxy: Proxy, fate: Fate) -> None:
    ids = [1, 2]
    s3_proxy.reset()
    on_s3.must("INSERT INTO t VALUES (10)")
    ids.append(10)
    calls, faults = len(s3_proxy.requests), 0
    for number in range(1, calls + 1, 9):
        s3_proxy.reset(nth(number, fate))
        answer = on_s3.ask(f"INSERT INTO t VALUES ({100 + number})")
        assert answer.ok, (number, answer, s3_proxy.requests)
        faults += s3_proxy.faults
        ids.append(100 + number)
    s3_proxy.reset()
    assert on_s3.ids("t") == sorted(ids)
    assert faults == len(range(1, calls + 1, 9))


def test_a_read_that_is_refused_once_is_tried_again(on_s3: World, s3_proxy: Proxy, lakeside: str) -> None:
    """Of objects shorter than the refusal, too, where Arrow's reader hides it."""
    io = file_io_for(lakeside)
    io.add(f"{lakeside}/a", b"1")
    s3_proxy.reset()
    assert (io.read(f"{lakeside}/a"), on_s3.ids("t")) == (b"1", [1, 2])
    calls = len(s3_proxy.requests)
    for number in range(1, calls + 1):
        s3_proxy.reset(nth(number, Fate.SLOW_DOWN))
        assert (io.read(f"{lakeside}/a"), on_s3.ids("t")) == (b"1", [1, 2]), (number, s3_proxy.requests)
        assert s3_proxy.faults == 1
    assert calls <= 10, s3_proxy.requests


def test_five_requests_of_a_hundred_refused_fail_no_statement(on_s3: World, s3_proxy: Proxy) -> None:
    chance = random.Random(20261122)
    s3_proxy.reset(lambda number, method, path: Fate.SLOW_DOWN if chance.random() < 0.05 else Fate.SERVED)
    with ThreadPoolExecutor(4) as writers:
        answers = list(writers.map(lambda number: on_s3.ask(f"INSERT INTO t VALUES ({number})"), range(10, 40)))
    assert [answer for answer in answers if not answer.ok] == []
    assert s3_proxy.faults
    s3_proxy.reset()
    assert on_s3.ids("t") == [1, 2, *range(10, 40)]


@pytest.mark.parametrize("fate", [Fate.FORBIDDEN, Fate.AWAY], ids=lambda fate: fate.name)
def test_a_store_that_is_away_is_told_and_comes_back(
    on_s3: World, s3_proxy: Proxy, dsn: str, lakeside: str, tmp_path: Path, fate: Fate
) -> None:
    s3_proxy.reset()
    on_s3.must("INSERT INTO t VALUES (3)")
    told: list[int] = [3]
    with world(dsn, tmp_path, warehouse=lakeside, store_seconds=_AWAY_SECONDS) as asked:
        for number, begin in enumerate(range(1, len(s3_proxy.requests) + 1, 13)):
            s3_proxy.reset(since(begin, fate))
            answer = asked.ask(f"INSERT INTO t VALUES ({50 + number})")
            if answer.ok:
                told.append(50 + number)
            else:
                assert answer.status == 503, answer
                assert "s3://" in answer.body["detail"] or "t/" in answer.body["detail"], answer
            s3_proxy.reset()
    with world(dsn, tmp_path, warehouse=lakeside) as fresh:
        assert fresh.ids("t") == [1, 2, *told], "acknowledged rows, and no others: what was refused is not there"
        fresh.must("INSERT INTO t VALUES (99)")
        assert fresh.ids("t") == [1, 2, *told, 99]


def test_an_upload_of_many_parts_that_is_cut_leaves_no_object(lakeside: str, s3_proxy: Proxy) -> None:
    io = file_io_for(lakeside)
    s3_proxy.reset(lambda number, method, path: Fate.FORBIDDEN if "partNumber=2" in path else Fate.SERVED)
    with pytest.raises(Unavailable, match=r"cannot be used at large: .*UploadPart"):
        io.add(f"{lakeside}/large", b"x" * (25 << 20))
    assert s3_proxy.faults
    assert not io.exists(f"{lakeside}/large")
    s3_proxy.reset(lambda number, method, path: Fate.CUT if "partNumber=2" in path and number < 6 else Fate.SERVED)
    io.add(f"{lakeside}/large", b"x" * (25 << 20))
    assert s3_proxy.faults
    assert io.size(f"{lakeside}/large") == 25 << 20


def test_what_is_removed_is_removed_though_its_directory_gets_no_mark(lakeside: str, s3_proxy: Proxy) -> None:
    """Arrow puts an empty object for the directory once a file in it is gone."""
    io = file_io_for(lakeside)
    for name in ("a/b", "c/d/e", "f/g"):
        io.add(f"{lakeside}/{name}", b"1")
    s3_proxy.reset(lambda number, method, path: Fate.FORBIDDEN if method == "PUT" and path.endswith("/") else Fate.SERVED)
    io.delete(f"{lakeside}/a/b")
    io.delete_tree(f"{lakeside}/c/d")
    io.rename(f"{lakeside}/f/g", f"{lakeside}/h/i")
    assert s3_proxy.faults >= 3, s3_proxy.requests
    assert [io.exists(f"{lakeside}/{name}") for name in ("a/b", "c/d/e", "f/g", "h/i")] == [False, False, False, True]
    s3_proxy.reset(lambda number, method, path: Fate.FORBIDDEN if method == "PUT" else Fate.SERVED)
    with pytest.raises(Unavailable):
        io.add(f"{lakeside}/h/j", b"1")
    with pytest.raises(Unavailable):
        io.rename(f"{lakeside}/h/i", f"{lakeside}/h/k")
    assert io.read(f"{lakeside}/h/i") == b"1"
