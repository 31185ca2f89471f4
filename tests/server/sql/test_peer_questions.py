"""What a server asks of several others at once: how many questions one gets, and who waits for whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import wait
from threading import Event

import pytest

from server.sql.peer_questions import MOST_AT_ONCE, PeerQuestions
from tests.waiting import eventually


@pytest.fixture
def questions() -> Iterator[PeerQuestions]:
    made = PeerQuestions()
    yield made
    made.ask({})


def threads_for(number: int) -> int:
    return sum(thread.name.startswith(f"sluice-ask-{number}_") for thread in threading.enumerate())


def test_one_that_hangs_gets_a_few_questions_and_the_rest_in_their_turn(questions: PeerQuestions) -> None:
    """Each request left it one more thread and connection."""
    may_answer, asked = Event(), list[int]()

    def hang(question: int) -> int:
        asked.append(question)
        may_answer.wait(180)
        return question

    looks = []
    for question in range(2 * MOST_AT_ONCE):
        hanging, quick = questions.ask({70001: lambda question=question: hang(question), 70002: lambda: -1})  # type: ignore[misc]
        assert quick.result(120) == -1, "another server is asked meanwhile"
        looks.append(hanging)
    looks[-1].cancel()
    assert threads_for(70001) == MOST_AT_ONCE
    may_answer.set()
    wait(looks, 120)
    assert [look.result() for look in looks[:-1]] == list(range(2 * MOST_AT_ONCE - 1))
    assert 2 * MOST_AT_ONCE - 1 not in asked, "nobody waited for it any more"


def test_the_threads_for_a_server_that_is_gone_end(questions: PeerQuestions) -> None:
    wait(questions.ask({70003: lambda: 1, 70004: lambda: 1}), 120)
    wait(questions.ask({70004: lambda: 2}), 120)
    assert eventually(lambda: threads_for(70003) == 0)
    assert threads_for(70004) == 1
