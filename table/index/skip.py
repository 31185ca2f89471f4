"""Leaving out the files whose indexes rule a query out; whatever an index cannot tell, the file is read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial, reduce

from pyroaring import BitMap

from model.errors import LakeError
from model.options.file_index import BITMAP, BLOOM, RANGE
from model.options.table import TABLE_OPTIONS
from model.predicate import And, Compare, In, IsNull, Op, Or, Predicate
from model.schema.casting import is_cast
from model.schema.schema import Schema
from model.schema.types import Field
from table.format.cache import ByteCache
from table.format.io.patience import carried
from table.format.manifests.entries import DataFile
from table.format.store import TableFiles
from table.index.bitmap import BitmapIndex
from table.index.bloom import may_hold
from table.index.checksum import CHECKSUM_ALONE_BYTES
from table.index.container import SUFFIX, UnreadableIndex, decode
from table.index.owner import is_anothers
from table.index.range_bitmap import RangeBitmapIndex
from table.index.values import keys, literal
from table.scan.planning.plan import PlannedFile

_Way = Callable[[bytes], BitMap | None]
"""How an index of one kind is asked."""
_READERS = 16
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_MOST_VALUES = 100_000
"""Values of a bitmap index that are gone through for one file: more of them take as long as to read it."""
_READ: ByteCache[str, bytes] = ByteCache(64 << 20, len)
"""Index files read last; they never change."""


def without_skipped(files: TableFiles, schema: Schema, planned: Sequence[PlannedFile], predicate: Predicate | None) -> list[PlannedFile]:
    """The files that may hold a matching row, by their indexes."""
    if predicate is None or not _asks(predicate) or not TABLE_OPTIONS.read(schema.options, "file-index.read.enabled"):
        return list(planned)
    beside = [planned_file for planned_file in planned if beside_path(planned_file.file, planned_file.path) is not None]
    if not beside and not any(embedded_index(planned_file.file) for planned_file in planned):
        return list(planned)
    read: dict[str, bytes | None] = {}
    if beside:
        with ThreadPoolExecutor(min(_READERS, len(beside)), thread_name_prefix="file-index") as readers:
            containers = readers.map(carried(partial(_index_bytes, files)), beside)
            read = {planned_file.path: container for planned_file, container in zip(beside, containers, strict=True)}
    question = _Question(files, schema, predicate)
    return [
        planned_file
        for planned_file in planned
        if question.may_match(planned_file, embedded_index(planned_file.file) or read.get(planned_file.path))
    ]


def _asks(predicate: Predicate) -> bool:
    """Whether some part of the predicate is of a kind an index answers."""
    if isinstance(predicate, And | Or):
        return any(_asks(part) for part in predicate.parts)
    return not isinstance(predicate, Compare) or predicate.op is not Op.STARTS_WITH


def embedded_index(file: DataFile) -> bytes | None:
    """The indexes in a file's entry; a checksum alone is none."""
    container = file.embedded_file_index
    return None if container is None or len(container) == CHECKSUM_ALONE_BYTES else container


def beside_path(file: DataFile, path: str) -> str | None:
    """Where the indexes beside a file lie; None where there are none."""
    name = next((name for name in file.extra_files if name.endswith(SUFFIX)), None)
    return None if name is None else path.rpartition("/")[0] + "/" + name


def index_beside(files: TableFiles, file: DataFile, path: str) -> bytes | None:
    """The indexes that lie there; None where they are another file's. Raises what the store raises."""
    container = files.io.read(path)
    return None if is_anothers(container, path.rpartition("/")[2], file) else container


_NONE = b""
"""What is remembered of an index that is another file's."""


def _index_bytes(files: TableFiles, planned: PlannedFile) -> bytes | None:
    """The bytes of a file's index; None where it cannot be read or is another file's, for the data can be read."""
    path = beside_path(planned.file, planned.path)
    assert path is not None
    try:
        return _READ.or_load(path, lambda: index_beside(files, planned.file, path) or _NONE) or None
    except (LakeError, FileNotFoundError):
        return None


