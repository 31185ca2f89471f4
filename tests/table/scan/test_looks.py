"""What is known of files that were looked at: what was kept last is known, and memory does not grow."""

from __future__ import annotations

import hashlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from table.scan.checks.looks import KeptLooks, Look

LOOKS = [Look(in_spark=in_spark, bounded=bounded) for in_spark in (True, False) for bounded in (True, False)]


def key(number: int) -> bytes:
    return hashlib.blake2b(str(number).encode(), digest_size=16).digest()


@given(st.lists(st.tuples(st.integers(0, 30), st.none() | st.sampled_from(LOOKS)), max_size=80))
def test_it_knows_what_was_kept_last(steps: list[tuple[int, Look | None]]) -> None:
    kept, model = KeptLooks(), dict[int, Look]()
    for number, look in steps:
        if look is not None:
            kept.keep(key(number), look)
            model[number] = look
        assert kept.get(key(number)) == model.get(number)
    assert {number: kept.get(key(number)) for number in range(31)} == {number: model.get(number) for number in range(31)}
    kept.forget()
    assert not any(kept.get(key(number)) for number in range(31))


def test_of_files_that_share_their_places_the_one_asked_for_longest_ago_gives_way() -> None:
    kept, same = KeptLooks(), [bytes([number, *bytes(7)]) + bytes(8) for number in range(9)]
    for one in same[:8]:
        kept.keep(one, LOOKS[0])
    assert kept.get(same[0]) == LOOKS[0]
    kept.keep(same[8], LOOKS[1])
    assert [number for number in range(9) if kept.get(same[number]) is None] == [1]


def test_most_of_a_large_table_is_known_and_more_files_take_no_more_memory() -> None:
    kept = KeptLooks()
    for number in range(20_000):
        kept.keep(key(number), LOOKS[number % 4])
    found = [kept.get(key(number)) for number in range(20_000)]
    assert sum(look is None for look in found) < 10
    assert all(look in (None, LOOKS[number % 4]) for number, look in enumerate(found))
    tracemalloc.start()
    try:
        for number in range(20_000, 23_000):
            kept.keep(key(number), LOOKS[0])
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()
    assert kept.get(key(22_999)) == LOOKS[0]


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_is_known_of_the_key_of_zeros_before_it_was_looked_at(look: Look) -> None:
    kept = KeptLooks()
    assert kept.get(bytes(16)) is None
    kept.keep(bytes(16), look)
    assert kept.get(bytes(16)) == look
