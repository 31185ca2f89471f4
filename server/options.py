"""Settings of the server process: declared once, read from the environment once (`server/__main__.py`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from model.errors import InvalidOption, nearest
from model.option import Option, OptionGroup, boolean, integer, memory_size, number, one_of, optional, text
from server.option_kinds import address, address_or_off, directories, origins, packages, pairs
from server.option_kinds import is_loopback as is_loopback
from sql.jobs.limits import JobLimits, UpkeepLimits, hours

PREFIX = "SLUICE_"
CLIENT_VARIABLES = frozenset({"SLUICE_URL"})
"""Read by the client command, so a server that sees them says nothing."""
TEST_PREFIX = "SLUICE_TEST_"

SERVER_OPTIONS = OptionGroup(
    "Server setting",
    "Read once from the environment when the server starts: `session.idle-seconds` is the variable `SLUICE_SESSION_IDLE_SECONDS`.",
)

LISTEN = SERVER_OPTIONS.declare(
    Option(
        "listen",
        address(),
        ("127.0.0.1", 8083),
        "Where the server listens. Anything but a loopback address needs `token`. Port 0 picks a free one.",
    )
)
FLIGHT_LISTEN = SERVER_OPTIONS.declare(
    Option(
        "flight.listen",
        address_or_off(),
        ("127.0.0.1", 8084),
        "Where the server listens for Arrow Flight SQL; `off` does without. Anything but a loopback address needs `token`.",
    )
)
DATA = SERVER_OPTIONS.declare(Option("data", text(), "./data", "Directory of the embedded Postgres and of the default warehouse."))
CATALOG_DSN = SERVER_OPTIONS.declare(
    Option(
        "catalog.dsn",
        optional(text()),
        None,
        "Postgres that holds the catalog, as a libpq URI or keywords. Without it a Postgres is started in `data`.",
    )
)
CATALOG_CONNECTIONS = SERVER_OPTIONS.declare(
    Option("catalog.connections", integer(at_least=2, at_most=1000), 16, "Connections to the catalog's Postgres at most.")
)
WAREHOUSE = SERVER_OPTIONS.declare(
    Option("warehouse", optional(text()), None, "Path or URI under which tables lie. Without it: `warehouse` inside `data`.")
)
IMPORT_DIRS = SERVER_OPTIONS.declare(
    Option(
        "import.dirs",
        directories(),
        (),
        "Directories whose files SQL may read (`'connector'='filesystem'`) and tables may be made of, parted by commas.",
    )
)
REMOTE_CATALOGS = SERVER_OPTIONS.declare(
    Option(
        "remote.catalogs",
        directories(),
        (),
        "Addresses of other Paimon REST catalogs whose tables SQL may read (`'connector'='paimon'`), parted by commas. "
        "They are trusted to say where their files lie.",
    )
)
KAFKA_BROKERS = SERVER_OPTIONS.declare(
    Option(
        "kafka.brokers",
        optional(directories()),
        None,
        "Brokers that SQL may connect to (`'connector'='kafka'`), as `host` or `host:port` parted by commas. "
        "Without it: any, where nobody needs a token; none, where `SLUICE_TOKEN` is set.",
    )
)
TLS_CERTIFICATE = SERVER_OPTIONS.declare(
    Option(
        "tls.certificate",
        optional(text()),
        None,
        "PEM file with the server's certificate and those between it and its root: HTTP and Flight SQL are spoken over TLS then. "
        "A replaced file is used for new connections within a second.",
    )
)
TLS_KEY = SERVER_OPTIONS.declare(Option("tls.key", optional(text()), None, "PEM file with the certificate's key, without a passphrase."))
TOKEN = SERVER_OPTIONS.declare(
    Option("token", optional(text()), None, "The administrator's token; clients send it as `Authorization: Bearer …`.")
)
DATA_TOKEN = SERVER_OPTIONS.declare(
    Option(
        "data-token",
        pairs(),
        (),
        "What Paimon clients that ask for a data token get, to reach the warehouse's files: options of their file system, such as "
        "`fs.s3.accessKeyId=…,fs.s3.accessKeySecret=…,fs.s3.endpoint=…`. Without it no credentials leave the server.",
    )
)
SPARK_MASTER = SERVER_OPTIONS.declare(Option("spark.master", text(), "local[*]", "Spark master that runs the statements."))
SPARK_JARS = SERVER_OPTIONS.declare(
    Option(
        "spark.jars",
        directories(),
        (),
        "Jars Spark is started with, parted by commas. For a warehouse on S3 without network: `hadoop-aws` of Spark's Hadoop version and "
        "AWS's `bundle`.",
    )
)
SPARK_PACKAGES = SERVER_OPTIONS.declare(
    Option(
        "spark.packages",
        packages(),
        (),
        "Maven coordinates of what Spark fetches when it first starts, with all they need, parted by commas. A warehouse on S3 without "
        "`spark.jars` has `hadoop-aws` of Spark's Hadoop version fetched (700 MB, once); Kafka "
        "needs `org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0`, Avro `org.apache.spark:spark-avro_2.13:4.1.1`.",
    )
)
SPARK_DRIVER_HOST = SERVER_OPTIONS.declare(
    Option(
        "spark.driver-host",
        optional(text()),
        None,
        "Name or address under which the executors of a `spark.master` on other machines reach this one. Without it: loopback for a master "
        "on this machine, else what Spark finds to be this machine's address.",
    )
)
SPARK_DRIVER_MEMORY = SERVER_OPTIONS.declare(
    Option("spark.driver-memory", memory_size(), 4 * 1024**3, "Heap of the Spark driver; on a `local` master also of its tasks.")
)
SESSION_IDLE = SERVER_OPTIONS.declare(
    Option("session.idle-seconds", number(at_least=1), 600.0, "A session nobody used for so long is closed.")
)
SESSION_LIMIT = SERVER_OPTIONS.declare(Option("session.limit", integer(at_least=1), 1000, "Open sessions at most."))
STATEMENT_CONCURRENCY = SERVER_OPTIONS.declare(
    Option("statement.concurrency", integer(at_least=1), 4, "Statements that run on Spark at the same time.")
)
STATEMENT_QUEUE = SERVER_OPTIONS.declare(
    Option("statement.queue", integer(at_least=0), 100, "Statements that may wait for Spark; the next one is answered 429.")
)
STATEMENT_TIMEOUT = SERVER_OPTIONS.declare(
    Option("statement.timeout-seconds", number(at_least=0), 3600.0, "A statement that runs longer is canceled; 0 means no limit.")
)
STATEMENT_BYTES = SERVER_OPTIONS.declare(
    Option("statement.max-bytes", memory_size(), 16 * 1024**2, "Longest statement text; a longer one is answered 413.")
)
RESULT_KEEP = SERVER_OPTIONS.declare(
    Option(
        "result.keep-seconds",
        number(at_least=1),
        3600.0,
        "How long the result of a statement submitted with `async` stays after it was last asked for.",
    )
)
CORS_ORIGINS = SERVER_OPTIONS.declare(
    Option(
        "cors.origins",
        origins(),
        (),
        "Origins whose pages may call this server from a browser, such as `https://app.example.org`, parted by commas; `*` is every "
        "origin, only allowed where `token` is set. Without it: none.",
    )
)
ROWS_BYTES = SERVER_OPTIONS.declare(
    Option("rows.max-bytes", memory_size(), 1024**4, "Largest body `POST /tables/…/rows` reads; a larger one is answered 413.")
)
SPOOL_RESULT_BYTES = SERVER_OPTIONS.declare(
    Option("spool.result-bytes", memory_size(), 64 * 1024**3, "Largest result kept on disk while it is read; a larger one fails.")
)
SPOOL_BYTES = SERVER_OPTIONS.declare(
    Option("spool.bytes", memory_size(), 256 * 1024**3, "All results kept on disk together; a statement past it fails.")
)
PLANNING_CACHE = SERVER_OPTIONS.declare(
    Option(
        "planning.cache-bytes",
        memory_size(),
        4 * 1024**3,
        "Decoded manifests kept in `cache/manifests` inside `data`, so that tables of very many files are planned at once also after a "
        "restart: about 350 MB for a million files. What was used longest ago goes first; 0 keeps them in memory only.",
    )
)
THREADS = SERVER_OPTIONS.declare(Option("http.threads", integer(at_least=4), 256, "Requests answered at the same time; further ones wait."))
STALL = SERVER_OPTIONS.declare(
    Option("http.stall-seconds", number(at_least=1), 120.0, "A connection on which nothing moves for so long is closed.")
)
DRAIN = SERVER_OPTIONS.declare(
    Option("drain-seconds", number(at_least=0), 30.0, "How long a stopping server lets running statements finish.")
)
COMPACTION_ENABLED = SERVER_OPTIONS.declare(
    Option("compaction.enabled", boolean(), True, "Whether this server merges small files and lets go what is too old, by itself.")
)
COMPACTION_JOBS = SERVER_OPTIONS.declare(
    Option("compaction.jobs", integer(at_least=1, at_most=64), 1, "Tables looked after at the same time.")
)
COMPACTION_JOB_BYTES = SERVER_OPTIONS.declare(
    Option("compaction.job-bytes", memory_size(), 2 * 1024**3, "Input of one automatic merge at most.")
)
COMPACTION_INTERVAL = SERVER_OPTIONS.declare(
    Option("compaction.interval-seconds", number(at_least=0.1), 2.0, "Time between two looks at what was committed by others.")
)
COMPACTION_PATIENCE = SERVER_OPTIONS.declare(
    Option(
        "compaction.patience-seconds",
        number(at_least=0),
        60.0,
        "A partition without buckets to which nothing came for so long has its few small files merged, however few they are.",
    )
)
COMPACTION_QUIET = SERVER_OPTIONS.declare(
    Option("compaction.quiet-hours", optional(hours()), None, "Local time in which no automatic merge begins, such as 08:00-20:00.")
)
JOBS_MOST = SERVER_OPTIONS.declare(
    Option(
        "jobs.most",
        integer(at_least=0, at_most=1000),
        8,
        "Streaming INSERTs this server runs at the same time; 0 leaves them to others.",
    )
)
JOBS_CHECKPOINTS = SERVER_OPTIONS.declare(
    Option(
        "jobs.checkpoints",
        optional(text()),
        None,
        "Path or URI under which jobs keep their checkpoints, the same for all servers. Without it: `.sluice/jobs` in the warehouse.",
    )
)
JOBS_KEPT = SERVER_OPTIONS.declare(
    Option("jobs.kept-days", integer(at_least=0), 30, "How long a job that has ended is shown and can be started again.")
)
AUDIT_DAYS = SERVER_OPTIONS.declare(
    Option("audit.days", number(at_least=0), 30.0, "How long `sys.audit_log` keeps who ran what; 0 keeps no such log.")
)
LOG_LEVEL = SERVER_OPTIONS.declare(Option("log.level", one_of("debug", "info", "warning", "error"), "info", "How much is logged."))
LOG_FORMAT = SERVER_OPTIONS.declare(
    Option("log.format", one_of("text", "json"), "text", "How the log is written: lines for people, or a JSON object a line for machines.")
)
LOG_REQUESTS = SERVER_OPTIONS.declare(
    Option("log.requests", optional(boolean()), None, "Whether each request has a line in the log. Without it: where that is JSON.")
)
TRACES_ENDPOINT = SERVER_OPTIONS.declare(
    Option(
        "traces.endpoint",
        optional(text()),
        None,
        "OpenTelemetry collector that gets traces by OTLP over HTTP, such as `http://127.0.0.1:4318`. Without it: what the "
        "standard variables `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and `OTEL_EXPORTER_OTLP_ENDPOINT` say, else none.",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every server setting with the value in force."""

    listen: tuple[str, int] = LISTEN.default
    flight_listen: tuple[str, int] | None = FLIGHT_LISTEN.default
    """None where there is no Flight SQL."""
    data: Path
    catalog_dsn: str | None = None
    catalog_connections: int = CATALOG_CONNECTIONS.default
    warehouse: str
    import_dirs: tuple[str, ...] = ()
    remote_catalogs: tuple[str, ...] = ()
    kafka_brokers: tuple[str, ...] | None = None
    """None allows all."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    """Given exactly where the certificate is."""
    token: str | None = None
    data_token: tuple[tuple[str, str], ...] = ()
    spark_master: str = SPARK_MASTER.default
    spark_jars: tuple[str, ...] = ()
    spark_packages: tuple[str, ...] = ()
    s3_endpoint: str | None = None
    """Where S3 answers, if elsewhere than at AWS: as AWS's own libraries are told."""
    spark_driver_host: str | None = None
    spark_driver_memory: int = SPARK_DRIVER_MEMORY.default
    session_idle: float = SESSION_IDLE.default
    session_limit: int = SESSION_LIMIT.default
    statement_concurrency: int = STATEMENT_CONCURRENCY.default
    statement_queue: int = STATEMENT_QUEUE.default
    statement_timeout: float | None = STATEMENT_TIMEOUT.default
    statement_bytes: int = STATEMENT_BYTES.default
    result_keep: float = RESULT_KEEP.default
    cors_origins: tuple[str, ...] = ()
    rows_bytes: int = ROWS_BYTES.default
    spool_result_bytes: int = SPOOL_RESULT_BYTES.default
    spool_bytes: int = SPOOL_BYTES.default
    planning_cache: int = PLANNING_CACHE.default
    threads: int = THREADS.default
    stall: float = STALL.default
    drain: float = DRAIN.default
    audit_kept: timedelta = timedelta(days=AUDIT_DAYS.default)
    upkeep: UpkeepLimits = field(default_factory=UpkeepLimits)
    jobs: JobLimits = field(default_factory=JobLimits)
    log_level: str = LOG_LEVEL.default
    log_format: str = LOG_FORMAT.default
    log_requests: bool = False
    traces_endpoint: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    """The settings the environment named, by key, as it spelled them."""


