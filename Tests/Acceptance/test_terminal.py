"""The terminal after every command is as it was before, however the command ends."""

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios

import pytest

from conftest import INTERRUPTED, ROOT, SIGN_IN_NEEDED, UNAVAILABLE, USAGE, User
from counterparts import free_port, is_asleep, wait_until

COMMANDS = {words.split()[0]: words.split() for words in (
    "login --no-browser", "logout", "lock", "status", "ask something", "chat", "search words", "draw something", "threads", "models", "usage", "apps", "accounts", "config", "templates", "auth export file", "tools", "mcp",
    "doctor", "simulator", "completions bash", "manual", "help", "--version")}
# These have no settings.
ALONE = ("config", "lock", "templates", "completions", "manual", "help", "--version")
CONTROL_C, CONTROL_D, CONTROL_Z, CONTROL_BACKSLASH = b"\x03", b"\x04", b"\x1a", b"\x1c"
# From its beginning to its end a line is edited, and the terminal marks what is pasted into it.
BEGIN, END, PROMPT = b"\x1b[?2004h", b"\x1b[?2004l", rb"\?2004h.*>\S* "
each_command = pytest.mark.parametrize("name", COMMANDS)


class Pty:
    """A program on a fresh terminal, which controls it. On one that is stopped, as Ctrl-S does it, nothing can be written: the
    program can't end by itself if it has something to say."""

    def __init__(self, user, *words, is_stopped=False):
        self.ours, self.theirs = pty.openpty()
        termios.tcsetwinsize(self.theirs, (24, 80))
        settings = self.settings
        settings[0] &= ~termios.IXON  # Ctrl-C would start what is stopped.
        termios.tcsetattr(self.theirs, termios.TCSANOW, settings)
        self.before, self.shown, self.is_stopped = self.settings, b"", False
        if is_stopped:
            self.stop()
        self.process = user.start(*words, stdin=self.theirs, stdout=self.theirs, stderr=self.theirs, text=False,
                                  preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)

    @property
    def settings(self):
        return termios.tcgetattr(self.theirs)

    def stop(self):
        self.is_stopped = True
        termios.tcflow(self.theirs, termios.TCOOFF)

    def type(self, keys):
        os.write(self.ours, keys)

    def send(self, number):
        """A signal; that of Ctrl-C by the key."""
        self.type(CONTROL_C) if number == signal.SIGINT else self.process.send_signal(number)

    def shows(self, pattern):
        wait_until(lambda: re.search(pattern, self._read(), re.DOTALL), lambda: f"{pattern} in {self.shown}", 60)

    def ends(self, *statuses):
        """Waits until it has ended so, with the terminal as it was."""
        wait_until(lambda: self._read() is not None and self.process.poll() is not None, lambda: f"the end of {self.shown}", 60)
        assert self.process.returncode in statuses, (self.process.returncode, self._read().decode())
        after = self.settings
        assert after == self.before, f"{after} instead of {self.before}"
        if not self.is_stopped:
            assert self.shown.count(BEGIN) == self.shown.count(END), self.shown

    def _read(self):
        while select.select([self.ours], [], [], 0)[0]:
            self.shown += os.read(self.ours, 1 << 16)
        return self.shown


