"""What is on disk when Postgres is told: the trace of a process's calls, up to the moment that decides and to the one that notes.

A power cut at the decision leaves every file of the commit under its name, one at the note also the snapshot's own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from model.snapshot import Snapshot
from tests.faults.below import CampaignBelow
from tests.faults.disk import Disk
from tests.faults.operations import BY_NAME

HINTS = ("EARLIEST", "LATEST")
"""Where one was lost readers list the directory."""


def checked(disk: Disk, journal: Path, new: set[Path], snapshot_file: Path) -> None:
    """Follow the journal of one commit; the disk is as it was before."""
    snapshot = Snapshot.from_json(json.loads(snapshot_file.read_text()))
    new = {path for path in new if path.name not in HINTS}
    assert len(new) >= 4, "a data file, a manifest, two lists"
    decided = disk.replay_until_sent(journal, snapshot.key)
    assert disk.kept(snapshot_file) is None, "it is written once it is decided"
    for path in new - {snapshot_file}:
        assert disk.kept(path) == path.read_bytes(), f"{path} was not on disk when Postgres decided"
    disk.replay_until_sent(journal, snapshot.key, after=decided + 1)
    assert disk.kept(snapshot_file) == snapshot_file.read_bytes(), "Postgres was told of a snapshot's file that was not on disk"


@pytest.mark.parametrize("name", ["insert", "compaction"])
def test_all_is_on_disk_before_postgres_is_told(below: CampaignBelow, name: str) -> None:
    below.traced(BY_NAME[name], checked)
