"""Locations: one place has one value, however it is spelled, and a name joined to one stays inside it."""

from __future__ import annotations

import pytest

from model.errors import InvalidOption
from model.location import Location, is_plain_name


@pytest.mark.parametrize(
    "spelled",
    ["/a/b", "/a/b/", "//a/b", "///a//b", "/a/./b", "/a/c/../b", "/../a/b", "file:/a/b", "file:///a/b", "file:////a/b", "file://///a//b//",
     "FILE:/a/b", "file://localhost/a/b", "file:///x/../a/b/."],
)  # fmt: skip
def test_a_place_of_this_machine_has_one_value(spelled: str) -> None:
    assert Location.parse(spelled) == Location.parse("/a/b")
    assert str(Location.parse(spelled)) == "/a/b"


@pytest.mark.parametrize("spelled", ["s3://b/x/y", "S3://b//x/./y/", "s3a://b/x/z/../y", "s3n://b/x/y"])
def test_a_place_of_a_store_has_one_value(spelled: str) -> None:
    assert str(Location.parse(spelled)) == "s3://b/x/y"


@pytest.mark.parametrize("spelled", ["/a/%2e%2e/b", "/a/%2F/b", "/a b/ü/文", "/a/..b/c..", "/a/b?c#d", "file:/a:b/c"])
def test_nothing_is_unquoted(spelled: str) -> None:
    assert str(Location.parse(spelled)) == spelled.removeprefix("file:")


@pytest.mark.parametrize(
    "spelled",
    ["", "a/b", "./a", "file:a/b", "file:", "file://host/a", "file://host", "s3:/b/x", "s3:///x", "s3:x", "/a\0b", "/a\nb", "/a\ud800b",
     "/" + "x/" * 3000],
)  # fmt: skip
def test_what_is_no_place_is_refused(spelled: str) -> None:
    with pytest.raises(InvalidOption):
        Location.parse(spelled)


def test_places_in_each_other() -> None:
    table, neighbour = Location.parse("/w/d.db/t"), Location.parse("/w/d.db/t2")
    assert table.contains(table.child("bucket-0"))
    assert not table.contains(neighbour)
    assert not table.contains(table.parent)
    assert table.overlaps(table.parent)
    assert not table.overlaps(neighbour)
    assert not Location.parse("/b/x").overlaps(Location.parse("s3://b/x"))
    assert not Location.parse("s3://a/x").overlaps(Location.parse("s3://b/x"))
    assert Location.parse("/").contains(table)
    assert Location.parse("/").parent == Location.parse("/..")
    assert table.below(Location.parse("/w")) == ("d.db", "t")


@pytest.mark.parametrize("name", ["data-1.parquet", "ü 文.orc", "a..b", "...", "k=v", "-", "x" * 255])
def test_plain_names(name: str) -> None:
    assert is_plain_name(name)
    assert str(Location.parse("/t").child(name)) == f"/t/{name}"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/x", "a\\b", "a\0", "a\n", "\x7f", "\ud800", "x" * 256, "ü" * 128])
def test_names_that_lead_elsewhere(name: str) -> None:
    assert not is_plain_name(name)
    with pytest.raises(InvalidOption):
        Location.parse("/t").child(name)
