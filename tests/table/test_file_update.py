"""Small files changed in place."""

from __future__ import annotations

from pathlib import Path

from table.file_io import LocalFileIO


def test_what_is_updated_is_never_longer_than_what_was_written(tmp_path: Path) -> None:
    io, path = LocalFileIO(), tmp_path / "deep" / "LATEST"
    for text in (b"9", b"10", b"99", b"100", b"7", b"8"):  # 7: a rollback
        io.update(str(path), text)
        assert path.read_bytes() == text
    assert [found.name for found in path.parent.iterdir()] == ["LATEST"]
