"""The settings of the server process in force: read from the environment once (`server/__main__.py`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import parse_qs, urlsplit

from model.errors import InvalidOption, nearest
from model.options.option import Option
from model.work.work_limits import JobLimits, MaintenanceLimits
from server.settings.kinds import is_loopback
from server.settings.oidc import OidcSettings
from server.settings.options import (
    AUDIT_DAYS,
    CATALOG_DIRECT_DSN,
    CATALOG_DSN,
    CATALOG_POOLER,
    COMPACTION_ENABLED,
    COMPACTION_INTERVAL,
    COMPACTION_JOB_BYTES,
    COMPACTION_JOBS,
    COMPACTION_PATIENCE,
    COMPACTION_QUIET,
    CORS_ORIGINS,
    DATA,
    FLIGHT_LISTEN,
    IMPORT_DIRS,
    JOBS_CHECKPOINTS,
    JOBS_KEPT,
    JOBS_MOST,
    KAFKA_BROKERS,
    LISTEN,
    LOG_FORMAT,
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
    SERVER_OPTIONS,
    SPARK_ARCHIVE,
    SPARK_CONF,
    SPARK_JARS,
    SPARK_START,
    STATEMENT_TIMEOUT,
    TLS_CERTIFICATE,
    TLS_KEY,
    TOKEN,
    TRACES_ENDPOINT,
    WAREHOUSE,
)
from server.settings.spark import WHEN_NEEDED
from sql.spark.session.settings import read_conf

PREFIX = "SLUICE_"
CLIENT_VARIABLES = frozenset({"SLUICE_URL"})
"""Read by the client command, so a server that sees them says nothing."""
TEST_PREFIX = "SLUICE_TEST_"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every server setting with the value in force: ``settings[LISTEN]``. What is told of several, or made of one, has a name."""

    values: Mapping[str, object]
    """By key, as `server.settings.options` declares and reads them."""
    given: Mapping[str, str]
    """The settings the environment named, by key, as it spelled them."""
    data: Path
    warehouse: str
    import_dirs: tuple[str, ...]
    kafka_brokers: tuple[str, ...] | None
    """None allows all."""
    tls_certificate: Path | None
    tls_key: Path | None
    """Given exactly where the certificate is."""
    oidc: OidcSettings | None
    spark_jars: tuple[str, ...]
    s3_endpoint: str | None
    """Where S3 answers, if elsewhere than at AWS: as AWS's own libraries are told."""
    s3_region: str | None
    """The same of its region; None where a profile or the machine says it."""
    spark_conf: Mapping[str, str]
    """What the file of further settings of Spark holds."""
    spark_archive: str | None
    maintenance: MaintenanceLimits
    jobs: JobLimits
    log_requests: bool
    traces_endpoint: str | None

    def __getitem__(self, option: Option[T]) -> T:
        """The value in force of a setting."""
        return cast("T", self.values[option.key])

    def with_value(self, option: Option[T], value: T) -> Settings:
        """The same settings but for one."""
        return replace(self, values={**self.values, option.key: value})

    @property
    def catalog_pooled(self) -> bool:
        """Whether the DSN leads to a pooler in transaction mode."""
        return self[CATALOG_POOLER] == "transaction"

    @property
    def spark_when_needed(self) -> bool:
        """Whether Spark starts with the first statement that needs it."""
        return self[SPARK_START] == WHEN_NEEDED

    @property
    def statement_timeout(self) -> float | None:
        """In seconds; None where statements may run as long as they take."""
        return self[STATEMENT_TIMEOUT] or None

    @property
    def audit_kept(self) -> timedelta:
        """How long entries of the audit log stay."""
        return timedelta(days=self[AUDIT_DAYS])


