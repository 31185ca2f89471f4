"""A JVM that ran out of memory goes on, or takes minutes to die: it is asked, and killed where it does not answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sql.spark.driver.jvm import Jvm

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 10.0
_AGAIN_SECONDS = 5.0


def watch(java: Jvm, ask: Callable[[], None], prepare: Callable[[], None]) -> None:
    """Watch a JVM as long as it lives; ``ask`` starts Spark anew where it has ended, and comes back late where the JVM is stuck.

    ``prepare`` is called once it ran out of memory.
    """
    threading.Thread(target=_watch, args=(java, ask, prepare), name="spark-memory", daemon=True).start()


def _watch(java: Jvm, ask: Callable[[], None], prepare: Callable[[], None]) -> None:
    while java.lives() and not java.out_of_memory.exists():
        time.sleep(_LOOK_SECONDS)
    if java.lives():
        try:
            prepare()
        except Exception:  # the JVM that lives is watched all the same
            _log.exception("A new start of Spark could not be prepared")
    with ThreadPoolExecutor(1, thread_name_prefix="spark-memory") as asking:  # one thread, since each costs the JVM one
        while java.lives():
            answer = asking.submit(ask)
            try:
                answer.result(_ANSWER_SECONDS)
            except TimeoutError:
                _log.error("Spark ran out of memory and has not answered for %d s; its JVM is killed", _ANSWER_SECONDS)
                java.kill()
                return
            except Exception:  # it is watched as long as it lives
                _log.exception("Spark ran out of memory and could not be asked how it is")
            time.sleep(_AGAIN_SECONDS)
