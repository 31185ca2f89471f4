"""The Flink SQL gateway's REST API, versions 1 and 2 (`gateway.md` §1), as its clients speak it."""

from __future__ import annotations

from server.flink.operations import bp as _operations
from server.flink.sessions import bp as _sessions
from server.flink.statements import bp as _statements
from server.flink.versions import each_version

FLINK_BLUEPRINTS = tuple(each_version(_sessions, _statements, _operations))

__all__ = ["FLINK_BLUEPRINTS"]
