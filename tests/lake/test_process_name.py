"""Whom a server may take for dead: processes that ran where it runs, and nobody else's."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lake.process_name import is_dead, process_space

NOBODY = 4_000_000
"""No process has such an id here."""


@pytest.fixture
def fresh() -> Iterator[None]:
    process_space.cache_clear()
    yield
    process_space.cache_clear()


def test_only_who_ran_here_and_runs_no_more_is_dead() -> None:
    assert is_dead(process_space(), NOBODY)
    assert is_dead(process_space(), os.getpid()), "a former life's"
    assert not is_dead(process_space(), os.getppid())
    assert not is_dead(process_space(), 1)


@pytest.mark.parametrize("space", ["", "elsewhere", socket.gethostname(), f"{socket.gethostname()}.00000000"])
def test_a_machine_or_container_of_the_same_name_is_another_place(space: str) -> None:
    assert not is_dead(space, NOBODY)


def test_a_container_and_another_start_of_the_machine_have_names_of_their_own(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {process_space()}
    process_space.cache_clear()
    with monkeypatch.context() as other:
        read_link = os.readlink  # of other paths others of this process ask
        other.setattr(os, "readlink", lambda path, **more: "pid:[4026539999]" if path == "/proc/self/ns/pid" else read_link(path, **more))
        names.add(process_space())
    process_space.cache_clear()
    with monkeypatch.context() as other:
        read, boot = Path.read_text, "8a1f8c36-0000-0000-0000-000000000000\n"
        other.setattr(Path, "read_text", lambda path, *more, **others: boot if path.name == "boot_id" else read(path, *more, **others))
        names.add(process_space())
    assert len(names) == 3
    assert all(name.startswith(f"{socket.gethostname()}.") for name in names)
