"""The chat in a real terminal (tmux): what is typed, what stands on the screen, and the terminal afterwards."""

import fcntl
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import stat
import subprocess
import termios
import urllib.parse

import pytest

from conftest import INTERRUPTED, USAGE, User
from counterparts import Counterpart, wait_until

PROMPT, ENDED = "> ", "ended with"
ANSWER = """reply: # A *heading*

A paragraph with **bold** words, `code` and [a link](https://example.com), which is longer than one row of the screen is.

- one
  - nested
- two

| Name | 数 |
|------|---:|
| 漢字 | 1 |
| b | 22 |

```swift
let answer = 42
```

The end"""
DRAWN = """A heading

A paragraph with bold words, code and a link
(https://example.com), which is longer than one row of the
screen is.

• one
  ◦ nested
• two

Name │ 数
─────┼───
漢字 │  1
b    │ 22

  swift
    let answer = 42

The end
"""


class Terminal(Counterpart):
    """A program in a terminal of its own, `first` being what its user's shell does before. Afterwards a line says how it ended, and below it stand the terminal's settings."""

    def __init__(self, user, *words, columns=60, rows=40, first=":", **settings):
        super().__init__()
        self.socket, self.user = str(self.folder / "tmux"), user
        self.callback(subprocess.run, ["tmux", "-S", self.socket, "kill-server"], stderr=subprocess.DEVNULL)
        command = f"{first}; trap : INT; {shlex.join([user.program, *words])}; echo '{ENDED}' $?; stty -a; exec sleep 1000"
        environment = {**user.environment, "PATH": os.environ["PATH"], "TERM": "tmux-256color", **settings}
        variables = [f"{name}={value}" for name, value in environment.items() if value is not None]
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows),
                  shlex.join(["env", "-i", *variables, "sh", "-c", command]), start=True)

    def tmux(self, *words, start=False, input=None):
        configuration = ["-f", "/dev/null"] if start else []
        return subprocess.run(["tmux", "-u", "-S", self.socket, *configuration, *words], input=input, check=True,
                              capture_output=True, text=True, encoding="utf-8").stdout

    def type(self, text, *keys):
        """Types the text, and then presses keys by tmux's names for them."""
        if text:
            self.tmux("send-keys", "-l", text)
        if keys:
            self.tmux("send-keys", *keys)

    def paste(self, text):
        self.tmux("load-buffer", "-", input=text)
        self.tmux("paste-buffer", "-p")

    @property
    def process(self):
        """The program's number."""
        shell = self.tmux("display", "-p", "#{pane_pid}").strip()
        return int(subprocess.run(["pgrep", "-P", shell], check=True, capture_output=True, text=True).stdout)

    def resize(self, columns, rows=40):
        """Waits until the program's terminal has the new size: tmux breaks its own rows anew before."""
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))
        terminal = os.open(self.tmux("display", "-p", "#{pane_tty}").strip(), os.O_RDONLY | os.O_NOCTTY)
        self.callback(os.close, terminal)
        wait_until(lambda: os.get_terminal_size(terminal).columns == columns, "the terminal's new size", 30)

    @property
    def everything(self):
        """What is on the screen, and what has scrolled away above it."""
        lines = self.tmux("capture-pane", "-p", "-S", "-").split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"

    @property
    def screen(self):
        """The same without the chat's status, which is the last row."""
        return re.sub(r"\n\S+ · context [^\n]*\n\Z", "\n", self.everything)

    @property
    def status(self):
        """The chat's status; "" if there is none."""
        row = self.everything.rstrip("\n").split("\n")[-1]
        return row if " · context " in row else ""

    @property
    def visible(self):
        """Only what is on the screen now."""
        return self.tmux("capture-pane", "-p")

    @property
    def styled(self):
        return self.tmux("capture-pane", "-p", "-e", "-S", "-")

    def shows(self, text, count=1):
        """Waits until the text is there so many times, and gives the screen."""
        wait_until(lambda: self.screen.count(text) >= count, lambda: f"{text!r} in {self.screen}", 30)
        return self.screen

    def prompts(self, count=1):
        """Waits until the program asks for the next line: an empty prompt is the last row, and there were so many before."""
        is_asking = lambda: self.screen.rstrip("\n").split("\n")[-1].rstrip() == ">"
        wait_until(lambda: is_asking() and len(re.findall("^>", self.screen, re.M)) >= count, lambda: f"a prompt in {self.screen}", 30)
        return self.screen

    def ends(self, status):
        """Waits until it has ended so, with the terminal as it was."""
        screen = self.shows("-iexten" if " -iexten" in self.screen else "iexten")
        assert f"{ENDED} {status}" in screen, screen
        settings = screen.split(ENDED)[1].split()
        assert {"icanon", "echo", "isig", "icrnl", "opost"} <= set(settings), screen
        return screen


