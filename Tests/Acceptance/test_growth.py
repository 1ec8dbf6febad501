"""An answer costs in proportion to its length, counted in instructions, which no other load on the machine changes."""

import contextlib
import fcntl
import itertools
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

from counterparts import PATIENCE
from witnesses import Answers, text_events

# Deltas. The first shows what a run costs in any case (an answer of a single delta is a case of its own); the others are longer
# than it by amounts that differ by the factor of the bound.
LENGTHS, FULL_LENGTHS = (100, 2_100, 20_100), (100, 10_100, 100_100)
BOUND = 10.5
# Side by side they would miss the deadlines of the program.
pytestmark = pytest.mark.xdist_group("growth")


def pieces(count):
    """So many words of one size, from a vocabulary as a language has one: lines of a paragraph, then a line that does not end."""
    return [f"word{number % 100:03}" + ("\n" if number % 10 == 9 and number < count // 2 else " ") for number in range(count)]


@pytest.fixture(scope="module")
def answers(full):
    """{deltas: a backend with that answer}. All of it is sent at once, so that the reads don't depend on the time."""
    with contextlib.ExitStack() as stack:
        yield {count: stack.enter_context(Answers(text_events(pieces(count)), at_once=True))
               for count in (FULL_LENGTHS if full else LENGTHS)}


def instructions(user, words, prints_to, report):
    """Returns how many instructions this command takes, and how many bytes it prints.

    Counting makes the program many times slower, and its deadlines stay. On a busy machine it may miss one.
    """
    for _ in range(5):
        status, errors, printed = counted(user, words, prints_to, report)
        if "did not answer within" not in errors:
            break
    assert status == 0, errors
    return int(re.search(r"^summary: (\d+)", report.read_text(), re.MULTILINE)[1]), printed


def counted(user, words, prints_to, report):
    """(exit code, standard error, bytes printed) of a run whose instructions are counted into the file `report`."""
    ours, theirs = pty.openpty() if prints_to == "terminal" else os.pipe()
    if prints_to == "terminal":
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    # Root may put the program before all other work. Linux shares its processors between sessions, and then within each.
    first = 'nice=-5; { echo $nice >/proc/self/autogroup; } 2>/dev/null; exec nice --adjustment=$nice "$@"'
    tool = ["sh", "-c", first, "sh", "valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={report}"]
    with user.start(*words, prefix=tool, stdout=theirs) as process, os.fdopen(ours, "rb", buffering=0) as screen:
        os.close(theirs)
        printed = 0
        with contextlib.suppress(OSError):  # The end of a terminal.
            while piece := screen.read(1 << 16):
                printed += len(piece)
        errors = process.communicate(timeout=60 * PATIENCE)[1]
    return process.returncode, errors, printed


# Each pair of these is in four of the eight combinations.
CASES = [pytest.param(*case, marks=[pytest.mark.full] if case.count(True) % 2 else [])
         for case in itertools.product((True, False), repeat=3)]


@pytest.mark.parametrize("over_websocket, kept, on_a_terminal", CASES)
def test_an_answer_costs_in_proportion_to_its_length(over_websocket, kept, on_a_terminal, answers, simulate, user, tmp_path):
    transport, prints_to = "websocket" if over_websocket else "sse", "terminal" if on_a_terminal else "pipe"
    keeps = [] if kept else ["--ephemeral"]
    simulator, counts = simulate(), []
    for count, backend in answers.items():
        person = user(simulator, CHAPPIE_BACKEND=f"{backend.origin}/backend-api", TERM="xterm-256color").sign_in()
        words = ["ask", "--transport", transport, *keeps, "hello"]
        # The store and its key are made once.
        person.run(*words)
        spent, printed = instructions(person, words, prints_to, tmp_path / "report")
        assert printed > 8 * count
        counts.append(spent)
    fixed, short, long = counts
    growth = (long - fixed) / (short - fixed)
    print(f"measured: {transport}, {'kept' if kept else 'ephemeral'}, {prints_to}: {counts}, growth {growth:.2f}")
    assert growth <= BOUND, counts


# Instructions of a build for debugging. An observer that does nothing costs more than the checks for `nil` that are made without
# one. Threads that wait make a run differ from the next by some hundred thousand; a report costs some thousand.
TURNS, FEW, MANY = 10, 10, 410
COST_OF_A_TURN, COST_OF_A_DELTA = 120_000, 250


def test_an_observer_costs_nothing_for_each_delta(built, tmp_path):
    def spent(deltas, observer):
        report, counts = tmp_path / "report", []
        tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={report}"]
        for _ in range(3):
            subprocess.run([*tool, built / "ObservedTurns", str(TURNS), str(deltas), observer], check=True, capture_output=True,
                           timeout=60 * PATIENCE, env={**os.environ, "SWIFT_DETERMINISTIC_HASHING": "1"})
            counts.append(int(re.search(r"^summary: (\d+)", report.read_text(), re.MULTILINE)[1]))
        return min(counts)

    few, many = (spent(deltas, "deaf") - spent(deltas, "none") for deltas in (FEW, MANY))
    each_turn, each_delta = few / TURNS, (many - few) / TURNS / (MANY - FEW)
    print(f"measured: {each_turn:.0f} instructions for a turn, {each_delta:.0f} for a delta")
    assert each_turn < COST_OF_A_TURN
    assert each_delta < COST_OF_A_DELTA
