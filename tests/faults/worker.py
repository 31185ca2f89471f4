"""A process under the shim: for each request it forks one that does it, as a server does an operation, and tells what came of it.

``python -m tests.faults.worker`` with `tests.faults.shim`'s environment; requests and reports are lines of JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import mmap
import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults.operation import BEFORE, Operation
from tests.faults.operations import BY_NAME
from tests.faults.world import STRUCK_SECONDS, World

Run = Callable[[dict[str, Any], mmap.mmap], Any]
"""What is done for a request, in a process of its own; returns what is told of it."""
_ARMED, _FAIL_AT = 0, 16
"""Where they lie in the control file (`tests.faults.shim`)."""
_FLUSHED_SECONDS = 60.0
"""What a busy disk may take where no fault puts anything off."""


@contextmanager
def counted(control: mmap.mmap) -> Iterator[None]:
    """Around what is counted of a request."""
    struct.pack_into("q", control, _ARMED, 1)
    try:
        yield
    finally:
        struct.pack_into("q", control, _ARMED, 0)


def _run(request: dict[str, Any], control: mmap.mmap) -> list[dict[str, Any]]:
    """Do the operation; then the same server goes on as if nothing had happened."""
    operation, table = BY_NAME[request["operation"]], request["table"]
    world = World(request["dsn"], Path(request["directory"]))
    world.settle()
    none_fails = not struct.unpack_from("q", control, _FAIL_AT)[0]
    world.ids("t0")  # connections are open and modules loaded: what is counted is the operation
    with counted(control):
        answers = operation.run(world, table)
        world.settle(_FLUSHED_SECONDS if none_fails else STRUCK_SECONDS)
    if request["goes_on"]:
        _goes_on(world, operation, table, all(answer.ok for answer in answers))
    return [{"status": answer.status, "body": answer.body} for answer in answers]


def _goes_on(world: World, operation: Operation, table: str, done: bool) -> None:
    """The server that met the fault serves the table; nothing that it remembers is wrong."""
    if operation.name in ("drop", "drop for a while", "undrop", "rename", "register"):
        return
    found = world.ids(table)
    assert set(found) <= {*BEFORE, *operation.after, *(number for added in operation.each for number in added)}, found
    assert len(found) == len(set(found)), found


def _child(run: Run, request: dict[str, Any], control: mmap.mmap) -> dict[str, Any]:
    out, into = os.pipe()
    report: dict[str, Any]
    pid = os.fork()
    if pid == 0:
        os.close(out)
        try:
            report = {"answers": run(request, control), "modules": sorted(sys.modules)}
        except BaseException as failure:
            report = {"failure": f"{type(failure).__name__}: {failure}"}
        with open(into, "w") as told:
            json.dump(report, told, default=str)
        os._exit(0)
    os.close(into)
    with open(out) as told:
        text = told.read()
    os.waitpid(pid, 0)
    report = json.loads(text) if text else {"killed": True}
    for module in report.pop("modules", ()):
        if module not in sys.modules:  # imported when it was needed: the next child finds it there, which saves it seconds
            with contextlib.suppress(Exception):
                importlib.import_module(module)
    return report


def serve(run: Run) -> None:
    """Serve requests until there are no more."""
    with open(os.environ["TEST_FAULT_CONTROL"], "r+b") as file:
        control = mmap.mmap(file.fileno(), 0)
    for line in sys.stdin:
        print(json.dumps(_child(run, json.loads(line), control)), flush=True)


if __name__ == "__main__":
    serve(_run)
