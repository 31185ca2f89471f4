"""Comments have one length everywhere; what was stored before stays and can be changed."""

from __future__ import annotations

from typing import Any

import pytest

from lake import Lake
from model.errors import BadRequest
from model.identifier import Identifier
from model.schema.lengths import MOST_COMMENT_BYTES
from model.schema.types import Field, parse_type
from model.view import SetFunctionOption, SetViewOption, UpdateFunctionComment, UpdateViewComment, View

LONG = "x" * (MOST_COMMENT_BYTES + 1)
V, F = Identifier("default", "v"), Identifier("default", "f")
REFUSED = "bytes long; at most 16,384 fit"


def view(comment: str | None = None, of_column: str | None = None) -> View:
    return View(fields=(Field(id=0, name="id", type=parse_type("INT"), description=of_column),), query="SELECT 1 AS id", comment=comment)


def function(comment: str | None = None, of_parameter: str | None = None) -> dict[str, Any]:
    parameter = Field(id=0, name="a", type=parse_type("INT"), description=of_parameter).to_json()
    return {"inputParams": [parameter], "returnParams": None, "definitions": {}, "comment": comment, "options": {}}


def test_comments_of_databases(lake: Lake) -> None:
    with pytest.raises(BadRequest, match=REFUSED):
        lake.create_database("d", comment=LONG)
    with pytest.raises(BadRequest, match=REFUSED):
        lake.create_database("d", options={"comment": LONG})
    lake.create_database("d", comment=LONG[1:])
    with pytest.raises(BadRequest, match=f"database d is .*{REFUSED}"):
        lake.alter_database("d", set_options={"comment": LONG})


def test_comments_of_views(lake: Lake) -> None:
    for refused in (view(LONG), view(of_column=LONG)):
        with pytest.raises(BadRequest, match=REFUSED):
            lake.views.create(V, refused)
    lake.views.create(V, view(LONG[1:]))
    with pytest.raises(BadRequest, match=REFUSED):
        lake.views.alter(V, [UpdateViewComment(comment=LONG)])
    with lake.catalog.transaction() as tx:
        tx.views.replace(lake.views.get(V).id, view(LONG, LONG).to_json(), by="root")
    lake.views.alter(V, [SetViewOption(key="a", value="b")])
    lake.views.create(V, view(LONG, LONG), replace=True)
    assert lake.views.get(V).body["comment"] == LONG


def test_comments_of_functions(lake: Lake) -> None:
    for refused in (function(LONG), function(of_parameter=LONG)):
        with pytest.raises(BadRequest, match=REFUSED):
            lake.functions.create(F, refused)
    lake.functions.create(F, function(LONG[1:]))
    with pytest.raises(BadRequest, match=REFUSED):
        lake.functions.alter(F, [UpdateFunctionComment(comment=LONG)])
    with lake.catalog.transaction() as tx:
        tx.functions.replace(lake.functions.get(F).id, function(LONG, LONG), by="root")
    lake.functions.alter(F, [SetFunctionOption(key="a", value="b")])
    assert lake.functions.get(F).body["options"] == {"a": "b"}
