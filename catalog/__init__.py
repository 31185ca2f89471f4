"""The catalog: databases, tables, their schemas and latest snapshots, in Postgres. No files, no Spark, no HTTP."""
