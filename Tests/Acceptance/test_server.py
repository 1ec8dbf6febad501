"""Examples/server: its page in a browser, two of it behind nginx under a load, and the operator's way to it in docs/Operations.md."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from conftest import ROOT
from counterparts import PATIENCE
from fleet import Fleet, can_make_machines
from printed import blocks
from test_page import AXE

sys.path.append(str(ROOT / "Examples/server"))
from machines import Machines  # noqa: E402
from pages import words  # noqa: E402

# Each of them has two servers and a database.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("server")]
ADDRESSES = ("10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13")
# A user of the operator's servers, without a browser.
VISIT = """
import asyncio, sys
sys.path.append(sys.argv[1])
from pages import Origin, Page

async def visit():
    page = Page("ann", Origin(80))
    await (page.link() if sys.argv[2] == "links" else page.call("POST", "/session", {"name": page.name}))
    print((await page.answer("reply: good evening", thread="new")).text)

asyncio.run(visit())
"""


@pytest.fixture(scope="session")
def server():
    """The path of the server, which is built as Scripts/check builds it."""
    if path := os.environ.get("CHAPPIE_SERVER_PROGRAM"):
        return path
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    if not list(cache.glob("org.swift.swiftpm/repositories/hummingbird-*")):
        pytest.skip("the packages of Examples/server are not there: build it once to have them")
    build = cache / "chappie-tests/server"
    done = subprocess.run(
        ["nice", "swift", "build", "--package-path", ROOT / "Examples/server", "--scratch-path", build, "-debug-info-format", "none",
         "-Xswiftc", "-index-ignore-system-modules", "--explicit-target-dependency-import-check", "error"], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return str(build / "debug/chappie-server")


@pytest.fixture(scope="session")
def simulator(program):
    return str(pathlib.Path(program).with_name("chappie-simulator"))


class Chat:
    """The server's page in a browser."""

    def __init__(self, machines, driver):
        self.machines, self.driver = machines, driver
        driver.get(f"http://127.0.0.1:{machines.port}/")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def wait(self, is_so, what):
        waiting = WebDriverWait(self.driver, 30 * PATIENCE, poll_frequency=0.05, ignored_exceptions=[StaleElementReferenceException])
        try:
            return waiting.until(lambda _: is_so())
        except TimeoutException:
            status = self.find("#status").text
            raise AssertionError(f"{what}: the page has {self.questions}, {[answer[:200] for answer in self.answers]}, {status!r}") from None

    def shown(self, selector):
        """The element, once it is shown."""
        return self.wait(lambda: next((one for one in self.driver.find_elements(By.CSS_SELECTOR, selector) if one.is_displayed()), None),
                         f"{selector} is shown")

    @property
    def answers(self):
        return self.driver.execute_script("return [...document.querySelectorAll('.answer')].map(line => line.textContent)")

    @property
    def questions(self):
        return self.driver.execute_script("return [...document.querySelectorAll('.question')].map(line => line.textContent)")

    def ask(self, text):
        self.shown("#send")
        self.find("#text").send_keys(text)
        self.find("#send").click()
        self.wait(lambda: self.questions[-1:] == [text], "the question is shown")

    def ends_with(self, text):
        """Waits until the last answer is this text, and the next question may be asked."""
        self.wait(lambda: self.answers[-1:] == [text] and self.find("#send").is_displayed(), f"the answer is {text[:200]!r}")

    def is_streaming(self):
        return self.wait(lambda: 0 < len(self.answers[-1]) and self.find("#stop").is_displayed() and self.answers[-1], "a part of the answer")

    def findings(self):
        self.driver.execute_script(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
        assert found["passes"], "axe-core has looked at nothing"
        return [(finding["id"], node["html"]) for finding in found["violations"] for node in finding["nodes"]]

    def link(self, name):
        """Signs in by a name, and links an account as the user does, on the page of the code."""
        self.shown("#name").send_keys(name)
        self.find("#session button").click()
        self.shown("#begin-link").click()
        self.wait(lambda: self.find("#code").text, "a code")
        code, address = self.find("#code").text, self.find("#address").get_attribute("href")
        own = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        self.driver.get(address)
        self.find("input:not([type=hidden])").send_keys(code)
        self.driver.find_element(By.XPATH, "//button[contains(normalize-space(.), 'Approve')]").click()
        self.wait(lambda: "return to the app" in self.find("body").text.lower(), "the code is approved")
        self.driver.close()
        self.driver.switch_to.window(own)
        self.shown("#text")


@pytest.fixture
def chat(server, simulator, tmp_path, stack):
    machines = stack.enter_context(Machines(server, simulator, {"pollInterval": 1}, approves=False))
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                     f"--user-data-dir={tmp_path}/profile", "--no-sandbox"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    stack.callback(driver.quit)
    return Chat(machines, driver)


@pytest.mark.page
def test_a_user_links_an_account_asks_approves_a_tool_and_stops_an_answer(chat):
    assert chat.shown("#name") and chat.findings() == []
    chat.link("ann")
    assert chat.findings() == []
    chat.ask("reply: <b>good evening</b>")
    chat.ends_with("<b>good evening</b>")

    chat.ask("repeat 30 words")
    part = chat.is_streaming()
    assert words(30).startswith(part) and len(part) < len(words(30)), "the answer does not stream"
    chat.ends_with(words(30))

    chat.ask("use tool roll_dice")
    assert not chat.machines.database.sql("SELECT 1 FROM server_rolls"), "the tool ran before it was approved"
    chat.shown(".note button").click()
    chat.wait(lambda: "The tool `roll_dice` returned" in chat.answers[-1] and chat.find("#send").is_displayed(), "the tool's result")
    assert len(chat.machines.database.sql("SELECT 1 FROM server_rolls")) == 1
    assert chat.findings() == []

    chat.ask("repeat 2000 words")
    chat.is_streaming()
    chat.find("#stop").click()
    chat.shown("#send")
    part = chat.answers[-1]
    chat.ask("reply: still here")
    chat.ends_with("still here")

    before = chat.questions
    chat.driver.refresh()
    chat.wait(lambda: chat.answers[-1:] == ["still here"], "the conversation after a reload")
    assert chat.questions == before and chat.answers[1] == words(30)
    assert part and chat.answers[3].startswith(part) and len(chat.answers[3]) < len(words(2000)), "the part of the answer is not kept"


@pytest.mark.page
def test_an_answer_continues_on_the_other_server_when_its_server_is_killed(chat):
    chat.link("ann")
    chat.ask("repeat 60 words")
    chat.is_streaming()
    [[machine]] = chat.machines.database.sql("SELECT machine FROM server_turns")
    victim = next(server for server in chat.machines.servers if server.name == machine)
    victim.process.end(signal.SIGKILL)
    chat.ends_with(words(60))
    chat.ask("reply: and the next")
    chat.ends_with("and the next")
    assert chat.questions == ["repeat 60 words", "reply: and the next"]


def drive(*options):
    """Runs the drive to its end."""
    return subprocess.run([ROOT / "Examples/server/drive", *options], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=400 * PATIENCE)


def test_the_seven_figures_are_within_their_bounds(server, simulator):
    done = drive("--users", "20", "--json", "--program", server, "--simulator", simulator)
    assert done.returncode == 0, done.stderr
    figures = {figure["number"]: figure for figure in json.loads(done.stdout)}
    assert sorted(figures) == [1, 2, 3, 4, 5, 6, 7] and not any(figure["failures"] for figure in figures.values()), figures
    assert figures[3]["values"]["renewals"] == 20 and figures[4]["values"]["streams cut"] > 0, figures


def test_a_figure_beyond_its_bound_is_named_in_a_line(server, simulator, tmp_path):
    # Nobody answers these servers.
    wrapper = tmp_path / "server"
    wrapper.write_text(f'#!/bin/sh\nexport CHAPPIE_BACKEND=http://127.0.0.1:9/backend-api\nexec {server} "$@"\n')
    wrapper.chmod(0o755)
    done = drive("--users", "1", "--only", "7", "--program", str(wrapper), "--simulator", simulator)
    assert done.returncode == 1 and re.search("^drive: figure 7 failed: 0 errors: exceeded", done.stderr, re.MULTILINE), done


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_drive_leaves_neither_a_program_nor_a_folder(number, server, simulator):
    command = [ROOT / "Examples/server/drive", "--users", "5", "--only", "6", "--program", server, "--simulator", simulator]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.read(8) == "figure 6"
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        commands = " ".join(pathlib.Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ") for child in children)
        folder = re.search(r"nginx -p (\S+)", commands)[1]
        assert len(children) == 5 and os.path.isdir(folder), commands
        process.send_signal(number)
        assert process.wait(60 * PATIENCE) == 130
        assert not os.path.exists(folder) and not any(os.path.exists(f"/proc/{child}") for child in children)


@pytest.fixture
def fleet(tmp_path, server, simulator, stack):
    if not can_make_machines():
        pytest.skip("the operator's machines need root and the right to make namespaces")
    fleet = stack.enter_context(Fleet(tmp_path, ("database", "first", "second", "balancer"), ADDRESSES))
    # The operator's own machine is a folder with the example.
    example = tmp_path / "Examples/server"
    shutil.copytree(ROOT / "Examples/server", example, ignore=shutil.ignore_patterns(".build", "__pycache__"))
    (example / ".build/release").mkdir(parents=True)
    (example / ".build/release/chappie-server").symlink_to(server)
    service = fleet.start(simulator, "--json", "--auto-approve", stdout=subprocess.PIPE, text=True)
    addresses = json.loads(service.stdout.readline())
    fleet.environment |= {"CHAPPIE_ISSUER": addresses["issuer"], "CHAPPIE_BACKEND": addresses["backend"]}
    return fleet


def test_an_operator_comes_from_empty_machines_to_two_servers(fleet):
    def visit(does):
        [said] = fleet.run("balancer", sys.executable, "-c", VISIT, str(ROOT / "Examples/server"), does).splitlines()
        assert said == "good evening"

    ran, text = set(), (ROOT / "docs/Operations.md").read_text(encoding="utf-8").splitlines()
    begin = text.index("## Two servers behind a balancer")
    section = range(begin, next((number for number in range(begin + 1, len(text)) if text[number].startswith("## ")), len(text)))
    folder = fleet.folder
    for info, start, lines in blocks(ROOT / "docs/Operations.md"):
        if start not in section:
            continue
        language, where = info.split()
        assert language == "sh", info
        block = "set -eu\n" + "\n".join(lines)
        names = {"build": [None], "server": ["first"], "servers": ["first", "second"]}.get(where, [where])
        for name in names:
            own = block.replace("10.0.0.11:8080/", "10.0.0.12:8080/").replace("LISTEN=10.0.0.11", "LISTEN=10.0.0.12") if name == "second" else block
            if name:
                printed = fleet.run(name, "sh", "-c", own, folder=folder).strip()
            else:
                path = f"{fleet.folder}/bin:{os.environ['PATH']}"
                subprocess.run(["sh", "-c", own], cwd=folder, env={**os.environ, "PATH": path}, check=True, timeout=60 * PATIENCE)
            if "balancer" in ran and "systemctl restart" in block:
                # One server is there, the other one has just been restarted.
                visit("returns")
        if where == "build":
            folder = fleet.folder / "deployment"
        if where == "balancer":
            visit("links")
        ran.add(where)
    assert ran == {"build", "database", "server", "servers", "balancer"}
    assert "--reseal" in block and printed == "0"
    # Now the old key may go.
    shutil.copy(folder / "new-key", folder / "keys")
    again = "systemd-creds encrypt --name=chappie-keys keys /etc/credstore.encrypted/chappie-keys; systemctl restart chappie-server"
    for name in ("first", "second"):
        fleet.run(name, "sh", "-ec", again, folder=folder)
        visit("returns")
