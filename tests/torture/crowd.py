"""A crowd of connections that do nothing, half of something or something very slowly, and of streams; a process of its own.

``python -m tests.torture.crowd ADDRESS PORT IDLE HALF SLOW STREAMS TABLES``: each connection that the server ends is made anew; of
the streams the first half follow `crowd0`, the others all tables in turns. Each second a line tells how it stands; the end of standard
input ends it.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections import Counter

_PART = b"POST /sql HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "
_AT_ONCE = 50
"""Connections made at the same time: the crowd is to stand there, not to storm the endpoint."""


class Crowd:
    """All of them, in one event loop."""

    def __init__(self, address: str, port: int) -> None:
        self.address = address
        self.port = port
        self.here: Counter[str] = Counter()
        self.rows = 0
        self.failures = 0
        self._endpoint = asyncio.Semaphore(_AT_ONCE)

    async def stand(self, kind: str) -> None:
        """One that is there forever and sends next to nothing."""
        while True:
            try:
                async with self._endpoint:
                    reader, writer = await asyncio.open_connection(self.address, self.port)
            except OSError:
                self.failures += 1
                await asyncio.sleep(1)
                continue
            self.here[kind] += 1
            try:
                if kind == "half":
                    writer.write(_PART)
                if kind == "slow":
                    coming = asyncio.ensure_future(reader.read(1))
                    for byte in _PART:
                        writer.write(bytes([byte]))
                        done, _ = await asyncio.wait((coming,), timeout=1.0)
                        if done:
                            break
                    coming.cancel()
                else:
                    await reader.read(1)
            except OSError:
                pass  # the server ended it, as it may
            self.here[kind] -= 1
            writer.close()

    async def follow(self, table: int) -> None:
        """A stream, whose rows are counted; it is never to end."""
        query = f"SELECT id FROM crowd{table} /*+ OPTIONS('scan.mode' = 'latest') */".encode()
        head = f"POST /sql?mode=streaming HTTP/1.1\r\nHost: {self.address}:{self.port}\r\nContent-Length: {len(query)}\r\n\r\n"
        async with self._endpoint:
            reader, writer = await asyncio.open_connection(self.address, self.port)
            writer.write(head.encode() + query)
            status = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in status[:15]:
            self.failures += 1
            return
        self.here["streams"] += 1
        while line := await reader.readline():
            self.rows += b'"id"' in line
            self.failures += b"$error" in line
        self.here["streams"] -= 1
        self.failures += 1

    async def tell(self) -> None:
        """Say each second how it stands."""
        while True:
            print(json.dumps({**self.here, "rows": self.rows, "failures": self.failures}), flush=True)
            await asyncio.sleep(1)


async def main(address: str, port: int, idle: int, half: int, slow: int, streams: int, tables: int) -> None:
    """All of it, until nobody wants it any more."""
    crowd = Crowd(address, port)
    tasks = [asyncio.create_task(crowd.tell())]
    tasks += [asyncio.create_task(crowd.follow(0 if number < streams // 2 else number % tables)) for number in range(streams)]
    for kind, count in (("idle", idle), ("half", half), ("slow", slow)):
        tasks += [asyncio.create_task(crowd.stand(kind)) for _ in range(count)]
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
