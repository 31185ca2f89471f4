"""All that the server calls: sessions, operations, the executor, statement requests, results and ingestion."""
