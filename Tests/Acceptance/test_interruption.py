"""Questions whose program is interrupted or killed, and what the next question of the conversation sends along."""

import os
import signal
import sys

import pytest

from conftest import HUNG_UP, INTERRUPTED
from counterparts import PATIENCE, wait_until
from november import HOLD
from test_november import CALL, last, november, person, service, transport
from test_tools import manifest

SHOWN = f"as far as this {HOLD}"
INCLUDED = "The last turn ended before its answer was complete."


def said(service):
    """(role, text) of the messages in the last request."""
    return [(item["role"], item["content"][0]["text"]) for item in last(service)["input"] if item["type"] == "message"]


@pytest.mark.parametrize("cause, status", [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 143), (signal.SIGHUP, HUNG_UP), (None, -signal.SIGPIPE)],
                         ids=["Ctrl-C", "SIGTERM", "SIGHUP", "a closed pipe"])
def test_what_was_shown_before_an_interruption_is_sent_along(cause, status, person, service, transport):
    with person.start("ask", "--transport", transport, f"reply: {SHOWN} never") as process:
        if cause is None:
            process.stdout.close()
        else:
            shown = b""
            while SHOWN.encode() not in shown:
                piece = os.read(process.stdout.fileno(), 4096)
                assert piece, shown
                shown += piece
            process.send_signal(cause)
        assert process.wait(60 * PATIENCE) == status
    # How far the answer has come when a reader leaves, nobody knows.
    was_shown = lambda text: SHOWN in text if cause else text and f"{SHOWN} never".startswith(text)
    person.ask("and now?", "-c", transport=transport, says=INCLUDED)
    messages = said(service)
    place = next(number for number, (role, text) in enumerate(messages) if role == "assistant" and was_shown(text))
    assert messages[place][1] in person.run("threads", "show").output
    assert (messages[place - 2][0], messages[-1]) == ("user", ("user", "and now?")), messages
    assert [role for role, _ in messages[place:]] == ["assistant", "developer", "user"], messages
    assert person.ask("what else?", "-c", transport=transport).errors == ""


def test_a_killed_program_keeps_the_question(person, service, transport):
    with person.start("ask", "--transport", transport, f"reply: {SHOWN} never") as process:
        wait_until(lambda: person.run("threads", "list").output, "the question is kept", 60)
        process.kill()
    person.ask("and now?", "-c", transport=transport, says=INCLUDED)
    assert [text for role, text in said(service) if role == "user"][-2:] == [f"reply: {SHOWN} never", "and now?"]


def lasting(folder, log):
    """A manifest whose tool and whose server write into a log that they have begun, and that SIGTERM ended them."""
    script = f"""import signal, sys, time
def leave(*_):
    print(sys.argv[1], "ended", file=open({str(log)!r}, "a"), flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, leave)
print(sys.argv[1], "begun", file=open({str(log)!r}, "a"), flush=True)
while True: time.sleep(60)
"""
    program = folder / "lasting.py"
    program.write_text(script)
    path = manifest(folder, policy="automatic")
    (folder / "up").write_text(f'#!/bin/sh\nexec {sys.executable} {program} tool\n')
    return path


def test_a_killed_program_ends_its_tools_and_the_next_question_tells_of_them(person, service, transport, tmp_path):
    log = tmp_path / "log"
    path = lasting(tmp_path, log)
    process = person.start("ask", "--transport", transport, "--tools", path, CALL)
    wait_until(lambda: log.exists() and log.read_text() == "tool begun\n", "the tool runs", 60)
    process.kill()
    process.wait()
    wait_until(lambda: log.read_text() == "tool begun\ntool ended\n", "the tool has ended", 1)
    process.communicate()
    outcome = person.ask("reply: I see", "-c", transport=transport, says=INCLUDED)
    assert "These tools may have run: up." in outcome.errors and outcome.output == "I see\n", outcome
    call, output = [item for item in last(service)["input"] if item["type"].startswith("function_call")]
    assert call["call_id"] == output["call_id"] and "interrupted" in output["output"] and "may have" in output["output"]
    users = [text for role, text in said(service) if role == "user"]
    assert users[-2:] == [CALL, "reply: I see"], users


def test_a_killed_program_ends_its_tool_servers(person, service, tmp_path):
    log = tmp_path / "log"
    lasting(tmp_path, log)
    path = manifest(tmp_path, mcpServers={"slow": {"command": sys.executable, "args": [str(tmp_path / "lasting.py"), "server"]}})
    process = person.start("ask", "--tools", path, "reply: never")
    wait_until(lambda: log.exists() and log.read_text() == "server begun\n", "the server runs", 60)
    process.kill()
    wait_until(lambda: log.read_text() == "server begun\nserver ended\n", "the server has ended", 1)
    process.communicate()


def test_a_question_that_fails_with_another_model_is_for_that_question_alone(person, service, transport):
    person.ask("zero", "-m", "gpt-7-none", transport=transport, status=None)
    assert person.run("threads", "--json").events[0]["threads"] == []
    person.ask("again", transport=transport)
    assert last(service)["model"] == "gpt-6.1-sol"
    person.ask("one", transport=transport)
    person.ask("two", "-c", "-m", "gpt-7-none", transport=transport, status=None)
    assert [request["reason"] for request in service.requests if request["body"]["model"] == "gpt-7-none"] != [None]
    outcome = person.ask("three", "-c", transport=transport)
    assert last(service)["model"] == "gpt-6.1-sol" and outcome.errors == "", outcome
    assert [text for role, text in said(service) if role == "user"][-2:] == ["one", "three"]
