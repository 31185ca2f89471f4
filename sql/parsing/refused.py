"""Statements that are not available, by their first words."""

from __future__ import annotations

REFUSED = {
    "CACHE": "tables are not cached",
    "UNCACHE": "tables are not cached",
    "CLEAR": "tables are not cached",
    "REFRESH": "tables are always read as they are now",
    "ADD": "code and files cannot be added to the server",
    "REMOVE": "code and files cannot be removed from the server",
    "LIST": "the server's files are not shown",
    "LOAD": "files are loaded with INSERT INTO … SELECT from a filesystem table or with POST /tables/{database}/{table}/rows",
    "ANALYZE": "statistics are kept by every write",
    "MSCK": "partitions are known from the table's metadata",
    "IMPORT": "tables are made with CREATE TABLE",
    "EXPORT": "results are fetched as Parquet, Arrow, CSV or JSON over HTTP",
    "DECLARE": "session variables are not available",
    "LOCK": "tables are not locked",
    "UNLOCK": "tables are not locked",
    "COMMENT": "use ALTER TABLE … COMMENT",
    "REPLACE": "use INSERT OVERWRITE",
    "COMPILE": "plans are not stored",
    "PREPARE": "statements are not prepared in SQL",
    "VACUUM": "files are removed when their snapshots expire",
    "OPTIMIZE": "files are merged by compaction",
    "COPY": "files are loaded with INSERT INTO … SELECT from a filesystem table",
    "FOR": "scripts are not available",
    "IF": "scripts are not available",
    "WHILE": "scripts are not available",
    "REPEAT": "scripts are not available",
    "LOOP": "scripts are not available",
    "TABLE": "write SELECT * FROM the table",
    "MAP": "TRANSFORM and its kin start programs on the server",
    "REDUCE": "TRANSFORM and its kin start programs on the server",
    "UNSET": "use RESET",
    "UNLOAD": "functions are Spark's; there are no modules",
}
"""First words of statements that are refused, and why or what to do instead."""
