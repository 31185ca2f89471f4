"""The page of benchmarks: written part by part."""

from __future__ import annotations

from benchmarks.__main__ import PARTS
from benchmarks.harness.page import PAGE, Table, put, section

ORDER = ["First", "Second", "Third"]


def test_a_part_that_was_not_run_keeps_its_section_to_the_letter() -> None:
    first = section("First", [Table(head=("a", "b"), rows=[("1", "2")], note="Said of it.")])
    third = section("Third", [Table(head=("c",), rows=[("3",)])])
    page = put(put("", {"Third": third}, ORDER), {"First": first}, ORDER)
    assert page.index("## First") < page.index("## Third")
    assert first in page
    assert third in page
    again = section("First", [Table(head=("a", "b"), rows=[("4", "5")])])
    changed = put(page, {"First": again}, ORDER)
    assert changed == page.replace(first, again)
    assert put(changed, {}, ORDER) == changed


def test_a_section_that_no_part_writes_any_more_goes() -> None:
    old = section("Gone", [Table(head=("a",), rows=[("1",)])])
    assert "Gone" not in put(put("", {"Gone": old}, ["Gone"]), {}, ORDER)


def test_the_page_of_docs_is_one_that_the_parts_can_write() -> None:
    text = PAGE.read_text()
    assert put(text, {}, [part.title for part in PARTS]) == text