def variable(option: Option[object]) -> str:
    """The environment variable of a setting."""
    return PREFIX + option.key.upper().replace(".", "_").replace("-", "_")


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings; raise `InvalidOption` for an unknown ``SLUICE_*`` variable, a bad value, or an open address."""
    raw = _given(environment)
    data = Path(DATA.read(raw)).expanduser().resolve()
    values = {option.key: option.read(raw) for option in SERVER_OPTIONS}
    settings = Settings(
        values=values,
        given=raw,
        data=data,
        warehouse=_absolute(WAREHOUSE.read(raw) or str(data / "warehouse")),
        import_dirs=tuple(_absolute(path) for path in IMPORT_DIRS.read(raw)),
        kafka_brokers=_brokers(KAFKA_BROKERS.read(raw), without_login=TOKEN.read(raw) is None and OIDC_ISSUER.read(raw) is None),
        tls_certificate=_file(TLS_CERTIFICATE.read(raw)),
        tls_key=_file(TLS_KEY.read(raw)),
        oidc=_oidc(raw),
        spark_jars=tuple(_absolute(path) for path in SPARK_JARS.read(raw)),
        s3_endpoint=environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
        s3_region=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        spark_conf=_spark_conf(_file(SPARK_CONF.read(raw))),
        spark_archive=_place(SPARK_ARCHIVE.read(raw)),
        maintenance=MaintenanceLimits(
            enabled=COMPACTION_ENABLED.read(raw),
            jobs=COMPACTION_JOBS.read(raw),
            job_bytes=COMPACTION_JOB_BYTES.read(raw),
            interval=COMPACTION_INTERVAL.read(raw),
            patience=COMPACTION_PATIENCE.read(raw),
            quiet=COMPACTION_QUIET.read(raw),
        ),
        jobs=JobLimits(most=JOBS_MOST.read(raw), checkpoints=_place(JOBS_CHECKPOINTS.read(raw)), kept_days=JOBS_KEPT.read(raw)),
        log_requests=LOG_FORMAT.read(raw) == "json" if (log_requests := LOG_REQUESTS.read(raw)) is None else log_requests,
        traces_endpoint=TRACES_ENDPOINT.read(raw) or _collector(environment),
    )
    _refuse_open_address(settings)
    _refuse_own_endpoint("SLUICE_WAREHOUSE", settings.warehouse, settings)
    _refuse_own_endpoint("SLUICE_JOBS_CHECKPOINTS", settings.jobs.checkpoints, settings)
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise InvalidOption("SLUICE_TLS_CERTIFICATE and SLUICE_TLS_KEY are set together.")
    if settings.catalog_pooled and settings[CATALOG_DSN] is None:
        raise InvalidOption("SLUICE_CATALOG_POOLER=transaction needs SLUICE_CATALOG_DSN: where the pooler answers.")
    if settings[CATALOG_DIRECT_DSN] is not None and not settings.catalog_pooled:
        raise InvalidOption("SLUICE_CATALOG_DIRECT_DSN leads past a pooler: it is set with SLUICE_CATALOG_POOLER=transaction.")
    _check_dsn("SLUICE_CATALOG_DSN", settings[CATALOG_DSN])
    _check_dsn("SLUICE_CATALOG_DIRECT_DSN", settings[CATALOG_DIRECT_DSN])
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
    closed = settings[TOKEN] is not None or settings.oidc is not None
    for name, listen in (("SLUICE_LISTEN", settings[LISTEN]), ("SLUICE_FLIGHT_LISTEN", settings[FLIGHT_LISTEN])):
        if not closed and listen is not None and not is_loopback(listen[0]):
            raise InvalidOption(f"{name} names {listen[0]}, which other machines can reach: set SLUICE_TOKEN, or listen on 127.0.0.1.")
    if not closed and "*" in settings[CORS_ORIGINS]:
        raise InvalidOption("SLUICE_CORS_ORIGINS=* lets every page in the world run SQL here: set SLUICE_TOKEN, or name the origins.")
    token = settings[TOKEN]
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
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


def _refuse_own_endpoint(name: str, location: str | None, settings: Settings) -> None:
    """Raise `InvalidOption` for a place on S3 that itself says which server holds it, where the environment does not.

    Earlier versions heard it there, and made it a part of the names of the files.
    """
    uri = urlsplit(location or "")
    named = parse_qs(uri.query).get("endpoint_override", ()) if uri.scheme == "s3" else ()
    if named and settings.s3_endpoint is None:
        raise InvalidOption(
            f"{name} says endpoint_override={named[0]}, which is nothing but a part of the names of files: set AWS_ENDPOINT_URL to that "
            "server, with http:// or https://, and where files lie there already, leave the place as it is."
        )


def _absolute(location: str) -> str:
    """A local path made absolute; a URI stays as it is."""
    return location if "://" in location or location.startswith("file:") else os.path.abspath(os.path.expanduser(location))
