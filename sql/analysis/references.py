"""Which tables a query reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from model.errors import UnsupportedStatement
from sql.dialect import OPTIONS_HINT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableReference:
    """One mention of a table, not of a CTE."""

    node: exp.Table
    parts: tuple[str, ...]
    options: Mapping[str, str]
    as_of: exp.Expr | None
    """The expression of FOR SYSTEM_TIME AS OF or TIMESTAMP AS OF."""
    as_of_kind: str | None
    """TIMESTAMP or VERSION."""

    @property
    def name(self) -> str:
        """The table as it was written."""
        return ".".join(self.parts)


def table_references(tree: exp.Expr) -> list[TableReference]:
    """Every table the tree reads, in order; the target of an INSERT is none, CTEs are told apart by their scope."""
    references = []
    known: dict[int, dict[str, int]] = {}
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and not (
            _is_cte(node, known) or _is_target(node) or isinstance(node.parent, exp.JoinHint)
        ):
            references.append(_reference(node))
    return references


def _reference(node: exp.Table) -> TableReference:
    version = node.args.get("version")
    parts = tuple(part.name for part in node.parts)
    options = node.meta.get(OPTIONS_HINT, {})
    if version is not None and version.args.get("kind") != "AS OF":
        raise UnsupportedStatement(f"FOR {version.args.get('kind')} is not available; FOR SYSTEM_TIME AS OF is.", fragment=".".join(parts))
    return TableReference(
        node=node,
        parts=parts,
        options=options,
        as_of=version.args.get("expression") if version is not None else None,
        as_of_kind=str(version.args.get("this")) if version is not None else None,
    )


def _is_target(node: exp.Table) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Schema):
        node_or_schema: exp.Expr = parent
        parent = parent.parent
    else:
        node_or_schema = node
    return isinstance(parent, exp.Insert) and parent.this is node_or_schema


def _is_cte(node: exp.Table, known: dict[int, dict[str, int]]) -> bool:
    """A plain name that a WITH around it has given to a query; inside its own definition it is not known yet."""
    if len(node.parts) != 1:
        return False
    inner: exp.Expr = node
    outer = node.parent
    cte: exp.Expr | None = None
    while outer is not None:
        if isinstance(inner, exp.CTE):
            cte = inner
        with_ = outer.args.get("with_")
        if with_ is not None and _names(with_, node.name, cte if inner is with_ else None, known):
            return True
        inner, outer = outer, outer.parent
    return False


def _names(with_: exp.Expr, name: str, inside: exp.Expr | None, known: dict[int, dict[str, int]]) -> bool:
    """Whether a WITH has given a name: any to the query behind it; inside one of its queries an earlier one, if recursive its own."""
    names = known.get(id(with_))
    if names is None:
        names = known[id(with_)] = {cte.alias: at for at, cte in reversed(list(enumerate(with_.expressions)))}
    at = names.get(name)
    if at is None or inside is None:
        return at is not None
    assert inside.index is not None
    return at < inside.index or (at == inside.index and bool(with_.args.get("recursive")))


def replace_reference(reference: TableReference, view: str) -> None:
    """Let the mention read a view instead; columns qualified by the table's name still find it."""
    node = reference.node
    alias = node.args.get("alias")
    if alias is None:
        alias = exp.TableAlias(this=exp.to_identifier(reference.parts[-1], quoted=True))
    new = exp.Table(this=exp.to_identifier(view, quoted=True), alias=alias)
    for key in ("joins", "laterals", "sample", "pivots"):
        value = node.args.get(key)
        if value:
            new.set(key, value)
    if len(reference.parts) > 1 and not node.alias:
        _unqualify(node.root(), reference.parts)
    node.replace(new)


def replace_by_query(reference: TableReference, query: exp.Query, columns: Sequence[str]) -> None:
    """Let the mention read a query instead, under the same name and with these columns."""
    node = reference.node
    alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(reference.parts[-1], quoted=True))
    if columns and not alias.args.get("columns"):
        alias.set("columns", [exp.to_identifier(name, quoted=True) for name in columns])
    new = exp.Subquery(this=query, alias=alias)
    for key in ("joins", "laterals", "sample", "pivots"):
        value = node.args.get(key)
        if value:
            new.set(key, value)
    if len(reference.parts) > 1 and not node.alias:
        _unqualify(node.root(), reference.parts)
    node.replace(new)


def _unqualify(tree: exp.Expr, parts: tuple[str, ...]) -> None:
    """``d.t.a`` names column a of d.t; the view in its place is known as t alone."""
    for column in tree.find_all(exp.Column):
        named = tuple(part.name for part in column.parts[:-1])
        if len(named) > 1 and parts[-len(named) :] == named:
            column.set("db", None)
            column.set("catalog", None)
