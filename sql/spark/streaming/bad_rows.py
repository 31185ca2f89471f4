"""Rows of a job that do not fit its table, put aside into a table of their own (`job.bad-rows`)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st
from sqlglot import exp
from sqlglot.errors import ParseError

from model.errors import AnalysisError, ColumnNotExist, InvalidOption, TableNotExist
from model.schema.types import ArrayType, BinaryType, CharType, Field, MapType, RowType, VarBinaryType, VarCharType
from sql.execution.session_settings import BAD_ROWS
from sql.spark.read.types import to_spark
from sql.spark.write.assign import assigned, literals
from sql.statements.base import ExecutionContext
from sql.statements.insert import Target, target_of

COLUMNS = ("job", "batch", "source", "reason", "row")
_TRIED = "__sluice_tried_"
_RAW = "__sluice_raw_"
_REASON = "__sluice_reason"
_ROW = "__sluice_row"
_SHOWN = 200
"""Characters of a value that a reason repeats; the row holds all."""


def bad_rows_of(context: ExecutionContext) -> Target | None:
    """Where a job's rows go that do not fit; None where nothing is said. Raises what keeps them from being written there."""
    name = BAD_ROWS.read(context.settings)
    if name is None:
        return None
    columns = [exp.to_identifier(column, quoted=True) for column in COLUMNS]
    try:
        target = target_of(context, exp.Insert(this=exp.Schema(this=exp.to_table(name), expressions=columns)))
    except ParseError:
        raise InvalidOption(f"'{BAD_ROWS.key}' = '{name}' is no table's name.") from None
    except (AnalysisError, ColumnNotExist, TableNotExist) as problem:
        problem.tell(f" '{BAD_ROWS.key}' needs a table (job STRING, batch BIGINT, source STRING, reason STRING, `row` STRING).")
        raise
    for column in COLUMNS:
        kind = target.table.schema.field(column).type
        if kind.root != ("BIGINT" if column == "batch" else "VARCHAR"):
            raise InvalidOption(
                f"'{BAD_ROWS.key}' = '{name}': column {column} of {target.table.identifier} is {kind.sql()}; "
                f"{'BIGINT' if column == 'batch' else 'STRING'} is needed."
            )
    return target


def tried(query: exp.Expr) -> exp.Expr:
    """The query with the casts of its result made so that a value that cannot be cast is NULL, and comes along as it was.

    Those of other places stay as they are, those to nested types, and all where rows are grouped: what fails there fails the job. A trial
    of a nested cast would put NULL in the place of an element that does not fit, and say nothing of it.
    """
    if not isinstance(query, exp.Select) or query.args.get("distinct") or query.find(exp.Group, exp.AggFunc, exp.Window):
        return query
    trial = query.copy()
    raws: list[exp.Expr] = []
    for at, node in enumerate(trial.expressions):
        cast = node.this if isinstance(node, exp.Alias) else node
        if not isinstance(cast, exp.Cast) or cast.args.get("safe") or cast.to.this in exp.DataType.NESTED_TYPES:
            continue
        name = f"{len(raws)}_{node.output_name or f'c{at}'}"
        raws.append(exp.alias_(cast.this.copy(), _RAW + name, quoted=True))
        trial.expressions[at].replace(exp.alias_(exp.TryCast(this=cast.this, to=cast.to, safe=True), _TRIED + name, quoted=True))
    trial.set("expressions", [*trial.expressions, *raws])
    return trial


def given(frame: DataFrame) -> DataFrame:
    """The query's own columns, without what came along."""
    fields = frame.schema.fields
    count = sum(1 for field in fields if not field.name.startswith(_RAW))
    positional = frame.toDF(*[f"c{at}" for at in range(len(fields))])
    return positional.select(*[F.col(f"c{at}").alias(field.name, metadata=field.metadata) for at, field in enumerate(fields[:count])])


