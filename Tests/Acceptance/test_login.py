"""What `chappie login` shows: in a terminal (tmux, xterm), in a pipe, without a display, and where the desktop does what it is
asked. Its QR codes are read by zbarimg."""

import contextlib
import fcntl
import glob
import os
import re
import signal
import subprocess

import pexpect
import pytest

from conftest import INTERRUPTED, SIGN_IN_NEEDED
from counterparts import PATIENCE, Counterpart, wait_until
from test_chat import Terminal

COUNTDOWN, HINT = "Waiting for approval: 1", "(Ctrl-C cancels)"
LINKED = "ChatGPT Linked! Return to the app"
UTF8 = {"LANG": "C.UTF-8"}


def code_on(screen):
    """The first words after the sentence. A QR code may stand beside them."""
    return re.search(r"^Then enter this code:[ ▄]*\n[ ▄]*\n {4}(\S+)", screen, re.M)[1]


def write_to(fifo, data):
    """Writes it, unless no process reads there."""
    try:
        pipe = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    with open(pipe, "wb") as file:
        file.write(data)
    return True


def read_codes(image):
    """The texts of the QR codes in a picture, which zbarimg reads from its standard input."""
    done = subprocess.run(["zbarimg", "--quiet", "--raw", "-"], input=image, capture_output=True)
    assert done.returncode in (0, 4), done.stderr
    return done.stdout.decode().splitlines()


def painted_codes(styled):
    """The texts of the QR codes among the cells of a terminal whose lines are given with their styles."""
    rows = []
    for line in styled.split("\n"):
        ink, paper, upper, lower = None, None, [], []
        for sequence, cell in re.findall("\x1b\\[([0-9;]*)m|(.)", line):
            if cell:
                upper.append(paper == 16)
                lower.append((ink if cell == "▄" else paper) == 16)
            if not cell:
                numbers = [int(number or 0) for number in sequence.split(";")]
                while numbers:
                    number, *numbers = numbers
                    if number in (38, 48):
                        colour, numbers = numbers[1], numbers[2:]
                    ink = colour if number == 38 else None if number in (0, 39) else ink
                    paper = colour if number == 48 else None if number in (0, 49) else paper
        rows += [upper, lower]
    width = max(map(len, rows))
    pixels = [[int(dark) for dark in row + [False] * (width - len(row)) for _ in range(4)] for row in rows for _ in range(4)]
    return read_codes(f"P1 {4 * width} {len(pixels)}\n".encode() + "\n".join(" ".join(map(str, row)) for row in pixels).encode())


@pytest.fixture
def login(simulate, user, passphrase, stack):
    """`login("--no-browser", columns=40, rows=20)`: (simulator, terminal) with a sign-in whose code is not approved yet."""
    def start(*words, columns=80, rows=24, **settings):
        simulator = simulate(pollInterval=1, approves=False)
        person = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"),
                      **{"DISPLAY": None, "WAYLAND_DISPLAY": None, **UTF8})
        terminal = stack.enter_context(Terminal(person, "login", *words, columns=columns, rows=rows, **settings))
        terminal.shows("enter this code")
        return simulator, terminal
    return start


@pytest.mark.parametrize("columns, rows", [(80, 24), (40, 20)])
def test_the_time_that_is_left_shows_on_one_line_and_is_gone_afterwards(columns, rows, login):
    simulator, terminal = login("--no-browser", columns=columns, rows=rows)
    first = terminal.shows(COUNTDOWN)
    wait_until(lambda: (now := terminal.screen) != first and COUNTDOWN in now, "another second", 30)
    assert terminal.screen.count("Waiting") == 1, terminal.screen
    assert simulator.post("/codex/device", user_code=code_on(terminal.screen), action="approve") == 200
    screen = terminal.ends(0)
    assert LINKED in screen and "Waiting" not in screen, screen


def test_ctrl_c_leaves_the_terminal_as_it_was_and_the_user_signed_out(login):
    simulator, terminal = login("--no-browser")
    terminal.shows(COUNTDOWN)
    terminal.type("", "C-c")
    screen = terminal.ends(INTERRUPTED)
    assert "Waiting" not in screen, screen
    assert simulator.post("/codex/device", user_code=code_on(screen), action="approve") == 200
    assert terminal.user.run("status", status=None).status == SIGN_IN_NEEDED


