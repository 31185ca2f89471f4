"""The log: text for people or a JSON object a line for machines, with the request and statement it is about, and without secrets."""

from __future__ import annotations

import datetime as dt
import logging
import re
import sys
import threading
from collections import Counter
from typing import Any

import orjson
from cachetools import TTLCache

from gateway.origin import ORIGIN, STATEMENT
from model.catalog_errors import CatalogDamaged
from model.errors import LakeError
from model.options.masking import MASK, masked_text, names_secret
from model.spans import trace_id
from server.settings.options import CATALOG_DIRECT_DSN, CATALOG_DSN, DATA_TOKEN, LOG_FORMAT, LOG_LEVEL, TOKEN
from server.settings.settings import Settings

_QUIET = ("alembic", "py4j", "sqlglot", "httpx", "httpcore", "urllib3", "botocore", "s3transfer", "werkzeug", "opentelemetry")
_PYSPARK = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Pyspark tells errors of statements to these past all set-up; the statements' clients have them already."""
_IN_URL = re.compile(r"(\w://[^\s:/@'\"]*:)[^\s/@'\"]+(?=@)")
_HEADER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{4,}", re.IGNORECASE)
_ASSIGNED = re.compile(r"\b([\w.-]{1,120}=)(?!>)[^\s&,;'\"]+")
REPEATS_SECONDS = 60.0
"""The same failure of the same part of the server is logged once in so long."""
LASTING_SECONDS = 3600.0
"""The same for damage of the catalog, whichever part of the server meets it."""
_LONGEST_CAUSE = 300
"""Characters of what a failure came from."""
_LONGEST_MASKED = 20_000
"""Characters of one message that are looked through and kept."""


class Masker:
    """Takes secrets out of what is logged: those of the settings wherever they stand, others by how they are written."""

    def __init__(self, settings: Settings) -> None:
        known = {settings[TOKEN], *(value for _, value in settings[DATA_TOKEN])}
        if dsns := [dsn for dsn in (settings[CATALOG_DSN], settings[CATALOG_DIRECT_DSN]) if dsn is not None]:
            from psycopg.conninfo import conninfo_to_dict

            known.update(str(conninfo_to_dict(dsn).get("password") or "") for dsn in dsns)
        self._known = sorted((secret for secret in known if secret and len(secret) >= 4), key=len, reverse=True)

    def mask(self, text: str) -> str:
        """The text with stars for secrets."""
        if len(text) > _LONGEST_MASKED:
            text = f"{text[:_LONGEST_MASKED]}… ({len(text)} characters)"
        for secret in self._known:
            text = text.replace(secret, MASK)
        text = _ASSIGNED.sub(_assigned, _HEADER.sub(rf"\1 {MASK}", _IN_URL.sub(rf"\1{MASK}", text)))
        return masked_text(text)


def _assigned(found: re.Match[str]) -> str:
    return f"{found[1]}{MASK}" if names_secret(found[1]) else found[0]


def context() -> dict[str, str]:
    """What the thread is working for: request, statement, who asked, through which protocol."""
    origin = ORIGIN.get()
    facts = {
        "request_id": origin.request_id,
        "statement_id": STATEMENT.get(),
        "principal": origin.principal,
        "protocol": origin.protocol if origin.request_id else None,
        "trace_id": trace_id(),
    }
    return {key: value for key, value in facts.items() if value}


class TextFormatter(logging.Formatter):
    """A line, with what it is about in brackets."""

    def __init__(self, masker: Masker) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(threadName)s%(about)s: %(message)s")
        self._masker = masker

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        about = context() | getattr(record, "facts", {})
        record.about = f" [{' '.join(f'{key}={value}' for key, value in about.items())}]" if about else ""
        return self._masker.mask(super().format(record))


