"""What `chappie login` shows: in a terminal (tmux), in a pipe, without a display, and where the desktop does what it is asked."""

import pytest

from conftest import INTERRUPTED, SIGN_IN_NEEDED
from counterparts import wait_until
from test_chat import Terminal

COUNTDOWN = "Waiting for approval: 1"
LINKED = "ChatGPT Linked! Return to the app"


def code_on(screen):
    lines = [line.strip() for line in screen.splitlines() if line.strip()]
    return lines[lines.index("Then enter this code:") + 1]


@pytest.fixture
def login(simulate, user, passphrase, stack):
    """`login("--no-browser", columns=40, rows=20)`: (simulator, terminal) with a sign-in whose code nobody has approved."""
    def start(*words, columns=80, rows=24, **settings):
        simulator = simulate(pollInterval=1, approves=False)
        person = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"), DISPLAY=None, WAYLAND_DISPLAY=None)
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


def test_ctrl_c_leaves_the_terminal_as_it_was_and_nobody_signed_in(login):
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
    assert lines[0] == "Open this page in a browser and sign in to ChatGPT:" and LINKED in lines, outcome


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
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert LINKED in output, output
    assert "The code is in your clipboard.\nA browser was asked to open the page.\n" in output, output
