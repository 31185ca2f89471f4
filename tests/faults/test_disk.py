"""What the model of a disk takes for flushed."""

from __future__ import annotations

from pathlib import Path

from tests.faults.disk import Disk

PREPARED = "M {root}/d|C {root}/d/a|S {root}/d/a|E {root}"


def kept(tmp_path: Path, lines: str) -> bytes | None:
    root, journal = tmp_path / "root", tmp_path / "journal"
    root.mkdir()
    journal.with_name("journal.1").write_bytes(b"bytes")
    parted = [line.split(" ") for line in lines.format(root=root).split("|")]
    journal.write_text("".join(f"{what}\t0\t{path}\t{'1' if what == 'S' else ''}\n" for what, path in parted))
    disk = Disk(root)
    journal_lines = disk.replay(journal)
    assert journal_lines == len(parted)
    return disk.kept(root / "d" / "a")


def test_a_flushed_name_leads_to_a_flushed_file(tmp_path: Path) -> None:
    assert kept(tmp_path, f"{PREPARED}|E {{root}}/d") == b"bytes"


def test_a_second_flush_of_an_unchanged_directory_writes_nothing(tmp_path: Path) -> None:
    assert kept(tmp_path, f"{PREPARED}|F {{root}}/d|E {{root}}/d") is None


def test_a_directory_that_was_changed_after_a_failed_flush_is_flushed(tmp_path: Path) -> None:
    assert kept(tmp_path, f"{PREPARED}|F {{root}}/d|C {{root}}/d/.sync|U {{root}}/d/.sync|E {{root}}/d") == b"bytes"


def test_a_second_flush_of_a_file_writes_nothing(tmp_path: Path) -> None:
    assert kept(tmp_path, "M {root}/d|C {root}/d/a|F {root}/d/a|S {root}/d/a|E {root}|E {root}/d") == b""
