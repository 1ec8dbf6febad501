"""The program as its users run it: a private home, a real gnome-keyring, and the counterparts of counterparts.py."""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time

import pexpect
import pytest

from counterparts import PATIENCE, Keyring, Simulator, TLSFront, private_file

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "Scripts/lib"))
USAGE, BAD_DATA, UNAVAILABLE, USAGE_LIMIT, SIGN_IN_NEEDED, HUNG_UP, INTERRUPTED = 64, 65, 69, 75, 77, 129, 130
QUESTION = "a quiet evening 🌙 with äöü"
# The program outlives its terminal if nohup wants it, and a shell's background job ignores Ctrl-C: these tests may be such a job.
for number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
TURN = {"method": "POST", "path": "/backend-api/codex/responses"}


def pytest_addoption(parser):
    parser.addoption("--program", default=str(ROOT / ".build/release/chappie"), help="the chappie to test")
    parser.addoption("--full", action="store_true", help="all of Autobahn, as many races and kills as take ten minutes, builds from outside")
    parser.addoption("--screenshots", help="a folder for pictures of the sign-in page")
    parser.addoption("--write-fixtures", help="a new folder for what this version writes (Tests/Fixtures/README.md)")


def pytest_collection_modifyitems(config, items):
    """The long ones begin, so that no worker is left with one of them in the end; first those that only wait."""
    for marker, option in (("full", "--full"), ("writes", "--write-fixtures")):
        if not config.getoption(option):
            config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker(marker)])
            items[:] = [item for item in items if not item.get_closest_marker(marker)]
    items.sort(key=lambda item: (item.get_closest_marker("stalls") is None, item.get_closest_marker("slow") is None))


def pytest_terminal_summary(terminalreporter, config):
    """A line for each use of the program that test_november.py tries: its name, the transport, and what came of it."""
    stories = {}
    kinds = ("passed", "xpassed", "failed", "xfailed", "error")
    for report in [report for kind in kinds for report in terminalreporter.stats.get(kind, [])]:
        found = re.search(r"test_november\.py::test_(?!the_service)(\w+)(?:\[(.*)\])?$", report.nodeid)
        if found and (report.when == "call" or not report.passed):
            words = [word for word in re.split(r"-(?=sse|websocket)|(?<=sse)-|(?<=websocket)-", found[2] or "") if word]
            ways = [word for word in words if word in ("sse", "websocket")]
            rest = ", ".join(word for word in words if word not in ways)
            name = found[1].replace("_", " ") + (f" ({rest})" if rest else "")
            crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", "").split("\n")[0][:200]
            stories.setdefault((name, (ways or ["-"])[0]), []).append("" if report.passed else crash)
    if stories and config.get_verbosity() >= 0:
        terminalreporter.section("the program against the service of November 2026")
        for (name, way), troubles in sorted(stories.items()):
            trouble = " · ".join(filter(None, troubles))
            terminalreporter.write_line(f"{name:62} {way:10} {'FAILED ' + trouble if trouble else 'works'}")
        working = sum(not any(troubles) for troubles in stories.values())
        terminalreporter.write_line(f"{working} of {len(stories)} uses work")


@dataclasses.dataclass
class Outcome:
    """How a run of the program ended."""

    status: int
    output: str
    errors: str
    seconds: float = 0

    def expect(self, status=0, says=""):
        assert self.status == status, self
        assert says.lower() in self.errors.lower(), f"doesn't say {says!r}: {self}"
        assert status == 0 or re.search("^chappie: ", self.errors, re.MULTILINE), f"no sentence: {self}"
        assert "Fatal error" not in self.errors, self
        return self

    @property
    def events(self):
        return [json.loads(line) for line in self.output.splitlines()]


