"""Options a session may SET."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from model.options.option import Option, OptionGroup, Parser, boolean, duration, integer, one_of, optional, text, time_zone

SQL_OPTIONS = OptionGroup(
    "Session option",
    "Set with `SET 'key' = 'value'`, in the session's properties, or per request. Spark's own options cannot be set.",
)


def _zone() -> Parser[str]:
    known = time_zone()

    def parse(raw: str) -> str:
        return "UTC" if raw.lower() == "default" else known.parse(raw)  # Flink's word, where it would take the machine's

    return Parser(known.kind, parse)


LOCAL_TIME_ZONE = SQL_OPTIONS.declare(
    Option("table.local-time-zone", _zone(), "UTC", "Zone in which TIMESTAMP_LTZ values are shown and text without a zone is read.")
)
RUNTIME_MODE = SQL_OPTIONS.declare(
    Option(
        "execution.runtime-mode",
        one_of("batch", "streaming", "automatic"),
        "batch",
        "How queries run: over what is there now, or `streaming`, endlessly, with every new row (docs/streaming.md). `automatic` is batch.",
    )
)
CHECKPOINT_INTERVAL = SQL_OPTIONS.declare(
    Option(
        "execution.checkpointing.interval",
        duration(),
        timedelta(seconds=10),
        "How often a job (a streaming INSERT) commits what came, at most.",
    )
)
INITIAL_BACKOFF = SQL_OPTIONS.declare(
    Option(
        "restart-strategy.exponential-delay.initial-backoff",
        duration(),
        timedelta(seconds=1),
        "How long a job waits before it starts again after its first failure; twice as long after each further one.",
    )
)
MAX_BACKOFF = SQL_OPTIONS.declare(
    Option("restart-strategy.exponential-delay.max-backoff", duration(), timedelta(minutes=1), "How long a job waits at most.")
)
BAD_ROWS = SQL_OPTIONS.declare(
    Option(
        "job.bad-rows",
        optional(text()),
        None,
        "A table for rows of this session's jobs that do not fit theirs (docs/jobs.md); without it such a row stops its job.",
    )
)
STATEMENT_TIMEOUT = SQL_OPTIONS.declare(
    Option("statement.timeout", optional(duration()), None, "How long a statement may run, waiting included; none by default.")
)
HINTS_ENABLED = SQL_OPTIONS.declare(
    Option(
        "table.dynamic-table-options.enabled",
        boolean(),
        True,
        "Whether `/*+ OPTIONS(…) */` hints are taken; without it a statement with one is refused, also by a view that it reads.",
    )
)
PIPELINE_NAME = SQL_OPTIONS.declare(
    Option("pipeline.name", text(), "", "The name of the jobs this session starts; they are called after their tables without it.")
)
DML_SYNC = SQL_OPTIONS.declare(
    Option(
        "table.dml-sync",
        boolean(),
        True,
        "Kept for Flink's own client, which waits for a job where it is 'true'; the server answers an INSERT of batch mode when its rows "
        "are committed, and one that is a job when that is created.",
    )
)
_CLIENT = "Of Flink's own client, which reads it back."
_NO_EFFECT = "it has no effect on the server"
for _key, _parser, _default in (
    ("sql-client.execution.result-mode", one_of("table", "changelog", "tableau"), "table"),
    ("sql-client.verbose", boolean(), False),
    ("sql-client.execution.max-table-result.rows", integer(), 1_000_000),
    ("sql-client.display.max-column-width", integer(at_least=1), 30),
    ("sql-client.display.print-time-cost", boolean(), True),
    ("sql-client.display.query-time-cost", boolean(), True),
    ("sql-client.display.color-schema", text(), "default"),
    ("sql-client.display.show-line-numbers", boolean(), False),
    ("sql-client.prompt", text(), "Flink SQL> "),
    ("table.display.max-column-width", integer(at_least=1), 30),
    ("execution.target", text(), ""),
    ("execution.attached", boolean(), True),
    ("parallelism.default", integer(at_least=-1), -1),
):
    SQL_OPTIONS.declare(Option(_key, _parser, _default, _CLIENT, kept=_NO_EFFECT))
SQL_OPTIONS.refuse(r"spark\..*", "Spark's options belong to the server; see the session options for what may be set.")
SQL_OPTIONS.refuse(r"(hive|hadoop|fs|javax|java|derby)\..*", "options of the engine and its file systems belong to the server.")


def check_setting(key: str, value: str) -> None:
    """Raise `InvalidOption` for a key no session has, or a value that does not parse."""
    SQL_OPTIONS.check({key: value})


def check_of_client(settings: Mapping[str, str]) -> None:
    """Raise `InvalidOption` for a value that does not parse, of options that have an effect here: clients send all they have."""
    for key, value in settings.items():
        option = SQL_OPTIONS.get(key)
        if option is not None and not option.kept:
            check_setting(key, value)


def with_defaults(settings: Mapping[str, str]) -> dict[str, str]:
    """A session's settings and the defaults that are not Flink's: its clients show results and INSERTs by what they read here."""
    sync = RUNTIME_MODE.key not in settings or settings[RUNTIME_MODE.key].lower() != "streaming"
    defaults = {option.key: option.default_text() for option in (LOCAL_TIME_ZONE, RUNTIME_MODE)}
    return defaults | {DML_SYNC.key: "true" if sync else "false"} | dict(settings)


def statement_seconds(settings: Mapping[str, str]) -> float | None:
    """The time limit these settings give a statement, in seconds; None where they name none."""
    value = STATEMENT_TIMEOUT.read(settings)
    return None if value is None else value.total_seconds()
