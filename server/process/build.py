"""Builds the gateway from the settings; whatever is opened is handed to the caller to close."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from lake import MANIFEST_CACHE, Lake, LogSpace, StorageReserve, recovery
from lake.peers import Peers
from lake.process_name import process_space
from lake.register import upgrade
from maintenance.coordinator import Coordinator
from migrations import known_revisions
from model.location import Location
from server.process import memory
from server.process.postgres_space import wal_growth
from server.settings.options import (
    AUDIT_ERASURES,
    CATALOG_CONNECTIONS,
    CATALOG_DIRECT_DSN,
    CATALOG_DSN,
    DATA_TOKEN_ROLE,
    DRAIN,
    DROP_RETENTION,
    LIST_INTERVAL,
    LOOKED_AT,
    PLANNING_CACHE,
    REMOTE_CATALOGS,
    RESULT_KEEP,
    RESULTS_READING_BYTES,
    SESSION_IDLE,
    SESSION_LIMIT,
    SPARK_DRIVER_HOST,
    SPARK_DRIVER_MEMORY,
    SPARK_KEEP_CLASSES,
    SPARK_MASTER,
    SPARK_PACKAGES,
    SPARK_STANDSTILL,
    SPARK_STREAMS,
    SPOOL_BYTES,
    SPOOL_RESULT_BYTES,
    STATEMENT_BYTES,
    STATEMENT_CONCURRENCY,
    STATEMENT_QUEUE,
    STATEMENT_WORDS,
    STORAGE_PATIENCE,
    STORAGE_RESERVE,
    TOKEN,
    WAREHOUSE_SYNC,
)
from server.settings.settings import Settings
from server.sql.orc import orc_decoded_beside, worker_limits
from sql.spark.driver.class_archive import ClassArchive
from sql.spark.session.pool import SparkPool
from sql.spark.session.settings import SparkSettings, hadoop_version
from workers.spool import BodyFiles


def build_gateway(
    settings: Settings, dsn: str, cleanup: contextlib.ExitStack, *, postgres_problem: Callable[[], str | None] | None = None
) -> tuple[Gateway, SparkPool, Peers]:
    """A gateway on the catalog and warehouse of the settings, the pool whose Spark is not started yet, and the catalog's other servers."""
    catalog = CatalogStore(
        dsn,
        max_connections=settings[CATALOG_CONNECTIONS],
        pooled=settings.catalog_pooled,
        direct_dsn=settings[CATALOG_DIRECT_DSN],
        problem=postgres_problem,
    )
    cleanup.callback(catalog.close)
    cleanup.callback(memory.given_back())
    reserve = _reserve(settings)
    MANIFEST_CACHE.keep_in(settings.data / "cache" / "manifests", settings[PLANNING_CACHE], space=lambda: reserve.short() is None)
    cleanup.enter_context(orc_decoded_beside(settings))
    lake = Lake(
        catalog,
        settings.warehouse,
        sync=settings[WAREHOUSE_SYNC],
        token=settings[TOKEN],
        import_dirs=settings.import_dirs,
        audit_kept=settings.audit_kept,
        audit_erasures=settings[AUDIT_ERASURES],
        drop_retention=settings[DROP_RETENTION],
        reserve=reserve,
    )
    lake.standing.known_revisions = known_revisions()  # as of now: a newer version may be installed in this one's place while it runs
    lake.standing.listing_seconds = settings[LIST_INTERVAL].total_seconds()
    lake.standing.looked_at = settings[LOOKED_AT]
    lake.apart = settings[DATA_TOKEN_ROLE] is not None
    cleanup.callback(lake.close)
    cleanup.callback(lake.growing.watch())
    lake.standing.compare_at_start()  # before anything is recovered: nothing is removed where the warehouse is another's
    cleanup.callback(lake.standing.watch())
    cleanup.callback(recovery.in_background(lake.finish_half_done).set)
    cleanup.callback(upgrade.in_background(lake).set)
    if settings.audit_kept:
        lake.audit.start()
    space = partial(reserve.promise, at=str(settings.data))
    spark = SparkPool(
        SparkSettings(
            master=settings[SPARK_MASTER],
            driver_host=settings[SPARK_DRIVER_HOST],
            driver_memory=f"{settings[SPARK_DRIVER_MEMORY] >> 20}m",
            directory=settings.data / "spark",
            log=settings.data / "logs" / "spark.log",
            conf={**store_conf(settings), **settings.spark_conf},
            archive=settings.spark_archive,
            standstill=settings[SPARK_STANDSTILL],
            when_needed=settings.spark_when_needed,
            classes=ClassArchive(settings.data / "spark-classes", space=space) if settings[SPARK_KEEP_CLASSES] else None,
        )
    )
    cleanup.callback(spark.stop)
    peers = Peers(catalog, f"{process_space()}/{os.getpid()}")
    cleanup.callback(peers.leave)
    bodies = BodyFiles(settings.data / "bodies", space=space)
    gateway = Gateway(lake, spark, limits=replace(_limits(settings), server=peers.number), bodies=bodies)
    cleanup.callback(gateway.close)
    gateway.start()
    # An embedded Postgres runs for one server only: whoever maintained the tables before, under this name, is dead.
    owner = uuid5(NAMESPACE_URL, settings.data.as_uri()) if settings[CATALOG_DSN] is None else None
    coordinator = Coordinator(lake, settings.maintenance, background=partial(_in_background, spark), owner=owner)
    cleanup.callback(coordinator.close, settings[DRAIN], spark.cancel)
    gateway.maintenance = coordinator
    coordinator.start()
    return gateway, spark, peers


