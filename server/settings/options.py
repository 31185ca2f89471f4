"""What can be set of the server process: declared once; `server.settings.settings` reads it, the page of options shows it."""

from __future__ import annotations

from datetime import timedelta

from model.options.option import Option, OptionGroup, boolean, duration, integer, memory_size, number, one_of, optional, text
from model.work.work_limits import hours
from server.settings import catalog as catalog_options
from server.settings import data_tokens as data_token_options
from server.settings import looks as look_options
from server.settings import spark as spark_options
from server.settings import storage as storage_options
from server.settings.kinds import address, address_or_off, directories, http_url, issuer_url, origins, pairs, words
from server.settings.kinds import is_loopback as is_loopback

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
ADVERTISED_URL = SERVER_OPTIONS.declare(
    Option(
        "advertised.url",
        optional(http_url()),
        None,
        "Where the other servers of the catalog reach this one, such as `https://sluice-1.internal:8083`: they pass on what is asked of "
        "its statements and sessions. Without it: the address of `listen`, by the machine's name where it listens at all addresses.",
    )
)
DATA = SERVER_OPTIONS.declare(Option("data", text(), "./data", "Directory of the embedded Postgres and of the default warehouse."))
CATALOG_DSN = SERVER_OPTIONS.declare(catalog_options.DSN)
CATALOG_POOLER = SERVER_OPTIONS.declare(catalog_options.POOLER)
CATALOG_DIRECT_DSN = SERVER_OPTIONS.declare(catalog_options.DIRECT_DSN)
CATALOG_CONNECTIONS = SERVER_OPTIONS.declare(catalog_options.CONNECTIONS)
WAREHOUSE = SERVER_OPTIONS.declare(
    Option("warehouse", optional(text()), None, "Path or URI under which tables lie. Without it: `warehouse` inside `data`.")
)
WAREHOUSE_SYNC = SERVER_OPTIONS.declare(
    Option(
        "warehouse.sync",
        boolean(),
        True,
        "Whether files of a commit are flushed to disk before it is answered. Without it a power cut may lose acknowledged rows; "
        "object stores need none of it.",
    )
)
LIST_INTERVAL = SERVER_OPTIONS.declare(look_options.LIST_INTERVAL)
LOOKED_AT = SERVER_OPTIONS.declare(look_options.TABLES)
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
        "Without it: any, where nobody needs a token; none, where a token is needed.",
    )
)
TLS_CERTIFICATE = SERVER_OPTIONS.declare(
    Option(
        "tls.certificate",
        optional(text()),
        None,
        "PEM file with the server's certificate and those between it and its root: HTTP and Flight SQL are spoken over TLS then. "
        "A replaced file is used for new connections of HTTP within a second, of Flight SQL after a restart.",
    )
)
TLS_KEY = SERVER_OPTIONS.declare(Option("tls.key", optional(text()), None, "PEM file with the certificate's key, without a passphrase."))
TOKEN = SERVER_OPTIONS.declare(
    Option("token", optional(text()), None, "The administrator's token; clients send it as `Authorization: Bearer …`.")
)
OIDC_ISSUER = SERVER_OPTIONS.declare(
    Option(
        "oidc.issuer",
        optional(issuer_url()),
        None,
        "URL of an OpenID Connect issuer whose JWTs are taken as tokens, spelled as in their claim `iss`. Its keys are found by "
        "`/.well-known/openid-configuration`.",
    )
)
OIDC_AUDIENCE = SERVER_OPTIONS.declare(
    Option("oidc.audience", optional(text()), None, "What the claim `aud` of such tokens must hold; without it the client id.")
)
OIDC_CLIENT_ID = SERVER_OPTIONS.declare(
    Option("oidc.client-id", optional(text()), None, "The client as which the pages log in by the authorization code flow (with PKCE).")
)
OIDC_CLIENT_SECRET = SERVER_OPTIONS.declare(Option("oidc.client-secret", optional(text()), None, "That client's secret, where it has one."))
OIDC_REDIRECT_URL = SERVER_OPTIONS.declare(
    Option(
        "oidc.redirect-url",
        optional(text()),
        None,
        "Where the issuer sends browsers back to: this server's `/ui/login/callback` as they reach it; for proxies that end TLS.",
    )
)
OIDC_SCOPES = SERVER_OPTIONS.declare(
    Option("oidc.scopes", words(), ("openid", "profile"), "What the pages ask the issuer for, parted by commas.")
)
OIDC_PRINCIPAL_CLAIM = SERVER_OPTIONS.declare(
    Option(
        "oidc.principal-claim",
        text(),
        "sub",
        "The claim that names the principal. Take one that people cannot change themselves: what is granted to that name is theirs.",
    )
)
OIDC_GROUPS_CLAIM = SERVER_OPTIONS.declare(Option("oidc.groups-claim", text(), "groups", "The claim that lists the groups somebody is in."))
OIDC_ROLES = SERVER_OPTIONS.declare(
    Option(
        "oidc.roles",
        pairs(),
        (),
        "Which role the members of a group have, as `group=role` parted by commas: `data-team=analyst,platform=admin`. Others give none.",
    )
)
OIDC_SKEW = SERVER_OPTIONS.declare(
    Option("oidc.skew-seconds", integer(at_least=0, at_most=600), 60, "How far the issuer's clock may be from this server's.")
)
DATA_TOKEN = SERVER_OPTIONS.declare(data_token_options.FIXED)
DATA_TOKEN_ROLE = SERVER_OPTIONS.declare(data_token_options.ROLE)
DATA_TOKEN_ROLE_SECONDS = SERVER_OPTIONS.declare(data_token_options.ROLE_SECONDS)
DATA_TOKEN_SHARED = SERVER_OPTIONS.declare(data_token_options.SHARED)
SPARK_MASTER = SERVER_OPTIONS.declare(spark_options.MASTER)
SPARK_START = SERVER_OPTIONS.declare(spark_options.START)
SPARK_JARS = SERVER_OPTIONS.declare(spark_options.JARS)
SPARK_PACKAGES = SERVER_OPTIONS.declare(spark_options.PACKAGES)
SPARK_DRIVER_HOST = SERVER_OPTIONS.declare(spark_options.DRIVER_HOST)
SPARK_DRIVER_MEMORY = SERVER_OPTIONS.declare(spark_options.DRIVER_MEMORY)
SPARK_STREAMS = SERVER_OPTIONS.declare(spark_options.STREAMS)
SPARK_CONF = SERVER_OPTIONS.declare(spark_options.CONF)
SPARK_ARCHIVE = SERVER_OPTIONS.declare(spark_options.ARCHIVE)
SPARK_STANDSTILL = SERVER_OPTIONS.declare(spark_options.STANDSTILL)
SPARK_KEEP_CLASSES = SERVER_OPTIONS.declare(spark_options.KEEP_CLASSES)
SESSION_IDLE = SERVER_OPTIONS.declare(
    Option("session.idle-seconds", number(at_least=1), 600.0, "A session nobody used for so long is closed.")
)
_SESSIONS = (
    "Open sessions; of one user four fifths. What is set in them, and their temporary tables, take 64 MB at most, or 64 kB for each of "
    "the limit where that is more, shared so, too."
)
SESSION_LIMIT = SERVER_OPTIONS.declare(Option("session.limit", integer(at_least=1), 1000, _SESSIONS))
STATEMENT_CONCURRENCY = SERVER_OPTIONS.declare(
    Option(
        "statement.concurrency",
        integer(at_least=1),
        4,
        "Statements that run on Spark at the same time; half as many more may, of users that run none.",
    )
)
STATEMENT_QUEUE = SERVER_OPTIONS.declare(
    Option(
        "statement.queue",
        integer(at_least=0),
        100,
        "Statements that may wait for Spark; the next one is answered 429. With 0 so is each that cannot run there at once.",
    )
)
STATEMENT_TIMEOUT = SERVER_OPTIONS.declare(
    Option("statement.timeout-seconds", number(at_least=0), 3600.0, "A statement that runs longer is canceled; 0 means no limit.")
)
STATEMENT_BYTES = SERVER_OPTIONS.declare(
    Option("statement.max-bytes", memory_size(), 1024**2, "Longest statement text, with its parameters; a longer one is answered 413.")
)
STATEMENT_WORDS = SERVER_OPTIONS.declare(
    Option(
        "statement.max-words",
        integer(at_least=1),
        50_000,
        "Most words, signs and literals of a text that is parsed; an `INSERT … VALUES` of plain literals is read without.",
    )
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
ROWS_WORKERS = SERVER_OPTIONS.declare(
    Option(
        "rows.workers",
        integer(at_least=1, at_most=64),
        2,
        "Processes that decode the bodies of `POST /tables/…/rows`: one that a damaged body kills costs that request. Each decodes one "
        "body at a time, and one more starts for users of whom none is decoded; small CSV and NDJSON bodies need none. As many others "
        "decode ORC files of tables, from the first that is read, and as many at most parameters of Flight SQL, from the first statement "
        "that has some.",
    )
)
ROWS_WORKER_MEMORY = SERVER_OPTIONS.declare(
    Option(
        "rows.worker-memory",
        memory_size(),
        2 * 1024**3,
        "What such a process may use. A body that needs more is answered 400; of an ORC file fewer rows are decoded at once, and a row "
        "that needs more is refused.",
    )
)
ROWS_WORKER_SECONDS = SERVER_OPTIONS.declare(
    Option(
        "rows.worker-seconds",
        number(at_least=1),
        600.0,
        "How long decoding and writing a body may take, at a worker a second more for each MB; a longer one is answered 400.",
    )
)
SPOOL_RESULT_BYTES = SERVER_OPTIONS.declare(
    Option("spool.result-bytes", memory_size(), 64 * 1024**3, "Largest result kept on disk while it is read; a larger one fails.")
)
RESULTS_READING_BYTES = SERVER_OPTIONS.declare(
    Option(
        "results.reading-bytes",
        memory_size(),
        1024**3,
        "Memory that reading results takes at a time, some 24 to 48 MB for each large one however slowly its client reads; four fifths of "
        "it for one user. A further one waits for its place, a minute or two, and is answered 429 then. What finds out that a result "
        "is small takes up to half as much beside, and files read ahead up to 256 MB, four fifths of it for one user.",
    )
)
STORAGE_RESERVE = SERVER_OPTIONS.declare(
    Option(
        "storage.reserve",
        optional(memory_size()),
        None,
        "Bytes kept free on the disks of `data` and of a local warehouse, beside what is promised to work under way: below them new rows, "
        "large results and compactions are refused with 507 before they begin, and everything else goes on. Without it: 5 % of the disk, "
        "at most 2 GiB. `0` keeps nothing free. Of the files (inodes) a disk can hold "
        "5 % are kept as well, at most 1,000, unless it is `0`.",
    )
)
STORAGE_PATIENCE = SERVER_OPTIONS.declare(storage_options.PATIENCE)
SPOOL_BYTES = SERVER_OPTIONS.declare(
    Option("spool.bytes", memory_size(), 256 * 1024**3, "All results kept on disk together; a statement past it fails.")
)
PLANNING_CACHE = SERVER_OPTIONS.declare(
    Option(
        "planning.cache-bytes",
        memory_size(),
        4 * 1024**3,
        "Decoded manifests kept in `cache/manifests` inside `data`, so that tables of many files are planned at once also after a "
        "restart: about 350 MB for a million files. What was used longest ago goes first; 0 keeps them in memory only.",
    )
)
THREADS = SERVER_OPTIONS.declare(
    Option("http.threads", integer(at_least=4), 256, "Requests answered at the same time; one principal has at most three quarters.")
)
CONNECTIONS = SERVER_OPTIONS.declare(
    Option(
        "http.connections",
        integer(at_least=16),
        16_384,
        "HTTP connections open at most; fewer where the process may open fewer files (`ulimit -n`), of which 2,048 are left to others. "
        "Beyond it the oldest connection that waits for no answer is closed, one without a valid token first.",
    )
)
CONNECTIONS_OF_ONE = SERVER_OPTIONS.declare(
    Option(
        "http.connections-of-one",
        integer(at_least=8),
        8192,
        "Of them, and of Flight SQL's 800, those of one address without a valid token yet, and of one principal; at most three quarters.",
    )
)
STALL = SERVER_OPTIONS.declare(
    Option("http.stall-seconds", number(at_least=1), 120.0, "A connection on which nothing moves for so long is closed.")
)
FLIGHT_MESSAGE_BYTES = SERVER_OPTIONS.declare(
    Option(
        "flight.message-bytes",
        memory_size(),
        512 * 1024**2,
        "Largest message an Arrow Flight SQL client may send, that is a batch of rows as it travels; a larger one is refused.",
    )
)
FLIGHT_STALL = SERVER_OPTIONS.declare(
    Option(
        "flight.stall-seconds",
        number(at_least=1),
        600.0,
        "An Arrow Flight SQL connection whose client leaves rows it asked for untaken, or sends none of those it began to send, for so "
        "long is closed. Tools hold half a result while people look at it: give them time.",
    )
)
DRAIN = SERVER_OPTIONS.declare(
    Option("drain-seconds", number(at_least=0), 30.0, "How long a stopping server lets running statements finish.")
)
DRAIN_DELAY = SERVER_OPTIONS.declare(
    Option(
        "drain.delay-seconds",
        number(at_least=0),
        0.0,
        "How long a server told to stop goes on taking requests while `/readyz` says 503 already, so that a balancer sends nobody.",
    )
)
COMPACTION_ENABLED = SERVER_OPTIONS.declare(
    Option("compaction.enabled", boolean(), True, "Whether this server merges small files and lets go what is too old, by itself.")
)
COMPACTION_JOBS = SERVER_OPTIONS.declare(
    Option("compaction.jobs", integer(at_least=1, at_most=64), 1, "Tables maintained at the same time.")
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
DROP_RETENTION = SERVER_OPTIONS.declare(
    Option(
        "drop.retention",
        duration(),
        timedelta(days=7),
        "How long dropped tables and databases can be brought back by UNDROP, and their files stay; 0 removes them at once. "
        "A table's own 'drop.retention' says otherwise for that table.",
    )
)
AUDIT_DAYS = SERVER_OPTIONS.declare(
    Option("audit.days", number(at_least=0), 30.0, "How long `sys.audit_log` keeps who ran what; 0 keeps no such log.")
)
AUDIT_ERASURES = SERVER_OPTIONS.declare(
    Option(
        "audit.erasures",
        boolean(),
        False,
        "Whether `sys.audit_log` keeps what a `DELETE` or `sys.erase` named; it is what was to be forgotten, so stars stand for it unless "
        "somebody must be able to show which rows were asked for.",
    )
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