@pytest.mark.parametrize("settings", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_nothing_moves_where_the_terminal_may_not_draw(settings, login):
    simulator, terminal = login("--no-browser", **settings)
    assert simulator.post("/codex/device", user_code=code_on(terminal.screen), action="approve") == 200
    screen = terminal.ends(0)
    assert LINKED in screen and "Waiting" not in screen, screen


def test_without_a_display_it_says_what_to_do_by_hand(login):
    simulator, terminal = login()
    screen = terminal.shows("There is no display here")
    assert simulator.issuer + "/codex/device" in screen.replace("\n", ""), screen
    assert simulator.post("/codex/device", user_code=code_on(screen), action="refuse") == 200
    assert "chappie: " in terminal.ends(SIGN_IN_NEEDED)


def test_a_pipe_gets_lines_alone(simulate, user):
    outcome = user(simulate(pollInterval=0)).run("login", "--no-browser")
    assert "\x1b" not in outcome.output + outcome.errors and "Waiting" not in outcome.output + outcome.errors, outcome
    lines = outcome.output.splitlines()
    assert lines[0] == "Open this page and sign in to ChatGPT:" and LINKED in lines, outcome


def test_the_desktop_gets_the_code_and_then_the_page(simulate, user, tmp_path):
    """Both write to one file."""
    desktop, told = tmp_path / "desktop", tmp_path / "told"
    desktop.mkdir()
    for name, words in (("xclip", "echo code $(cat)"), ("xdg-open", "echo page $1")):
        (desktop / name).write_text(f"#!/bin/sh\n{words} >>'{told}'\n")
        (desktop / name).chmod(0o755)
    simulator = simulate(pollInterval=1, approves=False)
    person = user(simulator, DISPLAY=":77", WAYLAND_DISPLAY=None)
    person = person.having(PATH=f"{desktop}:{person.environment.get('PATH', '/usr/bin:/bin')}")
    with person.start("login") as process:
        try:
            output = "".join(process.stdout.readline() for _ in range(7))
            code = code_on(output)
            asked = f"code {code}\npage {simulator.issuer}/codex/device\n"
            wait_until(lambda: told.exists() and told.read_text() == asked, "the desktop is asked", 30)
            assert simulator.post("/codex/device", user_code=code, action="approve") == 200
            output += process.stdout.read()
            assert process.wait(60 * PATIENCE) == 0
        finally:
            process.kill()
    assert LINKED in output, output
    assert "The code is in your clipboard.\nA browser was asked to open the page.\n" in output, output


def test_the_user_reads_of_the_sign_in_before_the_notification_is_shown(simulate, user, tmp_path):
    """It is shown here once the user has read, unless the program gives up first, which it does after two seconds."""
    os.mkfifo(tmp_path / "read")
    shows = f"case $* in *Notify*) cat <'{tmp_path}/read' >'{tmp_path}/shown' ;; esac"
    (tmp_path / "busctl").write_text(f"#!/bin/sh\n{shows}\n")
    (tmp_path / "busctl").chmod(0o755)
    person = user(simulate(pollInterval=0), PATH=f"{tmp_path}:/usr/bin:/bin")
    with person.start("login", "--no-browser") as process:
        try:
            assert any("The credential is stored" in line for line in iter(process.stdout.readline, ""))
            wait_until(lambda: write_to(tmp_path / "read", b"read"), "the notification is on its way")
            assert process.wait(60 * PATIENCE) == 0
        finally:
            process.kill()
    assert (tmp_path / "shown").read_text() == "read"


# Columns, rows, options, settings; and whether there is a code. Without a display each is as over SSH.
FACES = [
    (80, 24, "", {}, True), (50, 45, "", {}, True), (80, 24, "--no-browser", {}, True), (80, 24, "", {"TERM": "xterm"}, True),
    (40, 20, "", {}, False), (80, 21, "", {}, False), (80, 20, "--no-browser --qr always", {}, True), (80, 24, "--qr never", {}, False),
    (80, 24, "", {"NO_COLOR": "1"}, False), (80, 24, "--qr always", {"NO_COLOR": "1"}, True),
    (80, 24, "", {"TERM": "dumb"}, False), (80, 24, "", {"TERM": "vt220"}, False), (80, 24, "", {"LANG": "C"}, False),
    (80, 24, "", {"DISPLAY": ":77"}, False), (80, 24, "--qr always", {"DISPLAY": ":77"}, True),
    (80, 24, "--no-browser", {"DISPLAY": ":77"}, True),
]


@pytest.mark.parametrize("columns, rows, options, settings, has_code", FACES)
def test_the_page_is_a_qr_code_where_it_helps_and_all_is_on_the_screen(columns, rows, options, settings, has_code, login, tmp_path):
    for name in ("xclip", "xdg-open"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    simulator, terminal = login(*options.split(), columns=columns, rows=rows, PATH=f"{tmp_path}:/usr/bin:/bin", **settings)
    page = simulator.issuer + "/codex/device"
    moves = "NO_COLOR" not in settings and settings.get("TERM") != "dumb"
    if moves:
        terminal.shows(COUNTDOWN)
    if "--no-browser" not in options:
        terminal.shows("A browser was asked" if "DISPLAY" in settings else "on any device")
    screen = terminal.visible
    assert page in screen and code_on(screen), screen
    assert (HINT in screen) == (moves and columns > 44) and ("Ctrl-" in screen) == (HINT in screen), screen
    assert painted_codes(terminal.tmux("capture-pane", "-p", "-e")) == [page] * has_code, screen
    assert ("\x1b" in terminal.styled) == has_code and ("The QR code" in screen) == has_code, terminal.styled


def test_verbose_lines_have_no_qr_code_above_them(login):
    simulator, terminal = login("--no-browser", "--verbose")
    assert "▄" not in terminal.shows("deviceauth/token"), terminal.screen


@pytest.mark.parametrize("rows, has_code", [(24, True), (20, False)])
def test_the_qr_code_follows_where_the_browser_fails(rows, has_code, login, tmp_path):
    (tmp_path / "xdg-open").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "xdg-open").chmod(0o755)
    simulator, terminal = login(rows=rows, PATH=f"{tmp_path}:/usr/bin:/bin", DISPLAY=":77")
    terminal.shows("found no browser")
    terminal.shows("The QR code leads" if has_code else COUNTDOWN)
    assert terminal.screen.count("enter this code") == 1 + has_code, terminal.screen
    assert painted_codes(terminal.tmux("capture-pane", "-p", "-e")) == [simulator.issuer + "/codex/device"] * has_code
    assert simulator.post("/codex/device", user_code=code_on(terminal.screen), action="approve") == 200
    assert LINKED in terminal.ends(0)


def test_the_users_word_is_enough_on_a_terminal_of_unknown_size(simulate, user):
    person = user(simulate(pollInterval=0), TERM="vt100")
    child = pexpect.spawn(person.program, ["login", "--no-browser", "--qr", "always"], env=person.environment, encoding="utf-8", dimensions=(0, 0))
    child.expect_exact(pexpect.EOF, timeout=60 * PATIENCE)
    child.close()
    assert child.exitstatus == 0 and "The QR code leads" in child.before and "▄" in child.before, child.before


@pytest.mark.parametrize("columns, settings, reason", [
    (80, {"LD_LIBRARY_PATH": "{tmp_path}"}, "libqrencode is missing. Install the package libqrencode4"),
    (32, {}, "it needs 33 columns, and this terminal has 32"), (80, {"TERM": "dumb"}, "this terminal (TERM=dumb) has no colours")])
def test_it_says_why_there_is_no_qr_code_and_goes_on(columns, settings, reason, login, tmp_path):
    # In the place of the library: an empty file ends the loader's search.
    (tmp_path / "libqrencode.so.4").touch()
    settings = {name: value.format(tmp_path=tmp_path) for name, value in settings.items()}
    simulator, terminal = login("--no-browser", "--qr", "always", columns=columns, **settings)
    assert simulator.post("/codex/device", user_code=code_on(terminal.screen), action="approve") == 200
    unwrapped = lambda text: re.sub(r"\s", "", text)
    assert unwrapped(f"chappie: No QR code is shown: {reason}.") in unwrapped(terminal.ends(0)), terminal.screen


@pytest.mark.parametrize("options, says", [
    (["--qr", "always"], "chappie: No QR code is shown: standard output is not a terminal.\n"), (["--qr", "always", "--json"], ""), ([], "")])
def test_a_pipe_gets_no_qr_code(options, says, simulate, user):
    outcome = user(simulate(pollInterval=0), **UTF8, TERM="xterm-256color").run("login", "--no-browser", *options)
    assert "\x1b" not in outcome.output + outcome.errors and "▄" not in outcome.output, outcome
    assert says in outcome.errors and ("QR code" in outcome.errors) == bool(says), outcome


def test_ctrl_c_leaves_what_was_there_and_a_whole_qr_code(login):
    earlier = "\x1b[31mred\x1b[39m and \x1b[1m\x1b[48;5;19mbold on blue\x1b[0m"
    simulator, terminal = login(first=f"printf '{earlier}\\n\\033[32m'; echo green; printf '\\033[0m'")
    terminal.shows(COUNTDOWN)
    before = terminal.styled.split("Waiting")[0]
    terminal.type("", "C-c")
    screen = terminal.ends(INTERRUPTED)
    assert "Waiting" not in screen, screen
    styled = terminal.styled
    assert styled.startswith(earlier.replace("\x1b[0m", "")) and styled.startswith(before), (styled, before)
    after = styled[len(before):]
    assert "\x1b" not in after and "▄" not in after and re.match(r"\n*ended with", after), after
    assert painted_codes(styled) == [simulator.issuer + "/codex/device"], screen
    assert terminal.tmux("display-message", "-p", "#{cursor_flag} #{cursor_x} #{wrap_flag} #{alternate_on}") == "1 0 1 0\n"


def test_ctrl_c_in_the_middle_of_the_qr_code_leaves_no_colour(simulate, user):
    """The terminal throws away what it has not shown then."""
    person = user(simulate(pollInterval=1, approves=False), DISPLAY=None, WAYLAND_DISPLAY=None, TERM="xterm-256color", **UTF8)
    child = pexpect.spawn(person.program, ["login"], env=person.environment, encoding="utf-8", codec_errors="replace",
                          dimensions=(24, 80), maxread=32)
    child.expect_exact("48;5;231m", timeout=60 * PATIENCE)
    child.sendintr()
    child.expect_exact(pexpect.EOF, timeout=60 * PATIENCE)
    child.close()
    assert child.exitstatus == INTERRUPTED
    assert child.before.endswith("\r\n") and re.findall("\x1b\\[[0-9;]*m", child.before)[-1] == "\x1b[0m", child.before


@pytest.mark.parametrize("line", ["%s | cat", "set -m; %s & wait $!"], ids=["before a pipe", "in the background"])
def test_no_countdown_where_another_program_writes_on_the_terminal(line, simulate, user):
    simulator = simulate(pollInterval=1, approves=False)
    person = user(simulator, TERM="vt100")
    child = pexpect.spawn("sh", ["-c", line % f"{person.program} login --no-browser"], env=person.environment, encoding="utf-8", timeout=60 * PATIENCE)
    # The copy goes to the terminal itself and can come between two lines of the pipe's reader.
    child.expect("enter this code:.*    (\\S+-\\S+)\r\n")
    shown = child.before + child.after
    assert simulator.post("/codex/device", user_code=child.match[1], action="approve") == 200
    child.expect_exact(pexpect.EOF)
    shown += child.before
    assert LINKED in shown and "Waiting" not in shown and "\x1b[" not in shown, shown


def test_a_sign_in_that_is_stored_before_ctrl_c_is_told(simulate, user, tmp_path):
    """The list of accounts is locked until then. The other account's sign-in does not need the other locks."""
    (tmp_path / "busctl").write_text(f"#!/bin/sh\ncase $* in *Notify*) touch '{tmp_path}/linked' ;; esac\n")
    (tmp_path / "busctl").chmod(0o755)
    simulator = simulate(pollInterval=1)
    person = user(simulator, PATH=f"{tmp_path}:/usr/bin:/bin").sign_in()
    (tmp_path / "linked").unlink()
    with contextlib.ExitStack() as locks:
        for path in glob.glob(person.environment["XDG_STATE_HOME"] + "/chappie/locks/*.lock"):
            fcntl.flock(locks.enter_context(open(path)), fcntl.LOCK_EX)
        with person.having(CHAPPIE_ACCOUNT="other").start("login", "--no-browser") as process:
            try:
                wait_until((tmp_path / "linked").exists, "the sign-in is stored", 30)
                process.send_signal(signal.SIGINT)
                locks.close()
                output, errors = process.communicate(timeout=60 * PATIENCE)
            finally:
                process.kill()
    assert process.returncode == 0 and "Signed in as" in output, output + errors
    assert "other" in person.run("accounts", "list").output


class XTerm(Counterpart):
    """A program in an xterm on a screen of its own."""

    def __init__(self, user, *words, options=()):
        super().__init__()
        server = self.start("Xvfb", "-displayfd", "1", "-screen", "0", "1000x700x24", "-nolisten", "tcp", stdout=subprocess.PIPE, text=True)
        self.display = ":" + server.stdout.readline().strip()
        command = ["env", "-u", "DISPLAY", "-u", "WAYLAND_DISPLAY", user.program, *words]
        self.start("xterm", "-geometry", "80x24+0+0", *options, "-e", *command,
                   env={"PATH": "/usr/bin:/bin", **user.environment, **UTF8, "DISPLAY": self.display})

    def screenshot(self):
        return subprocess.run(["import", "-display", self.display, "-window", "root", "png:-"], capture_output=True, check=True).stdout


@pytest.mark.parametrize("options", [["-bg", "black", "-fg", "white"], ["-bg", "white", "-fa", "DejaVu Sans Mono", "-fs", "11"]],
                         ids=["its own font", "an outline font"])
def test_a_camera_reads_the_qr_code_of_a_real_terminal(options, simulate, user, passphrase, stack, request):
    simulator = simulate(pollInterval=1, approves=False)
    person = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"))
    terminal = stack.enter_context(XTerm(person, "login", options=options))
    wait_until(lambda: read_codes(terminal.screenshot()) == [simulator.issuer + "/codex/device"], "the code can be read", 60)
    if folder := request.config.getoption("--screenshots"):
        with open(f"{folder}/login{options[-1]}.png", "wb") as file:
            file.write(terminal.screenshot())
