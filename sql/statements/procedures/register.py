"""CALL sys.register_table, migrate_table and migrate_file: what lies in the import directories becomes a table where it lies."""

from __future__ import annotations

from collections.abc import Sequence

from lake.commit.claims import DONE
from lake.register.register import WITHOUT_RULES, Migration, migration_commit, renaming
from model.errors import AnalysisError, InvalidOption, LakeError, OutcomeUnknown
from model.identifier import Identifier
from model.schema.types import BigIntType
from model.text.sql_text import quote
from sql.execution.results import STRING, ResultColumn, ResultSet
from sql.statements.base import ExecutionContext
from sql.statements.procedures.calls import DRY_COLUMN, Arguments, identifier_of, procedure
from table.format.layout import escape

_THREADS = 8


@procedure("register_table", required=2, table=str, path=str)
def register_table(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Take over a Paimon append table's directory as it is."""
    table = identifier_of(context, str(arguments["table"]))
    latest = context.lake.register_table(table, str(arguments["path"]), dry_run=arguments.dry_run, claim=context.idempotency)
    columns = [
        ResultColumn("table", STRING), ResultColumn("snapshot_id", BigIntType()), ResultColumn("record_count", BigIntType()), DRY_COLUMN,
        ResultColumn("note", STRING),
    ]  # fmt: skip
    latest_snapshot = (latest.id, latest.total_record_count) if latest else (None, None)
    return ResultSet.of_rows(columns, [(str(table), *latest_snapshot, arguments.dry_run, WITHOUT_RULES)])


def _as_others_order(positional: Sequence[object]) -> Sequence[str] | None:
    """Flink's third argument is the table that is made, Spark's the options, which have a ``=``; Spark's fourth is a truth."""
    third, fourth, fifth = (list(positional[2:5]) + [None] * 3)[:3]
    if isinstance(fourth, bool):
        return "source_type", "table", "options", "delete_origin", "target_table"
    is_table = isinstance(third, str) and third and "=" not in third
    if is_table or (isinstance(fourth, str) and "=" in fourth) or (isinstance(fifth, int) and not isinstance(fifth, bool)):
        return "connector", "source_table", "target_table", "options", "parallelism", "delete_origin"
    return None


@procedure(
    "migrate_table", required=0, other_order=_as_others_order, source_type=str, table=str, options=str, target_table=str,
    delete_origin=bool, parallelism=int, dry_run=bool, connector=str, source_table=str,
)  # fmt: skip
def migrate_table(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Make a table of a directory of Parquet or ORC files, in place; one row for each thing done, or to be done."""
    source = _source(arguments, "table", "source_table")
    target = arguments.get("target_table")
    if target is None:
        raise AnalysisError(
            "sys.migrate_table needs target_table: the source is a directory, which names no table.", fragment="target_table"
        )
    table = identifier_of(context, str(target))
    options, threads = _options(arguments.get("options")), _threads(arguments)
    done = context.lake.migrate_table(table, source, options=options, threads=threads, dry_run=arguments.dry_run, claim=context.idempotency)
    return _told(done, str(table))


@procedure(
    "migrate_database", required=0, source_type=str, database=str, options=str, parallelism=int, target_database=str, connector=str,
    source_database=str,
)  # fmt: skip
def migrate_database(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Make a table of each directory in a directory, in place, each by itself; one row a table, also for those that failed."""
    source = _source(arguments, "database", "source_database")
    database = str(arguments.get("target_database") or context.session.current_database)
    options, threads, dry_run = _options(arguments.get("options")), _threads(arguments), arguments.dry_run
    rows = []
    directories = context.lake.directories_to_migrate(database, source)
    context.progress.begin("migrating directories", total=len(directories))
    for directory in directories:
        context.cancellation.check()
        table = Identifier(database, directory.rsplit("/", 1)[-1])
        try:
            done = context.lake.migrate_table(table, directory, options=options, threads=threads, dry_run=dry_run)
        except OutcomeUnknown:
            raise
        except LakeError as problem:
            rows.append((str(table), "failed", problem.message, dry_run))
        else:
            files = done.source.files
            summary = f"{len(files)} files, {sum(file.rows for file in files)} rows, {sum(file.size for file in files)} bytes"
            rows.append((str(table), "migrated", summary, dry_run))
        context.progress.advance()
    columns = [ResultColumn("table", STRING), ResultColumn("outcome", STRING), ResultColumn("detail", STRING), DRY_COLUMN]
    return ResultSet.of_rows(columns, rows)


@procedure(
    "migrate_file", required=0, source_type=str, source_table=str, target_table=str, delete_origin=bool, parallelism=int, dry_run=bool,
    connector=str,
)  # fmt: skip
def migrate_file(context: ExecutionContext, arguments: Arguments) -> ResultSet:
    """Add a directory's files to a table, in place."""
    source = _source(arguments, "source_table")
    if arguments.get("target_table") is None:
        raise AnalysisError("sys.migrate_file needs target_table, the table that gets the files.", fragment="target_table")
    table = context.lake.open_to_write(identifier_of(context, str(arguments["target_table"])))
    plan = context.lake.plan_migration(table, source, threads=_threads(arguments))
    if not arguments.dry_run and plan.rows:
        context.lake.reserve.require()
        request = migration_commit(plan.source.files, table.schema)
        with renaming(context.lake.file_io, plan.renamed, request.progress):
            context.lake.record_place(table, plan)
            opened = context.lake.open_to_write(table.identifier)
            context.lake.commit(opened, request, claim=context.idempotency, answer=lambda _: DONE)
    return _told(plan, str(table.identifier))


def _source(arguments: Arguments, *names: str) -> str:
    """The directory, once the arguments Paimon has besides say what they can say here."""
    kind = arguments.get("source_type") or arguments.get("connector") or "hive"
    if kind != "hive":
        raise InvalidOption(
            f"source_type => '{kind}' is not available; 'hive' is: a directory of Parquet or ORC files, partitioned or not."
        )
    if arguments.get("delete_origin") is False:
        raise InvalidOption("delete_origin => false is not available: nothing is copied, so the files are the table's from then on.")
    for name in names:
        if arguments.get(name) is not None:
            return str(arguments[name])
    raise AnalysisError(f"The procedure needs {names[0]}: the directory of the files, inside SLUICE_IMPORT_DIRS.", fragment=names[0])


def _threads(arguments: Arguments) -> int:
    parallelism = arguments.get("parallelism")
    if parallelism is None:
        return _THREADS
    if not isinstance(parallelism, int) or not 1 <= parallelism <= 64:
        raise InvalidOption(f"parallelism => {parallelism}: between 1 and 64 footers are read at once.")
    return parallelism


def _options(text: object) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in str(text or "").split(","):
        key, equals, value = part.partition("=")
        if part.strip() and not equals:
            raise InvalidOption(f"options => '{text}': key=value pairs parted by commas are expected.")
        if part.strip():
            options[key.strip()] = value.strip()
    return options


def _told(done: Migration, table: str) -> ResultSet:
    columns = ", ".join(f"{quote(field.name)} {field.type}" for field in done.schema.fields)
    keys = f" PARTITIONED BY ({', '.join(quote(key) for key in done.schema.partition_keys)})" if done.schema.partition_keys else ""
    rows: list[tuple[str, str]] = [("table", f"{table} ({columns}){keys}")]
    rows += [("rename", f"{source} to {target.rsplit('/', 1)[-1]}") for source, target in done.renamed]
    sums: dict[str, list[int]] = {}
    for file in done.source.files:
        name = "/".join(
            f"{escape(key)}={text if text is not None else 'NULL'}" for key, text in zip(done.source.keys, file.partition, strict=True)
        )
        of_partition = sums.setdefault(name, [0, 0, 0])
        for at, value in enumerate((1, file.rows, file.size)):
            of_partition[at] += value
    rows += [(f"partition {name}" if name else "files", f"{n} files, {r} rows, {b} bytes") for name, (n, r, b) in sorted(sums.items())]
    return ResultSet.of_strings(("what", "detail"), rows)
