"""Standard streams that are full, closed, slow or without a reader; and signals at bad moments."""

import collections
import concurrent.futures
import fcntl
import os
import random
import select
import signal
import subprocess
import time

import pytest

from conftest import HUNG_UP, INTERRUPTED, UNAVAILABLE
from counterparts import PATIENCE, is_asleep, wait_until

LONG = "repeat 50000 words"
FIRST_MOMENTS = 0.2
PARALLEL = 6


@pytest.fixture
def asking(user, stack):
    """Starts a question to a simulation."""
    def start(text, **streams):
        process = stack.enter_context(user().start("--simulate", "ask", text, **streams))
        stack.callback(process.kill)
        return process
    return start


def test_a_full_disk_is_an_error(asking):
    with open("/dev/full", "wb") as full:
        process = asking("reply: lost", stdout=full)
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
    process = asking(LONG, stdout=writer)
    os.close(writer)
    with open(reader, "rb") as output:
        first = output.read(1)
        time.sleep(0.3)  # A reader that takes its time.
        assert (first + output.read()).decode() == whole
        assert process.wait(timeout=60 * PATIENCE) == 0, process.stderr.read()


def test_a_reader_that_leaves_ends_the_program_silently(asking):
    process = asking(LONG)
    process.stdout.read(20)
    process.stdout.close()
    assert process.wait(timeout=60 * PATIENCE) == -signal.SIGPIPE
    assert "chappie:" not in process.stderr.read()


def test_a_sign_in_is_good_without_its_name_in_the_notes(simulate, user):
    user = user(simulate(), XDG_STATE_HOME="/dev/null/none")
    assert user.run("login", "--no-browser", "--json", says="accounts").events[-1]["type"] == "linked"
    assert user.ask("reply: here").output == "here\n"


@pytest.mark.parametrize("number, status", [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 143), (signal.SIGHUP, HUNG_UP)])
def test_a_reader_that_does_not_read_holds_up_no_signal(number, status, asking, stack):
    reader, writer = os.pipe()
    for end in (reader, writer):
        stack.callback(os.close, end)
    process = asking(LONG, stdout=writer)
    # How many bytes a pipe holds depends on the sizes of what was written: one that is full takes nothing more.
    is_full = lambda: not select.select([], [writer], [], 0)[1]
    wait_until(lambda: is_full() and is_asleep(process), "the program waits for its reader", 60)
    assert process.poll() is None
    begin = time.monotonic()
    process.send_signal(number)
    assert process.wait(timeout=20 * PATIENCE) == status
    assert time.monotonic() - begin < 3 * PATIENCE


@pytest.mark.slow
@pytest.mark.parametrize("store", ["keyring", "file", "memory"])
def test_each_interruption_ends_the_program(store, simulate, front, user, passphrase, full):
    """At random moments of the first 200 ms of a question over wss, or of a sign-in where nothing is stored, and of the
    200 ms after its first words: with 130, or by the signal itself where it comes before the handler stands. Never by a
    crash, and none is lost."""
    simulator = simulate(deltasPerSecond=50, approves=store != "memory")
    user = user(simulator, **front(simulator).settings, CHAPPIE_CREDENTIAL_STORE=store, **passphrase("a passphrase"))
    words = ("login", "--no-browser")
    if store != "memory":
        user.sign_in()
        words = ("--timeout", "120", "ask", "--transport", "websocket", "repeat 2000 words")

    def interrupt(index):
        with user.start(*words) as process:
            try:
                if speaks := index % 2:
                    assert select.select([process.stdout, process.stderr], [], [], 120 * PATIENCE)[0], "it says nothing"
                time.sleep(random.uniform(0, FIRST_MOMENTS))
                process.send_signal(signal.SIGINT)
                return process.communicate(timeout=20 * PATIENCE)[1], (speaks, process.returncode)
            finally:
                process.kill()

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        ends = list(pool.map(interrupt, range(1000 if full else 30)))
    counted = collections.Counter(end for _, end in ends)
    print(f"{store}: {dict(counted)}")
    expected = {(0, INTERRUPTED), (0, -signal.SIGINT), (1, INTERRUPTED)}
    assert set(counted) <= expected, (counted, [end for end in ends if end[1] not in expected][:3])