class JsonFormatter(logging.Formatter):
    """A JSON object on a line of its own."""

    def __init__(self, masker: Masker) -> None:
        super().__init__()
        self._masker = masker

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; facts of its own are members beside the context's."""
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName,
            "message": self._masker.mask(record.getMessage()),
        }
        line |= context()
        line |= {key: self._masker.mask(v) if isinstance(v, str) else v for key, v in getattr(record, "facts", {}).items()}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self._masker.mask(self.formatException(record.exc_info))
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class OncePerMinute(logging.Filter):
    """Lets one line a cause and minute through of failures that are deliberate, without their tracebacks, and of `REPEATS`.

    A full disk fails every request and every beat of what runs in the background; tracebacks are for bugs, which all come through.
    Damage of the catalog, which every part of the server meets and which does not pass, is one line an hour.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._told: TTLCache[tuple[str, str, str, str], None] = TTLCache(1000, REPEATS_SECONDS)
        self._lasting: TTLCache[tuple[str, str, str, str], None] = TTLCache(100, LASTING_SECONDS)
        self._held: Counter[tuple[str, str, str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is told; one that is says how many like it were not."""
        problem = record.exc_info[1] if record.exc_info else None
        deliberate = isinstance(problem, LakeError)
        if not deliberate and (problem is not None or not getattr(record, "repeats", False)):
            return True
        cause = None if problem is None else problem.__cause__
        key, lines = (record.name, str(record.msg), type(problem).__name__, type(cause).__name__), self._told
        if isinstance(problem, CatalogDamaged):  # whoever meets it, and it does not pass
            key, lines = ("", problem.said, "", ""), self._lasting
        with self._lock:
            if key in lines:
                self._held[key] += 1
                return False
            lines[key] = None
            suppressed = self._held.pop(key, 0)
        more = f" ({suppressed} more like it since the last one)" if suppressed else ""
        said = record.getMessage()
        if isinstance(problem, LakeError):
            said += ("" if problem.message in said else f": {problem.message}") + _cause_of(problem)
        record.msg, record.args = f"{said}{more}", ()
        record.exc_info = None
        return True


def _cause_of(problem: LakeError) -> str:
    """What a deliberate failure came from, in a line."""
    cause = problem.__cause__
    if cause is None or isinstance(cause, LakeError):
        return ""
    try:
        words = str(cause).partition("\n")[0]
    except Exception:  # the words of Java's exceptions lie in a JVM, which may be gone
        words = ""
    return f" (from {type(cause).__name__}: {words[:_LONGEST_CAUSE]})" if words else f" (from {type(cause).__name__})"


def _not_of_a_batch(record: logging.LogRecord) -> bool:
    """False for a micro-batch's deliberate failure: its query ends with it, and whoever reads that, or its job, tells it."""
    problem = record.exc_info[1] if record.exc_info else None
    return not isinstance(problem, LakeError) and not type(problem).__module__.startswith("pyspark.errors")


def _not_of_a_lost_jvm(record: logging.LogRecord) -> bool:
    """False for what py4j notes of a connection to a JVM that is gone: whoever called is told as well, and says it in a line."""
    problem = record.exc_info[1] if record.exc_info else None
    return record.name != "root" or not type(problem).__module__.startswith("py4j.")


class _PySparkLogger(logging.Logger):
    """Takes the named values of pyspark's own logger, and says quietly what a client was told."""

    def exception(self, msg: object, *args: object, **named: object) -> None:
        """Note an error of a statement."""
        self.debug(msg, *args)


def set_up(settings: Settings) -> None:
    """Let everything in this process log one way."""
    masker = Masker(settings)
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(OncePerMinute())
    handler.addFilter(_not_of_a_lost_jvm)
    handler.setFormatter(JsonFormatter(masker) if settings[LOG_FORMAT] == "json" else TextFormatter(masker))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings[LOG_LEVEL].upper())
    logging.captureWarnings(True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("py4j.clientserver").addFilter(_not_of_a_batch)
    for name in _PYSPARK:
        logger = logging.getLogger(name)
        logger.__class__ = _PySparkLogger  # pyspark may have made it before, and finds it here if not
        logger.handlers[:] = [handler]
