"""The same acts through Python, REST and SQL over HTTP, and the same looks at what came of them."""

from tests.server.doors.common import Door, refusal
from tests.server.doors.python import PythonDoor
from tests.server.doors.rest import RestDoor
from tests.server.doors.sql import SqlDoor

__all__ = ["Door", "PythonDoor", "RestDoor", "SqlDoor", "refusal"]
