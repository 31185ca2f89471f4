"""What is so at the moment ``/metrics`` is asked: of this server, and of the catalog it shares with others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gateway.execution.executor import Lane
from gateway.gateway import Gateway
from gateway.operation import OperationState
from lake import Lake
from lake.inspect.browse import read_whole
from lake.inspect.overview import Overview, consumer_table, overview
from model.errors import LakeError
from model.text.file_name import file_name
from model.work.job import JobState

_CATALOG_SECONDS = 5.0
"""For so long the catalog's sums are not asked for again."""
_MOST_SERIES = 100
"""Tables, consumers or jobs told of by name at most."""


class OfServer:
    """What this process has and does."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.threads: Callable[[], Mapping[str, float]] = dict
        """The HTTP server's threads, once there is one."""
        self.connections: Callable[[], Mapping[str, float]] = dict
        """Its connections."""

    def describe(self) -> Iterator[Metric]:
        """Nothing is asked of the gateway before the first scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The gauges."""
        gateway = self._gateway
        running = [operation.state for operation in gateway.running()]
        states = {state.value.lower(): running.count(state) for state in (OperationState.PENDING, OperationState.RUNNING)}
        yield _gauges("sluice_statements", "Statements that wait or run.", "state", states)
        yield _gauges("sluice_queued_works", "Pieces of work that wait for a thread.", "lane", gateway.queued())
        lanes = {Lane.LOCAL.value: gateway.limits.local_threads, Lane.SPARK.value: gateway.limits.spark_threads}
        yield _gauges("sluice_statement_threads", "Threads that run statements.", "lane", lanes)
        yield _gauges("sluice_http_threads", "Threads that answer requests.", "what", self.threads())
        yield _gauges("sluice_http_connections", "Open connections.", "who", self.connections())
        yield _gauges("sluice_result_memory_bytes", "Memory of results that are kept, read or read ahead.", "what", gateway.held.memory())
        yield GaugeMetricFamily("sluice_sessions", "Open gateway sessions.", value=gateway.open_sessions())
        yield GaugeMetricFamily("sluice_streams", "Streaming queries being read.", value=gateway.streams())
        yield GaugeMetricFamily(
            "sluice_spark_streams", "Those of them on Spark, ones that still end included.", value=len(gateway.spark_streams)
        )
        yield GaugeMetricFamily("sluice_spark_ready", "1 when Spark takes statements.", value=float(gateway.spark_ready()))
        spaces = gateway.lake.reserve.spaces()
        free = {space.directory: space.free for space in spaces}
        yield _gauges("sluice_disk_free_bytes", "Bytes that can still be written.", "directory", free)
        reserved = {space.directory: space.reserved for space in spaces}
        yield _gauges("sluice_disk_reserved_bytes", "Bytes kept free: below them new rows are refused.", "directory", reserved)
        free_files = {space.directory: space.free_files for space in spaces if space.free_files is not None}
        yield _gauges("sluice_disk_free_files", "Files that can still be made, where a disk has a number of them.", "directory", free_files)
        standing = gateway.lake.standing
        damaged = "Tables found damaged or diverged by this server."
        yield GaugeMetricFamily("sluice_tables_in_trouble", damaged, value=len(standing.troubles()))
        belongs = "1 when the warehouse is the catalog's; where not nothing is written."
        yield GaugeMetricFamily("sluice_warehouse_own", belongs, value=float(standing.mismatch is None))
        paused = "1 while nothing expires by age, because the time cannot be believed."
        yield GaugeMetricFamily("sluice_expiry_paused", paused, value=float(gateway.lake.clock.doubt is not None))
        catalog = gateway.lake.catalog
        yield _gauges("sluice_catalog_pool", "Connections to Postgres, and who waits for one.", "what", catalog.pool_stats())
        yield _totals(catalog.pool_totals())
        yield GaugeMetricFamily("sluice_jobs_here", "Jobs this server runs.", value=len(gateway.jobs.running()))
        if gateway.maintenance is not None:
            debts = gateway.maintenance.debts()
            most = dict(sorted(debts.items(), key=lambda one: -one[1].files)[:_MOST_SERIES])
            files = "Small files of the tables this server maintains."
            yield GaugeMetricFamily("sluice_compaction_debt_files", files, value=sum(debt.files for debt in debts.values()))
            yield GaugeMetricFamily("sluice_compaction_debt_bytes", "Their size.", value=sum(debt.size for debt in debts.values()))
            named = {table: debt.files for table, debt in most.items()}
            yield _gauges("sluice_table_debt_files", f"{files[:-1]}, the worst by name.", "table", named)
            failing = len(gateway.maintenance.failing())
            yield GaugeMetricFamily("sluice_maintenance_failing", "Tables whose maintenance fails now.", value=failing)


