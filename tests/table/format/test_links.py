"""Where a location is that is a link in one moment and a directory in the next."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from model.errors import Unavailable
from model.location import Location
from table.format.io.links import real


@pytest.mark.parametrize("becomes", ["a directory", "nothing"])
def test_a_link_that_becomes_something_else_as_it_is_followed_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    """The operating system's word for it ("Invalid argument") left the store as a bug of the server."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    read = os.readlink

    def later(path: str) -> str:
        if path == str(link) and link.is_symlink():
            link.unlink()
            if becomes == "a directory":
                link.mkdir()
        return read(path)

    monkeypatch.setattr(os, "readlink", later)
    assert real(Location.parse(f"{link}/file")) == Location.parse(f"{tmp_path.resolve()}/link/file")
    assert not link.is_symlink()


def test_one_that_never_stays_the_same_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    read = os.readlink

    def never_a_link(path: str) -> str:
        return read("/" if path == str(link) else path)

    monkeypatch.setattr(os, "readlink", never_a_link)
    with pytest.raises(Unavailable, match="Invalid argument"):
        real(Location.parse(str(link)))