@pytest.fixture
def chat(simulate, user, passphrase, stack):
    """`chat()`, `chat("--model", "x", deltasPerSecond=20)`: a chat with a simulator of these settings, at its first prompt."""
    def start(*words, columns=60, rows=40, environment=None, again=None, **settings):
        person = again.user if again else user(simulate(**settings), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")).sign_in()
        terminal = stack.enter_context(Terminal(person, "chat", *words, columns=columns, rows=rows, **(environment or {})))
        terminal.prompts()
        return terminal
    return start


def test_an_answer_is_drawn_and_looks_the_same_at_any_speed(chat):
    for speed in (50, 20_000):
        terminal = chat(deltasPerSecond=speed)
        terminal.paste(ANSWER)
        terminal.shows("The end")
        terminal.type("", "Enter")
        screen = terminal.prompts(2)
        assert DRAWN in screen, screen
        styled = terminal.styled
        assert "\x1b[1mbold" in styled and "\x1b[36mcode" in styled and "**" not in styled.split("heading")[-1], styled
        terminal.type("", "C-d")
        terminal.ends(0)


def test_ctrl_c_stops_an_answer_and_clears_a_line_and_the_conversation_goes_on(chat):
    terminal = chat(deltasPerSecond=20)
    terminal.type("reply: remembered", "Enter")
    terminal.prompts(2)
    terminal.type("repeat 5000 words", "Enter")
    terminal.shows("word after word")
    terminal.type("", "C-c")
    terminal.shows("Stopped")
    terminal.prompts(3)
    terminal.type("half a line", "C-c")
    terminal.prompts(3)
    terminal.type("", "C-c")
    terminal.shows("Ctrl-D or /quit")
    terminal.prompts(4)
    terminal.type("and now?", "Enter")
    # The simulator counts the answers that it sees: what was said of the stopped one is among them.
    terminal.shows("Turn: 3")
    terminal.prompts(5)
    terminal.type("/quit", "Enter")
    terminal.ends(0)


@pytest.fixture
def manifest(tmp_path):
    """The path of a manifest with one tool, which asks."""
    tool = tmp_path / "up"
    tool.write_text('#!/bin/sh\nprintf "it got %s" "$(cat)"\n')
    tool.chmod(0o700)
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": [{"name": "up", "description": "Says what it got.", "command": "./up"}]}))
    return str(path)


def test_a_tool_is_asked_for_at_the_prompt(chat, manifest):
    terminal = chat("--tools", manifest)
    terminal.type("/tools", "Enter")
    assert "up: Says what it got. (asks first)" in terminal.prompts(2)
    terminal.type('call up {"a":"b"}', "Enter")
    question = 'up describes itself as "Says what it got."\nThe model wants to run up:\n  "a": "b"\nThis is up with 1 argument.\nRun it?'
    assert question in terminal.shows("Run it?")
    terminal.type("y", "Enter")
    assert 'it got {"a":"b"}' in terminal.prompts(3)
    terminal.type('call up {"a":"c"}', "Enter")
    terminal.shows("Run it?", 2)
    terminal.type("n", "Enter")
    screen = terminal.prompts(4)
    assert "The user said no." in screen and 'it got {"a":"c"}' not in screen, screen
    terminal.type('call up {"a":"d"}', "Enter")
    terminal.shows("Run it?", 3)
    terminal.type("", "C-c")
    assert "Stopped" in terminal.prompts(5)
    terminal.type("reply: still there", "Enter")
    terminal.shows("still there", 2)
    terminal.prompts(6)
    terminal.type("", "C-d")
    terminal.ends(0)


def test_a_question_that_was_left_takes_no_line_on_a_plain_terminal(chat, manifest):
    terminal = chat("--tools", manifest, environment={"TERM": "dumb"})
    terminal.type('call up {"a":"b"}', "Enter")
    terminal.shows("Run it?")
    terminal.type("", "C-c")
    terminal.prompts(2)
    terminal.type("reply: this line has a reader", "Enter")
    assert "\nthis line has a reader\n" in terminal.prompts(3)


def test_a_question_that_a_signal_ends_takes_no_line(chat, manifest):
    terminal = chat("--tools", manifest)
    terminal.type('call up {"a":"b"}', "Enter")
    terminal.shows("Run it?")
    os.kill(terminal.process, signal.SIGINT)
    terminal.prompts(2)
    terminal.type("reply: this line has a reader", "Enter")
    assert "\nthis line has a reader\n" in terminal.prompts(3)


def test_what_was_typed_before_a_question_does_not_answer_it(chat, manifest):
    terminal = chat("--tools", manifest, deltasPerSecond=20)
    words = " ".join(f"w{number}" for number in range(40))
    terminal.paste(f'call up {{"a":"b"}}\nreply: {words}')
    terminal.shows("w39")
    terminal.type("", "Enter")
    terminal.shows("w5", 2)
    terminal.type("a", "Enter")
    terminal.shows("Run it?")
    terminal.type("n", "Enter")
    screen = terminal.prompts(2)
    assert "· up: denied" in screen and 'it got {"a":"b"}' not in screen, screen


def test_lines_are_edited_remembered_and_pasted(chat):
    terminal = chat()
    terminal.type("reply: hällo 漢字!")
    terminal.type("", "Left", "BSpace")
    terminal.type("語", "Enter")
    assert "\nhällo 漢語!\n" in terminal.prompts(2)
    terminal.paste("reply: one\ntwo\n")
    terminal.type("and \\", "Enter")
    terminal.type("three", "M-Enter")
    terminal.type("four", "Enter")
    assert "\none\ntwo\nand\nthree\nfour\n" in terminal.prompts(3)
    terminal.type("", "Up", "Up", "Enter")
    terminal.shows("\nhällo 漢語!\n", 2)
    terminal.prompts(4)
    terminal.type(" reply: a secret", "Enter")
    terminal.prompts(5)
    terminal.type("", "C-d")
    terminal.ends(0)
    # The next chat knows what is in the threads; nothing else is kept.
    terminal = chat(again=terminal)
    terminal.type("", "Up", "Up", "Up", "Enter")
    assert "\nhällo 漢語!\n" in terminal.prompts(2)
    assert not holding(terminal.user, "secret") and not holding(terminal.user, "three")


def holding(user, text):
    """The files of the user's state in which the text stands."""
    files = [path for path in pathlib.Path(user.environment["XDG_STATE_HOME"]).rglob("*") if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]


def test_lines_are_remembered_as_long_as_their_thread(chat):
    terminal = chat()
    terminal.type("reply: the elephant", "Enter")
    terminal.prompts(2)
    terminal.type("", "C-d")
    terminal.ends(0)
    person = terminal.user
    thread = person.run("threads", "list", "--json").events[0]["threads"][0]
    terminal = chat(again=terminal)
    terminal.type("", "Up")
    terminal.shows("> reply: the elephant")
    terminal.type("", "C-c", "C-d")
    terminal.ends(0)
    person.run("threads", "delete", "--force", thread["id"])
    terminal = chat(again=terminal)
    terminal.type("", "Up", "Up")
    terminal.type("reply: nothing", "Enter")
    assert "\nnothing\n" in terminal.prompts(2)


def test_an_ephemeral_chat_remembers_its_lines_until_it_ends(chat):
    terminal = chat("--ephemeral")
    terminal.type("reply: the elephant", "Enter")
    terminal.prompts(2)
    terminal.type("", "Up", "Enter")
    terminal.shows("\nthe elephant\n", 2)
    terminal.prompts(3)
    terminal.type("", "C-d")
    terminal.ends(0)
    assert not holding(terminal.user, "elephant")
    terminal = chat(again=terminal)
    terminal.type("", "Up")
    terminal.type("reply: nothing", "Enter")
    assert "\nnothing\n" in terminal.prompts(2)


def test_a_paste_longer_than_the_screen_is_one_message(chat):
    terminal = chat(rows=10)
    lines = [f"line number {number}" for number in range(60)]
    terminal.paste("reply: " + "\n".join(lines))
    terminal.shows("line number 59")
    terminal.type("", "Enter")
    # Of the paste, the editor shows as much as there is room for.
    terminal.shows("\nline number 0\n")
    assert "\n".join(lines) + "\n\n>\n" in terminal.prompts()


def test_commands(chat, tmp_path):
    terminal, path = chat(), tmp_path / "kept.md"
    terminal.type("/transport", "Enter")
    terminal.shows("There is no answer yet.")
    terminal.prompts(2)
    terminal.type("reply: **saved**", "Enter")
    terminal.prompts(3)
    terminal.type("/transport", "Enter")
    terminal.shows("0 reconnects")
    terminal.prompts(4)
    terminal.type("/mo", "Tab")
    terminal.shows("> /model")
    terminal.type("gpt-6-luna", "Enter")
    terminal.shows("continues with gpt-6-luna")
    terminal.prompts(5)
    terminal.type("which?", "Enter")
    terminal.shows("Model: gpt-6-luna")
    terminal.prompts(6)
    terminal.type(f"/save {path}", "Enter")
    terminal.shows("The conversation is in")
    assert path.read_text().startswith("## You\n\nreply: **saved**\n\n## gpt-6.1-sol\n\n**saved**\n\n## You\n\nwhich?\n\n## gpt-6-luna\n\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    terminal.prompts(7)
    terminal.type("/clear", "Enter")
    terminal.shows("A new conversation begins.")
    terminal.prompts(8)
    terminal.type("again", "Enter")
    terminal.shows("Turn: 1")
    terminal.prompts(9)
    terminal.type("/usage", "Enter")
    terminal.shows("Context: ")
    for number, (command, says) in enumerate({"/compact": "is summed up", "/tools": "no tools", "/help": "/compact", "/modle x": "Did you mean /model"}.items()):
        terminal.prompts(10 + number)
        terminal.type(command, "Enter")
        terminal.shows(says)
    # A key that comes before the prompt is the terminal's, and not the editor's.
    terminal.prompts(14)
    terminal.type("", "C-d")
    terminal.ends(0)


@pytest.fixture
def silent(stack):
    """The address of a server that accepts connections and says nothing."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    return f"http://127.0.0.1:{server.getsockname()[1]}/x"


@pytest.mark.parametrize("line", ["/file ADDRESS", "/file FIFO", "/save FIFO", "FIFO"])
def test_ctrl_c_stops_a_command_and_the_chat_goes_on(line, chat, silent, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    terminal = chat("--ephemeral")
    count = 2
    if line.startswith("/save"):
        terminal.type("reply: text", "Enter")
        terminal.prompts(count)
        count += 1
    line = line.replace("ADDRESS", silent).replace("FIFO", str(tmp_path / "pipe"))
    for _ in range(2):
        terminal.type(line, "Enter")
        if line.startswith(str(tmp_path)):
            terminal.shows("Attach pipe? [y/N]")
            terminal.type("y", "Enter")
        wait_until(lambda: is_hiding_keys(terminal), "the command runs", 30)
        terminal.type("", "C-c")
        assert "Stopped." in terminal.prompts(count), terminal.screen
        count += 1
    terminal.type("reply: goes on", "Enter")
    terminal.shows("\ngoes on\n")


def is_hiding_keys(terminal):
    """Whether the terminal collects lines without showing them: no line is edited, and the program works."""
    path = terminal.tmux("display", "-p", "#{pane_tty}").strip()
    settings = subprocess.run(["stty", "-a", "-F", path], capture_output=True, text=True, check=True).stdout.split()
    return {"icanon", "-echo"} <= set(settings)


@pytest.mark.parametrize("key", ["C-c", "C-d"])
def test_a_question_about_a_file_that_is_left_sends_nothing(key, chat, tmp_path):
    name = "a\x01\x1b]0;X\x07\x1b[31m\x01b.txt"
    (tmp_path / name).write_text("text")
    terminal = chat()
    terminal.type("file://" + urllib.parse.quote(str(tmp_path / name)), "Enter")
    terminal.shows("Attach a")
    assert terminal.tmux("display", "-p", "#{pane_title}").strip() != "X"
    terminal.type("", key)
    terminal.shows("Stopped.")
    terminal.prompts(2)
    terminal.type("and now?", "Enter")
    terminal.shows("Turn: 1")


def test_a_terminal_that_closes_ends_a_chat_as_a_hangup_does(simulate, signed_in):
    person = signed_in(simulate(), TERM="xterm")
    ours, theirs = os.openpty()
    process = person.start("chat", stdin=theirs, stdout=theirs, stderr=theirs, text=False, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(theirs)
    seen = b""
    while b"\x1b[?2004h" not in seen:
        seen += os.read(ours, 1 << 16)
    os.close(ours)
    assert process.wait(60) == 129


@pytest.mark.parametrize("columns", [30, 100])
def test_a_terminal_that_is_resized_shows_every_line_once(columns, chat):
    terminal = chat(deltasPerSecond=30)
    terminal.type("a question that is so long that it takes two rows of the screen")
    terminal.resize(columns)
    terminal.type(", or more", "C-c")
    screen = terminal.prompts()
    assert "question" not in screen and screen.count("\n>") == 1, screen
    words = [f"w{number}" for number in range(60)]
    terminal.type("reply: " + " ".join(words), "Enter")
    terminal.shows("w20")
    terminal.resize(60)
    # The editor breaks what is typed anywhere, the renderer between words.
    question, answer, end = terminal.prompts(2).split("w59")
    assert (answer + "w59").split() == words and end.split() == [">"], question + answer


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back(user, stack):
    # The program is bash's job here.
    person = user()
    shell = User("bash", person.account, {**person.environment, "PS1": "shell$ "})
    terminal = stack.enter_context(Terminal(shell, "--norc", "--noprofile", "-i"))
    terminal.shows("shell$")
    terminal.type(f"{shlex.quote(person.program)} chat --simulate", "Enter")
    terminal.prompts()
    terminal.type("half a question", "C-z")
    terminal.shows("Stopped")
    terminal.type("echo is the shell$((40 + 2))", "Enter")
    terminal.shows("is the shell42")
    terminal.type("fg", "Enter")
    terminal.shows("> half a question", 2)
    terminal.type("", "C-c")
    terminal.prompts()
    terminal.type("reply: still here", "Enter")
    terminal.shows("\nstill here\n")
    terminal.prompts()
    terminal.type("", "C-d")
    # A shell drops what is typed before it is ready: its fourth prompt, and the one in the echo.
    terminal.shows("shell$", 5)
    terminal.type("exit", "Enter")
    terminal.ends(0)


@pytest.fixture
def bash(user, stack, simulate, passphrase):
    """`bash()`: an interactive shell with job control at its first prompt. `program` is a variable of it."""
    def start(**settings):
        person = user(simulate(), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")).sign_in()
        environment = person.having(**settings).environment
        shell = User("bash", person.account, {**environment, "PS1": "shell$ ", "program": person.program})
        terminal = stack.enter_context(Terminal(shell, "--norc", "--noprofile", "-i"))
        terminal.person = person
        terminal.shows("shell$")
        return terminal
    return start


def is_stopped(terminal):
    """Whether the shell says that its job is stopped. A shell reports that at its next prompt only."""
    terminal.type("jobs", "Enter")
    return "Stopped" in terminal.screen.split("jobs\n")[-1]


def test_a_chat_in_the_background_waits_and_fg_brings_it_back(bash):
    terminal = bash()
    terminal.type("$program chat --ephemeral", "Enter")
    terminal.prompts()
    terminal.type("reply: remembered", "Enter")
    terminal.prompts(2)
    terminal.type("", "C-z")
    terminal.shows("Stopped")
    terminal.type("bg", "Enter")
    wait_until(lambda: is_stopped(terminal), lambda: f"it waits again: {terminal.screen}", 30)
    # The terminal's settings are the shell's, and so are the keys.
    terminal.type("echo is the shell$((40 + 2)); stty -a | grep -ow -- -*icanon", "Enter")
    terminal.shows("is the shell42\nicanon")
    terminal.type("fg", "Enter")
    terminal.prompts(3)
    terminal.type("and now?", "Enter")
    terminal.shows("Turn: 2")


@pytest.mark.parametrize("words, question", [
    (["chat", "--ephemeral"], "Type a message"), (["status"], "Passphrase for"), (["threads", "delete", "ID"], "Delete for good?"),
], ids=["a chat", "a passphrase", "a question"])
def test_what_is_started_in_the_background_asks_in_the_foreground(words, question, bash):
    terminal = bash(CHAPPIE_PASSPHRASE_FILE=None) if words == ["status"] else bash()
    if "ID" in words:
        terminal.person.run("ask", "reply: hi")
        words = [*words[:2], terminal.person.run("threads", "list", "--json").events[0]["threads"][0]["id"]]
    terminal.type(f"$program {' '.join(words)} &", "Enter")
    wait_until(lambda: is_stopped(terminal), lambda: f"it waits: {terminal.screen}", 30)
    terminal.type("echo is the shell$((40 + 2))", "Enter")
    terminal.shows("is the shell42")
    assert "Done" not in terminal.screen and "Exit" not in terminal.screen, terminal.screen
    terminal.type("fg", "Enter")
    terminal.shows(question)


def test_ctrl_z_during_an_answer_shows_what_is_typed(user, simulate, stack):
    """dash, unlike bash, takes the terminal as it finds it."""
    person = user(simulate(deltasPerSecond=20)).sign_in()
    shell = User("dash", person.account, {**person.environment, "PS1": "shell$ "})
    terminal = stack.enter_context(Terminal(shell, "-i"))
    terminal.shows("shell$")
    terminal.type(f"{shlex.quote(person.program)} chat", "Enter")
    terminal.prompts()
    terminal.type("repeat 5000 words", "Enter")
    terminal.shows("word after word")
    terminal.type("", "C-z")
    terminal.shows("Stopped")
    terminal.type("echo is the shell$((40 + 2))", "Enter")
    assert "echo is the shell$" in terminal.shows("is the shell42")
    terminal.type("fg", "Enter")
    # Ctrl-C throws away what the shell has not read; it names the job once it has.
    terminal.shows("chappie chat", 3)
    terminal.type("", "C-c")
    terminal.shows("Stopped.")
    terminal.prompts()
    terminal.type("", "C-d")
    # It stands twice in the line of the echo. What is typed before the shell reads again is lost.
    terminal.shows("shell$", 5)
    terminal.type("exit", "Enter")
    terminal.ends(0)


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, INTERRUPTED)])
def test_the_terminal_is_as_it_was_after_a_signal(number, status, chat):
    for is_answering in (False, True):
        terminal = chat(deltasPerSecond=20)
        if is_answering:
            terminal.type("repeat 5000 words", "Enter")
            terminal.shows("word after word")
        process = terminal.process
        os.kill(process, number)
        if is_answering and number == signal.SIGINT:
            terminal.shows("Stopped")
            terminal.prompts(2)
            os.kill(process, number)
        terminal.ends(status)


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"CLICOLOR": "0"}, {"TERM": "dumb"}, {"TERM": "unknown"}])
def test_a_terminal_without_styles_gets_the_text_as_it_is(setting, chat):
    terminal = chat(environment=setting)
    terminal.type("reply: **bold** `code`", "Enter")
    terminal.shows("\n**bold** `code`\n")
    assert "\x1b[" not in terminal.styled


def test_what_a_terminal_would_obey_is_harmless(chat):
    terminal = chat()
    terminal.paste("reply: a&#27;[2Jb \u202Eevil `c&#x9b;31m`\n\n| x&#27;]0;title&#7; |\n|---|\n| \u2066y |")
    terminal.type("", "Enter")
    screen = terminal.prompts(2)
    assert "a\N{REPLACEMENT CHARACTER}[2Jb \N{REPLACEMENT CHARACTER}evil" in screen, screen
    assert not {"\u202E", "\u2066"} & set(screen.split("> reply")[1].split("\n\n", 1)[1]), screen
    assert terminal.tmux("display", "-p", "#{pane_title}").strip() != "title"


def test_from_a_pipe_each_line_is_a_message_or_a_command(user):
    outcome = user().run("--simulate", "chat", input="reply: **one**\n\n/model gpt-6-sol\nwhich?\n/quit\nnever\n")
    assert outcome.output.startswith("> reply: **one**\n\n**one**\n\n> /model gpt-6-sol\n") and "\x1b" not in outcome.output, outcome
    assert "Model: `gpt-6-sol`" in outcome.output and "never" not in outcome.output, outcome
    assert user().run("--simulate", "chat", input="reply: hi").output == "> reply: hi\n\nhi\n\n"


@pytest.mark.parametrize("line", ["/file SECRET", "/image x.png", "/paste", "/save F", "/edit", "/resource a:b", "/nonsense", "/usage now"])
def test_a_line_from_a_pipe_reads_and_writes_no_file_and_the_rest_is_counted(user, line, tmp_path):
    person = user(EDITOR=f"touch {tmp_path}/edited")
    target = tmp_path / "saved.md"
    (tmp_path / "secret").write_text("a secret")
    line = line.replace("SECRET", str(tmp_path / "secret")).replace("F", str(target)) if line.startswith("/file") or line.startswith("/save") else line
    outcome = person.run("--simulate", "chat", input=f"reply: one\n{line}\nreply: two\n/usage\nreply: three\n", status=USAGE)
    assert "one" in outcome.output and "two" not in outcome.output.replace(line, ""), outcome
    assert "chappie: 2 messages were not sent." in outcome.errors, outcome
    assert not target.exists() and not (tmp_path / "edited").exists()


def test_lines_from_a_pipe_may_do_everything_with_an_option(user, tmp_path):
    target = tmp_path / "saved.md"
    outcome = user().run("--simulate", "chat", "--commands", input=f"reply: one\n/save {target}\nreply: two\n")
    assert "one" in target.read_text() and "\ntwo\n" in outcome.output, outcome


def test_ask_draws_on_a_terminal_or_where_it_is_told_to(user, stack):
    person = user(TERM="xterm", NO_COLOR=None)
    terminal = stack.enter_context(Terminal(person, "--simulate", "ask", "reply: # A **b**"))
    assert "\nA b\n" in "\n" + terminal.ends(0)
    run = lambda *options: person.run("--simulate", "ask", *options, "reply: **b**").output
    assert run() == run("--markdown", "never") == "**b**\n"
    assert run("--markdown", "always") == "\x1b[0;1mb\x1b[0m\n"
    assert person.having(NO_COLOR="1").run("--simulate", "ask", "--markdown", "always", "reply: **b**").output == "b\n"
    table = person.run("--simulate", "ask", "--markdown", "always", "reply: | x |\n|---|\n| a<br>b<BR />c<b> |").output
    assert [line.strip() for line in table.splitlines()[2:]] == ["a", "b", "c<b>"], table