@contextlib.contextmanager
def _in_background(spark: SparkPool, name: str) -> Iterator[Any]:
    """A Spark session whose jobs come after users' statements."""
    with spark.running(name, background=True):
        yield spark.session()


_CREDENTIALS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)
"""Keys that settings of Spark name, then all places AWS's own libraries look in. Hadoop's default knows of the latter only the environment
and a machine's role, and takes that before a web identity, which the server takes before it."""


def store_conf(settings: Settings) -> dict[str, str]:
    """Spark's settings of the store the warehouse is in; credentials are found where AWS's own libraries look for them."""
    conf = {"spark.jars": ",".join(settings.spark_jars)} if settings.spark_jars else {}
    packages = settings[SPARK_PACKAGES]
    if settings.warehouse.startswith("s3://"):
        conf |= {
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "spark.hadoop.fs.s3a.aws.credentials.provider": ",".join(_CREDENTIALS),
        }
        if settings.s3_region is not None:
            conf["spark.hadoop.fs.s3a.endpoint.region"] = settings.s3_region
        if not settings.spark_jars:
            packages = (*packages, f"org.apache.hadoop:hadoop-aws:{hadoop_version()}")
        if settings.s3_endpoint is not None:
            conf |= {"spark.hadoop.fs.s3a.endpoint": settings.s3_endpoint, "spark.hadoop.fs.s3a.path.style.access": "true"}
    return conf | ({"spark.jars.packages": ",".join(packages)} if packages else {})


def _reserve(settings: Settings) -> StorageReserve:
    """Watches the directories of this machine that the server writes to, and what the embedded Postgres may still write by itself."""
    warehouse = Location.parse(settings.warehouse)
    log = None
    if settings[CATALOG_DSN] is None:
        log = LogSpace(directory=str(settings.data), most=lambda: wal_growth(settings.data))
    return StorageReserve(
        [str(settings.data)], reserved=settings[STORAGE_RESERVE], warehouse=str(warehouse) if warehouse.local else None, log=log
    )


def _limits(settings: Settings) -> GatewayLimits:
    return GatewayLimits(
        sessions=settings[SESSION_LIMIT],
        session_idle_seconds=settings[SESSION_IDLE],
        statement_seconds=settings.statement_timeout,
        statement_chars=settings[STATEMENT_BYTES],
        statement_words=settings[STATEMENT_WORDS],
        spark_statements=settings[STATEMENT_CONCURRENCY],
        kept_for_others=max(1, settings[STATEMENT_CONCURRENCY] // 2),
        spark_streams=settings[SPARK_STREAMS],
        queued_statements=settings[STATEMENT_QUEUE],
        kept_seconds=settings[RESULT_KEEP],
        result_bytes=settings[SPOOL_RESULT_BYTES],
        spool_bytes=settings[SPOOL_BYTES],
        reading_bytes=settings[RESULTS_READING_BYTES],
        store_seconds=settings[STORAGE_PATIENCE],
        import_dirs=settings.import_dirs,
        remote_catalogs=settings[REMOTE_CATALOGS],
        kafka_brokers=settings.kafka_brokers,
        jobs=settings.jobs,
        workers=worker_limits(settings),
    )
