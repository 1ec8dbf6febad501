"""Messages that the user sends while an answer comes in."""

import json

import pytest

from test_chat import Terminal, chat, manifest  # noqa: F401

WORDS = " ".join(f"w{number}" for number in range(40))
TAKEN = "The model gets this with its next step."


def records(terminal):
    """The records of the newest conversation."""
    return json.loads(terminal.user.run("threads", "export", "--format", "json").output)["records"]


@pytest.mark.parametrize("transport", ["auto", "sse"])
def test_a_line_during_an_answer_joins_the_turn(chat, transport, tmp_path):
    terminal = chat("--transport", transport, deltasPerSecond=8)
    terminal.paste(f"reply: {WORDS}")
    terminal.type("", "Enter")
    terminal.shows("w5", 2)
    terminal.type("reply: the second answer", "Enter")
    screen = terminal.shows(TAKEN)
    assert "\n> reply: the second answer\n" in screen, screen
    # What has no Return yet is in the next line.
    terminal.type("half a line")
    screen = terminal.shows("> half a line")
    assert screen.index("w39", screen.index(TAKEN)) < screen.rindex("the second answer") < screen.index("> half a line"), screen
    terminal.type("", "C-c")
    terminal.prompts(2)
    # The arrow keys find it, and a file has both answers.
    terminal.type("", "Up")
    terminal.shows("> reply: the second answer", 2)
    terminal.type("", "C-c")
    terminal.prompts(2)
    terminal.type(f"/save {tmp_path}/saved.md", "Enter")
    terminal.shows("The conversation is in")
    saved = (tmp_path / "saved.md").read_text()
    assert saved.index("w39", saved.index("w0 w1", 20)) < saved.index("reply: the second answer") < saved.rindex("the second answer"), saved
    terminal.prompts(3)
    terminal.type("/undo", "Enter")
    terminal.shows("Taken back: reply: w0")
    terminal.prompts(4)
    terminal.type("", "C-d")
    terminal.ends(0)
    kinds = [record["kind"] for record in records(terminal)]
    assert kinds == ["turn.started", "turn.steered", "tools.called", "turn.finished", "turn.taken_back"], kinds


def test_a_command_during_an_answer_waits_for_its_end(chat):
    terminal = chat(deltasPerSecond=8)
    terminal.paste(f"reply: {WORDS}")
    terminal.type("", "Enter")
    terminal.shows("w5", 2)
    terminal.type("/model", "Enter")
    screen = terminal.prompts(3)
    assert TAKEN not in screen and screen.rindex("w39") < screen.index("> /model") < screen.index("chooses another"), screen
    terminal.type("", "C-d")
    terminal.ends(0)


def test_a_question_is_answered_and_not_steered(chat, manifest):
    terminal = chat("--tools", manifest)
    terminal.type('call up {"a":"b"}', "Enter")
    terminal.shows("Run it?")
    terminal.type("y", "Enter")
    screen = terminal.prompts(2)
    assert TAKEN not in screen and 'it got {"a":"b"}' in screen, screen
    terminal.type("", "C-d")
    terminal.ends(0)
