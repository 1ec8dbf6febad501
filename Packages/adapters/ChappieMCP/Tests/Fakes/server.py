"""A server made with the official Python package: what ServerTests meet. Its argument is a folder for its notes."""

import base64
import os
import pathlib
import sys

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

NOTES = pathlib.Path(sys.argv[1])
server = MCPServer("fixture", instructions="For tests.")


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
    return ["a dot", Image(data=base64.b64decode("iVBORw0KGgo="), format="png")]


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
    await context.notify_tools_changed()  # and to one that listens.
    return "done"


@server.tool()
async def question(context: Context) -> str:
    """Pings the client, and asks for its folders."""
    await context.session.send_ping()
    try:
        await context.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
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
        await context.session.send_progress_notification("none", 1.0, message="x" * (1 << 20))


if len(sys.argv) > 2:
    # Over HTTP, on a port that is free, which it writes into the file of its second argument.
    import socket

    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    (NOTES / "port.new").write_text(str(listener.getsockname()[1]))
    (NOTES / "port.new").rename(NOTES / "port")
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listener])
else:
    server.run("stdio")