@pytest.fixture
def person(simulate, signed_in, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return signed_in(simulate(pollInterval=0), TERM="xterm")


def test_these_are_all_commands(user):
    listed = user().run("help").output.split("SUBCOMMANDS:\n")[1].split("\n\n")[0]
    assert {*re.findall(r"^  (\S+)", listed, re.MULTILINE), "help", "--version"} == {*COMMANDS}


@each_command
def test_ended_by_itself(name, person):
    with Pty(person, *COMMANDS[name]) as terminal:
        if name == "chat":
            terminal.shows(PROMPT)
            terminal.type(b"reply: hello\r")
            terminal.shows(PROMPT + b".*hello.*" + PROMPT)
            terminal.type(CONTROL_D)
        elif name == "simulator":
            terminal.shows(b"CHAPPIE_BACKEND")
            terminal.type(CONTROL_C)
        elif name == "mcp":
            terminal.type(CONTROL_D)
        terminal.ends(0)


@each_command
def test_ended_by_an_error(name, person):
    with Pty(person, *COMMANDS[name], "--no-such-option") as terminal:
        terminal.ends(0 if name == "--version" else USAGE)
    if name not in ALONE:
        with Pty(person.having(CHAPPIE_CREDENTIAL_STORE="none"), *COMMANDS[name]) as terminal:
            terminal.ends(USAGE)
    if name in ("login", "ask", "models", "usage", "doctor"):
        nobody = f"http://127.0.0.1:{free_port()}"
        with Pty(person.having(CHAPPIE_ISSUER=nobody, CHAPPIE_BACKEND=nobody + "/backend-api"), *COMMANDS[name]) as terminal:
            terminal.ends(UNAVAILABLE, SIGN_IN_NEEDED)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@each_command
def test_ended_by_a_signal(name, number, person):
    with Pty(person, *COMMANDS[name], is_stopped=name != "chat") as terminal:
        if name == "chat":
            terminal.shows(PROMPT)
        else:
            wait_until(lambda: is_asleep(terminal.process), "it waits", 60)
        terminal.send(number)
        if name == "chat" and number == signal.SIGINT:
            # It clears the line there. What is typed before the next prompt is not the chat's.
            terminal.shows(b"/quit ends.*" + PROMPT)
            terminal.type(CONTROL_D)
            return terminal.ends(0)
        terminal.ends(128 + number, -number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_ended_by_a_signal_while_a_passphrase_is_typed(number, person, tmp_path):
    with Pty(person.having(CHAPPIE_CREDENTIAL_STORE="file"), "login", "--no-browser") as terminal:
        terminal.shows(b"passphrase")
        terminal.type(b"half of it")
        terminal.send(number)
        terminal.ends(128 + number)


def test_the_quit_key_while_a_passphrase_is_typed(person):
    with Pty(person.having(CHAPPIE_CREDENTIAL_STORE="file"), "login", "--no-browser") as terminal:
        terminal.shows(b"passphrase")
        terminal.type(b"half of it" + CONTROL_BACKSLASH)
        terminal.ends(-signal.SIGQUIT)


def test_stopped_by_a_key_while_a_passphrase_is_typed(person):
    """A shell with job control, and without a line editor that would set the terminal itself."""
    script = f'set -m; {person.program} login --no-browser; stty -a | grep -ow -- "-*echo" | sed "s/^/[/;s/$/]/"; fg'
    someone = person.having(CHAPPIE_CREDENTIAL_STORE="file")
    with Pty(User("/bin/bash", someone.account, someone.environment), "-c", script) as terminal:
        terminal.shows(b"passphrase")
        terminal.type(CONTROL_Z)
        terminal.shows(rb"\[echo\].*login")
        wait_until(lambda: not terminal.settings[3] & termios.ECHO, "the echo is off again", 60)
        terminal.type(CONTROL_C)
        terminal.ends(130)


@pytest.mark.parametrize("words, prompt", [(["chat"], PROMPT), (["login", "--no-browser"], b"passphrase")], ids=["a line", "a passphrase"])
def test_ended_by_a_signal_while_the_terminal_is_stopped(words, prompt, person):
    with Pty(person.having(CHAPPIE_CREDENTIAL_STORE="file" if words[0] == "login" else None), *words) as terminal:
        terminal.shows(prompt)
        terminal.stop()
        terminal.type(b"half of it")
        wait_until(lambda: is_asleep(terminal.process), "it waits", 60)
        terminal.send(signal.SIGTERM)
        terminal.ends(143)


OPTIMISED = """
import Glibc
import Synchronization

struct Several { var settings: termios?, isOn = false }
struct Silenced { var terminal: CInt, settings: termios }
enum Statics {
    static let several = Mutex(Several())
    static let alone = Mutex<termios?>(nil)
    static let silenced = Mutex<Silenced?>(nil)
}
print(Statics.several.withLock { $0.settings == nil }, Statics.alone.withLock { $0 == nil }, Statics.silenced.withLock { $0 == nil })
"""


def test_what_the_optimiser_makes_of_an_optional_structure_of_c(tmp_path):
    """Swift 6.3.1 takes the first for one that is there, and all zero. So no static mutex of ours is over a structure of several
    members, and the two forms that are used have to be right."""
    (tmp_path / "main.swift").write_text(OPTIMISED)
    subprocess.run(["swiftc", "-O", "main.swift"], cwd=tmp_path, check=True)
    several, *used = subprocess.run(tmp_path / "main", capture_output=True, text=True, check=True).stdout.split()
    print(f"several members: {several}")
    assert used == ["true", "true"]
    sources = [path for folder in ("Packages/*/*", "Apps/*") for path in ROOT.glob(f"{folder}/Sources/**/*.swift")]
    assert not [path for path in sources if re.search(r"static let \w+(: .*)? = Mutex\([A-Z]", path.read_text())] and sources