class Sifted:
    """A batch's rows in two: those that fit the target, and those that do not, with the reason."""

    def __init__(self, frame: DataFrame, target: Target) -> None:
        own = given(frame)
        names = [field.name for field in own.schema.fields]
        raws = {field.name.removeprefix(_RAW): f"c{at}" for at, field in enumerate(frame.schema.fields) if field.name.startswith(_RAW)}
        fields = frame.schema.fields
        rows = frame.toDF(*[f"c{at}" for at in range(len(fields))])
        raw_of = [raws.get(name.removeprefix(_TRIED)) if name.startswith(_TRIED) else None for name in names]
        texts = [
            F.col(raw or f"c{at}").alias(name.removeprefix(_TRIED).partition("_")[2] if raw else name)
            for at, (name, raw) in enumerate(zip(names, raw_of, strict=True))
        ]
        schema = target.table.schema
        columns = target.columns or [f.name for f in schema.fields if f.name not in target.fixed]
        reasons: list[Column] = []
        for at, name in enumerate(columns[: len(names)]):
            column, raw = F.col(f"c{at}"), raw_of[at]
            if raw is not None:
                reasons.append(_unless(F.col(raw).isNotNull() & column.isNull(), name, F.col(raw), f"is no {_of(fields[at])}"))
            reasons += _reasons(column, fields[at], schema.field(name))
        with_reason = rows.withColumn(_REASON, F.coalesce(*reasons, F.lit(None).cast("string")))
        with_reason = with_reason.withColumn(_ROW, F.to_json(F.struct(*texts), {"ignoreNullFields": "false"}))
        self._rows = with_reason.persist()
        self._target = target
        self._count = len(names)

    def all_fit(self) -> bool:
        """Whether there are no bad rows."""
        return bool(self._rows.where(F.col(_REASON).isNotNull()).isEmpty())

    def good(self) -> DataFrame:
        """As the target's columns."""
        good_rows = self._rows.where(F.col(_REASON).isNull()).select(*[F.col(f"c{at}") for at in range(self._count)])
        return assigned(
            good_rows, self._target.table.schema, self._target.columns, literals(self._target.fixed), str(self._target.table.identifier)
        )

    def bad(self, to: Target, *, job: str, batch: int, source: str | None) -> DataFrame:
        """As the columns of the table for bad rows."""
        described = [F.lit(job), F.lit(batch).cast("bigint"), F.lit(source).cast("string"), F.col(_REASON), F.col(_ROW)]
        bad_rows = self._rows.where(F.col(_REASON).isNotNull()).select(
            *[column.alias(name) for column, name in zip(described, COLUMNS, strict=True)]
        )
        return assigned(bad_rows, to.table.schema, to.columns, {}, str(to.table.identifier))

    def close(self) -> None:
        """Let go of the rows."""
        self._rows.unpersist()


def _reasons(column: Column, source: st.StructField, field: Field) -> Sequence[Column]:
    """What may keep a value out of a column, each NULL where it does not. Parts of nested values are left to the write, which fails."""
    reasons: list[Column] = []
    stored = column
    if not isinstance(field.type, ArrayType | MapType | RowType):
        stored = column.try_cast(to_spark(field.type))
        reasons.append(_unless(column.isNotNull() & stored.isNull(), field.name, column, f"does not fit {field.type.sql()}"))
    if isinstance(field.type, CharType | VarCharType | BinaryType | VarBinaryType):
        size = F.octet_length(stored) if isinstance(field.type, BinaryType | VarBinaryType) else F.char_length(stored)
        reasons.append(_unless(size > field.type.length, field.name, stored, f"does not fit {field.type.sql()}"))
    if not field.type.nullable:
        reasons.append(F.when(column.isNull(), F.lit(f"Column {field.name}: NULL, but the column is NOT NULL.")))
    return reasons


def _unless(fails: Column, name: str, value: Column, says: str) -> Column:
    text = F.coalesce(F.substring(value.cast("string"), 1, _SHOWN), F.lit("?"))
    return F.when(fails, F.concat(F.lit(f"Column {name}: '"), text, F.lit(f"' {says}.")))


def _of(field: st.StructField) -> str:
    return field.dataType.simpleString().upper()
