"""The Paimon format: layout, manifests, statistics, buckets, planning, reading and writing files. No Postgres, no HTTP, no Spark."""
