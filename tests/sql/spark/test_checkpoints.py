"""What of a job's checkpoint is flushed before a batch is committed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sql.spark.streaming.checkpoints import Checkpoint


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of what was flushed, as the operating system knows them."""
    paths: list[str] = []
    fsync = os.fsync

    def flush(handle: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr("os.fsync", flush)
    return paths


def laid_out(location: Path) -> Checkpoint:
    """A checkpoint as Spark leaves it after two batches of a Kafka source."""
    for name in ("metadata", "offsets/0", "offsets/1", "offsets/.1.crc", "offsets/10", "commits/0", "sources/0/0"):
        file = location / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("v1")
    return Checkpoint(str(location))


def test_a_batchs_plan_and_the_sources_starts_are_durable_before_its_commit(tmp_path: Path, flushed: list[str]) -> None:
    checkpoint = laid_out(tmp_path / "checkpoint")
    assert checkpoint.begun
    checkpoint.keep_plan(1)
    below = {os.path.relpath(path, checkpoint.location) for path in flushed}
    files = {"metadata", "offsets/1", "offsets/.1.crc", "sources/0/0"}
    assert below >= files | {"offsets", "sources/0", "sources", "."}
    assert not {"offsets/0", "offsets/10", "commits/0"} & below
    flushed.clear()
    checkpoint.keep_plan(10)
    assert {os.path.relpath(path, checkpoint.location) for path in flushed} == {"offsets/10", "offsets"}


def test_a_checkpoint_nobody_began(tmp_path: Path) -> None:
    assert not Checkpoint(str(tmp_path / "none")).begun
