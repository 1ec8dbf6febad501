"""The row below the prompt of a chat: what it says, that it leaves no trace above, and when it is not there."""

import os
import re
import shlex
import signal
import types

import pytest

from conftest import User
from counterparts import is_asleep, wait_until
from test_chat import Terminal, chat  # noqa: F401, a fixture

FULL = "gpt-6.1-sol · context 1 % · 5 h 12 % · week 3 %"
MARK = "· context"


def shows_status(terminal, row=FULL):
    """Waits until this is the last row, and the only one of its kind, above and on the screen."""
    # By one look: between two the row may be drawn again.
    wait_until(lambda: (seen := terminal.everything).endswith(f"\n{row}\n") and seen.count(MARK) == 1,
               lambda: f"{row!r} once in {terminal.everything}", 30)


def traces(terminal):
    """The rows of it that are anywhere but on the last row."""
    return [row for row in terminal.screen.split("\n") if MARK in row]


@pytest.mark.parametrize("columns, rows", [(80, 24), (120, 40)])
def test_it_says_model_context_and_limits_and_leaves_no_trace(columns, rows, chat):
    terminal = chat(columns=columns, rows=rows)
    terminal.type("reply: one", "Enter")
    terminal.prompts(2)
    shows_status(terminal)
    # Answers that scroll it away, a line that is cleared, one of several rows, a screen that is cleared, a list, a search.
    for turn in range(3):
        terminal.type("repeat 300 words", "Enter")
        terminal.prompts(3 + turn)
        shows_status(terminal)
    terminal.type("x" * (3 * columns))
    terminal.shows("x" * columns)
    shows_status(terminal)
    terminal.type("", "Home", "y", "C-c")
    terminal.prompts()
    shows_status(terminal)
    terminal.type("/", "Tab")
    terminal.shows("/transport")
    shows_status(terminal)
    terminal.type("", "C-c")
    terminal.prompts()
    terminal.type("", "C-r")
    terminal.type("one")
    terminal.shows("bck:one")
    shows_status(terminal)
    terminal.type("", "C-c", "C-c", "C-l")
    terminal.prompts()
    shows_status(terminal)
    terminal.paste("reply: " + "\n".join(f"line {number}" for number in range(2 * rows)))
    # The text leaves no room for it.
    terminal.shows(f"line {2 * rows - 1}")
    wait_until(lambda: not terminal.status, lambda: terminal.everything, 30)
    terminal.type("", "Enter")
    terminal.shows("line 0")
    terminal.prompts()
    shows_status(terminal)
    terminal.type("/model gpt-6-luna", "Enter")
    terminal.shows("continues with gpt-6-luna")
    terminal.prompts()
    wait_until(lambda: terminal.status.startswith("gpt-6-luna · context "), lambda: terminal.everything, 30)
    terminal.type("", "C-d")
    terminal.ends(0)
    assert MARK not in terminal.everything, terminal.everything


def test_it_is_of_the_conversation_that_goes_on(chat):
    """Also before its first turn here."""
    terminal = chat(columns=100)
    terminal.type("repeat 20000 words", "Enter")
    terminal.prompts(2)
    used = lambda: int(re.search(r"· context (\d+) %", terminal.status or "· context -1 %")[1])
    wait_until(lambda: used() > 5, lambda: terminal.status, 30)
    size, thread = used(), terminal.user.run("threads", "--json").events[0]["threads"][0]["id"]
    for number, (command, expected) in enumerate((("/clear", 0), (f"/open {thread}", size), ("/undo", 0))):
        terminal.type(command, "Enter")
        terminal.prompts(3 + number)
        wait_until(lambda: used() == expected, lambda: (command, expected, terminal.status), 30)
    terminal.type("/usage", "Enter")
    assert "Context: 0 %" in terminal.prompts(6)


def test_nothing_is_asked_for_it(chat, simulate, user, passphrase):
    simulator = simulate()
    person = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")).sign_in()
    terminal = chat(columns=100, again=types.SimpleNamespace(user=person))
    # It comes with the list of models that the first turn needs.
    shows_status(terminal, "gpt-6.1-sol · context 0 %")
    terminal.type("reply: one", "Enter")
    terminal.prompts(2)
    shows_status(terminal)
    log = "\n".join(simulator.log)
    assert "/responses" in log and "/usage" not in log and log.count("/models") == 1, log
    wait_until(lambda: is_asleep(types.SimpleNamespace(pid=terminal.process)), "the chat's sleep", 30)
    terminal.type("", "C-d")
    terminal.ends(0)
    # The next chat knows the model and its window from the list that is kept, before anything is said.
    shows_status(chat(columns=100, again=terminal), "gpt-6.1-sol · context 0 %")


@pytest.mark.parametrize("columns, row", [
    (49, FULL), (40, "gpt-6.1-sol · context 1 % · 5 h 12 %"), (30, "gpt-6.1-sol · context 1 %"), (20, "gpt-6.1-sol"), (8, "gpt-6.…")])
