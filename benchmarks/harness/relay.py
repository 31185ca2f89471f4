"""A relay of TCP that makes a service on this machine as far away as one in another place."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

Connect = Callable[[], Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def to_tcp(host: str, port: int) -> Connect:
    """A service at a port."""
    return lambda: asyncio.open_connection(host, port)


def to_socket(path: str) -> Connect:
    """A service at a socket of the file system."""
    return lambda: asyncio.open_unix_connection(path)


@contextlib.contextmanager
def far_away(connect: Connect, seconds: float) -> Iterator[int]:
    """The port of a relay on which what is sent arrives so many seconds later; answers come at once, so that it is the round trip."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="relay", daemon=True)
    thread.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await connect()
        await asyncio.gather(_pass_on(reader, there_writer, seconds), _pass_on(there_reader, writer, 0.0))

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0)

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(10)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """What comes, in its order, each piece after a while."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        data = b"-"
        while data:
            try:
                data = await reader.read(1 << 16)
            except ConnectionError:
                data = b""
            pieces.put_nowait((loop.time() + seconds, data))

    reading = loop.create_task(read())
    with contextlib.suppress(ConnectionError):
        while True:
            at, data = await pieces.get()
            await asyncio.sleep(max(0.0, at - loop.time()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
    await reading
    writer.close()
