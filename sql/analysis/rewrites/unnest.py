"""UNNEST and LATERAL VIEW, each as a LATERAL of Spark's in the place among the joins where it was written."""

from __future__ import annotations

from functools import cache

from sqlglot import exp

from model.errors import UnsupportedStatement
from sql.dialect import PLACE, parse_one

_INNER = frozenset({"", "INNER", "CROSS"})
_OUTER = frozenset({"explode", "posexplode", "inline"})
"""Functions whose ``_outer`` gives a row of NULLs for what is empty or NULL, which is LEFT JOIN … ON TRUE and needs no join."""
_NUMBERED = "inline(transform(array, (e, i) -> struct(e AS `col`, i + 1 AS `ORDINALITY`)))"
_NUMBERED_ENTRIES = "inline(transform(map_entries(array), (e, i) -> struct(e.key AS `key`, e.value AS `value`, i + 1 AS `ORDINALITY`)))"


def expand_unnest(tree: exp.Expr) -> None:
    """Rewrite in place what gives rows of an array or a MAP; raises `UnsupportedStatement` for joins that have no such meaning."""
    for unnest in list(tree.find_all(exp.Unnest)):
        _expand(unnest)
    for query in list(tree.find_all(exp.Query, exp.Table)):
        if query.args.get("laterals"):
            _put_in_place(query)


def _expand(unnest: exp.Unnest) -> None:
    place = unnest.parent
    if isinstance(place, exp.In):
        return
    lateral = place if isinstance(place, exp.Lateral) else None
    alias = (unnest if lateral is None else lateral).args.get("alias")
    call = _call(unnest, alias)
    if lateral is not None:
        unnest.replace(call)
        join = lateral.parent
    elif isinstance(place, exp.Join):
        unnest.replace(lateral := exp.Lateral(this=call, alias=alias))
        join = place
    else:
        unnest.replace(exp.Table(this=call, alias=alias))
        return
    if isinstance(join, exp.Join):
        _judge(join)
        _without_a_join(join, call)


def _call(unnest: exp.Unnest, alias: exp.TableAlias | None) -> exp.Anonymous:
    """The table function that gives the rows; the columns' names stay in ``alias``, that of the place in a row last, from 1."""
    offset, arrays = unnest.args.get("offset"), unnest.expressions
    values = len(alias.columns) if alias is not None else 0
    if offset:
        if len(arrays) > 1:
            raise UnsupportedStatement("WITH ORDINALITY is not available where UNNEST takes several arrays.", fragment="ORDINALITY")
        if isinstance(offset, exp.Identifier) and alias is not None:
            alias.append("columns", offset)
        return _numbered(_NUMBERED_ENTRIES if values > 1 else _NUMBERED, arrays[0])
    if len(arrays) > 1:
        return exp.Anonymous(this="inline", expressions=[exp.Anonymous(this="arrays_zip", expressions=arrays)])
    # Two columns are a MAP's key and value; more can only be the parts of rows.
    return exp.Anonymous(this="inline" if values > 2 else "explode", expressions=arrays)


def _numbered(text: str, array: exp.Expr) -> exp.Anonymous:
    call = _parsed(text).copy()
    (place,) = (column for column in call.find_all(exp.Column) if column.name == "array")
    place.replace(array)
    return call


@cache
def _parsed(text: str) -> exp.Anonymous:
    (call,) = parse_one(f"SELECT {text}").expressions
    assert isinstance(call, exp.Anonymous)
    return call


def _judge(join: exp.Join) -> None:
    method, side, kind = (str(join.args.get(key) or "").upper() for key in ("method", "side", "kind"))
    kinds = _INNER | {"OUTER"} if side else _INNER
    if method or join.args.get("using") or side not in ("", "LEFT") or kind not in kinds:
        written = "USING" if join.args.get("using") else " ".join(word for word in (method, side, kind, "JOIN") if word)
        raise UnsupportedStatement(
            f"{written} is not available with UNNEST, which makes rows of those before it; CROSS JOIN, JOIN … ON and LEFT JOIN … ON are.",
            fragment="UNNEST",
        )


def _without_a_join(join: exp.Join, call: exp.Anonymous) -> None:
    """Leave out conditions that can be left out: with one Spark joins the rows to a second reading of the table, which neither streams nor
    MAPs allow."""
    on, query = join.args.get("on"), join.parent
    always = on is None or (isinstance(on, exp.Boolean) and on.this)
    if join.args.get("side"):
        if always:
            call.set("this", f"{call.name}_outer")
            _cross(join)
    elif always:
        _cross(join)
    elif isinstance(query, exp.Select) and _is_last(join, query):
        _cross(join)
        query.where(on, copy=False)


def _is_last(join: exp.Join, query: exp.Select) -> bool:
    """Whether nothing comes between a join's condition and WHERE."""
    return query.args["joins"][-1] is join and not (query.args.get("laterals") or query.args.get("sample") or join.args.get("pivots"))


def _cross(join: exp.Join) -> None:
    join.set("side", None)
    join.set("on", None)
    join.set("kind", "CROSS")


def _put_in_place(query: exp.Expr) -> None:
    """A LATERAL VIEW before a join; those behind all joins stand where Spark's grammar has them."""
    joins, laterals = query.args.get("joins") or [], query.args["laterals"]
    last = max((join.meta.get(PLACE, 0) for join in joins), default=0)
    before = [lateral for lateral in laterals if lateral.args.get("view") and lateral.meta.get(PLACE, last) < last]
    if not before:
        return
    query.set("laterals", [lateral for lateral in laterals if not any(lateral is one for one in before)])
    placed = [*joins, *map(_as_join, before)]
    query.set("joins", sorted(placed, key=lambda join: int(join.meta.get(PLACE, 0))))


def _as_join(view: exp.Lateral) -> exp.Join:
    call, alias = view.this, view.args["alias"]
    outer = bool(view.args.get("outer"))
    if alias.columns and not alias.this:
        alias.set("this", exp.to_identifier("__sluice_view", quoted=True))
    lateral = exp.Lateral(this=call, alias=alias)
    if outer and isinstance(call, exp.Anonymous) and call.name.lower() in _OUTER:
        call.set("this", f"{call.name}_outer")
        outer = False
    join = exp.Join(this=lateral, side="LEFT", on=exp.true()) if outer else exp.Join(this=lateral, kind="CROSS")
    join.meta[PLACE] = view.meta[PLACE]
    return join