def test_it_is_cut_by_columns(columns, row, chat):
    terminal = chat()
    terminal.type("reply: one", "Enter")
    terminal.prompts(2)
    shows_status(terminal)
    terminal.resize(columns)
    wait_until(lambda: (seen := terminal.everything).endswith(f"\n>\n{row}\n") and seen.count("gpt-6.") == 1,
               lambda: f"{row} once in {terminal.everything}", 30)


@pytest.mark.parametrize("text, rows", [
    ("x" * 57, 1), ("x" * 58, 2), ("x" * 59, 2), ("x" * 117, 2), ("漢" * 29, 2), ("x" + "漢" * 29, 2), ("a\tb\tc" + "x" * 42, 1), ("a\tb\tc" + "x" * 43, 2), ("a\nb\nc", 3)])
def test_it_is_below_the_text_wherever_the_cursor_is(text, rows, chat):
    terminal = chat()
    terminal.type("reply: one", "Enter")
    terminal.prompts(2)
    shows_status(terminal)
    place = int(terminal.tmux("display", "-p", "#{cursor_y}"))
    terminal.paste(text)
    wait_until(lambda: text[-1] in terminal.screen.rpartition("\n>")[2], lambda: terminal.screen, 30)
    for keys in ((), ("Home",), ("Right",), ("End",)):
        terminal.type("", *keys)
        wait_until(lambda: terminal.visible.split("\n")[place + rows] == FULL, lambda: terminal.visible, 30)
        shows_status(terminal)
    terminal.type("", "C-c")
    wait_until(lambda: terminal.screen.endswith("\none\n\n>\n"), lambda: terminal.screen, 30)
    assert not traces(terminal), terminal.everything


def test_a_window_that_is_resized_shows_it_once(chat):
    terminal = chat(columns=100, rows=24)
    terminal.type("repeat 300 words", "Enter")
    terminal.prompts(2)
    for columns, rows in ((47, 24), (120, 40), (60, 10), (100, 24)):
        terminal.type("ab")
        terminal.resize(columns, rows)
        wait_until(lambda: terminal.status.startswith("gpt-6.1-sol · context"), lambda: terminal.everything, 30)
        terminal.type("", "C-c")
        terminal.prompts()
        assert not traces(terminal), terminal.everything
    terminal.type("", "C-d")
    terminal.ends(0)
    assert MARK not in terminal.everything, terminal.everything


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_takes_it_away(number, chat):
    terminal = chat(columns=100)
    terminal.type("reply: one", "Enter")
    terminal.prompts(2)
    terminal.type("half a line", "Left")
    shows_status(terminal)
    os.kill(terminal.process, number)
    terminal.ends(128 + number)
    assert MARK not in terminal.everything and "> half a line\n" in terminal.everything, terminal.everything


def test_ctrl_z_takes_it_away_and_fg_brings_it_back(user, stack):
    person = user()
    shell = User("bash", person.account, {**person.environment, "PS1": "shell$ "})
    terminal = stack.enter_context(Terminal(shell, "--norc", "--noprofile", "-i", columns=100))
    terminal.shows("shell$")
    terminal.type(f"{shlex.quote(person.program)} chat --simulate", "Enter")
    terminal.prompts()
    terminal.type("reply: one", "Enter")
    terminal.prompts(2)
    terminal.type("half", "C-z")
    terminal.shows("Stopped")
    assert MARK not in terminal.everything, terminal.everything
    terminal.type("fg", "Enter")
    terminal.shows("> half", 2)
    shows_status(terminal)
    terminal.type("", "C-c", "C-d")
    terminal.shows("shell$", 3)
    assert MARK not in terminal.everything, terminal.everything


def test_it_is_there_as_flag_and_settings_say(chat):
    terminal = chat(columns=100)
    terminal.type("reply: one", "Enter")
    terminal.prompts(2)
    shows_status(terminal)
    someone = terminal.user
    someone.run("config", "set", "status_line", "false")

    def is_shown(*words, **settings):
        chatting = chat(*words, columns=100, again=terminal, environment=settings)
        chatting.type("reply: one", "Enter")
        chatting.prompts(2)
        # The editor shows what was typed before it waits for the next key.
        chatting.type("abc")
        chatting.shows("> abc")
        wait_until(lambda: is_asleep(types.SimpleNamespace(pid=chatting.process)), "the chat's sleep", 30)
        assert not traces(chatting), chatting.everything
        return bool(chatting.status)

    assert not is_shown() and is_shown("--status-line")
    someone.run("config", "unset", "status_line")
    assert not is_shown("--no-status-line") and not is_shown(NO_COLOR="1") and not is_shown(TERM="dumb")
    assert MARK not in someone.run("chat", "--status-line", input="reply: one\n").output
    assert MARK not in someone.run("chat", "--status-line", "--json", input="reply: one\n").output
