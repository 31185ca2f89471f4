"""Options that tune engines that are not this one: taken, kept for the clients that know them, and said to have no effect here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from model.options.option import TUNING, Option, boolean, duration, integer, memory_size, number, one_of, optional, text


def _kept(key: str, parser: Any, default: Any, doc: str) -> Option[Any]:
    return Option(key, parser, default, doc, kept=TUNING)


READING: tuple[Option[Any], ...] = (
    _kept("scan.infer-parallelism.max", integer(at_least=1), 1024, "Most tasks that Flink derives for a read."),
    _kept("scan.split-enumerator.batch-size", integer(at_least=1), 10, "Splits Flink gives a task at once."),
    _kept(
        "scan.split-enumerator.mode", one_of("fair", "preemptive"), "fair", "Whether Flink's tasks get splits beforehand or ask for them."
    ),
    _kept("source.checkpoint-align.enabled", boolean(), False, "Whether Flink's checkpoints wait for a snapshot."),
    _kept("source.checkpoint-align.timeout", duration(), timedelta(seconds=30), "How long they wait."),
    _kept("source.operator-uid.suffix", optional(text()), None, "Name of Flink's operator."),
    _kept("source.split.target-size-with-column-pruning", boolean(), False, "Whether Spark packs splits by the columns it reads."),
    _kept("lookup.async", boolean(), False, "Whether Flink's lookup joins ask asynchronously."),
    _kept("lookup.async-thread-number", integer(at_least=1), 16, "Threads of that."),
    _kept("lookup.blob-as-descriptor", boolean(), False, "Whether Flink's lookup joins keep where a BLOB lies instead of its bytes."),
    _kept("lookup.bootstrap-parallelism", integer(at_least=1), 4, "How many threads load the table of a lookup join."),
    _kept("lookup.cache", one_of("auto", "full", "memory"), "auto", "What Flink's lookup joins keep of the table."),
    _kept("lookup.cache-file-retention", duration(), timedelta(hours=1), "How long they keep a file on the local disk."),
    _kept("lookup.cache-max-disk-size", optional(memory_size()), None, "Most local disk of their cache."),
    _kept("lookup.cache-max-memory-size", memory_size(), 256 << 20, "Most memory of it."),
    _kept("lookup.cache-rows", integer(at_least=1), 10_000, "Most rows in it."),
    _kept("lookup.cache-spill-compression", text(), "zstd", "Compression of it."),
    _kept("lookup.cache.bloom.filter.enabled", boolean(), True, "Whether it has bloom filters."),
    _kept("lookup.cache.bloom.filter.fpp", number(at_least=0), 0.05, "How often they say yes for nothing."),
    _kept("lookup.cache.high-priority-pool-ratio", number(at_least=0), 0.25, "Share of its memory for indexes and filters."),
    _kept("lookup.continuous.discovery-interval", optional(duration()), None, "How often Flink's lookup joins look for snapshots."),
    _kept("lookup.dynamic-partition.refresh-interval", duration(), timedelta(hours=1), "How often they look for the newest partition."),
    _kept("lookup.dynamic-partition.refresh.async", boolean(), False, "Whether they load it while the one before answers."),
    _kept("lookup.hash-load-factor", number(at_least=0), 0.75, "How full their hash tables get."),
    _kept("lookup.refresh.async", boolean(), False, "Whether Flink's lookup joins load new snapshots while they answer."),
    _kept("lookup.refresh.async.pending-snapshot-count", integer(at_least=1), 5, "So many new snapshots behind they wait for them."),
    _kept("lookup.refresh.full-load-threshold", optional(integer(at_least=1)), None, "So many behind they load the whole table."),
    _kept("lookup.refresh.time-periods-blacklist", optional(text()), None, "When they load nothing."),
    _kept("requiredSparkConfsCheck.enabled", boolean(), True, "Whether Spark checks its own settings."),
)
WRITING: tuple[Option[Any], ...] = (
    _kept("changelog.precommit-compact.thread-num", optional(integer(at_least=1)), None, "Threads of Flink's merge before a commit."),
    _kept("changelog.precommit-compact.buffer-size", memory_size(), 128 << 20, "Memory of it."),
    _kept("compaction.bucket-distribution-strategy", text(), "linear", "How Flink's compaction spreads buckets over its tasks."),
    _kept("filesystem.job-level-settings.enabled", boolean(), True, "Whether a Flink job's settings reach its file system."),
    _kept("partition.mark-done.recover-from-state", boolean(), True, "Whether Flink's marks of partitions survive in its state."),
    _kept("sink.clustering.sample-factor", integer(at_least=1), 100, "How many rows Flink looks at before it clusters."),
    _kept("sink.clustering.sort-in-cluster", boolean(), True, "Whether Flink sorts within a cluster."),
    _kept("sink.committer-cpu", number(at_least=0), 1.0, "Processor of Flink's committer."),
    _kept("sink.committer-memory", optional(memory_size()), None, "Memory of Flink's committer."),
    _kept("sink.coordinator-commit.enabled", boolean(), False, "Whether Flink's coordinator commits."),
    _kept("sink.managed.writer-buffer-memory", memory_size(), 256 << 20, "Memory of Flink's writers."),
    _kept("sink.operator-uid.suffix", optional(text()), None, "Name of Flink's operator."),
    _kept("sink.use-managed-memory-allocator", boolean(), False, "Whether Flink's writers use its managed memory."),
    _kept("sink.writer-coordinator.enabled", boolean(), False, "Whether Flink's coordinator plans for the writers."),
    _kept("sink.writer-coordinator.cache-memory", memory_size(), 2 << 30, "Its cache of manifests."),
    _kept("sink.writer-coordinator.cache-expire-after-access", optional(duration()), None, "How long it keeps them."),
    _kept("sink.writer-coordinator.cache-soft-values", boolean(), True, "Whether it gives them up for memory."),
    _kept("sink.writer-coordinator.page-size", memory_size(), 32 << 10, "Size of its messages."),
    _kept("sink.writer-coordinator.prefetch-manifests", boolean(), False, "Whether it reads them ahead."),
    _kept("sink.writer-cpu", number(at_least=0), 1.0, "Processor of Flink's writers."),
    _kept("sink.writer-memory", optional(memory_size()), None, "Memory of Flink's writers."),
    _kept("sink.writer-refresh-detectors", optional(text()), None, "What makes Flink's writers read a table's options again."),
    _kept("unaware-bucket.no-shuffle", boolean(), False, "Whether Flink's CDC pipeline hands rows to the writer beside it."),
    _kept("write.use-v2-write", boolean(), False, "Which of its ways to write Spark takes."),
)
