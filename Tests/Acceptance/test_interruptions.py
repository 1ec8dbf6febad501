"""Ctrl-C, SIGTERM and SIGHUP at bad moments."""

import array
import collections
import concurrent.futures
import fcntl
import random
import signal
import termios
import time

import pytest

from conftest import HUNG_UP, INTERRUPTED
from counterparts import PATIENCE, wait_until

FIRST_MOMENTS = 0.2
PARALLEL = 6


@pytest.fixture(autouse=True)
def ctrl_c_reaches_programs():
    """A shell that starts this in the background ignores Ctrl-C, and so would every program below."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def waiting_bytes(pipe):
    return array.array("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))[0]


@pytest.mark.parametrize("number, status", [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 143), (signal.SIGHUP, HUNG_UP)])
def test_a_reader_that_does_not_read_holds_up_no_signal(number, status, simulate, signed_in):
    with signed_in(simulate()).start("ask", "repeat 50000 words") as process:
        try:
            # A pipe takes 64 KiB; the answer has more.
            wait_until(lambda: waiting_bytes(process.stdout) > 60_000 or process.poll() is not None, "a full pipe", 60)
            begin = time.monotonic()
            process.send_signal(number)
            assert process.wait(timeout=20 * PATIENCE) == status
            assert time.monotonic() - begin < 3 * PATIENCE
        finally:
            process.kill()


def interrupt(user, words, moment):
    """How the program ends that is interrupted so many seconds after its start."""
    with user.start(*words) as process:
        try:
            time.sleep(moment)
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=20 * PATIENCE)[1]
        finally:
            process.kill()
    return process.returncode, errors


@pytest.mark.slow
@pytest.mark.parametrize("store", ["keyring", "file", "memory"])
def test_each_interruption_ends_the_program(store, simulate, front, user, passphrase, full):
    """At random moments of the first 200 ms of a question over wss, or of a sign-in where nothing is stored: with 130, or
    by the signal itself where it comes before the handler stands. Never by a crash, and none is lost."""
    simulator = simulate(deltasPerSecond=50, approves=store != "memory")
    user = user(simulator, **front(simulator).settings, CHAPPIE_CREDENTIAL_STORE=store, **passphrase("a passphrase"))
    words = ("login", "--no-browser")
    if store != "memory":
        user.sign_in()
        words = ("ask", "--transport", "websocket", "repeat 2000 words")
    # Half of the moments count from when a program has usually started, however slow this machine is.
    start = min(user.run("--version").seconds for _ in range(3))
    moments = [random.uniform(0, FIRST_MOMENTS) + index % 2 * 2 * start for index in range(1000 if full else 100)]
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        ends = list(pool.map(lambda moment: interrupt(user, words, moment), moments))
    counted = collections.Counter(status for status, _ in ends)
    print(f"{store}: {dict(counted)}")
    assert set(counted) <= {INTERRUPTED, -signal.SIGINT}, (counted, [end for end in ends if end[0] not in (130, -2)][:3])
    assert counted[INTERRUPTED], counted
