"""What ALTER may ask of a schema, and the schema that comes out (`paimon-append.md` §2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.errors import ColumnAlreadyExist, InvalidSchemaChange
from model.options.clustering import cluster_columns
from model.options.table import is_on
from model.options.watermark import PREFIX, Watermark, watermark_of, watermark_options
from model.options.write import DISABLE_EXPLICIT_CASTS
from model.schema.casting import casts
from model.schema.directives import check_no_directive
from model.schema.lengths import check_lengths
from model.schema.loadable import check_loadable, is_blob
from model.schema.option_change import drop_from_options, rename_in_options, set_option
from model.schema.schema import FieldIds, Schema, check_column_name, check_schema, default_bucket_key
from model.schema.types import ArrayType, DataType, Field, MapType, MultisetType, RowType
from model.schema.widening import widens


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a column goes: FIRST, LAST, or beside another one."""

    first: bool = False
    after: str | None = None
    before: str | None = None


LAST = Position()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOption:
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOption:
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateComment:
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWatermark:
    """``ADD WATERMARK FOR …``, or ``MODIFY`` where ``new`` is false."""

    watermark: Watermark
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DropWatermark:
    """``DROP WATERMARK``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    name: str
    type: DataType
    comment: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    name: str
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateColumnType:
    name: str
    type: DataType
    keep_nullability: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateColumnNullability:
    name: str
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateColumnComment:
    name: str
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateColumnPosition:
    name: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateColumnDefault:
    name: str
    default: str | None
    sent_by_client: bool = False
    """By one that may say by an empty default that there is to be none, as Spark does: where an empty text is no value of the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """A change inside a column: of a field of a ROW, the ``element`` of an ARRAY, or the ``key`` or ``value`` of a MAP."""

    inside: tuple[str, ...]
    """The way from the column down to what holds the field."""
    change: ColumnChange


ColumnChange = (
    AddColumn | DropColumn | RenameColumn | UpdateColumnType | UpdateColumnNullability | UpdateColumnComment | UpdateColumnPosition
    | UpdateColumnDefault
)  # fmt: skip
SchemaChange = SetOption | RemoveOption | SetWatermark | DropWatermark | UpdateComment | ColumnChange | Nested


_EMPTY_IS_A_VALUE = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})
MOST_CHANGES = 10_000
"""Of one ALTER."""


def apply_changes(
    schema: Schema, changes: Sequence[SchemaChange], *, table: str, has_snapshot: bool, time_millis: int, marked: bool = False
) -> Schema:
    """Return the next version of the schema; all changes of one ALTER make one version, or none does.

    ``has_snapshot`` makes options that place existing files immutable, ``marked`` (deletion vectors mark rows of a snapshot or tag that
    is kept) the one by which other clients leave these rows out. Raises `InvalidSchemaChange`, `InvalidOption`, `ColumnNotExist` or
    `ColumnAlreadyExist`; the given schema is never touched.
    """
    if len(changes) > MOST_CHANGES:
        raise InvalidSchemaChange(
            f"{len(changes):,} changes of {table} are asked for at once; {MOST_CHANGES:,} are the most. Send them in parts."
        )
    work = _Work(schema, table, has_snapshot, marked)
    for change in changes:
        work.apply(change)
    result = replace(
        schema,
        id=schema.id + 1,
        fields=tuple(work.fields),
        highest_field_id=work.ids.highest,
        options=work.options,
        comment=work.comment,
        time_millis=time_millis,
    )
    check_schema(result, stored=schema.options)
    check_loadable(result, before=schema)
    check_lengths(result, schema)
    _check_watermark(schema, result)
    return result


def _check_watermark(old: Schema, new: Schema) -> None:
    """The event-time column stays what it is as long as there is a watermark on it."""
    watermark = watermark_of(new.options)
    was = old.find(watermark.column) if watermark is not None else None
    if watermark is None or was is None:
        return
    now = new.find(watermark.column)
    if now is None or now.type.with_nullable(True) != was.type.with_nullable(True):
        raise InvalidSchemaChange(
            f"Column {watermark.column} carries the table's watermark and cannot be {'dropped' if now is None else 'given another type'}; "
            "ALTER TABLE … DROP WATERMARK first."
        )


