"""Servers on loopback that keep what reaches them: a stranger, and one that hands everything on to another server."""

import asyncio
import json
import threading
import zlib


class Listener:
    """`with Listener() as listener:`; `listener.heard` is what clients have sent, one bytearray for each connection.

    By itself it is a stranger, who takes what he gets and thanks for it.
    """

    def __init__(self, context=None):
        self.context, self.heard, self.told = context, [], []

    def __enter__(self):
        started = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run(started)))
        self.thread.start()
        assert started.wait(20), "a listener does not start"
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join()

    async def _run(self, started):
        self.loop, self.ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.context)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self.ended.wait()
        server.close()

    async def _accept(self, reader, writer):
        heard = bytearray()
        self.heard.append(heard)
        try:
            await self.serve(reader, writer, heard)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client has gone, as some of them should, or the test ends.
        finally:
            writer.close()

    async def serve(self, reader, writer, heard):
        await read_request(reader, heard)
        writer.write(answer(200, {}))
        await writer.drain()


class Forwarder(Listener):
    """Stands before a server on `target`; `told` is what that one has answered, one bytearray for each connection."""

    def __init__(self, target, context=None):
        super().__init__(context)
        self.target = target

    async def serve(self, reader, writer, heard):
        told = bytearray()
        self.told.append(told)
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(carry(reader, behind_writer, heard), carry(behind_reader, writer, told))


async def carry(reader, writer, record):
    """Writes down, then hands on: what has arrived anywhere is in the record."""
    try:
        while data := await reader.read(1 << 16):
            record += data
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def read_request(reader, heard):
    """(head, body) of one request over HTTP."""
    head = await reader.readuntil(b"\r\n\r\n")
    heard += head
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    body = await reader.readexactly(length)
    heard += body
    return head, body


def answer(status, body, kind="application/json", fields=b""):
    """An answer over HTTP; `body` is bytes, or a value that becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\nconnection: close\r\n"
    return head.encode() + fields + b"\r\n" + data


def legible(heard):
    """What a client has sent; the messages of a WebSocket (RFC 6455, 5.2) without their masks and uncompressed (RFC 7692)."""
    head, separator, rest = heard.partition(b"\r\n\r\n")
    if b"upgrade: websocket" not in head.lower():
        return heard
    text, inflate, is_compressed, message = head + separator, zlib.decompressobj(-15), False, b""
    while len(rest) >= 6:
        first, length, start = rest[0], rest[1] & 0x7F, 2
        if length >= 126:
            start = 4 if length == 126 else 10
            length = int.from_bytes(rest[2:start], "big")
        mask, payload = rest[start : start + 4], rest[start + 4 : start + 4 + length]
        if len(payload) < length:
            break
        rest = rest[start + 4 + length :]
        payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        if first & 0x0F >= 8:
            text += payload
            continue
        if first & 0x0F:
            is_compressed = first & 0x40 != 0
        message += payload
        if first & 0x80:
            text += inflate.decompress(message + b"\x00\x00\xff\xff") if is_compressed else message
            message = b""
    return text
