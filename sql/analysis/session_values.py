"""What a statement asks of its session: answered before Spark sees it, which knows neither the caller nor the catalog."""

from __future__ import annotations

from sqlglot import exp

from model.version import sluice_version
from sql.analysis.functions import ANSWERED_HERE

_NODES = {exp.CurrentUser: "current_user", exp.SessionUser: "session_user", exp.CurrentCatalog: "current_catalog"}


def answer_session_values(tree: exp.Expr, *, principal: str, catalog: str, database: str) -> None:
    """Replace calls such as ``current_user()`` by their values, in place; a column keeps the name its user wrote."""
    values = {
        "current_catalog": catalog,
        **dict.fromkeys(("current_database", "current_schema"), database),
        **dict.fromkeys(("current_user", "session_user", "user"), principal),
        "version": sluice_version(),
    }
    assert values.keys() == ANSWERED_HERE
    for call in list(tree.find_all(exp.Anonymous, *_NODES)):
        name = call.name.lower() if isinstance(call, exp.Anonymous) else _NODES[type(call)]
        if name not in values or call.expressions or isinstance(call.parent, exp.Dot):
            continue
        value = exp.Literal.string(values[name])
        is_column = isinstance(call.parent, exp.Select) and call.arg_key == "expressions"
        call.replace(exp.alias_(value, f"{name}()", quoted=True) if is_column else value)
