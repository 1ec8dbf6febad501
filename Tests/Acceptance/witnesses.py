"""Servers on loopback that record what reaches them."""

import asyncio
import base64
import hashlib
import json
import secrets
import threading


class Listener:
    """`with Listener() as listener:`; `heard` is what clients have sent, `told` what they were answered, a bytearray for each
    connection. By itself it is a stranger, who takes any request and thanks for it."""

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

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.port}"

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
    """Stands before a server on the port `target`, or answers in its place as `become` says."""

    def __init__(self, target, context=None):
        super().__init__(context)
        self.target, self.other = target, None

    def become(self, other):
        self.other = other
        if other:
            other.told = self.told

    async def serve(self, reader, writer, heard):
        if self.other:
            return await self.other.serve(reader, writer, heard)
        told = bytearray()
        self.told.append(told)
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(carry(reader, behind_writer, heard), carry(behind_reader, writer, told))


async def carry(reader, writer, record):
    """Records, then hands on: what has arrived anywhere is in the record."""
    try:
        while data := await reader.read(1 << 16):
            record += data
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


class Echo(Listener):
    """A service, and an issuer, that puts all of the request into its errors. It answers with `status`; with 200 by an answer
    that fails, with 101 by an error over WebSocket. As an issuer it starts sign-ins, and gives a code unless `echoes_polls`."""

    def __init__(self, status, echoes_polls=False):
        super().__init__()
        self.status, self.echoes_polls = status, echoes_polls

    async def serve(self, reader, writer, heard):
        head, body = await read_request(reader, heard)
        if self.status == 101:
            writer.write(handshake(head))
            heard += await reader.read(1 << 16)
            data = json.dumps({"type": "error", "status": 400, **error(head, body)}).encode()
            writer.write(frame(data))
            await writer.drain()
            await reader.read()
            return
        self.told.append(bytearray(self.answer(head.split(b" ", 2)[1], head, body)))
        writer.write(self.told[-1])
        await writer.drain()

    def answer(self, path, head, body):
        if path.endswith(b"/deviceauth/usercode"):
            number = "deviceauth_" + secrets.token_urlsafe(24)
            return answer(200, {"device_auth_id": number, "user_code": "ECHO-ABCDE", "interval": "0"})
        if path.endswith(b"/deviceauth/token") and not self.echoes_polls:
            code = "ac_" + secrets.token_urlsafe(24)
            return answer(200, {"authorization_code": code, "code_verifier": secrets.token_urlsafe(32)})
        if self.status == 200:
            event = {"type": "response.failed", "response": {"id": "resp_1", "status": "failed", **error(head, body)}}
            return answer(200, b"data: " + json.dumps(event).encode() + b"\n\n", "text/event-stream")
        return answer(self.status, error(head, body), fields=b"x-request-id: " + field(head, b"authorization") + b"\r\n")


class Answers(Listener):
    """A backend that has one answer, over server-sent events and over WebSocket. Each event is sent by itself, or all `at_once`.
    As an issuer it knows the owner of any access token."""

    def __init__(self, events, context=None, at_once=False):
        super().__init__(context)
        self.lines, self.frames = [b"data: " + event + b"\n\n" for event in events], [frame(event) for event in events]
        if at_once:
            self.lines, self.frames = [b"".join(self.lines)], [b"".join(self.frames)]

    async def serve(self, reader, writer, heard):
        head, _ = await read_request(reader, heard)
        is_web_socket = b"upgrade: websocket" in head.lower()
        if b"/codex/models" in head.split(b"\r\n")[0]:
            return writer.write(answer(200, {"models": [{"slug": "gpt-6.1-sol", "visibility": "list", "priority": 1, "use_responses_lite": True}]}))
        if b"/whoami" in head.split(b"\r\n")[0]:
            return writer.write(answer(200, {"email": "someone@example.com", "chatgpt_user_id": "user_1", "chatgpt_account_id": "acct_1",
                                             "chatgpt_plan_type": "plus", "chatgpt_account_is_fedramp": False}))
        if not is_web_socket and not head.startswith(b"POST"):
            return writer.write(answer(404, {}))
        writer.write(handshake(head) if is_web_socket else
                     b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        if is_web_socket:
            await reader.read(65536)
        for piece in self.frames if is_web_socket else self.lines:
            writer.write(piece)
            await writer.drain()
        if is_web_socket:
            await reader.read(65536)  # The client closes first.


def text_events(pieces):
    """The events of an answer that says these pieces, as JSON."""
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "".join(pieces), "annotations": [], "logprobs": []}]}
    usage = {"input_tokens": 1, "output_tokens": len(pieces), "total_tokens": len(pieces) + 1}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    events = [{"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}},
              {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", "content": []}},
              *({**delta, "delta": piece} for piece in pieces),
              {"type": "response.output_item.done", "output_index": 0, "item": item}, {"type": "response.completed", "response": whole}]
    return [json.dumps(event, separators=(",", ":")).encode() for event in events]


async def read_request(reader, heard):
    """(head, body) of one request over HTTP."""
    head = await reader.readuntil(b"\r\n\r\n")
    heard += head
    body = await reader.readexactly(int(field(head, b"content-length", b"0")))
    heard += body
    return head, body


def field(head, name, default=b"none"):
    for line in head.split(b"\r\n")[1:]:
        if line.lower().startswith(name + b":"):
            return line.split(b":", 1)[1].strip()
    return default


def answer(status, body, kind="application/json", fields=b""):
    """An answer over HTTP; `body` is bytes, or a value that becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\nconnection: close\r\n"
    return head.encode() + fields + b"\r\n" + data


def error(head, body):
    sentence = f"You sent {head.decode()} {body.decode(errors='replace')}"
    return {"error": {"code": "some_code", "message": sentence}, "error_description": sentence, "detail": sentence}


def handshake(head):
    """Agrees to a WebSocket (RFC 6455, 4.2.2)."""
    proof = hashlib.sha1(field(head, b"sec-websocket-key") + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    return (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            b"sec-websocket-accept: " + base64.b64encode(proof) + b"\r\n\r\n")


def frame(data):
    """A text message in one frame (RFC 6455, 5.2)."""
    size = len(data)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big") if size < 65536 else b"\x7f" + size.to_bytes(8, "big")
    return b"\x81" + length + data


def legible(heard):
    """What a client has sent; the messages of a WebSocket (RFC 6455, 5.2), which are not compressed, without their masks."""
    text, _, rest = heard.partition(b"\r\n\r\n")
    if b"upgrade: websocket" not in text.lower():
        return heard
    while len(rest) >= 6:
        length, start = rest[1] & 0x7F, 2
        if length >= 126:
            start = 4 if length == 126 else 10
            length = int.from_bytes(rest[2:start], "big")
        mask, payload = rest[start : start + 4], rest[start + 4 : start + 4 + length]
        text += bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        rest = rest[start + 4 + length :]
    return text