class Seen:
    """The figures as somebody sees them who is no administrator: of a table he may not read whole, and of jobs, nothing is told by name.

    The server's directories are told by their last names.
    """

    def __init__(self, registry: CollectorRegistry, lake: Lake) -> None:
        self._registry = registry
        self._lake = lake

    def collect(self) -> Iterator[Metric]:
        """All families, without the samples that name what is hidden."""
        for family in self._registry.collect():
            if any("table" in sample.labels or "job" in sample.labels for sample in family.samples):
                visible = Metric(family.name, family.documentation, family.type)
                tables = self._told({sample.labels.get("table", "") for sample in family.samples})
                visible.samples = [sample for sample in family.samples if sample.labels.get("table") in tables]
                yield visible
            elif any("directory" in sample.labels for sample in family.samples):
                short = _short_names(sample.labels["directory"] for sample in family.samples)
                named = Metric(family.name, family.documentation, family.type)
                for sample in family.samples:
                    named.add_sample(sample.name, {**sample.labels, "directory": short[sample.labels["directory"]]}, sample.value)
                yield named
            else:
                yield family

    def _told(self, tables: Iterable[str]) -> frozenset[str]:
        names = {table: (database, name) for table in tables for database, _, name in [table.partition(".")]}
        try:
            whole = set(read_whole(self._lake, names.values()))
        except LakeError:
            return frozenset()
        return frozenset(table for table, name in names.items() if name in whole)


def _short_names(directories: Iterable[str]) -> Mapping[str, str]:
    """Their last names, with a number behind one that others have before them."""
    short: dict[str, str] = {}
    for directory in sorted(set(directories)):
        name, others = file_name(directory), [file_name(other) for other in short]
        short[directory] = f"{name} {others.count(name) + 1}" if name in others else name
    return short


class OfCatalog:
    """What all servers of the catalog see alike: to be looked at with ``max``, not ``sum``."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._known: Overview | None = None
        self._until = 0.0

    def describe(self) -> Iterator[Metric]:
        """Nothing is asked of Postgres before the first scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The gauges; without Postgres only that it is away."""
        known = self._ask()
        yield GaugeMetricFamily("sluice_catalog_up", "1 when Postgres answers.", value=float(known is not None))
        if known is None:
            return
        sums = known.sums
        yield GaugeMetricFamily("sluice_tables", "Tables in the catalog.", value=sums.tables)
        yield GaugeMetricFamily("sluice_tables_dropped", "Dropped tables that UNDROP can bring back.", value=sums.dropped_tables)
        yield GaugeMetricFamily("sluice_tables_dropped_bytes", "Bytes of their latest snapshots.", value=sums.dropped_bytes)
        yield GaugeMetricFamily("sluice_tables_diverged", "Tables somebody wrote to past the catalog.", value=len(sums.diverged))
        yield GaugeMetricFamily(
            "sluice_tables_unattended", "Tables that may want maintenance and that no server maintains.", value=len(sums.unattended)
        )
        unpublished = "Snapshots that were decided and have no file yet."
        yield GaugeMetricFamily("sluice_snapshots_unpublished", unpublished, value=sums.unpublished_snapshots)
        expired = {"table": sums.expired_table_leases, "job": sums.expired_job_leases}
        yield _gauges("sluice_leases_expired", "Leases that ran out and nobody took over.", "of", expired)
        yield _gauges("sluice_jobs", "Jobs by state.", "state", {s.value.lower(): sums.jobs.get(s.value, 0) for s in JobState})
        lag = GaugeMetricFamily("sluice_consumer_lag_snapshots", "Snapshots a consumer has not read.", labels=["table", "consumer"])
        for row in known.lagging[:_MOST_SERIES]:
            lag.add_metric([consumer_table(row), row.name], row.behind)
        yield lag
        yield from _of_jobs(known)

    def _ask(self) -> Overview | None:
        if time.monotonic() >= self._until:
            try:
                self._known = overview(self._gateway.lake.catalog, consumers=_MOST_SERIES)
            except LakeError:
                self._known = None
            self._until = time.monotonic() + _CATALOG_SECONDS
        return self._known


def _of_jobs(known: Overview) -> Iterator[Metric]:
    lag = GaugeMetricFamily("sluice_job_lag", "How far a job is behind its sources.", labels=["job", "name", "unit"])
    failures = GaugeMetricFamily("sluice_job_failures", "Failures of a job since its last good batch.", labels=["job", "name"])
    for job in known.jobs[:_MOST_SERIES]:
        failures.add_metric([str(job.job_id), job.name], job.attempts)
        for unit, behind in job.lag.by_unit().items() if job.lag else ():
            lag.add_metric([str(job.job_id), job.name, unit], behind)
    yield lag
    yield failures


def _gauges(name: str, doc: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, doc, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _totals(values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(
        "sluice_catalog_pool_events", "What the pool of connections did; waits and use in seconds.", labels=["what"]
    )
    for what, value in values.items():
        family.add_metric([what], value)
    return family
