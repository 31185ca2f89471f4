"""CALL: procedures by name, their arguments by position or by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lake import LakeTable
from model.catalog_errors import ClockInDoubt
from model.errors import AnalysisError, LakeError, TableDamaged, TableDiverged, UnsupportedStatement, nearest
from model.identifier import Identifier
from model.schema.types import BigIntType, BooleanType, VarCharType
from model.text.name_parts import parse_name
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.parsing import trees
from sql.statements.base import ExecutionContext, handles
from table.format.io.storage_errors import refusal

DRY_RUN = "dry_run"
DRY_COLUMN = ResultColumn(DRY_RUN, BooleanType(nullable=False))
"""The last column of what a call that changes something answers."""
PROBLEM_COLUMN = ResultColumn("problem", VarCharType())
"""Before it, in calls for many tables: why a table was passed over (`alone`)."""


class Arguments(dict[str, Any]):
    """What a call gives, by the names of the procedure's parameters; what is left out is not there."""

    @property
    def dry_run(self) -> bool:
        """Whether the call only asks what would happen."""
        return bool(self.get(DRY_RUN))


Body = Callable[[ExecutionContext, Arguments], ResultSet]
_OTHER_NAMES = {
    "snapshot": "snapshot_id", "tagname": "tag", "targettagname": "target_tag", "options": "table_options", "partitions": "partition",
}  # fmt: skip
"""What Flink or Spark call an argument, where a procedure has none of that name: its name here."""


def alone(context: ExecutionContext, problem: LakeError) -> str:
    """What is wrong with one table, in words, so that a call for many goes on with the others; raises what is about more than the one."""
    if isinstance(problem, ClockInDoubt) and context.lake.clock.doubt is None:  # this one has a snapshot from the future
        return problem.message
    if not isinstance(problem, TableDamaged | TableDiverged) and refusal(problem) is None:
        raise problem
    context.lake.standing.met(problem)
    return problem.message


def never(_: Arguments) -> bool:
    """The procedure does not run on Spark."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """What CALL can run."""

    name: str
    parameters: Mapping[str, type]
    """Names in order of position, with the Python type of each."""
    required: int
    body: Body
    spark: Callable[[Arguments], bool] = never
    """Whether a call with these arguments runs on Spark."""
    other_order: Callable[[Sequence[object]], Sequence[str] | None] | None = None
    """The parameters in another engine's order, where the values given by position are of that kind."""
    only_looks: bool = False
    """Whether it changes nothing anyway, and so has no dry run."""
    many: str | None = None
    """The parameter that takes all texts given by position from its own on, a ``;`` between them."""


PROCEDURES: dict[str, Procedure] = {}
_ABSENT = {
    "sys.clone": "CALL sys.clone is not available. To copy a table of this catalog: CREATE TABLE copy LIKE t; INSERT INTO copy SELECT * "
    "FROM t, which takes what you may read of it. CALL sys.migrate_table and sys.register_table take over directories; between two "
    "catalogs INSERT INTO … SELECT copies in Flink or Spark, where both are catalogs of one session.",
}
"""Procedures of Paimon's that are not here, and what does their work."""


def procedure(
    name: str,
    *,
    required: int,
    spark: Callable[[Arguments], bool] = never,
    other_order: Callable[[Sequence[object]], Sequence[str] | None] | None = None,
    only_looks: bool = False,
    many: str | None = None,
    **parameters: type,
) -> Callable[[Body], Body]:
    """Register a procedure ``sys.<name>``; it takes ``dry_run``, the last where Paimon gives it no place, unless it ``only_looks``."""
    if not only_looks:
        parameters.setdefault(DRY_RUN, bool)

    def register(body: Body) -> Body:
        PROCEDURES[f"sys.{name}"] = Procedure(
            name=f"sys.{name}",
            parameters=parameters,
            required=required,
            body=body,
            spark=spark,
            other_order=other_order,
            only_looks=only_looks,
            many=many,
        )
        return body

    return register


@handles(trees.Call)
@dataclass(frozen=True)
class Call:
    """``CALL sys.procedure(…)``."""

    tree: trees.Call

    @cached_property
    def _found(self) -> tuple[Procedure, Arguments]:
        name = ".".join(part for part in self.tree.args["procedure"] if part != "sluice")
        procedure = PROCEDURES.get(name.lower())
        if procedure is None:
            if name.lower() in _ABSENT:
                raise UnsupportedStatement(_ABSENT[name.lower()], fragment=name)
            near = nearest(name, PROCEDURES)
            hint = f" Did you mean {near}?" if near else f" There are: {', '.join(sorted(PROCEDURES))}."
            raise AnalysisError(f"There is no procedure {name}.{hint}", fragment=name)
        arguments = _bound(procedure, self.tree.args["arguments"])
        if self.tree.args.get("dry_run") and not procedure.only_looks:
            arguments[DRY_RUN] = True
        return procedure, arguments

    @property
    def needs_spark(self) -> bool:
        """Whether the procedure runs on Spark with these arguments."""
        procedure, arguments = self._found
        return procedure.spark(arguments)

    def run(self, context: ExecutionContext) -> ResultSet:
        """Run the procedure."""
        procedure, arguments = self._found
        return procedure.body(context, arguments)


Given = tuple[tuple[str | None, object], ...]
"""The arguments of a CALL as they are written, each with its name, if it has one."""