class _Question:
    """A predicate asked of one file's indexes after another."""

    def __init__(self, files: TableFiles, schema: Schema, predicate: Predicate) -> None:
        self._files = files
        self._schema = schema
        self._predicate = predicate
        self._by_id: dict[int, Mapping[int, Field]] = {}

    def may_match(self, planned: PlannedFile, container: bytes | None) -> bool:
        """Whether some row of the file may match."""
        if container is None:
            return True
        try:
            rows = _Answers(self._schema, self._fields(planned.file.schema_id), decode(container)).rows(self._predicate)
        except (UnreadableIndex, struct.error):
            return True
        return rows is None or bool(rows)

    def _fields(self, schema_id: int) -> Mapping[int, Field]:
        fields = self._by_id.get(schema_id)
        if fields is None:
            schema = self._schema if schema_id == self._schema.id else self._files.read_schema(schema_id)
            fields = self._by_id[schema_id] = {field.id: field for field in schema.fields}
        return fields


class _Answers:
    """What one file's indexes say: the rows that may match, or None where they do not know."""

    def __init__(self, schema: Schema, fields: Mapping[int, Field], bodies: Mapping[str, Mapping[str, bytes | None]]) -> None:
        self._schema = schema
        self._fields = fields
        self._bodies = bodies

    def rows(self, predicate: Predicate) -> BitMap | None:
        match predicate:
            case And(parts=parts):
                known = [rows for part in parts if (rows := self.rows(part)) is not None]
                return reduce(BitMap.__and__, known) if known else None
            case Or(parts=parts):
                each = [self.rows(part) for part in parts]
                return None if None in each else reduce(BitMap.__or__, (rows for rows in each if rows is not None), BitMap())
            case IsNull(column=column, negated=negated):
                return self._nulls(column, negated=negated)
            case In(column=column, values=values):
                return self._equal(column, values)
            case Compare(column=column, op=Op.EQ, value=value):
                return self._equal(column, (value,))
            case Compare(column=column, op=op, value=value):
                return self._compared(column, op, value)
        return None

    def _indexed(self, column: str) -> tuple[Field, Mapping[str, bytes | None]] | None:
        """The file's column and its indexes, where its values mean what the table's column means."""
        now = self._schema.find(column)
        then = self._fields.get(now.id) if now is not None else None
        if now is None or then is None or then.name not in self._bodies:
            return None
        same = now.type.with_nullable(True) == then.type.with_nullable(True)
        alike = {now.type.root, then.type.root} <= _WHOLE or now.type.root == then.type.root == "VARCHAR"
        return (then, self._bodies[then.name]) if same or (alike and not is_cast(then.type, now.type)) else None

    def _nulls(self, column: str, *, negated: bool) -> BitMap | None:
        indexed = self._indexed(column)
        if indexed is None:
            return None
        field, bodies = indexed

        def of_bitmap(body: bytes) -> BitMap:
            index = BitmapIndex.decode(body, field.type, wanted=[None], most_values=_MOST_VALUES)
            nulls = index.having([None])
            return BitMap(range(index.rows)) - nulls if negated else nulls

        return _told(bodies, {RANGE: lambda body: RangeBitmapIndex.decode(body, field.type).nulls(negated=negated), BITMAP: of_bitmap})

    def _equal(self, column: str, values: Sequence[object]) -> BitMap | None:
        indexed = self._indexed(column)
        if indexed is None:
            return None
        field, bodies = indexed
        wanted = [literal(field.type, value) for value in values]
        if None in wanted:
            return None
        known = [one for one in wanted if one is not None]
        wanted_keys = [key for one in known for key in keys(field.type, one)]
        ways: dict[str, _Way] = {
            BITMAP: lambda body: BitmapIndex.decode(body, field.type, wanted=wanted_keys, most_values=_MOST_VALUES).having(wanted_keys),
            RANGE: lambda body: RangeBitmapIndex.decode(body, field.type).having(wanted_keys),
            BLOOM: lambda body: None if any(may_hold(body, field.type, one) for one in known) else BitMap(),
        }
        return _told(bodies, ways)

    def _compared(self, column: str, op: Op, value: object) -> BitMap | None:
        indexed = self._indexed(column)
        if indexed is None or indexed[1].get(RANGE) is None or (known := literal(indexed[0].type, value)) is None:
            return None
        field, bodies = indexed
        (key,) = keys(field.type, known)
        return _told(bodies, {RANGE: lambda body: RangeBitmapIndex.decode(body, field.type).compared(op, key)})


def _told(bodies: Mapping[str, bytes | None], ways: Mapping[str, _Way]) -> BitMap | None:
    """What the first index says that can be read: one that is damaged, or has too many values, leaves it to the others."""
    for kind, ask in ways.items():
        if (body := bodies.get(kind)) is not None:
            with suppress(UnreadableIndex, struct.error):
                return ask(body)
    return None
