"""CALL: procedures by name, their arguments by position or by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from model.errors import AnalysisError, nearest
from model.types import BigIntType, VarCharType
from sql import trees
from sql.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext, LocalStatement, handles

Body = Callable[[ExecutionContext, Mapping[str, object]], ResultSet]


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """What CALL can run."""

    name: str
    parameters: Mapping[str, type]
    """Names in order of position, with the Python type of each."""
    required: int
    body: Body


PROCEDURES: dict[str, Procedure] = {}


def procedure(name: str, *, required: int, **parameters: type) -> Callable[[Body], Body]:
    """Register a procedure ``sys.<name>``."""

    def register(body: Body) -> Body:
        PROCEDURES[f"sys.{name}"] = Procedure(name=f"sys.{name}", parameters=parameters, required=required, body=body)
        return body

    return register


@handles(trees.Call)
@dataclass(frozen=True)
class Call(LocalStatement):
    """``CALL sys.procedure(…)``."""

    tree: trees.Call

    def run(self, context: ExecutionContext) -> ResultSet:
        """Run the procedure."""
        name = ".".join(part for part in self.tree.args["procedure"] if part != "sluice")
        found = PROCEDURES.get(name.lower())
        if found is None:
            near = nearest(name, PROCEDURES)
            hint = f" Did you mean {near}?" if near else f" There are: {', '.join(sorted(PROCEDURES))}."
            raise AnalysisError(f"There is no procedure {name}.{hint}", fragment=name)
        return found.body(context, _bound(found, self.tree.args["arguments"]))


def _bound(found: Procedure, given: tuple[tuple[str | None, object], ...]) -> dict[str, object]:
    names = list(found.parameters)
    bound: dict[str, object] = {}
    for position, (name, value) in enumerate(given):
        if name is None and position >= len(names):
            raise AnalysisError(f"{found.name} takes {len(names)} arguments at most: {', '.join(names)}.")
        key = names[position] if name is None else name.lower()
        if key not in found.parameters:
            raise AnalysisError(f"{found.name} has no argument {name}; it takes {', '.join(names)}.", fragment=name)
        if key in bound:
            raise AnalysisError(f"The argument {key} of {found.name} is given twice.", fragment=key)
        wanted = found.parameters[key]
        if value is not None and not isinstance(value, wanted):
            raise AnalysisError(f"The argument {key} of {found.name} is a {wanted.__name__}, not {value!r}.", fragment=key)
        bound[key] = value
    missing = [name for name in names[: found.required] if bound.get(name) is None]
    if missing:
        raise AnalysisError(f"{found.name} needs the argument {missing[0]}.")
    return bound


@procedure("create_tag", required=2, table=str, tag=str, snapshot_id=int)
def create_tag(context: ExecutionContext, arguments: Mapping[str, object]) -> ResultSet:
    """Keep a snapshot under a name."""
    table = context.lake.open(context.session.identifier(tuple(str(arguments["table"]).split("."))))
    snapshot_id = arguments.get("snapshot_id")
    context.lake.tags.create(table, str(arguments["tag"]), snapshot_id=snapshot_id if isinstance(snapshot_id, int) else None)
    return ResultSet.ok()


@procedure("repair_table", required=1, table=str, dry_run=bool)
def repair_table(context: ExecutionContext, arguments: Mapping[str, object]) -> ResultSet:
    """Adopt or set aside snapshot files the catalog did not decide; one row for each, none where there are none."""
    table = context.session.identifier(tuple(str(arguments["table"]).split(".")))
    done = context.lake.repair_table(table, dry_run=bool(arguments.get("dry_run")))
    columns = [
        ResultColumn("action", STRING),
        ResultColumn("snapshot_id", BigIntType(nullable=False)),
        ResultColumn("moved_to", VarCharType()),
    ]
    rows: list[tuple[str, int, str | None]] = [("adopted", snapshot, None) for snapshot in done.adopted]
    rows += [("set aside", snapshot, f"{done.directory}/snapshot-{snapshot}") for snapshot in done.set_aside]
    return ResultSet.of_rows(columns, rows)


@procedure("delete_tag", required=2, table=str, tag=str)
def delete_tag(context: ExecutionContext, arguments: Mapping[str, object]) -> ResultSet:
    """Forget a tag."""
    table = context.lake.open(context.session.identifier(tuple(str(arguments["table"]).split("."))))
    context.lake.tags.delete(table, str(arguments["tag"]))
    return ResultSet.ok()