class _Work:
    """A schema in the middle of being changed."""

    def __init__(self, schema: Schema, table: str, has_snapshot: bool, marked: bool) -> None:
        self.schema = schema
        self.table = table
        self.has_snapshot = has_snapshot
        self.marked = marked
        self.fields = list(schema.fields)
        self._names = {field.name for field in self.fields}
        self._places: dict[str, int] = {}
        """Where columns were found when all were looked through last; some may have moved since."""
        self.options = dict(schema.options)
        self.comment = schema.comment
        self.ids = FieldIds(schema.highest_field_id)
        self.in_collection = False

    def apply(self, change: SchemaChange) -> None:  # noqa: C901 - a case for each change
        match change:
            case SetOption(key=key) | RemoveOption(key=key):
                value = change.value if isinstance(change, SetOption) else None
                set_option(self.options, key, value, before=self.schema, has_snapshot=self.has_snapshot, marked=self.marked)
            case SetWatermark(watermark=watermark, new=new):
                self._set_watermark(watermark, new)
            case DropWatermark():
                self._drop_watermark()
            case UpdateComment(comment=comment):
                self.comment = comment
            case AddColumn():
                self._add(change)
            case DropColumn(name=name):
                self._drop(name)
            case RenameColumn(name=name, to=to):
                self._rename(name, to)
            case UpdateColumnType():
                self._retype(change)
            case UpdateColumnNullability(name=name, nullable=nullable):
                self._set_nullable(name, nullable)
            case UpdateColumnComment(name=name, comment=comment):
                at = self._index(name)
                self.fields[at] = replace(self.fields[at], description=comment)
            case UpdateColumnPosition(name=name, position=position):
                moved = self.fields.pop(self._index(name))
                self._insert(moved, position)
            case UpdateColumnDefault(name=name, default=default, sent_by_client=sent_by_client):
                at = self._index(name)
                is_none = default == "" and sent_by_client and self.fields[at].type.root not in _EMPTY_IS_A_VALUE
                self.fields[at] = replace(self.fields[at], default_value=None if is_none else default)
            case Nested(inside=inside, change=inner):
                at = self._index(inside[0])
                self.fields[at] = replace(self.fields[at], type=self._descend(self.fields[at].type, inside, inner))

    def _descend(self, type_: DataType, inside: tuple[str, ...], change: ColumnChange) -> DataType:
        """The type after a change inside it; the parts of arrays and maps are taken for fields, of which only the type can change."""
        match type_:
            case RowType(fields=fields):
                parts = list(fields)
            case ArrayType(element=element) | MultisetType(element=element):
                parts = [Field(id=-1, name="element", type=element)]
            case MapType(key=key, value=value):
                parts = [Field(id=-1, name="key", type=key), Field(id=-1, name="value", type=value)]
            case _:
                raise InvalidSchemaChange(f"{'.'.join(inside)} is a {type_.sql()}; there is nothing inside it to change.")
        if not isinstance(type_, RowType) and len(inside) == 1 and not isinstance(change, UpdateColumnType | UpdateColumnNullability):
            raise InvalidSchemaChange(f"{inside[0]} is a {type_.root}; only the types of its parts can change.")
        cast_options = ("alter-column-null-to-not-null.disabled", DISABLE_EXPLICIT_CASTS.key)
        options = {key: value for key, value in self.options.items() if key in cast_options}
        outer = replace(self.schema, fields=tuple(parts), partition_keys=(), options=options)
        work = _Work(outer, self.table, self.has_snapshot, self.marked)
        work.ids = self.ids
        work.in_collection = self.in_collection or not isinstance(type_, RowType)
        work.apply(Nested(inside=inside[1:], change=change) if len(inside) > 1 else change)
        changed = work.fields
        if isinstance(type_, RowType):
            return replace(type_, fields=tuple(changed))
        if isinstance(type_, MapType):
            return replace(type_, key=changed[0].type, value=changed[1].type)
        return replace(type_, element=changed[0].type)

    def _index(self, name: str) -> int:
        at = self._places.get(name, -1)
        if not 0 <= at < len(self.fields) or self.fields[at].name != name:
            self._places = {field.name: at for at, field in enumerate(self.fields)}
            at = self._places.get(name, -1)
        if at < 0:
            replace(self.schema, fields=tuple(self.fields)).field(name, table=self.table)  # raises, with the nearest name
        return at

    def _insert(self, field: Field, position: Position | None) -> None:
        if position is None and self.options.get("add-column-before-partition", "false").lower() == "true":
            first = next((i for i, f in enumerate(self.fields) if f.name in self.schema.partition_keys), len(self.fields))
            self.fields.insert(first, field)
        elif position is not None and position.first:
            self.fields.insert(0, field)
        elif position is not None and position.after is not None:
            self.fields.insert(self._index(position.after) + 1, field)
        elif position is not None and position.before is not None:
            self.fields.insert(self._index(position.before), field)
        else:
            self.fields.append(field)

    def _set_watermark(self, watermark: Watermark, new: bool) -> None:
        present = watermark_of(self.options)
        if new and present is not None:
            raise InvalidSchemaChange(f"Table {self.table} has a watermark already, on {present.column}; MODIFY WATERMARK changes it.")
        if not new and present is None:
            raise InvalidSchemaChange(f"Table {self.table} has no watermark to modify; ADD WATERMARK gives it one.")
        self.options |= watermark_options(replace(self.schema, fields=tuple(self.fields)), watermark, table=self.table)

    def _drop_watermark(self) -> None:
        if watermark_of(self.options) is None:
            raise InvalidSchemaChange(f"Table {self.table} has no watermark to drop.")
        self.options = {key: value for key, value in self.options.items() if not key.startswith(PREFIX)}

    def _add(self, change: AddColumn) -> None:
        self._check_new_name(change.name)
        check_no_directive(change.name, change.comment, change.type)
        if not change.type.nullable:
            raise InvalidSchemaChange(f"Column {change.name} cannot be added as NOT NULL: rows already written have no value for it.")
        new = Field(id=-1, name=change.name, type=change.type, description=change.comment)
        self._insert(self.ids.number_column(new), change.position)
        self._names.add(change.name)

    def _check_new_name(self, name: str) -> None:
        check_column_name(name)
        if name in self._names:
            raise ColumnAlreadyExist(name, self.table)

    def _refuse_partition(self, name: str, verb: str) -> None:
        if name in self.schema.partition_keys:
            raise InvalidSchemaChange(f"Partition column {name} cannot be {verb}: the table's files lie by it.")

    def _refuse_blob(self, name: str, at: int, verb: str) -> None:
        if is_blob(self.fields[at].type):
            raise InvalidSchemaChange(f"Column {name} holds BLOBs and cannot be {verb}, as in Paimon: they lie in files of its own.")

    def _drop(self, name: str) -> None:
        at = self._index(name)
        self._refuse_partition(name, "dropped")
        if len(self.fields) == 1:
            raise InvalidSchemaChange(f"Column {name} is the table's last; drop the table instead.")
        self.fields.pop(at)
        self._names.discard(name)
        if name in cluster_columns(self.options):
            raise InvalidSchemaChange(f"Column {name} is in 'clustering.columns' and cannot be dropped: rows are sorted by it.")
        if name in self._bucket_keys():
            self._replace_dropped_key(name)
        drop_from_options(self.options, name)

    def _bucket_keys(self) -> list[str]:
        return [part.strip() for part in self.options.get("bucket-key", "").split(",") if part.strip()]

    def _replace_dropped_key(self, name: str) -> None:
        """A queue of one bucket has a key only for Java's sake; any other table would lose its routing."""
        if self.options.get("bucket") != "1":
            raise InvalidSchemaChange(f"Column {name} is in 'bucket-key' and cannot be dropped: rows are routed by it.")
        key = default_bucket_key(self.fields, self.schema.partition_keys)
        if key is None:
            raise InvalidSchemaChange(f"Column {name} cannot be dropped: it is the queue's bucket key and no other column can be.")
        self.options["bucket-key"] = key

    def _rename(self, name: str, to: str) -> None:
        at = self._index(name)
        self._refuse_partition(name, "renamed")
        self._refuse_blob(name, at, "renamed")
        self._check_new_name(to)
        self.fields[at] = replace(self.fields[at], name=to)
        self._names ^= {name, to}
        keys = self._bucket_keys()
        if name in keys:
            if "," in to:
                raise InvalidSchemaChange(f"Column {name} is in 'bucket-key', where names are separated by commas; {to} has one.")
            self.options["bucket-key"] = ",".join(to if key == name else key for key in keys)
        rename_in_options(self.options, name, to)

    def _retype(self, change: UpdateColumnType) -> None:
        at = self._index(change.name)
        self._refuse_partition(change.name, "given another type")
        old = self.fields[at].type
        target = change.type.with_nullable(old.nullable) if change.keep_nullability else change.type
        if target.with_nullable(True) != old.with_nullable(True):
            self._refuse_blob(change.name, at, "given another type")
            if change.name in self._bucket_keys() and self.options.get("bucket") != "1":
                raise InvalidSchemaChange(f"Column {change.name} is in 'bucket-key' and cannot change its type: its hash would change.")
            self._check_cast(change.name, old, target)
        if old.nullable and not target.nullable:
            self._refuse_not_null(change.name)
        self.fields[at] = replace(self.fields[at], type=target)

    def _check_cast(self, name: str, old: DataType, target: DataType) -> None:
        """As Paimon has it; inside arrays and maps types only widen, for nobody here could read the rest."""
        refusal = f"Column {name} cannot go from {old.sql()} to {target.sql()}"
        if not casts(old, target):
            raise InvalidSchemaChange(f"{refusal}: values of the one do not become values of the other.")
        if self.in_collection and not widens(old, target):
            raise InvalidSchemaChange(f"{refusal}: inside arrays and maps the new type must hold every old value.")
        key = DISABLE_EXPLICIT_CASTS.key
        if is_on(self.options, key) and not casts(old, target, explicit=False):
            raise InvalidSchemaChange(f"{refusal} by an explicit cast, which may lose information: the table's option '{key}' forbids it.")

    def _set_nullable(self, name: str, nullable: bool) -> None:
        at = self._index(name)
        old = self.fields[at].type
        if old.nullable and not nullable:
            self._refuse_not_null(name)
        self.fields[at] = replace(self.fields[at], type=old.with_nullable(nullable))

    def _refuse_not_null(self, name: str) -> None:
        if self.options.get("alter-column-null-to-not-null.disabled", "true").lower() != "false":
            raise InvalidSchemaChange(
                f"Column {name} cannot become NOT NULL: rows already written may hold NULL. "
                "If you know that none does, SET ('alter-column-null-to-not-null.disabled' = 'false') first."
            )
