"""A server made with the official Python package, version 2 or 1: what ServerTests meet. Its arguments are a folder for its notes;
then, to be reached over HTTP, "http"; then "401", to want a token there."""

import base64
import os
import pathlib
import sys

import anyio

try:
    import mcp_types as types
    from mcp.server.mcpserver import Context, Image, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ModuleNotFoundError:
    # Version 1 has other names for the same.
    from mcp import types
    from mcp.server.fastmcp import Context, FastMCP as MCPServer, Image
    from mcp.server.fastmcp.exceptions import ToolError

NOTES = pathlib.Path(sys.argv[1])
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IS_HTTP, WANTS_TOKEN = sys.argv[2:3] == ["http"], sys.argv[3:4] == ["401"]


def protection():
    """What makes the package ask for a token; the one that it accepts is "good"."""
    from mcp.server.auth.provider import AccessToken
    from mcp.server.auth.settings import AuthSettings

    class Verifier:
        async def verify_token(self, token):
            return AccessToken(token=token, client_id="c", scopes=[]) if token == "good" else None

    address = "http://127.0.0.1:1"
    return {"auth": AuthSettings(issuer_url=address, resource_server_url=address), "token_verifier": Verifier()}


server = MCPServer("fixture", instructions="For tests.", **(protection() if WANTS_TOKEN else {}))


@server.tool()
def add(first: int, second: int) -> int:
    """Adds two numbers."""
    return first + second


@server.tool()
def fail(words: str) -> str:
    """Fails with these words."""
    raise ToolError(words)


@server.tool()
def picture() -> list:
    """An image and a word."""
    return ["a dot", Image(data=base64.b64decode(DOT), format="png")]


@server.tool()
async def wait(name: str) -> str:
    """Waits until it is cancelled, and notes both."""
    (NOTES / f"{name}.began").touch()
    try:
        await anyio.sleep_forever()
    finally:
        (NOTES / f"{name}.cancelled").touch()


@server.tool()
async def grow(name: str, context: Context) -> str:
    """Adds a tool of that name, and tells the client."""
    server.add_tool(lambda: "grown", name=name, description="Grown.")
    await context.session.send_tool_list_changed()  # To a client that has shaken hands,
    if hasattr(context, "notify_tools_changed"):
        await context.notify_tools_changed()  # and to one that listens.
    return "done"


@server.tool()
async def question(context: Context) -> str:
    """Pings the client, and asks for its folders."""
    await context.session.send_ping()
    try:
        request = types.ListRootsRequest()
        await context.session.send_request(
            types.ServerRequest(request) if hasattr(types.ServerRequest, "model_fields") else request, types.ListRootsResult)
    except Exception as error:
        return f"pinged; {error}"
    return "pinged; answered"


@server.tool()
def die() -> str:
    """Ends in the middle of the call."""
    with open(NOTES / "deaths", "a", encoding="utf-8") as notes:
        notes.write("one\n")
    print("the disk is on fire", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
async def flood(context: Context) -> str:
    """Sends messages that nothing asked for, without an end."""
    while True:
        # Over HTTP with the answer to the call: the client opens no other stream.
        await context.session.send_progress_notification(
            "none", 1.0, message="x" * (1 << 20), related_request_id=context.request_id)


@server.resource("note://today", name="today", description="What is on today.", mime_type="text/plain")
def today() -> str:
    return "Water the plants."


@server.resource("note://dot", name="dot", mime_type="image/png")
def dot() -> bytes:
    return base64.b64decode(DOT)


@server.resource("note://day/{day}", name="day", description="What was on that day.")
def day(day: str) -> str:
    return f"Nothing on {day}."


@server.prompt()
def review(language: str, tone: str = "kind") -> str:
    """Asks for a review."""
    return f"Review this {language}, and be {tone}."


def spoiled(app):
    """The package's answers about tools as a proxy spoils them, while a note says how. Every other passes as it is."""
    async def answer(scope, receive, send):
        note = NOTES / "fault"
        fault = note.read_text() if scope["type"] == "http" and note.exists() else ""
        if not fault:
            return await app(scope, receive, send)
        message, more = b"", True
        while more:
            event = await receive()
            message, more = message + event.get("body", b""), event.get("more_body", False)
        is_spoiled, given = b'"tools/' in message, False

        async def again():
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": message, "more_body": False}

        async def spoil(event):
            if is_spoiled and fault == "mistyped" and event["type"] == "http.response.start":
                others = [(name, value) for name, value in event["headers"] if name.lower() != b"content-type"]
                event = {**event, "headers": [*others, (b"content-type", b"text/html")]}
            if is_spoiled and fault == "cut" and event["type"] == "http.response.body" and event.get("body"):
                await send({**event, "body": event["body"][:len(event["body"]) // 2], "more_body": True})
                raise ConnectionError("The wire is cut.")
            await send(event)

        if fault == "slow" and message:
            (NOTES / "asked").touch()
            while not (NOTES / "gate").exists():
                await anyio.sleep(0.01)
        await app(scope, again, spoil)
    return answer


if IS_HTTP:
    # On a port that is free, which it writes into a file.
    import socket

    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    (NOTES / "port.new").write_text(str(listener.getsockname()[1]))
    (NOTES / "port.new").rename(NOTES / "port")
    uvicorn.Server(uvicorn.Config(spoiled(server.streamable_http_app()), log_level="error")).run(sockets=[listener])
else:
    server.run("stdio")
