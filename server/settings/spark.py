"""What can be set of Spark when the server starts; `server.settings.options` declares it among the rest."""

from __future__ import annotations

from model.options.option import Option, boolean, integer, memory_size, one_of, optional, text
from server.settings.kinds import directories, packages

MASTER = Option("spark.master", text(), "local[*]", "Spark master that runs the statements.")
WITH_SERVER, WHEN_NEEDED = "with-server", "when-needed"
START = Option(
    "spark.start",
    one_of(WITH_SERVER, WHEN_NEEDED),
    WITH_SERVER,
    "When Spark starts. `when-needed`: with the first statement, job or merge that needs it, which waits for it; a server that serves the "
    "catalog, and statements that need no Spark, does without its memory and its cores until then.",
)
JARS = Option(
    "spark.jars",
    directories(),
    (),
    "Jars Spark is started with, parted by commas. For a warehouse on S3 without network: `hadoop-aws` of Spark's Hadoop version and "
    "AWS's `bundle`.",
)
PACKAGES = Option(
    "spark.packages",
    packages(),
    (),
    "Maven coordinates of what Spark fetches when it first starts, with all they need, parted by commas. A warehouse on S3 without "
    "`spark.jars` has `hadoop-aws` of Spark's Hadoop version fetched (700 MB, once); Kafka "
    "needs `org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0`, Avro `org.apache.spark:spark-avro_2.13:4.1.1`.",
)
DRIVER_HOST = Option(
    "spark.driver-host",
    optional(text()),
    None,
    "Name or address under which the executors of a `spark.master` on other machines reach this one. Without it: loopback for a master "
    "on this machine, else what Spark finds to be this machine's address.",
)
DRIVER_MEMORY = Option(
    "spark.driver-memory", memory_size(), 4 * 1024**3, "Heap of the Spark driver; on a `local` master also of its tasks."
)
STANDSTILL = Option(
    "spark.standstill-seconds",
    integer(at_least=10),
    180,
    "For so long the JVM of Spark's driver may answer nothing, as while it collects garbage; then it is killed and Spark started anew, and "
    "what ran there is answered 503. From 30 s on, or three quarters of it where that is less, statements that need Spark are refused at "
    "once (503).",
)
STREAMS = Option(
    "spark.streams",
    integer(at_least=0),
    32,
    "Streaming SELECTs that run on Spark at the same time, of one user four fifths; the next one is answered 429. Each keeps a process of "
    "Python for every table it follows. Those that need no Spark do not count.",
)
CONF = Option(
    "spark.conf",
    optional(text()),
    None,
    "File with further settings of Spark, one a line as in its `spark-defaults.conf`: `spark.executor.memory 4g`. Settings on which the "
    "meaning of statements depends, and those with a `SLUICE_SPARK_…` variable of their own, are refused.",
)
ARCHIVE = Option(
    "spark.archive",
    optional(text()),
    None,
    "What executors on machines without this server's Python environment need, made by `sluice spark-archive`: a path here, or a URI that "
    "every executor can read. They then need Spark and a `python3.N` of the server's minor version in their PATH. Without it executors "
    "use the server's own Python at its own path.",
)
KEEP_CLASSES = Option(
    "spark.keep-classes",
    boolean(),
    True,
    "Whether the classes that Spark's JVM loads are kept in a file of 190 MB in `data`, so that its next starts take half as long. A JVM "
    "of the lowest priority makes the file once Spark has had nothing to do for a minute, and anew after Java or Spark were upgraded.",
)
