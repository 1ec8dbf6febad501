"""Standard output that is full, closed, slow, or without a reader; and a home without settings."""

import fcntl
import os
import signal
import subprocess
import time

import pytest

from conftest import UNAVAILABLE
from counterparts import PATIENCE

LONG = "repeat 50000 words"


@pytest.fixture
def asking(user):
    """Starts a question to a simulation."""
    return lambda text, **streams: user().start("--simulate", "ask", text, **streams)


def test_a_full_disk_is_an_error(asking):
    with open("/dev/full", "wb") as full, asking("reply: lost", stdout=full) as process:
        errors = process.communicate(timeout=60 * PATIENCE)[1]
    assert process.returncode == UNAVAILABLE and "chappie: Standard output can't be written: No space left" in errors, errors


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-", ">&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_not_taken_for_other_files(closed, user):
    # A closed number goes to the next file that is opened: the text of the answer must not arrive there.
    user = user()
    command = ["bash", "-c", f'"$0" --simulate ask "reply: hello" {closed}', user.program]
    outcome = subprocess.run(command, env=user.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60 * PATIENCE)
    expected = (UNAVAILABLE, "") if ">&-" in closed.replace("2>&-", "") else (0, "hello\n")
    assert (outcome.returncode, outcome.stdout) == expected, outcome


@pytest.mark.parametrize("flags", [0, os.O_NONBLOCK])
def test_a_slow_reader_gets_every_byte(flags, asking, user):
    whole = user().run("--simulate", "ask", LONG).output
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    fcntl.fcntl(writer, fcntl.F_SETFL, fcntl.fcntl(writer, fcntl.F_GETFL) | flags)
    with asking(LONG, stdout=writer) as process, open(reader, "rb") as output:
        os.close(writer)
        first = output.read(1)
        time.sleep(0.3)  # A reader that takes its time.
        assert (first + output.read()).decode() == whole
        assert process.wait(timeout=60 * PATIENCE) == 0, process.stderr.read()


def test_a_reader_that_leaves_ends_the_program_silently(asking):
    with asking(LONG) as process:
        process.stdout.read(20)
        process.stdout.close()
        assert process.wait(timeout=60 * PATIENCE) == -signal.SIGPIPE
        assert "chappie:" not in process.stderr.read()


def test_a_sign_in_is_good_without_its_name_in_the_settings(simulate, user):
    user = user(simulate(), XDG_CONFIG_HOME="/dev/null/none")
    events = user.run("login", "--no-browser", "--json", says="accounts").events
    assert events[-1]["type"] == "linked"
    assert user.ask("reply: here").output == "here\n"