@dataclasses.dataclass
class User:
    """A user with a home and an account name of their own; `environment` is what their programs see."""

    program: str
    account: str
    environment: dict

    def having(self, **settings):
        """The same user with other settings; None takes one away."""
        environment = {key: value for key, value in {**self.environment, **settings}.items() if value is not None}
        return User(self.program, environment.get("CHAPPIE_ACCOUNT", self.account), environment)

    def start(self, *words, prefix=(), **streams):
        # A session of its own is without a terminal, wherever these tests are run.
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **streams}
        return subprocess.Popen([*prefix, self.program, *words], env=self.environment, start_new_session=True, **streams)

    def run(self, *words, status=0, says="", input=None, timeout=60):
        """Runs the program to its end, which must be this one; None accepts any."""
        begin = time.monotonic()
        with self.start(*words, **({} if input is None else {"stdin": subprocess.PIPE})) as process:
            try:
                output, errors = process.communicate(input, timeout=timeout * PATIENCE)
            finally:
                process.kill()
        outcome = Outcome(process.returncode, output, errors, time.monotonic() - begin)
        return outcome if status is None else outcome.expect(status, says)

    def ask(self, text=QUESTION, *options, transport="sse", **expected):
        return self.run("ask", "--transport", transport, *options, text, **expected)

    def sign_in(self):
        self.run("login", "--no-browser")
        return self

    def doctor(self):
        """(exit code, {check: row}) of `chappie doctor --json`; a row that is not well has advice."""
        outcome = self.run("--timeout", "10", "doctor", "--json", status=None)
        report = outcome.events[0]
        assert report["ok"] == (outcome.status == 0), outcome
        assert all(row["remedy"] or row["status"] in ("ok", "skip") for row in report["checks"]), f"no advice: {outcome}"
        return outcome.status, {row["name"]: row for row in report["checks"]}

    def converse(self, *words, answers=(), thinking=0, echoing=()):
        """(exit code, what a terminal showed). `answers` are (question, text): each text is typed once its question shows, by
        a user who thinks for so many seconds before. The echo must be off then, except for the questions `echoing`."""
        child = pexpect.spawn(self.program, list(words), env=self.environment, encoding="utf-8", codec_errors="replace",
                              dimensions=(40, 200), timeout=60 * PATIENCE)
        shown = ""
        for question, text in answers:
            child.expect_exact(question)
            shown += child.before + child.after
            if thinking:
                child.expect_exact([pexpect.TIMEOUT], timeout=thinking)
            assert child.getecho() == (question in echoing), f"the echo is wrong after {question!r}: {shown!r}"
            child.send(text)
        child.expect_exact(pexpect.EOF)
        shown += child.before
        assert child.getecho(), "the terminal was left silent"
        child.close()
        return child.exitstatus, shown


@pytest.fixture(scope="session")
def program(request):
    path = os.path.abspath(request.config.getoption("--program"))
    assert os.access(path, os.X_OK), f"there is no {path}; build it, or name one with --program"
    return path


@pytest.fixture(scope="session")
def built():
    """The folder of everything else that Scripts/test has built: our other programs, code that takes the packages, the modules."""
    folder = ROOT / ".build/debug"
    assert (folder / "sdk-consumer").exists(), f"{folder} has no consumers of the packages; Scripts/test --acceptance builds them"
    return folder


@pytest.fixture
def ports():
    """The two ports to which a browser may come back to the device code's client. Two tests at once would be another sign-in
    to each other."""
    with open(pathlib.Path(tempfile.gettempdir(), "chappie-test-ports.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def full(request):
    """Whether the long forms are asked for."""
    return request.config.getoption("--full")


@pytest.fixture(scope="session")
def keyring():
    with Keyring() as keyring:
        yield keyring


@pytest.fixture
def stack():
    """What a test opens on its way: `stack.enter_context(…)`."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def simulate(program, stack):
    """`simulate("cut")`, `simulate(rules=[…], firstAccessTokenLifetime=60)`: starts a simulator."""
    return lambda *words, **options: stack.enter_context(Simulator(program, *words, **options))


@pytest.fixture
def front(stack):
    """`front(simulator)`: nginx with TLS before it."""
    return lambda simulator, **options: stack.enter_context(TLSFront(simulator.port, **options))


@pytest.fixture
def user(program, keyring, tmp_path):
    """`user(simulator, NAME=value)`: a user of this simulator who has not signed in."""
    def make(simulator=None, **settings):
        account, home = "test-" + secrets.token_hex(5), tmp_path / "home"
        home.mkdir(exist_ok=True)
        folders = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
        base = {**keyring.environment, "HOME": str(home), **folders, "CHAPPIE_ACCOUNT": account}
        return User(program, account, {**base, **(simulator.settings if simulator else {})}).having(**settings)
    return make


@pytest.fixture
def signed_in(user):
    """`signed_in(simulator, NAME=value)`: a user who has signed in there."""
    return lambda simulator, **settings: user(simulator, **settings).sign_in()


@pytest.fixture
def passphrase(tmp_path):
    """`passphrase(text)`: the settings that name a file with it."""
    number = lambda: len(os.listdir(tmp_path))
    return lambda text: {"CHAPPIE_PASSPHRASE_FILE": private_file(tmp_path / f"phrase-{number()}", text + "\n")}


@pytest.fixture(scope="session")
def reference(program, tmp_path_factory):
    """The answer to QUESTION when nothing goes wrong."""
    environment = {"HOME": str(tmp_path_factory.mktemp("home"))}
    output = subprocess.run([program, "--simulate", "ask", QUESTION], env=environment, capture_output=True, text=True, check=True).stdout
    assert QUESTION in output
    return output
