"""Numbers that clients spell."""

from __future__ import annotations

import pytest

from model.text.whole_number import signed_number, whole_number


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "+1", "-1", "--1", "1_0", "²", "٣", "１", "1.0", "0x1", "9223372036854775808", "9" * 5000]
)
def test_what_is_no_number_of_64_bits(text: str) -> None:
    assert whole_number(text) is None
    if text != "-1":
        assert signed_number(text) is None


def test_numbers() -> None:
    assert [whole_number(text) for text in ("0", "007", "0" * 5000 + "7", "9223372036854775807")] == [0, 7, 7, 2**63 - 1]
    assert [whole_number(text, most=9) for text in ("9", "10", "09")] == [9, None, 9]
    assert [signed_number(text) for text in ("-0", "-7", "-9223372036854775808", "-9223372036854775809")] == [0, -7, -(2**63), None]
