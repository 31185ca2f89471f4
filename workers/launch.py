"""Starting a process where the system may lack for a moment what a process needs."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from model.options.masking import names_secret

_PASSING = frozenset((errno.EAGAIN, errno.ENOMEM, errno.EFAULT))
"""No entry left in the table of processes or in memory. EFAULT: a sandbox's kernel gave it once, of arguments that were in order, while
another thread of the server loaded modules."""
OF_STORES = ("AWS_", "GOOGLE_", "AZURE_", "HADOOP_")
"""How variables begin that say how stores are reached."""
_PAUSES_SECONDS = (0.1, 0.4, 1.0)
_log = logging.getLogger(__name__)


def launch(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a process with the options of `subprocess.Popen`; tried again for a second and a half where the reason may pass.

    Raises `OSError`, of the last try.
    """
    for pause in _PAUSES_SECONDS:
        try:
            return subprocess.Popen(command, **options)
        except OSError as problem:
            if problem.errno not in _PASSING:
                raise
            _log.warning("%s could not be started, which is tried again: %s", command[0], problem.strerror)
            time.sleep(pause)
    return subprocess.Popen(command, **options)


def environment_without_credentials() -> dict[str, str]:
    """What a process inherits that may run as another user and reaches no store, as Postgres."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OF_STORES) and not names_secret(name)}
