"""Apps/chappie-gtk on a desktop of its own: driven by keyboard, by mouse and by what a screen reader does, and read as one reads it."""

import base64
import contextlib
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import time
import zlib

import pytest

from conftest import ROOT, TURN
from counterparts import PATIENCE, wait_until
from desktop import Desktop
from printed import mains, manifests, programs, write
from test_ask import PIXEL

# One worker resolves its packages.
pytestmark = [pytest.mark.gtk, pytest.mark.slow, pytest.mark.xdist_group("gtk")]
BUTTON, DIALOG = "push button", "dialog"
SIGN_IN, PREPARING, OPEN_SIGN_IN = "Sign in with ChatGPT", "Preparing sign in", "Open ChatGPT sign in"
POLL = "POST /api/accounts/deviceauth/token 403"
LINKED = '"chappie-gtk" 0 "" "ChatGPT Linked!" "Return to the app" [] {} -1'


def resolve(package, compiles):
    """SwiftPM checks the products and targets of all manifests before it compiles the one file of CZlib. Of the rest, `Scripts/check`
    shows that it is the same at the root, where it is compiled."""
    command = ["nice", "swift", "build", "--package-path", package, "--scratch-path", ROOT / "Apps/chappie-gtk/.build", "-debug-info-format", "none"]
    done = subprocess.run(command + ([] if compiles else ["--target", "CZlib"]), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr


@pytest.fixture(scope="session")
def gtk_program(built, full):
    package = ROOT / "Apps/chappie-gtk"
    resolve(package, compiles=full)
    return (package / ".build/debug" if full else built) / "chappie-gtk"


@pytest.fixture(scope="session")
def readme_window(built, full, gtk_program, tmp_path_factory):
    """The program of docs/GTK.md; its manifest leads to a clone, which is this tree."""
    package = tmp_path_factory.mktemp("readme-gtk")
    manifest = manifests()[1]
    assert 'path: "chappie"' in manifest and 'path: "chappie/' in manifest
    (package / "Package.swift").write_text(manifest.replace('path: "chappie', f'path: "{ROOT}'))
    write(package, mains({"hello": programs("CGtk4")[0]}))
    resolve(package, compiles=full)
    return gtk_program.parent / ("hello" if full else "readme-gtk")


class Window:
    """The program on a desktop. Widgets are found by role and name, as a screen reader says them."""

    def __init__(self, desktop, program, simulator, pictures, **settings):
        self.desktop, self.program, self.simulator, self.pictures = desktop, program, simulator, pictures
        # A critical warning of GTK or GLib ends the program.
        self.environment = {**desktop.environment, **simulator.settings, "CHAPPIE_CREDENTIAL_STORE": "memory",
                            "G_DEBUG": "fatal-criticals", **settings}
        self.process = self.start()

    def start(self):
        with open(self.desktop.folder / "errors", "ab") as errors:
            return self.desktop.start(str(self.program), env=self.environment, stderr=errors)

    def below(self, widget):
        """The widget and all that are in it, each before those in it."""
        return [widget, *(inner for child in widget["children"] for inner in self.below(child))]

    @property
    def widgets(self):
        windows = self.desktop.accessible("tree", self.process.pid) or []
        return [widget for window in windows for widget in self.below(window)]

    def find(self, role, name=None, *states):
        fits = lambda widget: widget["role"] == role and name in (None, widget["name"]) and set(states) <= set(widget["states"])
        return next(filter(fits, self.widgets), None)

    def wait_for(self, role, name=None, *states):
        outline = lambda: "\n".join(f"{w['role']} “{w['name']}” {' '.join(w['states'])}" for w in self.widgets)
        wait_until(lambda: self.find(role, name, *states),
                   lambda: f"{role} {name} {states} in\n{outline()}\n{self.desktop.read('errors')}")
        return self.find(role, name, *states)

    def wait_without(self, role, name=None):
        wait_until(lambda: not self.find(role, name), f"no {role} {name} more")

    def wait_until_hidden(self):
        """Asks the screen. GTK 4.8 gives a screen reader the null path of a widget that is going away, which is critical."""
        shown = lambda: self.desktop.call("xdotool", "search", "--onlyvisible", "--pid", str(self.process.pid)).stdout.split()
        wait_until(lambda: not shown(), "the window goes at once")

    def says(self, sentence):
        return self.wait_for("label", sentence)

    def act(self, role, name):
        """What a screen reader's user does with it."""
        self.wait_for(role, name, "sensitive")
        wait_until(lambda: self.desktop.accessible("act", self.process.pid, role, name), f"{role} {name} can be used")

    def click(self, role, name):
        """With the mouse, in the middle of it."""
        x, y, width, height = self.wait_for(role, name, "sensitive")["area"]
        frames = [widget for widget in self.widgets if widget["role"] in ("frame", DIALOG)]
        self.desktop.click(x + width // 2, y + height // 2, frames[-1]["area"][2])

    def approve(self, action="approve", **form):
        assert self.simulator.post("/codex/device", user_code=self.code, action=action, **form) == 200

    def sign_in(self, **form):
        self.act(BUTTON, SIGN_IN)
        if form:
            self.wait_for(BUTTON, "Open OpenAI", "sensitive")
            self.approve(**form)
        self.wait_for("text", "Message", "focused")

    def paste(self, question):
        """The text comes from another program, after the key."""
        self.desktop.take_clipboard(question)
        self.desktop.press("ctrl+v")
        wait_until(lambda: self.draft == question, "it is pasted")
        self.desktop.press("Return")

    def ask(self, question):
        self.desktop.type(question)
        self.desktop.press("Return")

    @property
    def draft(self):
        # GTK has long lines in pieces.
        return self.wait_for("text", "Message")["text"].replace("\u2029", "")

    @property
    def code(self):
        """As it stands on the sheet."""
        return next(w["name"].removeprefix("Copy ").replace(" ", "") for w in self.widgets if w["name"].startswith("Copy ") and w["role"] == BUTTON)

    @property
    def answer(self):
        return self.wait_for("text", "Conversation")["text"]

    def activate(self, action):
        """What the program offers on the bus, as for a shortcut of the desktop."""
        call = lambda name, path, *words: self.desktop.call(
            "gdbus", "call", "--session", "--dest", name, "--object-path", path, "--method", *words)
        names = call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.ListNames").stdout
        name = re.search(r"com\.chappie\.Chat[.\w]*", names)[0]
        call(name, f"/{name.replace('.', '/')}/window/1", "org.gtk.Actions.Activate", action, "[]", "{}").check_returncode()

    def shoot(self, name):
        if self.pictures:
            os.makedirs(self.pictures, exist_ok=True)
            self.desktop.shoot(os.path.join(self.pictures, f"gtk-{name}.png"))

    # What the process costs

    @property
    def ticks(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    @property
    def memory(self):
        """Bytes that no file stands for: the libraries' count as the process's own only while no other has loaded them."""
        rollup = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Anonymous: +(\d+)", rollup, re.MULTILINE)[1]) * 1024

    @property
    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @property
    def drawing_ticks(self):
        """What the thread that draws has cost."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def rest(self, seconds=3):
        """Waits until nothing is left to do, GTK's own tidying included, and then for as long as this: nothing may happen."""
        wait_until(lambda: self.cost(1)[0] == 0, "it comes to rest", 40)
        requests = len(self.simulator.log)
        # GTK takes the focus ring away three seconds after a key.
        wait_until(lambda: self.cost(seconds)[0] == 0, "it stays at rest", 20)
        assert self.simulator.log[requests:] == []

    def cost(self, seconds):
        """Ticks of CPU time and requests to the service in these seconds, in which the test does nothing."""
        ticks, requests = self.ticks, len(self.simulator.log)
        time.sleep(seconds)
        return self.ticks - ticks, self.simulator.log[requests:]


@pytest.fixture
def window(stack, gtk_program, simulate, request):
    """`window(dark=True, approves=False)`: the program on a desktop of its own, signed out."""
    def start(dark=False, size="1000x800", settings={}, **simulation):
        desktop = stack.enter_context(Desktop(size, dark))
        simulator = simulate(**{"pollInterval": 1, "approves": False, **simulation})
        window = Window(desktop, gtk_program, simulator, request.config.getoption("--screenshots"), **settings)
        window.wait_for(BUTTON, SIGN_IN, "focused", "sensitive")
        return window
    return start


def test_the_readmes_program_opens_a_window_with_the_button(stack, readme_window, simulate):
    window = Window(stack.enter_context(Desktop()), readme_window, simulate(), None)
    window.wait_for(BUTTON, SIGN_IN, "sensitive")
    assert window.process.poll() is None
    [frame] = [widget for widget in window.widgets if widget["role"] == "frame"]
    assert min(frame["area"][2:]) > 0


def test_signing_in_and_asking_by_keyboard_alone(window):
    window = window()
    desktop = window.desktop
    window.shoot("1-signed-out")
    desktop.press("Return")
    window.wait_for(BUTTON, "Open OpenAI", "focused", "sensitive")
    window.shoot("2-steps")
    assert re.fullmatch(r"Waiting for approval: 1[45]:\d\d left", window.find(DIALOG, SIGN_IN)["description"])
    assert not [widget for widget in window.widgets if widget["name"].startswith("Waiting")], "each second is read"
    # In order, each said once: what is busy, what can be pressed, what is pressed by Return.
    assert window.find(BUTTON, OPEN_SIGN_IN, "busy") and not window.find(BUTTON, OPEN_SIGN_IN, "sensitive")
    assert "modal" in window.find(DIALOG, SIGN_IN)["states"]
    words = [widget["name"] for widget in window.below(window.find(DIALOG, SIGN_IN)) if widget["role"] == "label"]
    titles = ["Open OpenAI", "Continue with ChatGPT", "Paste your device code"]
    assert [word for word in words if word in titles] == ["Open OpenAI", *titles], words
    spelled = f"Copy {' '.join(window.code)}"
    assert not window.find(BUTTON, "Try again"), "a page that does not show is read"
    wait_until(lambda: desktop.clipboard == window.code, "the code is in the clipboard")
    window.says("The code is in your clipboard.")
    done = lambda: [widget["name"] for widget in window.widgets if widget["role"] == "image" and widget["name"] == "Done"]
    assert done() == [], "a step is ticked before the one above it"
    desktop.press("Return")
    window.says("A browser was asked to open the page.")
    assert len(done()) == 2
    wait_until(lambda: desktop.pages == [window.simulator.issuer + "/codex/device"], "the page is asked for")
    window.shoot("3-page-opened")
    order = [("label", desktop.pages[0]), (BUTTON, spelled), (BUTTON, "Sign in without a code"), (BUTTON, "Cancel"),
             (BUTTON, "Open OpenAI")]
    for key, next_ones in [("Tab", order), ("shift+Tab", [*order[-2::-1], order[-1]])]:
        for role, name in next_ones:
            desktop.press(key)
            window.wait_for(role, name, "focused")
    assert not desktop.notifications
    window.approve()
    window.wait_for("text", "Message", "focused")
    wait_until(lambda: desktop.notifications == [LINKED], lambda: f"one notification: {desktop.notifications}")
    wait_until(lambda: desktop.clipboard == "", lambda: f"the code is still in the clipboard: {desktop.clipboard}")
    window.wait_without(DIALOG)
    assert not window.find(BUTTON, SIGN_IN), "the button shows"
    desktop.type("reply: a short answer")
    desktop.press("Return")
    wait_until(lambda: window.answer == "You\nreply: a short answer\nChatGPT\na short answer", lambda: f"the answer: {window.answer}")
    window.shoot("4-answer")
    window.wait_for("text", "Message", "focused")
    desktop.press("ctrl+q")
    assert window.process.wait(20 * PATIENCE) == 0
    assert desktop.complaints == ""


def test_signing_in_and_out_by_mouse_in_the_dark(window):
    window = window(dark=True)
    desktop = window.desktop
    assert 0.05 < desktop.lightness() < 0.3
    window.shoot("5-dark-signed-out")
    window.click(BUTTON, SIGN_IN)
    window.wait_for(BUTTON, "Open OpenAI", "sensitive")
    window.shoot("6-dark-steps")
    window.click(BUTTON, "Open OpenAI")
    wait_until(lambda: desktop.pages, "the page is asked for")
    desktop.take_clipboard("something else")
    window.click(BUTTON, f"Copy {' '.join(window.code)}")
    wait_until(lambda: desktop.clipboard == window.code, "the code is in the clipboard again")
    window.approve()
    window.click("text", "Message")
    desktop.type("reply: an answer in the dark")
    window.click(BUTTON, "Send")
    wait_until(lambda: window.answer.endswith("an answer in the dark"), "the answer")
    window.shoot("7-dark-answer")
    window.click(BUTTON, "Account")
    window.wait_for("menu item", "Sign out")
    window.shoot("8-dark-menu")
    desktop.press("Down", "Return")
    window.wait_for(BUTTON, SIGN_IN, "sensitive")
    assert desktop.lightness() < 0.3 and desktop.complaints == ""


@pytest.mark.parametrize("how", ["Escape", "Cancel", "window"])
def test_a_sheet_that_is_closed_leaves_nothing_running(how, window):
    window = window()

    def sign_in_and_close():
        polls = len(window.simulator.log)
        window.act(BUTTON, SIGN_IN)
        window.wait_for(BUTTON, "Open OpenAI", "sensitive")
        window.simulator.wait_for_log(lambda log: POLL in log, since=polls)
        code = window.code
        window.desktop.wait_for_active(SIGN_IN)
        {"Escape": lambda: window.desktop.press("Escape"), "window": lambda: window.desktop.press("alt+F4"),
         "Cancel": lambda: window.act(BUTTON, "Cancel")}[how]()
        window.wait_without(DIALOG)
        window.wait_for(BUTTON, SIGN_IN, "focused", "sensitive")
        window.simulator.post("/codex/device", user_code=code, action="approve")
        window.rest()
        return window.descriptors

    # The first one starts the network's thread.
    first, second = sign_in_and_close(), sign_in_and_close()
    assert second <= first, (first, second)
    assert window.find(BUTTON, SIGN_IN), "it has signed in all the same"


def test_a_refusal_is_told_and_tried_again(window):
    window = window(size="400x640")
    with window.simulator.paused():
        window.act(BUTTON, SIGN_IN)
        window.wait_for(BUTTON, "Cancel", "focused")
        assert window.wait_for(DIALOG, SIGN_IN, "busy")["description"] == PREPARING
    window.wait_for(BUTTON, "Open OpenAI", "sensitive")
    window.shoot("9-narrow-steps")
    refused = window.code
    window.approve("refuse")
    window.wait_for(BUTTON, "Try again", "focused")
    window.shoot("10-refused")
    words = [widget["name"] for widget in window.widgets if widget["role"] == "label"]
    assert any("refused" in word for word in words), words
    assert not window.find(BUTTON, "Open OpenAI"), "a page that does not show is read"
    window.desktop.press("Return")
    window.wait_for(BUTTON, "Open OpenAI", "focused", "sensitive")
    wait_until(lambda: window.code != refused, "another code")
    window.approve()
    window.wait_for("text", "Message", "focused")


def test_it_rests_when_nobody_does_anything_and_streams_without_holding_up_the_window(window):
    window = window(approves=True, deltasPerSecond=40)
    window.rest()
    window.act(BUTTON, SIGN_IN)
    window.wait_for("text", "Message", "focused")
    window.paste("reply: " + "word " * 600)
    window.wait_for(BUTTON, "Stop", "sensitive")
    wait_until(lambda: window.answer.count("word ") > 620, "some of the answer")
    with window.simulator.paused():  # Otherwise the answer may be over before the key is pressed.
        window.shoot("11-streaming")
        window.desktop.press("Escape")
        window.wait_for(BUTTON, "Send", "sensitive")
        wait_until(lambda: window.answer.endswith("(stopped)"), lambda: f"the end: {window.answer[-200:]}")
    assert window.answer.count("word ") < 1200
    # A cursor that blinks does so for ten seconds.
    window.rest()
    # The conversation goes on from what was said.
    window.ask("which turn is this?")
    wait_until(lambda: "Turn: 2" in window.answer, lambda: f"the second turn: {window.answer[-200:]}")


def test_sign_ins_in_one_process_without_growth(window, full):
    window = window(approves=True, pollInterval=0)

    def sign_in_and_out(times):
        for _ in range(times):
            window.act(BUTTON, SIGN_IN)
            window.wait_for("text", "Message", "focused")
            window.activate("sign-out")
            window.wait_for(BUTTON, SIGN_IN, "focused", "sensitive")
        window.rest(0)
        return window.memory, window.descriptors

    count = 50 if full else 20
    first, last = sign_in_and_out(10), sign_in_and_out(count)
    print(f"measured: {first[0] >> 10} KiB and {first[1]} descriptors after 10 sign-ins, {last[0] >> 10} KiB and {last[1]} after {10 + count}")
    assert last[0] - first[0] < 3 << 20 and last[1] <= first[1] + 1, (first, last)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_the_middle_of_a_sign_in(number, window):
    window = window()
    window.act(BUTTON, SIGN_IN)
    window.simulator.wait_for_log(lambda log: POLL in log)
    window.process.send_signal(number)
    assert window.process.wait(20 * PATIENCE) == 0, window.desktop.read("errors")
    assert window.desktop.complaints == ""


def test_talking_keeps_what_is_typed_and_tells_what_went_wrong(window):
    odd = {"type": "response.output_text.delta", "delta": "an odd\0piece "}
    window = window(approves=True, pollInterval=0, deltasPerSecond=20, rules=[
        {"match": {**TURN, "nth": 1}, "effect": {"events": {"extra": [odd]}}},
        {"match": {**TURN, "nth": 2}, "effect": {"events": {"ending": "incomplete"}}},
        {"match": {**TURN, "nth": 3}, "effect": {"usageLimit": {}}}])
    desktop = window.desktop
    window.sign_in()
    assert not window.find(BUTTON, "Dismiss"), "a bar that does not show is read"
    with window.simulator.paused():  # Otherwise the answer may be over before the widgets are read.
        window.ask("reply: " + "word " * 30)
        window.wait_for(BUTTON, "Stop", "sensitive")
        desktop.type("reply: a dra")
    window.wait_for(BUTTON, "Send", "sensitive")
    desktop.type("ft")
    wait_until(lambda: window.draft == "reply: a draft", lambda: f"what was typed stays: {window.draft}")
    wait_until(lambda: "an odd\N{REPLACEMENT CHARACTER}piece word" in window.answer, lambda: f"all of it: {window.answer}")

    window.click(BUTTON, "Send")
    window.says("The answer ended early: max_output_tokens. Use what is there, ask for the rest, or ask for something shorter.")
    wait_until(lambda: window.answer.endswith("ChatGPT\na draft"), lambda: f"the answer: {window.answer}")
    assert window.draft == ""
    window.shoot("12-ended-early")
    window.wait_for("text", "Message", "focused")
    window.ask("beyond the limit")
    wait_until(lambda: any(w["name"].startswith("The usage limit has been reached") for w in window.widgets), "the limit is told")
    assert window.draft == "beyond the limit"
    window.act(BUTTON, "Dismiss")
    window.wait_without(BUTTON, "Dismiss")

    desktop.press("ctrl+a")
    window.ask("repeat 200 words")
    wait_until(lambda: "word after" in window.answer, "some of the answer")
    desktop.press("ctrl+n")
    wait_until(lambda: not window.find("text", "Conversation")["text"], "another conversation")
    window.wait_for(BUTTON, "Send", "sensitive")
    window.ask("is this the first question?")
    wait_until(lambda: "Turn: 1" in window.answer, lambda: f"a conversation from its beginning: {window.answer}")
    assert "(stopped)" not in window.answer
    desktop.press("ctrl+q")
    assert window.process.wait(5 * PATIENCE) == 0, "it ends in the middle of an answer"
    assert desktop.complaints == ""


def test_a_message_during_an_answer_joins_it(window):
    window = window(approves=True, pollInterval=0, deltasPerSecond=8)
    window.sign_in()
    window.ask("reply: " + " ".join(f"w{number}" for number in range(40)))
    wait_until(lambda: "ChatGPT\nw0 w1" in window.answer, lambda: f"the first answer: {window.answer}")
    with window.simulator.paused():  # Otherwise the answer may be over before the message is sent.
        window.ask("reply: the second")
        wait_until(lambda: window.draft == "" and "You\nreply: the second\nChatGPT\n" in window.answer, lambda: f"the message: {window.answer}")
    window.wait_for(BUTTON, "Send", "sensitive")
    said = window.answer.partition("You\nreply: the second\nChatGPT\n")[2]
    assert "w39" in said and said.endswith("the second"), window.answer


def test_the_next_user_sees_nothing_of_the_one_before_and_a_failed_sign_out_is_told(window):
    window = window(pollInterval=0, otherAccounts=[{"id": "another", "userID": "another", "email": "bob@example.com"}], rules=[
        {"match": {**TURN, "from": 2}, "effect": {"unauthorized": True}},
        {"match": {"path": "/oauth/token", "bodyContains": "refresh_token"}, "effect": {"refresh": "expired"}},
        {"match": {"path": "/oauth/revoke"}, "effect": {"status": 500}}])
    window.sign_in(action="approve")
    window.ask("reply: a secret")
    wait_until(lambda: window.answer.endswith("ChatGPT\na secret"), "the answer")
    window.ask("a question that is given back")
    window.wait_for(BUTTON, SIGN_IN, "focused", "sensitive")
    window.sign_in(account="another")
    assert (window.find("text", "Conversation")["text"], window.draft) == ("", "")
    window.desktop.press("F9")
    window.says("No conversations yet.\nThese conversations are private. They last as long as this window.")
    assert not window.find("list item")
    window.desktop.press("F9")
    window.activate("sign-out")
    window.wait_for(BUTTON, SIGN_IN, "focused", "sensitive")
    wait_until(lambda: any(w["name"].startswith("Signing out was not completed. ") for w in window.widgets), "it is told")
    window.shoot("13-failed-sign-out")
    window.sign_in(action="approve")
    assert not window.find(BUTTON, "Dismiss"), "the sign-out before is told again"


def test_started_again_while_it_ends_it_stays_and_a_second_signal_ends_it_at_once(window):
    window = window(approves=True, pollInterval=0, rules=[
        {"match": {"path": "/oauth/revoke", "from": 2}, "effect": {"stall": {"beforeHead": True}}}])
    window.sign_in()
    with window.simulator.paused():
        window.activate("sign-out")
        window.wait_for(BUTTON, SIGN_IN, "focused")
        window.desktop.press("ctrl+q")
        window.wait_until_hidden()
        assert window.start().wait(20 * PATIENCE) == 0
    window.wait_for(BUTTON, SIGN_IN, "focused", "sensitive")
    window.simulator.wait_for_log(lambda log: any("/oauth/revoke 200" in line for line in log))
    window.sign_in()
    window.click(BUTTON, "Account")
    window.wait_for("menu item", "Sign out")
    window.desktop.press("Down", "Return")
    window.wait_without("menu item", "Sign out")
    window.wait_for(BUTTON, SIGN_IN, "focused")
    for _ in range(2):
        window.process.send_signal(signal.SIGINT)
        window.wait_until_hidden()
    assert window.process.wait(5 * PATIENCE) == 0, f"the revocation is waited for: {window.desktop.read('errors')}"
    assert window.desktop.complaints == ""


def test_a_store_that_could_not_be_read_is_read_again(window, passphrase):
    phrase = passphrase("a phrase")
    window = window(approves=True, pollInterval=0, settings={"CHAPPIE_CREDENTIAL_STORE": "file", **phrase})
    window.sign_in()
    window.desktop.press("ctrl+q")
    assert window.process.wait(20 * PATIENCE) == 0
    file = pathlib.Path(phrase["CHAPPIE_PASSPHRASE_FILE"])
    away = file.rename(file.with_suffix(".away"))
    window.process = window.start()
    window.wait_for(BUTTON, "Try again", "sensitive")
    window.shoot("14-unread-store")
    away.rename(file)
    window.act(BUTTON, "Try again")
    window.wait_for("text", "Message", "focused")


MARKDOWN = """# A heading
Some *text* with `code` and [a page](https://example.com/page).

- one
  - nested
- [x] two

3. three

```swift
let a = 1

print(a)
```

| Name | Number |
|:-----|-------:|
| one | [1](https://example.com/1) |

See <mailto:me@example.com> and [bad](javascript:alert)."""


@pytest.mark.parametrize("dark, size", [(False, "1000x800"), (True, "1000x800"), (False, "400x800")])
def test_an_answer_is_drawn_as_markdown_and_its_links_ask_the_desktop_once(dark, size, window):
    window = window(dark=dark, size=size, approves=True, pollInterval=0)
    desktop = window.desktop
    window.sign_in()
    window.paste(f"reply: {MARKDOWN}")
    rows = ["A heading", "Some text with code and a page (https://example.com/page).", "• one", "◦ nested", "☑ two", "3. three",
            "", "let a = 1", "", "print(a)", "",
            "See mailto:me@example.com and bad (javascript:alert)."]
    wait_until(lambda: window.answer.endswith("\nChatGPT\n" + "\n".join(rows)), lambda: window.answer)
    labels = [widget["name"] for widget in window.below(window.find("text", "Conversation")) if widget["role"] == "label"]
    assert [label for label in labels if label != "Copy code"] == ["swift", "Name", "Number", "one", "1 (https://example.com/1)"]
    window.wait_for(BUTTON, "Send", "sensitive")
    window.shoot(f"20-markdown-{'dark' if dark else 'light'}-{size}")
    [frame] = [widget for widget in window.widgets if widget["role"] == "frame"]
    assert frame["area"][2] <= int(size.split("x")[0]), "the window is wider than the screen"

    window.act(BUTTON, "Copy code")
    wait_until(lambda: desktop.clipboard == "let a = 1\n\nprint(a)", lambda: desktop.clipboard)
    # By mouse, in the table.
    window.click("label", "1 (https://example.com/1)")
    wait_until(lambda: desktop.pages == ["https://example.com/1"], lambda: desktop.pages)
    # By keyboard: into the text, to its beginning, where Return opens nothing, and to the first link.
    for _ in range(10):
        if window.find("text", "Conversation", "focused"):
            break
        desktop.press("shift+Tab")
    desktop.press("ctrl+Home", "Return", "Tab", "Return")
    wait_until(lambda: desktop.pages[1:] == ["https://example.com/page"], lambda: desktop.pages)
    window.rest()
    assert len(desktop.pages) == 2 and desktop.complaints == ""


def test_a_long_paragraph_costs_in_proportion_to_its_length(window):
    window = window(approves=True, pollInterval=0, deltasPerSecond=1500)
    window.sign_in()
    window.rest(1)
    before = window.drawing_ticks
    window.ask("repeat 8000 words")
    # A screen reader that asks for all of the text would cost more than the text.
    window.simulator.wait_for_log(lambda log: any("responses" in line for line in log))
    window.rest(1)
    spent = window.drawing_ticks - before
    assert len(window.answer) > 38_000
    print(f"measured: {spent} ticks of the thread that draws for {len(window.answer) >> 10} KiB in one paragraph")
    # 13 s before it was broken into rows.
    assert spent < 2 * os.sysconf("SC_CLK_TCK")


def ink(window, role, name, height):
    """How dark the lowest rows of a widget are where its text begins, in a window at the screen's corner."""
    x, y, width, full = window.find(role, name)["area"]
    margin = max(16 if width < 620 else 24, (width - 720) // 2) if name == "Conversation" else 9
    return window.desktop.darkness(x + margin, y + full - height, 90, height)


# A black bar at the beginning of a line. Prose is less than half as dark.
BAR = "\N{FULL BLOCK}" * 12


@pytest.mark.parametrize("text", ["word " * 100_000, '{"a":' + "[1,2,3]," * 40_000 + "0}"], ids=["words", "json"])
def test_a_paragraph_of_any_length_shows_its_end(text, window):
    window = window(approves=True, pollInterval=0, deltasPerSecond=20_000)
    desktop = window.desktop
    window.sign_in()
    desktop.resize(800, 700)
    question = f"reply: {text}END"
    desktop.take_clipboard(question)
    desktop.press("ctrl+v")
    wait_until(lambda: window.draft == question, "it is pasted", 60)
    window.shoot("34-long-draft")
    wait_until(lambda: ink(window, "text", "Message", 30) > 0.02, "the end of the draft shows")
    desktop.press("Return")
    wait_until(lambda: window.draft == "", "it is sent", 60)
    window.simulator.wait_for_log(lambda log: any("responses" in line for line in log))
    wait_until(lambda: window.find(BUTTON, "Send"), "the answer has ended", 120)
    window.shoot("34-long-paragraph")
    wait_until(lambda: ink(window, "text", "Conversation", 120) > 0.02, "the end of the answer shows")
    assert desktop.complaints == ""


def test_a_long_line_of_code_is_copied_as_it_was(window):
    window = window(approves=True, pollInterval=0)
    window.sign_in()
    code = "[1,2,3]," * 5000
    window.paste(f"reply: ```\n{code}\n```")
    window.act(BUTTON, "Copy code")
    wait_until(lambda: window.desktop.clipboard == code, lambda: f"{len(window.desktop.clipboard)} of {len(code)} characters")
    assert window.desktop.complaints == ""


def test_the_end_and_the_caret_stay_visible_and_typing_goes_to_the_message(window):
    window = window(size="1400x900", approves=True, pollInterval=0)
    desktop = window.desktop
    window.sign_in()
    desktop.resize(1380, 800)
    window.paste("reply: " + ("word " * 60 + "\n\n") * 30 + BAR)
    wait_until(lambda: window.answer.count(BAR) == 2, lambda: window.answer[-100:])
    window.wait_for(BUTTON, "Send", "sensitive")
    end = lambda: ink(window, "text", "Conversation", 44)
    wait_until(lambda: end() > 0.25, end)
    for width in [680, 400]:
        desktop.resize(width, 800)
        wait_until(lambda: abs(window.find("frame")["area"][2] - width) < 20, lambda: window.find("frame")["area"])
        window.shoot(f"35-width-{width}")
        wait_until(lambda: end() > 0.25, lambda: f"the end at {width}: {end()}")
    desktop.take_clipboard("a row\n" * 40 + BAR)
    desktop.press("ctrl+v")
    wait_until(lambda: window.draft.endswith(BAR), "it is pasted")
    caret = lambda: ink(window, "text", "Message", 30)
    wait_until(lambda: caret() > 0.25, caret)
    window.shoot("35-caret")
    desktop.press("ctrl+a", "BackSpace")
    window.click("text", "Conversation")
    window.wait_for("text", "Conversation", "focused")
    desktop.type("typed after a click")
    wait_until(lambda: window.draft == "typed after a click", lambda: window.draft)
    window.wait_for("text", "Message", "focused")
    assert desktop.complaints == ""


def test_a_failed_question_is_marked_and_replaced_when_it_is_asked_again(keeping):
    limit = {"match": {**TURN, "nth": 1}, "effect": {"usageLimit": {}}}
    window = keeping(rules=[limit, {**limit, "match": {**TURN, "nth": 2}}, {**limit, "match": {**TURN, "nth": 4}}])
    desktop = window.desktop
    marked = "You\nreply: once\n✗ The usage limit has been reached"
    failed = lambda: window.answer.startswith(marked) and window.answer.count("reply: once") == 1
    window.ask("reply: once")
    window.wait_for(BUTTON, "Retry", "sensitive")
    wait_until(failed, lambda: window.answer)
    assert "ChatGPT" not in window.answer and window.draft == "reply: once"
    window.shoot("36-failed")
    # Sent again, with Return.
    turns = lambda: sum(" /backend-api/codex/responses" in line for line in window.simulator.log)
    before = turns()
    desktop.press("Return")
    wait_until(lambda: turns() > before and window.find(BUTTON, "Retry", "sensitive"), "it fails again")
    wait_until(failed, lambda: window.answer)
    window.act(BUTTON, "Retry")
    wait_until(lambda: window.answer == "You\nreply: once\nChatGPT\nonce", lambda: window.answer)
    window.wait_for(BUTTON, "Send", "sensitive")
    assert window.draft == "" and not window.find(BUTTON, "Retry")
    # It is offered again when the conversation is opened, and other questions leave it.
    window.ask("reply: twice")
    window.wait_for(BUTTON, "Retry", "sensitive")
    desktop.press("ctrl+n")
    wait_until(lambda: window.find("text", "Conversation")["text"] == "", "another conversation")
    desktop.press("F9")
    window.wait_for("list item", "reply: once")
    desktop.press("Tab", "Tab", "Return")
    window.wait_for(BUTTON, "Retry", "sensitive")
    assert window.answer.startswith("You\nreply: once\nChatGPT\nonce\nYou\nreply: twice\n✗ "), window.answer
    window.act(BUTTON, "Retry")
    wait_until(lambda: window.answer.endswith("You\nreply: twice\nChatGPT\ntwice"), lambda: window.answer)
    assert window.answer.count("reply: twice") == 1 and desktop.complaints == ""


def test_a_message_has_lines_and_files(window, tmp_path):
    window = window(approves=True, pollInterval=0)
    desktop = window.desktop
    picture, empty = tmp_path / "picture.png", tmp_path / "empty.txt"
    picture.write_bytes(PIXEL)
    empty.touch()
    window.sign_in()
    desktop.type("a line")
    desktop.press("shift+Return")
    desktop.type("and another")
    assert window.draft == "a line\nand another"
    desktop.drag([picture], "Chappie", lambda: window.find(BUTTON, "Remove picture.png"), lambda: window.shoot("21-drag"))
    # As from a desktop's "open with".
    files = [str(tmp_path / "missing.pdf"), str(empty)]
    assert desktop.start(str(window.program), *files, env=window.environment).wait(20 * PATIENCE) == 0
    labels = lambda: [widget["name"] for widget in window.widgets if widget["role"] == "label"]
    wait_until(lambda: any("missing.pdf" in label and "empty.txt" in label for label in labels()), labels)
    assert not window.find(BUTTON, "Remove empty.txt") and not window.find(BUTTON, "Remove missing.pdf")
    window.shoot("22-attached")
    desktop.wait_for_active("Chappie")
    window.act(BUTTON, "Send")
    wait_until(lambda: "Images: 1" in window.answer, lambda: window.answer)
    assert window.answer.startswith("You\na line\nand another\nAttached: picture.png\nChatGPT\n")
    assert not window.find(BUTTON, "Remove picture.png") and window.draft == ""
    # The entry grows with its lines, and then scrolls.
    desktop.take_clipboard("a row\n" * 40)
    desktop.press("ctrl+v")
    wait_until(lambda: window.draft == "a row\n" * 40, "it is pasted")
    height = lambda: window.find("text", "Message")["area"][3]
    wait_until(lambda: 120 < height() <= 170, height)
    assert desktop.complaints == ""


def test_files_are_chosen_in_a_dialogue_and_pictures_are_pasted(window, tmp_path):
    window = window(approves=True, pollInterval=0)
    desktop = window.desktop
    (tmp_path / "picture.png").write_bytes(PIXEL)
    (tmp_path / "notes.txt").write_text("some notes")
    window.sign_in()
    window.act(BUTTON, "Attach files")
    desktop.wait_for_active("Attach files")
    # A path is typed, as in every program with GTK's dialogue.
    desktop.type(str(tmp_path / "notes.txt"))
    window.shoot("37-attach")
    desktop.press("Return")
    window.wait_for(BUTTON, "Remove notes.txt")
    desktop.wait_for_active("Chappie")
    desktop.start("xclip", "-quiet", "-selection", "clipboard", "-t", "image/png", str(tmp_path / "picture.png"), env=desktop.environment)
    wait_until(lambda: "image/png" in desktop.call("xclip", "-o", "-selection", "clipboard", "-t", "TARGETS").stdout, "it is copied")
    window.click("text", "Message")
    desktop.press("ctrl+v")
    window.wait_for(BUTTON, "Remove picture.png")
    assert window.draft == ""
    window.act(BUTTON, "Send")
    wait_until(lambda: "Images: 1" in window.answer, lambda: window.answer)
    assert window.answer.startswith("You\nAttached: notes.txt\nAttached: picture.png\n") and desktop.complaints == ""


def test_a_narrow_window_shows_the_list_and_the_running_answer(window):
    window = window(approves=True, pollInterval=0, deltasPerSecond=30, rules=[{"match": {**TURN, "nth": 3}, "effect": {"usageLimit": {}}}])
    desktop = window.desktop
    window.sign_in()
    desktop.press("F9")
    window.wait_for("list", "Kept conversations")
    desktop.resize(380, 600)
    wait_until(lambda: window.find("frame")["area"][2] <= 380, lambda: window.find("frame")["area"])
    columns = ["One", "Two", "Three", "Four", "Five", "Six"]
    rows = [columns, ["---"] * 6, *[[f"{row} of a long cell" for _ in columns] for row in ["first", "last"]]]
    window.click("text", "Message")
    window.paste("reply: " + "\n".join(f"|{'|'.join(row)}|" for row in rows))
    cell = window.wait_for("label", "last of a long cell")
    [bar] = [widget for widget in window.below(window.find("text", "Conversation"))
             if widget["role"] == "scroll bar" and "horizontal" in widget["states"] and widget["area"][3] > 0]
    wait_until(lambda: window.find("label", "last of a long cell")["area"][1] + cell["area"][3] <= bar["area"][1] + 1,
               lambda: f"the scroll bar covers the last row: {cell['area']} {bar['area']}")
    window.wait_for(BUTTON, "Send", "sensitive")
    window.ask("repeat 500 words")
    window.says("ChatGPT is answering…")
    window.shoot("38-narrow")
    for role, name in [("list", "Kept conversations"), ("text", "Conversation"), ("text", "Message")]:
        x, y, width, height = window.find(role, name)["area"]
        assert width > 200 and height > 30 and x + width <= 380 and y + height <= 600, (name, x, y, width, height)
    desktop.press("Escape")
    window.wait_without("label", "ChatGPT is answering…")
    window.ask("beyond the limit")
    window.wait_for(BUTTON, "Dismiss", "sensitive")
    window.shoot("38-narrow-error")
    assert window.find("list", "Kept conversations") and window.find("text", "Conversation")["area"][3] > 30
    assert desktop.complaints == ""


def tools(folder, **policies):
    """A manifest of tools that answer when there is a file of their name."""
    listed = []
    for name, policy in policies.items():
        program = folder / f"{name}-tool"
        program.write_text(f'#!/bin/sh\nwhile [ ! -e "{folder}/{name}" ]; do sleep 0.05; done\necho "$0 got $(cat)"\n')
        program.chmod(0o700)
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        listed.append({"name": name, "command": str(program), "inputSchema": schema, "policy": policy, "description": "May do harm."})
    path = folder / "tools.json"
    path.write_text(json.dumps({"tools": listed}))
    return str(path)


def test_a_tool_asks_first_and_nothing_typed_before_answers(window, tmp_path):
    (tmp_path / "up").touch()
    window = window(approves=True, pollInterval=0, settings={"CHAPPIE_TOOLS": tools(tmp_path, up="ask")})
    desktop = window.desktop
    window.sign_in()
    window.ask('call up {"a": "b"}')
    window.wait_for(DIALOG, "May this tool run?", "modal")
    data = window.wait_for("text", "The call and its arguments", "focused")
    assert data["text"] == 'up describes itself as "May do harm."\nThe model wants to run up:\n  "a": "b"\n'
    window.says("This is up with 1 argument. May it run?")
    assert not window.find(BUTTON, "Show all")
    window.shoot("23-question")
    desktop.wait_for_active("May this tool run?")
    desktop.press("Return", "space", "y")
    assert window.find(DIALOG, "May this tool run?") and window.answer.endswith("\n○ up")
    desktop.press("Escape")
    window.wait_without(DIALOG)
    wait_until(lambda: "– up (not run)" in window.answer and "The user said no." in window.answer, lambda: window.answer)
    window.wait_for(BUTTON, "Send", "sensitive")

    window.ask(f'call up {json.dumps({"a": "long " * 1000})}')
    window.wait_for("text", "The call and its arguments", "focused")
    window.act(BUTTON, "Show all")
    wait_until(lambda: len(window.find("text", "The call and its arguments")["text"]) > 5000, "all of it")
    window.shoot("24-long-question")
    window.act(BUTTON, "Always here")
    wait_until(lambda: "✓ up" in window.answer, lambda: window.answer)
    window.wait_for(BUTTON, "Send", "sensitive")
    window.ask('call up {"a": "again"}')
    wait_until(lambda: window.answer.count("✓ up") == 2, lambda: window.answer)
    window.wait_for(BUTTON, "Send", "sensitive")
    assert not window.find(DIALOG)

    # Another conversation asks again, and goes when its turn is stopped.
    desktop.press("ctrl+n")
    window.ask('call up {"a": "b"}')
    window.wait_for(DIALOG, "May this tool run?")
    window.activate("stop")
    window.wait_without(DIALOG)
    wait_until(lambda: window.answer.endswith("(stopped)"), lambda: window.answer)
    assert desktop.complaints == ""


def test_steps_are_ticked_in_the_order_in_which_they_are_done(window, tmp_path):
    settings = {"CHAPPIE_TOOLS": tools(tmp_path, slow="automatic", quick="automatic")}
    window = window(approves=True, pollInterval=0, settings=settings)
    window.sign_in()
    window.paste("comment: I look it up.\ncall slow {}\ncall quick {}")
    wait_until(lambda: "I look it up.\n○ slow\n○ quick" in window.answer, lambda: window.answer)
    (tmp_path / "quick").touch()
    wait_until(lambda: "○ slow\n✓ quick" in window.answer, lambda: window.answer)
    window.shoot("25-steps")
    (tmp_path / "slow").touch()
    wait_until(lambda: "I look it up.\n✓ slow\n✓ quick\n" in window.answer, lambda: window.answer)
    window.wait_for(BUTTON, "Send", "sensitive")
    assert window.desktop.complaints == ""


def test_a_manifest_that_can_not_be_used_is_refused_in_a_sentence(gtk_program, tmp_path):
    (tmp_path / "broken.json").write_text('{"tools": [{}]}')
    (tmp_path / "servers.json").write_text('{"mcpServers": {"one": {"command": "/bin/cat"}}}')
    os.mkfifo(tmp_path / "pipe")
    for name, words in [("broken.json", "tools[0]"), ("servers.json", "tool servers"), ("pipe", "can be read"), ("none", "can be read")]:
        done = subprocess.run([gtk_program, "--tools", tmp_path / name], capture_output=True, text=True, timeout=20 * PATIENCE)
        assert done.returncode == 64 and words in done.stderr and done.stderr.count("\n") == 1, done


def test_kept_conversations_are_found_and_continued(window, passphrase):
    phrase = passphrase("a phrase")
    window = window(approves=True, pollInterval=0, settings={"CHAPPIE_CREDENTIAL_STORE": "file", **phrase})
    desktop = window.desktop
    window.sign_in()
    for question in ["reply: about apples", "reply: about **pears**"]:
        window.ask(question)
        wait_until(lambda: window.answer.endswith(question.split()[-1].strip("*")), lambda: window.answer)
        window.wait_for(BUTTON, "Send", "sensitive")
        desktop.press("ctrl+n")
        wait_until(lambda: window.find("text", "Conversation")["text"] == "", "another conversation")
    listed = lambda: [widget["name"] for widget in window.widgets if widget["role"] == "list item"]
    desktop.press("F9")
    wait_until(lambda: listed() == ["reply: about pears", "reply: about apples"], listed)
    window.shoot("26-conversations")
    assert not any(widget["name"].startswith("These conversations are private") for widget in window.widgets)
    desktop.press("ctrl+q")
    assert window.process.wait(20 * PATIENCE) == 0

    window.process = window.start()
    window.wait_for("text", "Message", "focused")
    desktop.press("F9")
    wait_until(lambda: len(listed()) == 2, listed)
    desktop.type("apples")
    wait_until(lambda: listed() == ["reply: about apples"], listed)
    # From the search into the list, and its row.
    desktop.press("Tab", "Tab", "Return")
    wait_until(lambda: window.answer == "You\nreply: about apples\nChatGPT\nabout apples", lambda: window.answer)
    window.click("text", "Message")
    window.ask("which turn is this?")
    wait_until(lambda: "Turn: 2" in window.answer, lambda: window.answer)
    desktop.press("F9")
    window.rest()

    [database] = desktop.folder.glob("XDG_STATE_HOME/chappie/threads/com.chappie.cli/*/threads.db")
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        [thread] = connection.execute("SELECT id FROM threads ORDER BY number LIMIT 1").fetchone()
        connection.execute("UPDATE threads SET summary = zeroblob(80) WHERE id = ?", [thread])
    desktop.press("F9")
    wait_until(lambda: any(f"The thread {thread} is damaged" in widget["name"] for widget in window.widgets), "it is named")
    assert listed() == ["reply: about pears"]
    assert desktop.complaints == ""


@pytest.fixture
def keeping(window, passphrase):
    """`keeping()`: a window that is signed in and keeps its conversations."""
    def start(**options):
        settings = {"CHAPPIE_CREDENTIAL_STORE": "file", **passphrase("a phrase")}
        started = window(approves=True, pollInterval=0, settings=settings, **options)
        started.sign_in()
        return started
    return start


def test_a_conversation_is_renamed_archived_exported_and_deleted(keeping, tmp_path):
    window = keeping()
    desktop = window.desktop
    window.ask("reply: about apples")
    wait_until(lambda: window.answer.endswith("about apples"), lambda: window.answer)
    window.wait_for(BUTTON, "Send", "sensitive")
    desktop.press("F9")
    listed = lambda: [widget["name"] for widget in window.widgets if widget["role"] == "list item"]
    wait_until(lambda: listed() == ["reply: about apples"], listed)

    def choose(name, *items):
        window.act(BUTTON, f"Menu of {name}")
        for item in items:
            window.act("menu item", item)

    choose("reply: about apples", "Rename…")
    entry = window.wait_for("text", "Rename the conversation", "focused")
    assert entry["text"] == "reply: about apples"
    window.shoot("30-rename")
    desktop.wait_for_active("Rename the conversation")
    desktop.press("ctrl+a")
    desktop.type("Fruit")
    desktop.press("Return")
    wait_until(lambda: listed() == ["Fruit"], listed)

    for format, ending, begins in [("Markdown…", "md", "# Fruit"), ("Web page…", "html", "<!DOCTYPE html>"), ("JSON…", "json", "{")]:
        choose("Fruit", "Export", format)
        file = tmp_path / f"fruit.{ending}"
        window.wait_for("text", None, "focused")
        desktop.wait_for_active("Export the conversation")
        desktop.press("ctrl+a")
        desktop.type(str(file))
        window.shoot(f"31-export-{ending}")
        desktop.press("Return")
        wait_until(file.exists, f"{file} is written")
        window.wait_for("alert", f"“Fruit” is in {file}, not encrypted.")
        assert file.read_text().startswith(begins) and "about apples" in file.read_text() and file.stat().st_mode & 0o777 == 0o600

    choose("Fruit", "Archive")
    wait_until(lambda: listed() == [], listed)
    window.shoot("32-archived")
    window.act(BUTTON, "Undo")
    wait_until(lambda: listed() == ["Fruit"], listed)
    choose("Fruit", "Archive")
    wait_until(lambda: listed() == [], listed)
    window.click("check box", "Show archived")
    wait_until(lambda: listed() == ["Fruit"], listed)
    choose("Fruit", "Put back into the list")
    window.wait_for("alert", "“Fruit” is in the list again.")

    for button in ["Cancel", "Delete"]:
        choose("Fruit", "Delete…")
        window.wait_for(BUTTON, button, "sensitive")
        window.shoot("33-delete")
        assert listed() == ["Fruit"] and window.answer.endswith("about apples")
        desktop.wait_for_active("Delete “Fruit”?")
        window.act(BUTTON, button)
        window.wait_without(BUTTON, button)
    wait_until(lambda: listed() == [], listed)
    window.wait_for("alert", "“Fruit” is deleted.")
    assert window.find("text", "Conversation")["text"] == "", "a deleted conversation would be continued"
    assert desktop.complaints == ""


def test_the_command_line_has_the_same_conversations_and_finds_no_lock(keeping, program):
    window = keeping()
    desktop = window.desktop
    run = lambda *words: subprocess.run([program, *words], env=window.environment, capture_output=True, text=True,
                                        stdin=subprocess.DEVNULL, timeout=60 * PATIENCE)
    window.ask("reply: from the window")
    wait_until(lambda: window.answer.endswith("from the window"), lambda: window.answer)
    window.wait_for(BUTTON, "Send", "sensitive")

    def locks():
        [database] = desktop.folder.glob("XDG_STATE_HOME/chappie/threads/com.chappie.cli/*/threads.db")
        files = [f":{file.stat().st_ino} " for file in database.parent.iterdir()]
        return [line for line in open("/proc/locks", encoding="ascii") if f" {window.process.pid} " in line and any(f in line for f in files)]
    assert locks() == []
    done = run("threads", "list")
    assert done.returncode == 0 and "reply: from the window" in done.stdout, done
    done = run("ask", "-c", "which turn is this?")
    assert done.returncode == 0 and "Turn: 2" in done.stdout, done
    done = run("threads", "verify", "--repair")
    assert done.returncode == 0, done
    # The window shows what has changed when it is used again.
    other = desktop.start("xmessage", "another window", env=desktop.environment)
    desktop.wait_for_active("xmessage")
    other.kill()
    wait_until(lambda: "Turn: 2" in window.answer, lambda: window.answer)
    window.ask("which turn is this?")
    wait_until(lambda: "Turn: 3" in window.answer, lambda: window.answer)
    window.wait_for(BUTTON, "Send", "sensitive")
    assert locks() == []
    # The list reads the store, too.
    desktop.press("F9")
    window.wait_for("list item", "reply: from the window")
    wait_until(lambda: locks() == [], locks)
    assert desktop.complaints == ""


def png(width, height):
    """A red picture."""
    chunk = lambda kind, data: len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    rows = zlib.compress((b"\0" + b"\xc0\x20\x20" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def drawn(folder, *pictures):
    """A kept thread whose tool has drawn these pictures, for prompts that are no names of files."""
    call = lambda number: {"name": "image_generation", "callID": f"c{number}", "arguments": "{}", "isCustom": False}
    item = lambda number: {"type": "function_call", "name": "image_generation", "call_id": f"c{number}", "arguments": "{}"}
    part = lambda url: {"type": "input_image", "image_url": url, "detail": "high"}
    numbers = range(len(pictures))
    question = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Draw."}]}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Here."}]}
    output = lambda number: {"type": "function_call_output", "call_id": f"c{number}", "output": [{**part(0), "image_url": 0}],
                             "sources": [{"url": "https://a.example/x", "title": "A\u202e page"}, {"url": "file:///etc/passwd"}]}
    bodies = [("turn.started", {"messages": [question], "model": "gpt-6-sol"}),
              ("tools.called", {"from": 1, "items": [item(n) for n in numbers], "round": 1, "calls": [call(n) for n in numbers], "frame": {}}),
              *(("tool.finished", {"result": {
                  "call": call(n), "outcome": "succeeded", "steps": [{"image": {"prompt": "../../A red\nfox"}}],
                  "result": {"output": "", "parts": [part(picture)], "isError": False}}}) for n, picture in enumerate(pictures)),
              ("turn.finished", {"from": 1 + len(pictures), "items": [*map(output, numbers), answer], "model": "gpt-6-sol",
                                 "output": [1 + 2 * len(pictures)]})]
    records = [{"position": position, "kind": kind, "date": "2026-11-28T07:00:00.000Z", "body": {"turn": "t", **body}}
               for position, (kind, body) in enumerate(bodies)]
    file = folder / "drawn.json"
    file.write_text(json.dumps({"format": "chappie.thread", "version": 1, "id": "0199-drawn", "records": records}))
    return file


def test_pictures_of_a_kept_conversation_are_shown_and_saved(keeping, program, tmp_path):
    window = keeping()
    desktop = window.desktop
    red = png(1500, 500)
    # A head that names four thousand million pixels, and bytes that are no picture behind a good head.
    huge = red[:16] + (1 << 16).to_bytes(4, "big") * 2 + red[24:]
    broken = red[:41] + bytes(len(red) - 53) + red[-12:]
    url = lambda picture: "data:image/png;base64," + base64.b64encode(picture).decode()
    done = subprocess.run([program, "threads", "import", drawn(tmp_path, url(red), url(huge), url(broken))], env=window.environment,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60 * PATIENCE)
    assert done.stdout == "Imported: 1.\n", done
    desktop.press("F9")
    window.wait_for("list item", "Draw.")
    window.click("list item", "Draw.")
    wait_until(lambda: "Here." in window.answer, lambda: window.answer)
    assert window.answer.count("✓ Draws: ../../A red fox") == 3, window.answer
    # Only an address of the web is a source.
    assert "Sources:\n1. A page: https://a.example/x" in window.answer and "passwd" not in window.answer
    images = lambda: [w for w in window.widgets if w["role"] == "image" and w["name"] == "../../A red fox" and "visible" in w["states"]]
    failures = lambda: [w for w in window.widgets if w["name"] == "This picture can't be shown here." and "visible" in w["states"]]
    wait_until(lambda: len(images()) == 1 and len(failures()) == 2, lambda: str(window.widgets))
    # As wide as the text, in its own proportion.
    x, y, width, height = images()[0]["area"]
    assert 300 < width <= 720 and abs(width / height - 3) < 0.1, images()
    window.shoot("40-picture")
    window.act(BUTTON, "Save As…")
    desktop.wait_for_active("Save the picture")
    texts = lambda: [widget["text"] for widget in window.widgets if widget["role"] == "text"]
    wait_until(lambda: "a-red-fox.png" in texts(), texts)
    desktop.press("ctrl+a")
    desktop.type(str(tmp_path / "saved.png"))
    desktop.press("Return")
    wait_until((tmp_path / "saved.png").exists, "the picture is saved")
    assert (tmp_path / "saved.png").read_bytes() == red and (tmp_path / "saved.png").stat().st_mode & 0o777 == 0o600
    window.click("text", "Message")
    window.ask("which turn is this?")
    wait_until(lambda: "Turn: 2" in window.answer, lambda: window.answer)
    assert desktop.complaints == ""


def test_a_switch_lets_the_model_search_the_web(window):
    window = window(approves=True, pollInterval=0)
    window.sign_in()
    search = 'call web_search {"search_query": [{"q": "swift \\u202e news"}]}'
    window.paste(search)
    wait_until(lambda: "no such tool is declared" in window.answer, lambda: window.answer)
    window.wait_for(BUTTON, "Send", "sensitive")
    window.act(BUTTON, "Search the web")
    # GTK presses a button that is activated, and toggles it a quarter of a second later.
    window.wait_for(BUTTON, "Search the web", "pressed")
    window.paste(search)
    wait_until(lambda: "Searches the web: swift news" in window.answer, lambda: window.answer)
    window.wait_for(BUTTON, "Send", "sensitive")
    window.shoot("41-search")
    assert window.desktop.complaints == ""


def test_without_a_place_to_keep_it_a_conversation_is_private_and_says_so(window, passphrase):
    window = window(approves=True, pollInterval=0, settings={"CHAPPIE_CREDENTIAL_STORE": "file", **passphrase("a phrase")})
    desktop = window.desktop
    window.sign_in()
    (desktop.folder / "XDG_STATE_HOME/chappie/threads").parent.mkdir(exist_ok=True)
    (desktop.folder / "XDG_STATE_HOME/chappie/threads").write_text("in the way")
    window.ask("reply: kept nowhere")
    wait_until(lambda: window.answer.endswith("ChatGPT\nkept nowhere"), lambda: window.answer)
    assert "\nThis conversation is not kept. " in window.answer
    desktop.press("F9")
    window.wait_for("list item", "reply: kept nowhere")
    assert any(widget["name"].startswith("These conversations are private. ") for widget in window.widgets)
    assert desktop.complaints == ""
