"""`chappie mcp` with the client of the official package, in both eras of the protocol."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from conftest import USAGE
from counterparts import PATIENCE, wait_until

ERAS = pytest.mark.parametrize("era", ["legacy", "auto", "2026-07-28"])


@pytest.fixture
def person(user, simulate, passphrase):
    return lambda **settings: user(simulate(**settings), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")).sign_in()


def served(someone, era, work, *words):
    """What `work(client)` gives, with a client of this era."""
    async def run():
        parameters = StdioServerParameters(command=someone.program, args=["mcp", *words], env=someone.environment)
        with anyio.fail_after(60 * PATIENCE):
            async with Client(stdio_client(parameters), mode=era) as client:
                return await work(client)
    return anyio.run(run)


def text(result):
    return "".join(part.text for part in result.content), bool(result.is_error)


@ERAS
def test_questions_are_asked_kept_found_and_read(era, person):
    someone = person()

    async def work(client):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        asked = text(await client.call_tool("ask", {"question": "reply: an elephant"}))
        named = text(await client.call_tool("ask", {"question": "who?", "model": "gpt-6-luna", "system": "Be brief."}))
        found = text(await client.call_tool("search_threads", {"words": "elephant"}))
        read = text(await client.call_tool("read_thread", {"thread": found[0].split()[0], "turns": 1}))
        wrong = text(await client.call_tool("read_thread", {"thread": "zzzzzzzz"}))
        empty = text(await client.call_tool("ask", {"question": ""}))
        with pytest.raises(MCPError):
            await client.call_tool("rm", {})
        return tools, asked, named, found, read, wrong, empty

    tools, asked, named, found, read, wrong, empty = served(someone, era, work)
    assert tools == ["ask", "search_threads", "read_thread"] and asked == ("an elephant", False)
    assert "`gpt-6-luna`" in named[0] and "elephant" in found[0] and "an elephant" in read[0] and not read[1]
    assert wrong == ("There is no thread zzzzzzzz. List them: chappie threads --all.", True)
    assert empty == ("The argument question must be a text.", True)
    assert len(someone.run("threads", "--json").events[0]["threads"]) == 2


@ERAS
def test_what_is_not_offered_is_not_there(era, person):
    someone = person()

    async def work(client):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        return tools, text(await client.call_tool("ask", {"question": "reply: gone"}))

    assert served(someone, era, work, "--no-threads", "--ephemeral") == (["ask"], ("gone", False))
    someone.run("config", "set", "keep_threads", "false")
    assert served(someone, era, work, "--no-threads") == (["ask"], ("gone", False))
    assert someone.run("threads", "--json").events[0]["threads"] == []


FORMER_CLIENT = """
import sys, anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    async with stdio_client(StdioServerParameters(command=sys.argv[1], args=["mcp"])) as streams, ClientSession(*streams) as session:
        print((await session.initialize()).protocolVersion, *(tool.name for tool in (await session.list_tools()).tools))
        print((await session.call_tool("ask", {"question": "reply: an elephant"})).content[0].text)

anyio.run(main)
"""


def test_a_client_of_the_former_generation_is_served(person):
    someone = person()
    # Its client passes a few variables on, and this program is found by the others.
    script = FORMER_CLIENT.replace('args=["mcp"]', f'args=["mcp"], env={someone.environment!r}')
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(sys.prefix, "mcp-1.30"))}
    printed = subprocess.run([sys.executable, "-c", script, someone.program], env=environment, capture_output=True, text=True,
                             timeout=60 * PATIENCE)
    assert printed.stdout == "2025-11-25 ask search_threads read_thread\nan elephant\n", printed


def test_calls_run_side_by_side_and_one_is_cancelled_alone(person):
    someone = person(deltasPerSecond=50)

    async def work(client):
        answers = {}

        async def ask(name, question):
            answers[name] = text(await client.call_tool("ask", {"question": question}))

        async with anyio.create_task_group() as group:
            with anyio.move_on_after(1):
                async with anyio.create_task_group() as long:
                    long.start_soon(ask, "long", "repeat 5000 words")
            group.start_soon(ask, "one", "reply: first")
            group.start_soon(ask, "two", "reply: second")
        return answers

    assert served(someone, "legacy", work) == {"one": ("first", False), "two": ("second", False)}


def test_a_tool_that_would_ask_is_denied_without_a_terminal(person, tmp_path):
    someone, tool = person(), tmp_path / "up"
    tool.write_text('#!/bin/sh\nprintf "it got %s" "$(cat)"\n')
    tool.chmod(0o700)
    manifest = tmp_path / "tools.json"
    manifest.write_text(json.dumps({"tools": [{"name": "up", "description": "Up.", "command": str(tool)}]}))
    call = lambda client: client.call_tool("ask", {"question": 'call up {"a":"b"}'})
    answer, _ = text(served(someone, "legacy", call, "--tools", str(manifest)))
    assert "it got" not in answer and answer
    assert "it got" in text(served(someone, "legacy", call, "--tools", str(manifest), "--approve-tools"))[0]


def test_lines_that_make_no_sense_are_answered_and_the_end_of_input_ends_it(person):
    someone = person()
    lines = ["nonsense", "", "{}", '{"jsonrpc":"2.0","id":1,"method":"ping"}', '{"jsonrpc":"2.0","id":{},"method":"ping"}',
             '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}', '{"jsonrpc":"2.0","id":"a","method":"no"}',
             '{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2030-01-01"}}}']
    events = someone.run("mcp", input="\n".join(lines) + "\n").events
    assert [(event.get("id"), event.get("error", {}).get("code")) for event in events] == [
        (None, -32700), (None, -32700), (1, None), (None, -32600), ("a", -32601), (2, -32022)], events
    someone.run("mcp", "--json", status=USAGE, says="Leave out --json")


def test_it_ends_with_a_signal_in_the_middle_of_a_call(person):
    someone = person(deltasPerSecond=20)
    process = someone.start("mcp", stdin=-1)
    process.stdin.write('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"question":"repeat 5000 words"}}}\n')
    process.stdin.flush()
    wait_until(lambda: someone.run("threads", "--json").events[0]["threads"], "the call has begun", 30)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30 * PATIENCE) == 143 and os.path.exists(someone.environment["HOME"])
