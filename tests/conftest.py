"""Nothing but the list of fixture plugins and what pytest itself is told (`fix_rules`)."""

pytest_plugins = [
    "tests.fix_data",  # the others import it, and pytest wants it first
    "tests.fix_rules",
    "tests.fix_memory",
    "tests.fix_postgres",
    "tests.fix_lake",
    "tests.fix_gateway",
    "tests.fix_workers",
    "tests.fix_spark",
    "tests.fix_routes",
    "tests.fix_server",
    "tests.fix_s3",
    "tests.fix_s3_proxy",
    "tests.fix_postgres_proxy",
    "tests.fix_pgbouncer",
    "tests.fix_kafka",
]
