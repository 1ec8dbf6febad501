"""A service, and an issuer of tokens, that put all of the request into their errors."""

import base64
import hashlib
import json
import secrets

from witnesses import Listener, answer, read_request


class Echo(Listener):
    """Answers with `status`; with 200 by an answer that fails, with 101 by an error message over WebSocket.

    As an issuer it starts sign-ins, and gives a code unless `echoes_polls`.
    """

    def __init__(self, status, echoes_polls=False):
        super().__init__()
        self.status, self.echoes_polls = status, echoes_polls

    async def serve(self, reader, writer, heard):
        head, body = await read_request(reader, heard)
        path = head.split(b" ", 2)[1]
        if self.status == 101:
            writer.write(handshake(head))
            heard += await reader.read(1 << 16)
            writer.write(message({"type": "error", "status": 400, **error(head, body)}))
            await writer.drain()
            await reader.read()
            return
        told = bytearray(self.answer(path, head, body))
        self.told.append(told)
        writer.write(told)
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


def error(head, body):
    sentence = f"You sent {head.decode()} {body.decode(errors='replace')}"
    return {"error": {"code": "some_code", "message": sentence}, "error_description": sentence, "detail": sentence}


def field(head, name):
    for line in head.split(b"\r\n")[1:]:
        if line.lower().startswith(name + b":"):
            return line.split(b":", 1)[1].strip()
    return b"none"


def handshake(head):
    """Agrees to a WebSocket (RFC 6455, 4.2.2)."""
    proof = hashlib.sha1(field(head, b"sec-websocket-key") + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        b"sec-websocket-accept: " + base64.b64encode(proof) + b"\r\n\r\n"
    )


def message(value):
    """A text message in one frame (RFC 6455, 5.2), for lengths of two bytes."""
    data = json.dumps(value).encode()
    return b"\x81\x7e" + len(data).to_bytes(2, "big") + data