def _bound(procedure: Procedure, arguments: Given) -> Arguments:
    arguments = _joined(procedure, arguments)
    names: Sequence[str] = list(procedure.parameters)
    if procedure.other_order is not None:
        names = procedure.other_order([value for name, value in arguments if name is None]) or names
    bound = Arguments()
    for position, (name, value) in enumerate(arguments):
        if name is None and position >= len(names):
            raise AnalysisError(f"{procedure.name} takes {len(names)} arguments at most: {', '.join(names)}.")
        key = names[position] if name is None else _named(procedure, name)
        if key not in procedure.parameters:
            raise AnalysisError(f"{procedure.name} has no argument {name}; it takes {', '.join(names)}.", fragment=name)
        if key in bound:
            raise AnalysisError(f"The argument {key} of {procedure.name} is given twice.", fragment=key)
        wanted = procedure.parameters[key]
        if wanted is bool and isinstance(value, str) and value.lower() in ("true", "false"):  # Spark declares some as text
            value = value.lower() == "true"
        if value is not None and (not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))):
            raise AnalysisError(f"The argument {key} of {procedure.name} is a {wanted.__name__}, not {value!r}.", fragment=key)
        if value is not None and value != "":  # Flink's way to leave an argument out by position
            bound[key] = value
    missing = [name for name in list(procedure.parameters)[: procedure.required] if bound.get(name) is None]
    if missing:
        raise AnalysisError(f"{procedure.name} needs the argument {missing[0]}.")
    return bound


def _joined(procedure: Procedure, arguments: Given) -> Given:
    """The arguments, with the texts by position that one parameter takes as a single text."""
    if procedure.many is None:
        return arguments
    end = at = list(procedure.parameters).index(procedure.many)
    while end < len(arguments) and arguments[end][0] is None and isinstance(arguments[end][1], str):
        end += 1
    return arguments if end - at < 2 else (*arguments[:at], (None, ";".join(str(text) for _, text in arguments[at:end])), *arguments[end:])


def _named(procedure: Procedure, name: str) -> str:
    """An argument by its name here; Flink and Spark write some without underscores (``consumerId``), or call them otherwise."""
    key = name.lower()
    if key in procedure.parameters:
        return key
    joined = {parameter.replace("_", ""): parameter for parameter in procedure.parameters}
    return joined.get(key) or _OTHER_NAMES.get(key, key)


def table_of(context: ExecutionContext, arguments: Arguments) -> LakeTable:
    """The table a call names."""
    table = context.lake.open(identifier_of(context, str(arguments["table"])))
    counts_told(context, table)
    return table


def table_to_write(context: ExecutionContext, arguments: Arguments) -> LakeTable:
    """The table a call names, for a caller who may change it; see `require_to_choose`."""
    table = context.lake.open_to_change(identifier_of(context, str(arguments["table"])))
    require_to_choose(context, table, arguments)
    return table


def require_to_choose(context: ExecutionContext, table: LakeTable, arguments: Arguments) -> None:
    """Raise `Forbidden` where arguments choose some of a table's files for who sees only a part of it: counts would tell of the rest."""
    if not counts_told(context, table) and not _CHOOSING.isdisjoint(arguments):
        context.lake.require_whole(table, "partitions")


def counts_told(context: ExecutionContext, table: LakeTable) -> bool:
    """Whether the caller may know how much the table holds; where not, the call's progress tells no counts from now on."""
    may_see = context.lake.tells_counts(table)
    if not may_see:
        context.progress.count_nothing()
    return may_see


def by_partition(context: ExecutionContext, table: LakeTable, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Lines that begin with a partition's name, which is a value of its rows: none to who does not read all of the table."""
    return list(rows) if context.lake.sees_whole(table) else []


_CHOOSING = frozenset({"partitions", "partition", "where", "buckets", "partition_idle_time"})
"""Arguments by which a call means some of a table's files: by values of their rows, the hash of values, or when others wrote there."""


def identifier_of(context: ExecutionContext, name: str) -> Identifier:
    """A table's name as a call gives it; a part with a dot in it stands in backquotes, as in ``'d.`a.b`'``."""
    return context.session.identifier(parse_name(name))


@procedure("repair_table", required=1, table=str)
def repair_table(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Register or set aside snapshot files the catalog did not decide; one row for each, none where there are none."""
    table = identifier_of(context, str(arguments["table"]))
    done = context.lake.repair_table(table, dry_run=arguments.dry_run)
    columns = [
        ResultColumn("action", STRING),
        ResultColumn("snapshot_id", BigIntType(nullable=False)),
        ResultColumn("moved_to", VarCharType()),
        DRY_COLUMN,
    ]
    dry_run = arguments.dry_run
    rows: list[tuple[str, int, str | None, bool]] = [("registered", snapshot, None, dry_run) for snapshot in done.registered]
    rows += [("schema registered", schema_id, None, dry_run) for schema_id in done.schemas]
    rows += [("branch registered", 0, name, dry_run) for name in done.branches]
    if done.back_from is not None:
        rows.append(("gone back from", done.back_from, None, dry_run))
    rows += [("kept as tag", snapshot, name, dry_run) for name, snapshot in done.kept]
    rows += [("written again", number, path, dry_run) for number, path in done.rewritten]
    rows += [("set aside", snapshot, f"{done.directory}/snapshot-{snapshot}", dry_run) for snapshot in done.set_aside]
    return ResultSet.of_rows(columns, rows)
