"""On a terminal of 80 columns no command lets a line be broken in the middle of a word; in a pipe nothing is broken at all."""

import re

import pexpect
import pytest

from conftest import SIGN_IN_NEEDED, USAGE
from counterparts import PATIENCE

COLUMNS = 80
# From here on a line is edited.
EDITING = "\x1b[?2004h"
LONG = "Fix the grammar of this German text: er gehen heute in dem Stadt und kaufen ein neue Fahrrad fuer seine Schwester"


@pytest.fixture
def terminal(user):
    """`terminal(someone, *words, typed=[(question, line)])`: the lines that the program wrote, at most 80 columns each unless
    they are one word."""
    def run(someone, *words, typed=(), status=0):
        child = pexpect.spawn(someone.program, list(words), env=someone.having(TERM="xterm-256color").environment, encoding="utf-8",
                              dimensions=(24, COLUMNS), timeout=20 * PATIENCE)
        shown = ""
        for question, line in typed:
            child.expect_exact(question)
            shown += child.before + child.after
            child.send(line)
        child.expect_exact(pexpect.EOF)
        child.close()
        assert status in (None, child.exitstatus), shown + child.before
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]", "", shown + child.before)
        lines = [line.rstrip() for line in re.split(r"[\r\n]+", text)]
        assert not [line for line in lines if len(line) > COLUMNS and " " in line.strip()], lines
        return lines
    return run


@pytest.fixture(scope="module")
def commands(program):
    """Every command that help names, and their commands."""
    def below(*words):
        text = pexpect.run(" ".join([program, "help", *words]), env={"COLUMNS": "80"}, encoding="utf-8")
        listed = re.search(r"SUBCOMMANDS:(.*?)\r\n\r\n", text, re.DOTALL)
        names = re.findall(r"^  (\w+)(?: \(default\))?(?:  |\r)", listed[1], re.MULTILINE) if listed else []
        return [words, *(command for name in names for command in below(*words, name))]
    return below()


def test_help(terminal, user, commands):
    assert ("completions",) in commands and ("threads", "export") in commands
    for words in commands:
        terminal(user(), "help", *words)
    assert "  chappie completions bash > ~/.local/share/bash-completion/completions/chappie" in terminal(user(), "help", "completions")
    terminal(user(), "ask", "--no-such-option-as-this-one", "--json", "Hello", status=USAGE)


def test_signing_in_and_what_it_is_asked_about_afterwards(terminal, simulate, user):
    someone = user(simulate())
    assert "You are not signed in at" in "\n".join(terminal(someone, "status", status=SIGN_IN_NEEDED))
    terminal(someone, "ask", "Hello", status=SIGN_IN_NEEDED)
    lines = terminal(someone, "login", "--no-browser")
    assert any(line.startswith("Signed in as") for line in lines), lines
    for words in (["status", "--verbose"], ["models"], ["usage"], ["accounts"], ["doctor"], ["ask", "--verbose", "reply: short"]):
        terminal(someone, *words)
    doctor = terminal(someone.having(CHAPPIE_BACKEND="http://127.0.0.1:9/backend-api"), "doctor", status=None)
    assert [line for line in doctor if line.startswith(" " * 34)], doctor
    terminal(someone, "logout")


def test_a_passphrase(terminal, simulate, user):
    someone = user(simulate(), CHAPPIE_CREDENTIAL_STORE="file")
    lines = terminal(someone, "login", "--no-browser", typed=[("New passphrase", "secret\r"), ("Repeat the passphrase", "secret\r")])
    assert any(line.startswith("Signed in as") for line in lines), lines


def test_an_error_in_a_pipe_is_a_line(terminal, simulate, user):
    someone = user(simulate())
    told = someone.run("models", status=SIGN_IN_NEEDED)
    [whole, *_] = told.errors.splitlines()
    assert len(whole) > COLUMNS, told
    lines = terminal(someone, "models", status=SIGN_IN_NEEDED)
    begin = next(number for number, line in enumerate(lines) if line.startswith("chappie: "))
    assert lines[begin + 1].startswith(" " * 9) and " ".join(line.strip() for line in lines[begin:]).startswith(whole), lines


def test_threads_are_listed_with_their_names_cut(terminal, simulate, signed_in):
    someone = signed_in(simulate())
    someone.ask(LONG + "\nreply: done")
    [row] = [line for line in terminal(someone, "threads") if "Fix the grammar" in line]
    assert len(row) == COLUMNS and row.endswith("…"), row
    assert LONG[:60] in someone.run("threads").output
    for words in (["search", "grammar"], ["show"], ["list", "--usage"], ["verify"]):
        terminal(someone, "threads", *words)


def test_chat(terminal, simulate, signed_in):
    someone = signed_in(simulate())
    typed = [(EDITING, f"{line}\r") for line in ("/help", "/tools", "/usage", "/transport", "/nonsense", "reply: an answer", "/quit")]
    lines = terminal(someone, "chat", typed=typed)
    assert any("lines stay together." in line for line in lines), lines
