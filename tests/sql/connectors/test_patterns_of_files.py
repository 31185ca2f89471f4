"""A pattern of files means what its names do, and no more of them than a server holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import InvalidOption
from sql.connectors import filesystem
from sql.connectors.base import ConnectorScope
from sql.connectors.filesystem import check_path


@pytest.fixture
def imports(tmp_path: Path) -> Path:
    """Directories a and b with a file each and a hidden one."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}1.csv").write_text("1")
        (tmp_path / name / ".hidden.csv").write_text("1")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("*/*.csv", ["a/a1.csv", "b/b1.csv"]),
        ("[ab]/?1.csv", ["a/a1.csv", "b/b1.csv"]),
        ("*/a1.csv", ["a/a1.csv"]),
        ("a/.h*", ["a/.hidden.csv"]),
        ("*", ["a", "b"]),
    ],
)
def test_a_pattern_is_files(imports: Path, pattern: str, files: list[str]) -> None:
    assert check_path(f"{imports}/{pattern}", ConnectorScope(import_dirs=(str(imports),))) == [f"{imports}/{file}" for file in files]


@pytest.mark.parametrize("pattern", ["*/../*/../*", "**/**/**", "*/./*", "a**/x"])
def test_a_pattern_neither_climbs_nor_goes_deep(imports: Path, pattern: str) -> None:
    with pytest.raises(InvalidOption, match="stands for a part of one name"):
        check_path(f"{imports}/{pattern}", ConnectorScope(import_dirs=(str(imports),)))


def test_a_pattern_means_so_many_files_at_most(imports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (imports / name / "up").symlink_to(imports)
    monkeypatch.setattr(filesystem, "_MOST_MATCHES", 100)
    with pytest.raises(InvalidOption, match="means more than 100 files or directories"):
        check_path(f"{imports}/" + "*/*/" * 50 + "none", ConnectorScope(import_dirs=(str(imports),)))
