"""The settings of the server process in force: read from the environment once (`server/__main__.py`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from model.errors import InvalidOption, nearest
from model.options.option import Option
from model.work.work_limits import JobLimits, MaintenanceLimits
from server.settings.kinds import is_loopback
from server.settings.oidc import OidcSettings
from server.settings.options import (
    ADVERTISED_URL,
    AUDIT_DAYS,
    AUDIT_ERASURES,
    CATALOG_CONNECTIONS,
    CATALOG_DIRECT_DSN,
    CATALOG_DSN,
    CATALOG_POOLER,
    COMPACTION_ENABLED,
    COMPACTION_INTERVAL,
    COMPACTION_JOB_BYTES,
    COMPACTION_JOBS,
    COMPACTION_PATIENCE,
    COMPACTION_QUIET,
    CONNECTIONS,
    CONNECTIONS_OF_ONE,
    CORS_ORIGINS,
    DATA,
    DATA_TOKEN,
    DATA_TOKEN_ROLE,
    DATA_TOKEN_SHARED,
    DRAIN,
    DRAIN_DELAY,
    DROP_RETENTION,
    FLIGHT_LISTEN,
    FLIGHT_MESSAGE_BYTES,
    FLIGHT_STALL,
    IMPORT_DIRS,
    JOBS_CHECKPOINTS,
    JOBS_KEPT,
    JOBS_MOST,
    KAFKA_BROKERS,
    LISTEN,
    LOG_FORMAT,
    LOG_LEVEL,
    LOG_REQUESTS,
    OIDC_AUDIENCE,
    OIDC_CLIENT_ID,
    OIDC_CLIENT_SECRET,
    OIDC_GROUPS_CLAIM,
    OIDC_ISSUER,
    OIDC_PRINCIPAL_CLAIM,
    OIDC_REDIRECT_URL,
    OIDC_ROLES,
    OIDC_SCOPES,
    OIDC_SKEW,
    PLANNING_CACHE,
    REMOTE_CATALOGS,
    RESULT_KEEP,
    ROWS_BYTES,
    ROWS_WORKER_MEMORY,
    ROWS_WORKER_SECONDS,
    ROWS_WORKERS,
    SERVER_OPTIONS,
    SESSION_IDLE,
    SESSION_LIMIT,
    SPARK_ARCHIVE,
    SPARK_CONF,
    SPARK_DRIVER_HOST,
    SPARK_DRIVER_MEMORY,
    SPARK_JARS,
    SPARK_KEEP_CLASSES,
    SPARK_MASTER,
    SPARK_PACKAGES,
    SPARK_START,
    SPARK_STREAMS,
    SPOOL_BYTES,
    SPOOL_RESULT_BYTES,
    STALL,
    STATEMENT_BYTES,
    STATEMENT_CONCURRENCY,
    STATEMENT_QUEUE,
    STATEMENT_TIMEOUT,
    STATEMENT_WORDS,
    STORAGE_RESERVE,
    THREADS,
    TLS_CERTIFICATE,
    TLS_KEY,
    TOKEN,
    TRACES_ENDPOINT,
    WAREHOUSE,
    WAREHOUSE_SYNC,
)
from server.settings.spark import WHEN_NEEDED
from sql.spark.session.settings import read_conf

PREFIX = "SLUICE_"
CLIENT_VARIABLES = frozenset({"SLUICE_URL"})
"""Read by the client command, so a server that sees them says nothing."""
TEST_PREFIX = "SLUICE_TEST_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every server setting with the value in force."""

    listen: tuple[str, int] = LISTEN.default
    flight_listen: tuple[str, int] | None = FLIGHT_LISTEN.default
    advertised_url: str | None = ADVERTISED_URL.default
    """None where there is no Flight SQL."""
    data: Path
    catalog_dsn: str | None = None
    catalog_pooled: bool = False
    """Whether the DSN leads to a pooler in transaction mode."""
    catalog_direct_dsn: str | None = None
    catalog_connections: int = CATALOG_CONNECTIONS.default
    warehouse: str
    warehouse_sync: bool = WAREHOUSE_SYNC.default
    import_dirs: tuple[str, ...] = ()
    remote_catalogs: tuple[str, ...] = ()
    kafka_brokers: tuple[str, ...] | None = None
    """None allows all."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    """Given exactly where the certificate is."""
    token: str | None = None
    oidc: OidcSettings | None = None
    data_token: tuple[tuple[str, str], ...] = ()
    data_token_role: str | None = None
    data_token_shared: bool = False
    spark_master: str = SPARK_MASTER.default
    spark_when_needed: bool = False
    spark_jars: tuple[str, ...] = ()
    spark_packages: tuple[str, ...] = ()
    s3_endpoint: str | None = None
    """Where S3 answers, if elsewhere than at AWS: as AWS's own libraries are told."""
    spark_driver_host: str | None = None
    spark_driver_memory: int = SPARK_DRIVER_MEMORY.default
    spark_streams: int = SPARK_STREAMS.default
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    """What the file of further settings of Spark holds."""
    spark_archive: str | None = None
    spark_keep_classes: bool = SPARK_KEEP_CLASSES.default
    session_idle: float = SESSION_IDLE.default
    session_limit: int = SESSION_LIMIT.default
    statement_concurrency: int = STATEMENT_CONCURRENCY.default
    statement_queue: int = STATEMENT_QUEUE.default
    statement_timeout: float | None = STATEMENT_TIMEOUT.default
    statement_bytes: int = STATEMENT_BYTES.default
    statement_words: int = STATEMENT_WORDS.default
    result_keep: float = RESULT_KEEP.default
    cors_origins: tuple[str, ...] = ()
    rows_bytes: int = ROWS_BYTES.default
    rows_workers: int = ROWS_WORKERS.default
    rows_worker_memory: int = ROWS_WORKER_MEMORY.default
    rows_worker_seconds: float = ROWS_WORKER_SECONDS.default
    spool_result_bytes: int = SPOOL_RESULT_BYTES.default
    spool_bytes: int = SPOOL_BYTES.default
    storage_reserve: int | None = STORAGE_RESERVE.default
    planning_cache: int = PLANNING_CACHE.default
    threads: int = THREADS.default
    connections: int = CONNECTIONS.default
    connections_of_one: int = CONNECTIONS_OF_ONE.default
    stall: float = STALL.default
    flight_message_bytes: int = FLIGHT_MESSAGE_BYTES.default
    flight_stall: float = FLIGHT_STALL.default
    drain: float = DRAIN.default
    drain_delay: float = DRAIN_DELAY.default
    audit_kept: timedelta = timedelta(days=AUDIT_DAYS.default)
    audit_erasures: bool = AUDIT_ERASURES.default
    drop_retention: timedelta = DROP_RETENTION.default
    maintenance: MaintenanceLimits = field(default_factory=MaintenanceLimits)
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
    """Read the settings; raise `InvalidOption` for an unknown ``SLUICE_*`` variable, a bad value, or an open address."""
    raw = _given(environment)
    data = Path(DATA.read(raw)).expanduser().resolve()
    settings = Settings(
        listen=LISTEN.read(raw),
        flight_listen=FLIGHT_LISTEN.read(raw),
        advertised_url=ADVERTISED_URL.read(raw),
        data=data,
        catalog_dsn=CATALOG_DSN.read(raw),
        catalog_pooled=CATALOG_POOLER.read(raw) == "transaction",
        catalog_direct_dsn=CATALOG_DIRECT_DSN.read(raw),
        catalog_connections=CATALOG_CONNECTIONS.read(raw),
        warehouse=_absolute(WAREHOUSE.read(raw) or str(data / "warehouse")),
        warehouse_sync=WAREHOUSE_SYNC.read(raw),
        import_dirs=tuple(_absolute(path) for path in IMPORT_DIRS.read(raw)),
        remote_catalogs=REMOTE_CATALOGS.read(raw),
        kafka_brokers=_brokers(KAFKA_BROKERS.read(raw), without_login=TOKEN.read(raw) is None and OIDC_ISSUER.read(raw) is None),
        tls_certificate=_file(TLS_CERTIFICATE.read(raw)),
        tls_key=_file(TLS_KEY.read(raw)),
        token=TOKEN.read(raw),
        oidc=_oidc(raw),
        data_token=DATA_TOKEN.read(raw),
        data_token_role=DATA_TOKEN_ROLE.read(raw),
        data_token_shared=DATA_TOKEN_SHARED.read(raw),
        spark_master=SPARK_MASTER.read(raw),
        spark_when_needed=SPARK_START.read(raw) == WHEN_NEEDED,
        spark_jars=tuple(_absolute(path) for path in SPARK_JARS.read(raw)),
        spark_packages=SPARK_PACKAGES.read(raw),
        s3_endpoint=environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
        spark_driver_host=SPARK_DRIVER_HOST.read(raw),
        spark_driver_memory=SPARK_DRIVER_MEMORY.read(raw),
        spark_conf=_spark_conf(_file(SPARK_CONF.read(raw))),
        spark_streams=SPARK_STREAMS.read(raw),
        spark_archive=_place(SPARK_ARCHIVE.read(raw)),
        spark_keep_classes=SPARK_KEEP_CLASSES.read(raw),
        session_idle=SESSION_IDLE.read(raw),
        session_limit=SESSION_LIMIT.read(raw),
        statement_concurrency=STATEMENT_CONCURRENCY.read(raw),
        statement_queue=STATEMENT_QUEUE.read(raw),
        statement_timeout=STATEMENT_TIMEOUT.read(raw) or None,
        statement_bytes=STATEMENT_BYTES.read(raw),
        statement_words=STATEMENT_WORDS.read(raw),
        result_keep=RESULT_KEEP.read(raw),
        cors_origins=CORS_ORIGINS.read(raw),
        rows_bytes=ROWS_BYTES.read(raw),
        rows_workers=ROWS_WORKERS.read(raw),
        rows_worker_memory=ROWS_WORKER_MEMORY.read(raw),
        rows_worker_seconds=ROWS_WORKER_SECONDS.read(raw),
        spool_result_bytes=SPOOL_RESULT_BYTES.read(raw),
        spool_bytes=SPOOL_BYTES.read(raw),
        storage_reserve=STORAGE_RESERVE.read(raw),
        planning_cache=PLANNING_CACHE.read(raw),
        threads=THREADS.read(raw),
        connections=CONNECTIONS.read(raw),
        connections_of_one=CONNECTIONS_OF_ONE.read(raw),
        stall=STALL.read(raw),
        flight_message_bytes=FLIGHT_MESSAGE_BYTES.read(raw),
        flight_stall=FLIGHT_STALL.read(raw),
        drain=DRAIN.read(raw),
        drain_delay=DRAIN_DELAY.read(raw),
        audit_kept=timedelta(days=AUDIT_DAYS.read(raw)),
        audit_erasures=AUDIT_ERASURES.read(raw),
        drop_retention=DROP_RETENTION.read(raw),
        maintenance=MaintenanceLimits(
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
        log_requests=LOG_FORMAT.read(raw) == "json" if (log_requests := LOG_REQUESTS.read(raw)) is None else log_requests,
        given=raw,
    )
    _refuse_open_address(settings)
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise InvalidOption("SLUICE_TLS_CERTIFICATE and SLUICE_TLS_KEY are set together.")
    if settings.catalog_pooled and settings.catalog_dsn is None:
        raise InvalidOption("SLUICE_CATALOG_POOLER=transaction needs SLUICE_CATALOG_DSN: where the pooler answers.")
    if settings.catalog_direct_dsn is not None and not settings.catalog_pooled:
        raise InvalidOption("SLUICE_CATALOG_DIRECT_DSN leads past a pooler: it is set with SLUICE_CATALOG_POOLER=transaction.")
    _check_dsn("SLUICE_CATALOG_DSN", settings.catalog_dsn)
    _check_dsn("SLUICE_CATALOG_DIRECT_DSN", settings.catalog_direct_dsn)
    return settings


def _check_dsn(name: str, dsn: str | None) -> None:
    """Raise `InvalidOption` for what libpq cannot read; its own words would show a part of the text, which may be the password."""
    if dsn is None:
        return
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(dsn)
    except psycopg.Error:
        raise InvalidOption(
            f"{name} is no connection string of Postgres: postgresql://user@host:5432/database is expected, or 'host=… dbname=…'."
        ) from None


def _given(environment: Mapping[str, str]) -> dict[str, str]:
    """What is set, by key; raises `InvalidOption` for a variable of ours that nothing is known of."""
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
    return raw


def _oidc(raw: Mapping[str, str]) -> OidcSettings | None:
    issuer, client = OIDC_ISSUER.read(raw), OIDC_CLIENT_ID.read(raw)
    audience = OIDC_AUDIENCE.read(raw) or client
    if issuer is None:
        if lone := next((key for key in raw if key.startswith("oidc.")), None):
            raise InvalidOption(f"{PREFIX}{lone.upper().replace('.', '_').replace('-', '_')} is set without SLUICE_OIDC_ISSUER.")
        return None
    if audience is None:
        raise InvalidOption("SLUICE_OIDC_ISSUER needs SLUICE_OIDC_AUDIENCE or SLUICE_OIDC_CLIENT_ID: whom its tokens must be for.")
    return OidcSettings(
        issuer=issuer,
        audience=audience,
        client_id=client,
        client_secret=OIDC_CLIENT_SECRET.read(raw),
        redirect_url=OIDC_REDIRECT_URL.read(raw),
        scopes=OIDC_SCOPES.read(raw),
        principal_claim=OIDC_PRINCIPAL_CLAIM.read(raw),
        groups_claim=OIDC_GROUPS_CLAIM.read(raw),
        roles=OIDC_ROLES.read(raw),
        skew_seconds=OIDC_SKEW.read(raw),
    )


def _refuse_open_address(settings: Settings) -> None:
    closed = settings.token is not None or settings.oidc is not None
    for name, listen in (("SLUICE_LISTEN", settings.listen), ("SLUICE_FLIGHT_LISTEN", settings.flight_listen)):
        if not closed and listen is not None and not is_loopback(listen[0]):
            raise InvalidOption(f"{name} names {listen[0]}, which other machines can reach: set SLUICE_TOKEN, or listen on 127.0.0.1.")
    if not closed and "*" in settings.cors_origins:
        raise InvalidOption("SLUICE_CORS_ORIGINS=* lets every page in the world run SQL here: set SLUICE_TOKEN, or name the origins.")
    if settings.token is not None and not (settings.token.isascii() and settings.token.isprintable() and " " not in settings.token):
        raise InvalidOption("SLUICE_TOKEN must be printable ASCII without spaces, as it travels in a header.")


def _brokers(named: tuple[str, ...] | None, *, without_login: bool) -> tuple[str, ...] | None:
    """Who may use a server without tokens sits at the machine and can reach every broker anyway."""
    return named if named is not None or without_login else ()


def _collector(environment: Mapping[str, str]) -> str | None:
    """Where OpenTelemetry's own variables send traces."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER", "").lower() == "none":
        return None
    if own := environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return own
    return f"{base.rstrip('/')}/v1/traces" if (base := environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")) else None


def _file(path: str | None) -> Path | None:
    return None if path is None else Path(path).expanduser().resolve()


def _spark_conf(file: Path | None) -> Mapping[str, str]:
    if file is None:
        return {}
    try:
        return read_conf(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise InvalidOption(f"SLUICE_SPARK_CONF: {file}: {reason}.") from problem


def _place(location: str | None) -> str | None:
    return None if location is None else _absolute(location)


def _absolute(location: str) -> str:
    """A local path made absolute; a URI stays as it is."""
    return location if "://" in location or location.startswith("file:") else os.path.abspath(os.path.expanduser(location))
