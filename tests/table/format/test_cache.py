"""Caches are bounded by what their values take, not by how many there are."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from table.format.cache import ByteCache
from table.format.manifests.codec import decode_manifest, encode_manifests
from table.format.manifests.entries import EMPTY_ROW, DataFile, EntryKind, ManifestEntry, SimpleStats, entries_bytes
from table.format.rows import binary_row
from table.write.sequences import Buckets, _bytes_of
from tests.table.write.test_snapshot_builder import BIGINT


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), max_size=60))
def test_what_is_held_never_passes_the_bound(puts: list[tuple[int, int]]) -> None:
    cache: ByteCache[int, bytes] = ByteCache(100, len)
    for key, size in puts:
        cache.put(key, bytes(size))
        assert cache.held_bytes <= 100
        assert cache.get(key) == bytes(size), "what was put last is there"


def test_a_value_larger_than_the_cache_is_loaded_each_time() -> None:
    cache: ByteCache[str, bytes] = ByteCache(10, len)
    loads: list[int] = []

    def load() -> bytes:
        loads.append(1)
        return bytes(11)

    assert [len(cache.or_load("k", load)) for _ in range(2)] == [11, 11]
    assert (len(loads), cache.held_bytes) == (2, 0)
    assert [cache.or_load("s", lambda: b"x") for _ in range(2)] == [b"x", b"x"]
    assert cache.held_bytes == 1
    cache.clear()
    assert (cache.get("s"), cache.held_bytes) == (None, 0)


def test_what_nobody_asks_for_goes_as_others_come() -> None:
    now = [0.0]
    cache: ByteCache[int, bytes] = ByteCache(1000, len, idle_seconds=300, clock=lambda: now[0])
    for key in range(100):
        now[0] += 10
        cache.put(key, b"x")
        assert cache.get(0) == b"x", "what is asked for stays"
    assert cache.held_bytes == 32
    assert [key for key in range(100) if cache.get(key)] == [0, *range(69, 100)]
    cache.put(0, b"xyz")
    assert cache.held_bytes == 34
    now[0] += 301
    cache.put(100, b"y")
    assert (cache.held_bytes, cache.get(0), cache.get(100)) == (1, None, b"y")


@pytest.mark.parametrize("columns", [0, 5, 60])
def test_the_estimate_of_decoded_manifests_is_near_the_memory_they_take(columns: int) -> None:
    stats = SimpleStats(bytes(12 + 24 * columns), bytes(12 + 24 * columns), [0] * columns)
    entries = [
        ManifestEntry(
            kind=EntryKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=1,
            file=DataFile(
                file_name=f"data-0d4c6b3e-7f0b-4e3a-9a50-{i:012d}-0.parquet", file_size=10**6 + i, row_count=10**5 + i, value_stats=stats,
                value_stats_cols=[f"column_{c}" for c in range(columns)], min_sequence_number=10**5 * i, max_sequence_number=10**6 * i,
                schema_id=0, creation_time_millis=1_700_000_000_000 + i,
            ),
        )
        for i in range(1000)
    ]  # fmt: skip
    ((_, _, data),) = encode_manifests(entries, target=1 << 30, new_name=str)
    tracemalloc.start()
    decoded = decode_manifest(data)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / 1.5 <= entries_bytes(decoded) <= 2 * taken, (taken, entries_bytes(decoded))


def test_the_estimate_of_bucket_tops_is_near_the_memory_they_take() -> None:
    tracemalloc.start()
    tops = {(binary_row.encode_prefixed([BIGINT], (n,)), 10**6 + n): 10**9 + n for n in range(5000)}
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    buckets = Buckets(tops=tops, numbers=frozenset({1}))
    assert taken / 1.5 <= _bytes_of(buckets) <= 2 * taken, (taken, _bytes_of(buckets))
