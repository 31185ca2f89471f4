"""The same acts through Python, REST and SQL over HTTP, and the same looks at what came of them."""

from tests.server.protocols.common import Endpoint, refusal
from tests.server.protocols.python import PythonDoor
from tests.server.protocols.rest import RestDoor
from tests.server.protocols.sql import SqlDoor

__all__ = ["Endpoint", "PythonDoor", "RestDoor", "SqlDoor", "refusal"]
