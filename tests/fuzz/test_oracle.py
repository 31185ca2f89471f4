"""The oracle itself: what fails or hangs stays as a file, and each such file is sent again by somebody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz import oracle
from tests.fuzz.oracle import FAILED, REPLAYED, failed_once, kept_if_it_fails


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(oracle, "FAILED", tmp_path / "failed")
    return tmp_path / "failed"


def test_what_fails_is_kept_and_found_again(failed: Path) -> None:
    with kept_if_it_fails("http seed 1", b"fine"):
        pass
    with pytest.raises(AssertionError) as problem, kept_if_it_fails("http seed\n2", b"GET\nx\x00"):
        raise AssertionError("a 500")
    (file,) = failed.iterdir()
    assert problem.value.__notes__ == [f"kept as {file.name}"]
    assert list(failed_once("http")) == [(file.name, "seed 2", b"GET\nx\x00")]
    assert list(failed_once("sql")) == []


def test_what_hangs_is_kept(failed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.fail.Exception), kept_if_it_fails("sql seed 1", b"slow"):
        pytest.fail("Timeout")  # as pytest ends a test whose time is over
    monkeypatch.setattr(oracle, "MOST_SECONDS", -1.0)
    with pytest.raises(AssertionError, match="sql seed 2 took"), kept_if_it_fails("sql seed 2", b"slow, too"):
        pass
    assert sorted(sent for _, _, sent in failed_once("sql")) == [b"slow", b"slow, too"]


def test_each_kind_is_sent_again() -> None:
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py") if file.name != Path(__file__).name)
    assert set(re.findall(r'failed_once\("(\w+)"\)', tests)) == set(REPLAYED)
    kinds = {file.read_bytes().split(b" ", 1)[0].decode() for file in FAILED.glob("*.bin")}
    assert kinds <= {*REPLAYED, "hostile", "member"}, "nobody sends these again"
