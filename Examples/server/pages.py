"""The pages of many users, without a browser: they do what the server's page does."""

import asyncio
import contextlib
import dataclasses
import json
import time

# How long a page waits before it asks for the events again, as `retry:` tells a browser.
RETRY = 0.3


def words(count):
    """Returns the simulator's answer to `repeat COUNT words`."""
    cycle = "word after word, all the same again and on.".split()
    return "".join(cycle[number % len(cycle)] + " " for number in range(count))


class Lost(Exception):
    """A connection that ended before its answer did."""


class Failed(Exception):
    """An answer that the page can only show as an error."""


class Answer:
    """The answer to a request, of which the head has arrived."""

    def __init__(self, reader, head):
        self.reader, lines = reader, head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        self.length = 0 if self.status == 204 else int(self.fields.get("content-length", -1))
        self.is_chunked = "chunked" in self.fields.get("transfer-encoding", "")
        self.is_complete = self.length == 0

    @property
    def is_kept(self):
        """Whether the connection can take another request."""
        return self.is_complete and self.fields.get("connection", "").lower() != "close"

    async def pieces(self):
        """The body as it arrives."""
        try:
            if self.is_chunked:
                while size := int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16):
                    yield (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readuntil(b"\r\n")
            elif self.length >= 0:
                yield await self.reader.readexactly(self.length)
            else:
                while piece := await self.reader.read(65536):
                    yield piece
        except (ConnectionError, asyncio.IncompleteReadError, ValueError) as error:
            raise Lost(f"the connection ended in the answer: {error}") from None
        self.is_complete = True

    async def read(self):
        body = b"".join([piece async for piece in self.pieces()])
        return json.loads(body) if body[:1] in (b"{", b"[") else body.decode()

    async def events(self):
        """(id, name, data) of each server-sent event."""
        rest = b""
        async for piece in self.pieces():
            *blocks, rest = (rest + piece).replace(b"\r\n", b"\n").split(b"\n\n")
            for block in blocks:
                lines = [line.partition(":") for line in block.decode().split("\n") if not line.startswith(":")]
                fields = {name: value.removeprefix(" ") for name, _, value in lines}
                if "data" in fields:
                    yield fields.get("id"), fields.get("event", "message"), json.loads(fields["data"])


class Origin:
    """An address on loopback, with the connections that can be used again."""

    def __init__(self, port):
        self.port, self.idle = port, []

    @contextlib.asynccontextmanager
    async def exchange(self, method, path, body=None, **fields):
        """Sends a request. The block gets the answer."""
        payload = b"" if body is None else json.dumps(body).encode()
        fields = {"Host": f"127.0.0.1:{self.port}", **{name.replace("_", "-"): value for name, value in fields.items()}}
        if payload:
            fields["Content-Type"] = "application/json"
        if method != "GET":
            fields["Content-Length"] = len(payload)
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        answer, writer = await self._send("\r\n".join(lines).encode() + payload)
        try:
            yield answer
        finally:
            if answer.is_kept:
                self.idle.append((answer.reader, writer))
            else:
                writer.close()

    async def _send(self, request):
        while True:
            reader, writer = self.idle.pop() if self.idle else (None, None)
            is_new = writer is None
            try:
                if is_new:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(request)
                return Answer(reader, await reader.readuntil(b"\r\n\r\n")), writer
            except (OSError, asyncio.IncompleteReadError) as error:
                if writer:
                    writer.close()
                # An idle connection may have been closed by the other side in the meantime.
                if is_new or getattr(error, "partial", b""):
                    raise Lost(f"no answer: {error}") from None
            except asyncio.CancelledError:
                if writer:
                    writer.close()
                raise


@dataclasses.dataclass
class Turn:
    """A question and what its page shows."""

    id: str
    thread: str
    begun: float
    text: str = ""
    last_id: str | None = None
    deltas: int = 0
    approved: set = dataclasses.field(default_factory=set)
    cuts: int = 0
    restarts: int = 0
    # When the connection was lost, and how long it took until an event of another server arrived.
    cut_at: float | None = None
    gap: float | None = None
    seconds: float | None = None

    def take(self, name, data):
        """Shows an event. Returns whether it was the last one."""
        if self.cut_at is not None and self.gap is None and name != "notice":
            self.gap = time.monotonic() - self.cut_at
        match name:
            case "delta":
                self.text += data
                self.deltas += 1
            case "restart":
                self.text = ""
                self.restarts += 1
            case "done":
                self.text = data["text"]
                self.seconds = time.monotonic() - self.begun
                return True
            case "failed":
                raise Failed(f"the turn failed: {data['reason']}")
        return False


class Page:
    """The page of one user. `balancer` is the address that the browser knows."""

    def __init__(self, name, balancer):
        self.name, self.balancer, self.cookie, self.thread = name, balancer, "", "new"
        # How often a server that stops has sent the page away.
        self.refusals = 0

    async def call(self, method, path, body=None, expecting=(200, 202, 204), at=None):
        """Sends a request, and repeats it as long as the server says that it stops. Returns the answer's JSON."""
        while True:
            async with (at or self.balancer).exchange(method, path, body, Cookie=self.cookie) as answer:
                content = await answer.read()
                if answer.status in expecting:
                    if "set-cookie" in answer.fields:
                        self.cookie = answer.fields["set-cookie"].partition(";")[0]
                    return content
                if answer.status != 503 or "retry-after" not in answer.fields:
                    raise Failed(f"{method} {path}: {answer.status} {content}")
                self.refusals += 1
            await asyncio.sleep(int(answer.fields["retry-after"]))

    async def link(self, at=None):
        """Signs in at the server, and links the user's account. The simulator approves."""
        await self.call("POST", "/session", {"name": self.name}, at=at)
        await self.call("POST", "/link", at=at)
        async with (at or self.balancer).exchange("GET", "/link/events", Cookie=self.cookie) as answer:
            if answer.status == 200:
                async for _, name, data in answer.events():
                    if name == "linked":
                        return
                    if name == "failed":
                        raise Failed(f"no account was linked: {data['reason']}")
        raise Failed(f"no account was linked: status {answer.status}, and no event says how it ended")

    async def ask(self, text, thread=None, at=None):
        """Asks, and returns the turn that has begun."""
        begun = time.monotonic()
        thread = thread or self.thread
        content = await self.call("POST", f"/threads/{thread}/turns", {"text": text}, at=at)
        return Turn(content["turn"], content.get("thread", thread), begun)

    async def follow(self, turn, at=None, saw=None):
        """Shows the events of a turn up to its end, whatever happens to the connection."""
        while True:
            try:
                fields = {"Last_Event_ID": turn.last_id} if turn.last_id else {}
                request = (at or self.balancer).exchange("GET", f"/turns/{turn.id}/events", Cookie=self.cookie, **fields)
                async with request as answer:
                    if answer.status == 200:
                        async for number, name, data in answer.events():
                            turn.last_id = turn.last_id if number is None else number
                            if name == "approval" and data["id"] not in turn.approved:
                                turn.approved.add(data["id"])
                                await self.call("POST", f"/turns/{turn.id}/approval", {"id": data["id"], "allow": True}, at=at)
                            if turn.take(name, data):
                                return turn
                            if saw:
                                saw(turn, name)
                    elif answer.status not in (502, 503, 504):
                        raise Failed(f"events: {answer.status} {await answer.read()}")
            except Lost:
                pass
            turn.cuts += 1
            turn.cut_at = turn.cut_at or time.monotonic()
            await asyncio.sleep(RETRY)

    async def answer(self, text, within=60, **options):
        """Asks in the page's thread, and returns the finished turn."""
        async with asyncio.timeout(within):
            turn = await self.ask(text, **options)
            self.thread = turn.thread
            return await self.follow(turn, at=options.get("at"))
