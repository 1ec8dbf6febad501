"""How the program starts where the system gives it little: without its arguments on the stack, and with few threads."""

import json
import os
import signal
import subprocess
import sys

import pytest

from conftest import UNAVAILABLE, USAGE
from counterparts import PATIENCE

NO_THREADS = "The system allows no more threads (ulimit -u, or the container's pids limit)."
COMMANDS = {"status": ("status",), "ask": ("ask", "hi"), "json": ("ask", "--json", "hi"), "threads": ("threads", "list")}


def end_of(process):
    try:
        return process.communicate(timeout=30 * PATIENCE)
    finally:
        process.kill()


@pytest.fixture
def preloaded(tmp_path):
    """A library that changes the environment before `main`, as libfaketime does."""
    source, library = tmp_path / "early.c", str(tmp_path / "early.so")
    source.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void early(void) {\n"
                      '    setenv("SET_BY_A_LIBRARY", "1", 1);\n}\n')
    subprocess.run(["clang", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.mark.parametrize("words", [("--version",), ("logout",), ("config", "list")], ids=" ".join)
def test_arguments_survive_a_library_that_changes_the_environment(words, user, simulate, preloaded):
    person = user(simulate())
    expected = person.run(*words)
    assert person.having(LD_PRELOAD=preloaded).run(*words).output == expected.output


@pytest.mark.parametrize("words", [("--version",), ("logout",), ("config", "list")], ids=" ".join)
def test_arguments_survive_a_sandbox_without_proc(words, user, simulate):
    person = user(simulate())
    expected = person.run(*words)
    hide = ("unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"')
    with person.start(*words, prefix=hide) as process:
        output, errors = end_of(process)
    assert (process.returncode, output) == (0, expected.output), errors


@pytest.mark.parametrize("name", ["chappie", "chappie-simulator"])
def test_a_start_without_any_argument_is_a_sentence(name, program):
    path = os.path.join(os.path.dirname(program), name)
    start = ("import ctypes, os, sys; none = (ctypes.c_char_p * 1)(None); "
             "ctypes.CDLL(None).execve(sys.argv[1].encode(), none, none)")
    done = subprocess.run([sys.executable, "-c", start, path], capture_output=True, text=True, timeout=30 * PATIENCE)
    assert done.returncode == 70 and "without arguments" in done.stderr, done


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("error", ["EPERM", "EAGAIN"])
@pytest.mark.parametrize("first", [1, 2, 5, 8, 9, 10, 11, 12])
def test_a_thread_that_can_not_be_created_is_a_sentence(first, error, words, signed_in, simulate):
    """Old container runtimes answer EPERM to clone3, and limits EAGAIN, from one thread on. A command that needs no more
    threads than it may have succeeds."""
    person = signed_in(simulate())
    trace = ("strace", "-f", "-qq", "-o", os.devnull, "-e", f"inject=clone3:error={error}:when={first}+")
    with person.start(*words, prefix=trace) as process:
        output, errors = end_of(process)
    if first > 8 and process.returncode == 0:
        return
    assert process.returncode == UNAVAILABLE and errors.startswith(f"chappie: {NO_THREADS}"), (output, errors)
    if "--json" in words:
        assert json.loads(output.splitlines()[0])["error"]["message"] == NO_THREADS, output


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 8])
def test_a_limit_of_processes_is_a_sentence(limit, program, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("another user without processes can be had by root alone")
    tmp_path.chmod(0o755)
    # A user whom no account has: nothing else of theirs is running.
    other = ("setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups", "prlimit", f"--nproc={limit}:{limit}")
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with subprocess.Popen([*other, program, "ask", "--simulate", "hi"], env=environment, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        output, errors = end_of(process)
    assert process.returncode == UNAVAILABLE and errors.startswith(f"chappie: {NO_THREADS}"), (output, errors)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_the_parent_blocks_ends_the_program(number, simulate, user):
    simulator = simulate(approves=False)
    block = lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    with user(simulator).start("login", "--no-browser", "--json", preexec_fn=block) as process:
        process.stdout.readline()
        process.send_signal(number)
        output, errors = end_of(process)
    assert process.returncode == 128 + number, (output, errors)


SECRET = "at-a-secret-that-nobody-repeats"


@pytest.mark.parametrize("words", [
    ("login", "--with-access-token", SECRET), ("login", f"--with-access-token={SECRET}"), ("login", SECRET),
    ("login", "--access-token", SECRET), ("login", f"--access-token={SECRET}"), ("--json", "login", SECRET),
    ("login", "--with-access-token", "--", SECRET), ("login", "--qr", SECRET),
])
def test_a_secret_at_the_wrong_place_is_not_repeated(words, user):
    outcome = user().run(*words, status=None)
    assert outcome.status == USAGE and SECRET not in outcome.output + outcome.errors, outcome
    assert "standard input" in outcome.errors or "Unknown option '--access-token'" in outcome.errors, outcome
