"""Which tables a query reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from model.errors import AnalysisError, UnsupportedStatement
from sql.dialect import OPTIONS_HINT
from sql.execution.session_settings import HINTS_ENABLED

OF_VIEW = "of view"
"""Key of a table node's meta that tells that a view's text mentions it."""


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
    of_view: bool = False
    """Whether a view's text mentions it, which others than the caller may have written."""

    @property
    def name(self) -> str:
        """The table as it was written."""
        return ".".join(self.parts)


def check_hints(tree: exp.Expr, settings: Mapping[str, str]) -> None:
    """Raise `AnalysisError` for an OPTIONS hint where the session takes none (`table.dynamic-table-options.enabled`), as Flink does."""
    if HINTS_ENABLED.read(settings):
        return
    for table in tree.find_all(exp.Table):
        if table.meta.get(OPTIONS_HINT):
            raise AnalysisError(
                f"{table.name} has an OPTIONS hint, and '{HINTS_ENABLED.key}' is 'false': leave the hint out, or SET the option to 'true'.",
                fragment=table.name,
            )


def table_references(tree: exp.Expr) -> list[TableReference]:
    """Every table the tree reads, level by level; the target of an INSERT is none, CTEs are told apart by their scope.

    One walk down: to look upwards from each mention would be quadratic in a UNION of thousands.
    """
    references = []
    waiting: deque[tuple[exp.Expr, _Names | None]] = deque([(tree, _around(tree))])
    while waiting:
        node, names = waiting.popleft()
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            plain = len(node.parts) == 1
            if not (plain and _given(node.name, names)) and not _is_target(node) and not isinstance(node.parent, exp.JoinHint):
                references.append(_reference(node))
        waiting.extend(_inside(node, names))
    return references


@dataclass(frozen=True, slots=True)
class _Names:
    """What a WITH has given names to, as seen from behind it or from one of its queries."""

    places: Mapping[str, int]
    before: int
    """Of the queries the WITH names, those before this place are known."""
    outer: _Names | None


def _inside(node: exp.Expr, names: _Names | None) -> Iterator[tuple[exp.Expr, _Names | None]]:
    """What stands in a node, each with the names it may mention."""
    if isinstance(node, exp.With):
        places, own = _places(node), bool(node.args.get("recursive"))
        yield from ((cte, _Names(places, at + own, names)) for at, cte in enumerate(node.expressions))
        return
    with_ = node.args.get("with_")
    behind = names if with_ is None else _Names(_places(with_), len(with_.expressions), names)
    for child in node.iter_expressions():
        yield child, (names if child is with_ else behind)


def _places(with_: exp.Expr) -> Mapping[str, int]:
    return {cte.alias: at for at, cte in reversed(list(enumerate(with_.expressions)))}


def _around(tree: exp.Expr) -> _Names | None:
    """The names that the text around a part of it has given."""
    path, names = [tree], None
    while path[-1].parent is not None:
        path.append(path[-1].parent)
    for outer, inner in zip(reversed(path), reversed(path[:-1]), strict=False):
        names = next(visible for child, visible in _inside(outer, names) if child is inner)
    return names


def _given(name: str, names: _Names | None) -> bool:
    while names is not None:
        at = names.places.get(name)
        if at is not None and at < names.before:
            return True
        names = names.outer
    return False


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
        of_view=bool(node.meta.get(OF_VIEW)),
    )


def _is_target(node: exp.Table) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Schema):
        node_or_schema: exp.Expr = parent
        parent = parent.parent
    else:
        node_or_schema = node
    return isinstance(parent, exp.Insert) and parent.this is node_or_schema


def replace_reference(reference: TableReference, view: str) -> None:
    """Let the mention read a view instead; columns qualified by the table's name still find it where `unqualify` ran before."""
    _replace(reference, exp.Table(this=exp.to_identifier(view, quoted=True), alias=_alias(reference)))


def replace_by_query(reference: TableReference, query: exp.Query, columns: Sequence[str]) -> None:
    """Let the mention read a query instead, under the same name and with these columns."""
    alias = _alias(reference)
    if columns and not alias.args.get("columns"):
        alias.set("columns", [exp.to_identifier(name, quoted=True) for name in columns])
    _replace(reference, exp.Subquery(this=query, alias=alias))


def _alias(reference: TableReference) -> exp.TableAlias:
    return reference.node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(reference.parts[-1], quoted=True))


def _replace(reference: TableReference, new: exp.Expr) -> None:
    for key in ("joins", "laterals", "sample", "pivots"):
        value = reference.node.args.get(key)
        if value:
            new.set(key, value)
    reference.node.replace(new)