def variable(option: Option[object]) -> str:
    """The environment variable of a setting."""
    return PREFIX + option.key.upper().replace(".", "_").replace("-", "_")


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings; raise `InvalidOption` for an unknown ``SLUICE_*`` variable, a bad value, or an open door without token."""
    keys = {variable(option): option.key for option in SERVER_OPTIONS}
    raw: dict[str, str] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX) or name in CLIENT_VARIABLES or name.startswith(TEST_PREFIX):
            continue
        if name not in keys:
            near = nearest(name, keys)
            raise InvalidOption(f"There is no setting {name}.{f' Did you mean {near}?' if near else ''}")
        if value.strip():  # `SLUICE_TOKEN= make run` means: none
            raw[keys[name]] = value
    data = Path(DATA.read(raw)).expanduser().resolve()
    settings = Settings(
        listen=LISTEN.read(raw),
        flight_listen=FLIGHT_LISTEN.read(raw),
        data=data,
        catalog_dsn=CATALOG_DSN.read(raw),
        catalog_connections=CATALOG_CONNECTIONS.read(raw),
        warehouse=_absolute(WAREHOUSE.read(raw) or str(data / "warehouse")),
        import_dirs=tuple(_absolute(path) for path in IMPORT_DIRS.read(raw)),
        remote_catalogs=REMOTE_CATALOGS.read(raw),
        kafka_brokers=_brokers(KAFKA_BROKERS.read(raw), open_door=TOKEN.read(raw) is None),
        tls_certificate=_file(TLS_CERTIFICATE.read(raw)),
        tls_key=_file(TLS_KEY.read(raw)),
        token=TOKEN.read(raw),
        data_token=DATA_TOKEN.read(raw),
        spark_master=SPARK_MASTER.read(raw),
        spark_jars=tuple(_absolute(path) for path in SPARK_JARS.read(raw)),
        spark_packages=SPARK_PACKAGES.read(raw),
        s3_endpoint=environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
        spark_driver_host=SPARK_DRIVER_HOST.read(raw),
        spark_driver_memory=SPARK_DRIVER_MEMORY.read(raw),
        session_idle=SESSION_IDLE.read(raw),
        session_limit=SESSION_LIMIT.read(raw),
        statement_concurrency=STATEMENT_CONCURRENCY.read(raw),
        statement_queue=STATEMENT_QUEUE.read(raw),
        statement_timeout=STATEMENT_TIMEOUT.read(raw) or None,
        statement_bytes=STATEMENT_BYTES.read(raw),
        result_keep=RESULT_KEEP.read(raw),
        cors_origins=CORS_ORIGINS.read(raw),
        rows_bytes=ROWS_BYTES.read(raw),
        spool_result_bytes=SPOOL_RESULT_BYTES.read(raw),
        spool_bytes=SPOOL_BYTES.read(raw),
        planning_cache=PLANNING_CACHE.read(raw),
        threads=THREADS.read(raw),
        stall=STALL.read(raw),
        drain=DRAIN.read(raw),
        audit_kept=timedelta(days=AUDIT_DAYS.read(raw)),
        upkeep=UpkeepLimits(
            enabled=COMPACTION_ENABLED.read(raw),
            jobs=COMPACTION_JOBS.read(raw),
            job_bytes=COMPACTION_JOB_BYTES.read(raw),
            interval=COMPACTION_INTERVAL.read(raw),
            patience=COMPACTION_PATIENCE.read(raw),
            quiet=COMPACTION_QUIET.read(raw),
        ),
        jobs=JobLimits(most=JOBS_MOST.read(raw), checkpoints=_place(JOBS_CHECKPOINTS.read(raw)), kept_days=JOBS_KEPT.read(raw)),
        log_level=LOG_LEVEL.read(raw),
        traces_endpoint=TRACES_ENDPOINT.read(raw) or _collector(environment),
        log_format=LOG_FORMAT.read(raw),
        log_requests=LOG_FORMAT.read(raw) == "json" if (asked := LOG_REQUESTS.read(raw)) is None else asked,
        given=raw,
    )
    _refuse_open_door(settings)
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise InvalidOption("SLUICE_TLS_CERTIFICATE and SLUICE_TLS_KEY are set together.")
    return settings


def _refuse_open_door(settings: Settings) -> None:
    for name, listen in (("SLUICE_LISTEN", settings.listen), ("SLUICE_FLIGHT_LISTEN", settings.flight_listen)):
        if settings.token is None and listen is not None and not is_loopback(listen[0]):
            raise InvalidOption(f"{name} names {listen[0]}, which other machines can reach: set SLUICE_TOKEN, or listen on 127.0.0.1.")
    if settings.token is None and "*" in settings.cors_origins:
        raise InvalidOption("SLUICE_CORS_ORIGINS=* lets every page in the world run SQL here: set SLUICE_TOKEN, or name the origins.")
    if settings.token is not None and not (settings.token.isascii() and settings.token.isprintable() and " " not in settings.token):
        raise InvalidOption("SLUICE_TOKEN must be printable ASCII without spaces, as it travels in a header.")


def _brokers(named: tuple[str, ...] | None, *, open_door: bool) -> tuple[str, ...] | None:
    """Who may use a server without tokens sits at the machine and can reach every broker anyway."""
    return named if named is not None or open_door else ()


def _collector(environment: Mapping[str, str]) -> str | None:
    """Where OpenTelemetry's own variables send traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER", "").lower() == "none":
        return None
    if own := environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return own
    return f"{base.rstrip('/')}/v1/traces" if (base := environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")) else None


def _file(path: str | None) -> Path | None:
    return None if path is None else Path(path).expanduser().resolve()


def _place(location: str | None) -> str | None:
    return None if location is None else _absolute(location)


def _absolute(location: str) -> str:
    """A local path made absolute; a URI stays as it is."""
    return location if "://" in location or location.startswith("file:") else os.path.abspath(os.path.expanduser(location))
