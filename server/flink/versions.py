"""One set of views under `/v1`, `/v2` and no prefix, which means the newest."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from flask import Blueprint, request


class Version(IntEnum):
    """Protocol versions answered here. No more are advertised: a client that meets an unknown one dies at connect."""

    V1 = 1
    V2 = 2


def each_version(*blueprints: Blueprint) -> Iterator[Blueprint]:
    """The views of all blueprints once per prefix."""
    for name, prefix in (("flink", None), ("flink_v1", "/v1"), ("flink_v2", "/v2")):
        outer = Blueprint(name, __name__, url_prefix=prefix)
        for blueprint in blueprints:
            outer.register_blueprint(blueprint)
        yield outer


def requested_version() -> Version:
    """The version the present request speaks."""
    return Version.V1 if request.path.startswith("/v1/") else Version.V2
