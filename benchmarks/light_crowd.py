"""Connections that send one heavy statement after another, a process of its own.

``python -m benchmarks.light_crowd URL AUTHORIZATION COUNT STATEMENT``: who is refused waits as long as the answer says. The end of
standard input ends it; it tells how many statements ended well and how many were refused.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter

import httpx


async def _send(client: httpx.AsyncClient, statement: str, statuses: Counter[int]) -> None:
    while True:
        answer = await client.post("/sql", content=statement)
        statuses[answer.status_code] += 1
        if answer.status_code != 200:
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))


async def _crowd(url: str, authorization: str, count: int, statement: str) -> None:
    statuses: Counter[int] = Counter()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": authorization}, timeout=600, limits=limits) as client:
        senders = [asyncio.create_task(_send(client, statement, statuses)) for _ in range(count)]
        await asyncio.to_thread(sys.stdin.read)
        for sender in senders:
            sender.cancel()
        for problem in await asyncio.gather(*senders, return_exceptions=True):
            if isinstance(problem, Exception):
                raise problem
    print(json.dumps([statuses[200], statuses[429]]))


if __name__ == "__main__":
    asyncio.run(_crowd(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
