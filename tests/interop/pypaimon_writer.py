"""A pypaimon process with default options that commits rows of its own one by one; tells how often each commit had to be built anew."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon.write.file_store_commit import FileStoreCommit
from pypaimon_rest import connect, write

COLUMNS = pa.schema([("w", pa.int32()), ("n", pa.int32())])


def count_retries() -> list[int]:
    """A list whose last number grows with each retry: the client tells of them nowhere else than before it waits for one."""
    retries: list[int] = []
    wait = FileStoreCommit._commit_retry_wait

    def counted(self: Any, retry_count: int) -> None:
        retries[-1] += 1
        wait(self, retry_count)

    FileStoreCommit._commit_retry_wait = counted
    return retries


def main(url: str, name: str, writer: str, commits: str) -> None:
    """Commit so many rows (writer, n), n from 0, once a line comes: all writers begin together."""
    table = connect(url).get_table(name)
    print(flush=True)
    sys.stdin.readline()
    retries = count_retries()
    for n in range(int(commits)):
        retries.append(0)
        write(table, pa.table({"w": [int(writer)], "n": [n]}, schema=COLUMNS))
    print(json.dumps(retries), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
