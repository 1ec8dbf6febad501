"""`chappie search`, `chappie draw`, and both in conversations: what is printed, which files there are, and how they end."""

import base64
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from conftest import INTERRUPTED, UNAVAILABLE, USAGE
from counterparts import PATIENCE, wait_until
from test_ask import write
from test_mcp import served
from test_terminal import CONTROL_C, CONTROL_D, PROMPT, Pty

PNG = b"\x89PNG\r\n\x1a\n"
SEARCH, GENERATIONS, EDITS = "/codex/alpha/search", "/codex/images/generations", "/codex/images/edits"


@pytest.fixture
def person(simulate, user, passphrase, tmp_path, monkeypatch):
    """`person("image-slow")`: someone who works in an empty folder, whose conversations are kept."""
    def make(*words, **settings):
        simulator = simulate(*words, pollInterval=0, **settings) if not words else simulate(*words)
        someone = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", TERM="xterm", **passphrase("open")).sign_in()
        someone.simulator = simulator
        return someone
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return make


@pytest.fixture
def files(tmp_path):
    """The names of the files in the current folder."""
    return lambda: sorted(path.name for path in (tmp_path / "work").iterdir())


def requests(someone, path):
    return sum(path in line for line in someone.simulator.log)


# MARK: Search

def test_a_search_prints_a_line_for_each_result(person):
    someone = person()
    lines = someone.run("search", "Swift", "6.4", "--domain", "swift.org", "--domain", "forums.example", "--recent", "7d").output.splitlines()
    assert [line.split("\t") for line in lines] == [
        ["Swift 6.4, page 1", "https://swift.org/swift-6-4/1", "What swift.org says about Swift 6.4."],
        ["Swift 6.4, page 2", "https://forums.example/swift-6-4/2", "What forums.example says about Swift 6.4."]]
    [answer] = someone.run("search", "Swift", "--json").events
    assert answer["results"][0] == {"title": "Swift, page 1", "url": "https://example.com/swift/1", "domain": "example.com",
                                    "excerpt": "What example.com says about Swift."} and "turn0search0" in answer["text"]
    # Nothing is kept of it.
    assert someone.run("threads", "--json").events[0]["threads"] == []


def test_a_page_is_opened_and_nothing_but_a_page_of_the_web(person):
    someone = person()
    page = someone.run("search", "--open", "https://swift.org/blog/")
    assert "L0: A page at https://swift.org/blog/" in page.output and "This page is made up." in page.output
    assert "made up" in someone.run("search", "--open", "https://swift.org/blog/", "--json").events[0]["text"]
    wait_until(lambda: requests(someone, SEARCH) == 2, "both are in the simulator's log")
    for address in ("file:///etc/passwd", "swift.org", "javascript:alert(1)", "/etc/passwd"):
        someone.run("search", "--open", address, status=USAGE, says="is not an address of the web")
    someone.run("search", "--recent", "2999-01-01", "x", status=USAGE, says="is in the future")
    someone.run("search", "--recent", "soon", "x", status=USAGE, says="soon is not a date")
    someone.run("search", status=USAGE, says="nothing to search for")
    assert requests(someone, SEARCH) == 2


NOTHING = {"match": {"path": "/backend-api/codex/alpha/search"}, "effect": {"status": 200, "body": {"output": "", "results": []}}}
HOSTILE = {"match": {"path": "/backend-api/codex/alpha/search"}, "effect": {"status": 200, "body": {"output": "", "results": [
    {"title": "\x1b[2JTi\ttle\u202e", "url": "https://example.com/\u202egpj.exe", "snippet": "one\ntwo\x1b]0;x\x07"},
    {"title": "Bank", "url": "https://bank.example@example.com/", "snippet": ""},
    {"title": "No page", "url": "javascript:alert(1)", "snippet": "gone"}]}}}


def test_nothing_found_is_no_failure(person):
    outcome = person(rules=[NOTHING]).run("search", "words")
    assert outcome.output == "" and outcome.errors == "Nothing was found.\n"


def test_titles_and_addresses_are_cleaned(person):
    someone = person(rules=[HOSTILE])
    line, other = someone.run("search", "words").output.splitlines()
    assert line.split("\t") == ["[2JTi tle", "https://example.com/\\u{202E}gpj.exe", "one two ]0;x"], line
    assert other == "Bank\thttps://example.com/\t"
    with Pty(someone, "search", "words") as terminal:
        terminal.shows(rb"Ti tle.*gpj\.exe.*one two")
        terminal.ends(0)
        shown = terminal.shown.decode()
    assert "\x1b[2J" not in shown and "\u202e" not in shown and "\x1b]0" not in shown and "javascript" not in shown, shown


def test_a_terminal_shows_results_as_blocks(person):
    with Pty(person(), "search", "Swift") as terminal:
        terminal.shows(b"Swift, page 2.*says about Swift")
        terminal.ends(0)
        shown = terminal.shown.decode().replace("\r\n", "\n")
    assert "\x1b[1mSwift, page 1\x1b[0m\n  https://example.com/swift/1\n  What example.com says about Swift.\n\n" in shown, shown


def test_a_search_that_fails_says_why(person):
    person("search-no-response").run("search", "x", status=UNAVAILABLE, says="The web search failed")


# MARK: Pictures

def test_a_picture_is_saved_under_the_name_of_its_prompt(person, files, tmp_path):
    someone, folder = person(), tmp_path / "work"
    outcome = someone.run("draw", "A red fox,", "../in the snow!")
    assert (outcome.output, outcome.errors, files()) == ("a-red-fox-in-the-snow.png\n", "", ["a-red-fox-in-the-snow.png"])
    assert (folder / "a-red-fox-in-the-snow.png").read_bytes().startswith(PNG)
    # Nothing is replaced.
    assert someone.run("draw", "A red fox in the snow").output == "a-red-fox-in-the-snow-2.png\n"
    [facts] = someone.run("draw", "--json", "--size", "1024x1536", "--quality", "low", "../../etc/passwd").events
    usage = facts.pop("usage")
    assert facts == {"path": "etc-passwd.png", "media_type": "image/png", "width": 48, "height": 32, "bytes": (folder / "etc-passwd.png").stat().st_size}
    assert usage["output_tokens"] == 1056
    # The prompt from a pipe, the picture into one.
    with someone.start("draw", "-o", "-", stdin=subprocess.PIPE, text=False) as process:
        picture, errors = process.communicate(b"A red fox\n", timeout=60 * PATIENCE)
    assert picture.startswith(PNG) and errors == b"" and process.returncode == 0
    assert len(files()) == 3


def test_a_file_is_replaced_only_with_force_and_before_that_nothing_is_paid(person, files, tmp_path):
    someone, target = person(), tmp_path / "work/fox.png"
    target.write_text("mine")
    someone.run("draw", "-o", "fox.png", "a fox", status=USAGE, says="fox.png exists.")
    someone.run("draw", "-o", "missing/fox.png", "a fox", status=USAGE, says="can't be written")
    someone.run("draw", "-i", "missing.png", "a fox", status=USAGE, says="missing.png")
    someone.run("draw", status=USAGE, says="nothing to draw")
    assert target.read_text() == "mine" and requests(someone, "/codex/images/") == 0
    assert someone.run("draw", "--force", "-o", "fox.png", "a fox").output == "fox.png\n"
    assert target.read_bytes().startswith(PNG) and files() == ["fox.png"]
    someone.run("draw", "-o", "other.jpg", "a fox")
    assert files() == ["fox.png", "other.jpg"]


def test_pictures_are_changed(person, tmp_path):
    someone = person()
    someone.run("draw", "-o", "fox.png", "a fox")
    [facts] = someone.run("draw", "--json", "-i", "fox.png", "-i", "fox.png", "--transparent", "two foxes").events
    # The simulator's edits have another shape.
    assert (facts["path"], facts["width"], facts["height"]) == ("two-foxes.png", 32, 48)
    wait_until(lambda: requests(someone, EDITS) and requests(someone, GENERATIONS), "both are in the simulator's log")
    piped = subprocess.run([someone.program, "draw", "-i", "-", "A hat"], env=someone.environment, capture_output=True,
                           stdin=open("fox.png", "rb"), timeout=60 * PATIENCE)
    assert piped.stdout == b"a-hat.png\n", piped


@pytest.mark.parametrize("scenario, says", [
    ("image-moderation", "The service's safety check refused"), ("image-429", "too many pictures"), ("image-none", "No picture came back"),
    ("image-not-a-picture", "Nothing was saved"), ("image-hang-up", "may have been made")])
def test_a_picture_that_is_not_made_leaves_no_file(scenario, says, person, files):
    outcome = person(scenario).run("draw", "-o", "fox.png", "a fox", status=None)
    assert outcome.status and says.lower() in outcome.errors.lower() and outcome.errors.startswith("chappie: "), outcome
    assert outcome.output == "" and files() == []


def test_a_large_picture_takes_little_more_memory_than_its_answer(person):
    # The program is started by a small process, because the peak of a new process includes the memory of its parent.
    measure = """if True:
        import resource, subprocess, sys
        status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
        print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""
    process = person("image-large").start("draw", "a fox", prefix=(sys.executable, "-c", measure))
    status, peak = map(int, process.communicate()[0].split())
    # 25 MiB; the answer has 33 MiB of Base64.
    assert status == 0 and os.stat("a-fox.png").st_size > 24 << 20 and peak < 128 << 10, peak


# MARK: Terminals

KITTY = {"TERM": "xterm-kitty"}
ITERM = {"TERM_PROGRAM": "iTerm.app"}


def test_a_terminal_with_a_protocol_shows_the_picture(person, tmp_path):
    someone = person()
    picture = lambda name: base64.b64encode((tmp_path / "work" / name).read_bytes()).decode()
    with Pty(someone.having(**KITTY), "draw", "a fox") as terminal:
        terminal.shows(rb"a-fox\.png.*48 .* 32, PNG")
        terminal.ends(0)
        [*_, pieces] = re.findall("((?:\x1b_G[^\x1b]*\x1b\\\\)+)", terminal.shown.decode())
        commands = re.findall("\x1b_G([^;]*);([^\x1b]*)\x1b", pieces)
        assert commands[0][0].startswith("a=T,f=100,q=2,c=6,") and commands[-1][0].endswith("m=0")
        assert "".join(data for _, data in commands) == picture("a-fox.png")
    with Pty(someone.having(**ITERM), "draw", "a hat") as terminal:
        terminal.shows(rb"a-hat\.png.*PNG")
        terminal.ends(0)
        assert f":{picture('a-hat.png')}\x07" in terminal.shown.decode()
    # A pipe, and a terminal that is told to have no cursor movement, get no picture.
    for other in (someone.having(**KITTY, NO_COLOR="1"), someone.having(TERM="dumb"), someone.having(**KITTY, TMUX="/tmp/t,1,1")):
        with Pty(other, "draw", "a dog") as terminal:
            terminal.shows(rb"a-dog(-\d)?\.png")
            terminal.ends(0)
            assert "\x1b_G" not in terminal.shown.decode()
    outcome = someone.having(**KITTY).run("draw", "a cat")
    assert outcome.output == "a-cat.png\n" and outcome.errors == ""


@pytest.mark.parametrize("script, is_shown", [("#!/bin/sh\nprintf 'drawn %s %s' \"$2\" \"$3\"\n", True), ("#!/bin/sh\nprintf half\nexit 1\n", False)],
                         ids=["works", "fails"])
def test_chafa_shows_the_picture_in_other_terminals(script, is_shown, person, tmp_path):
    tool = write(tmp_path / "bin/chafa", script)
    os.chmod(tool, 0o755)
    someone = person()
    with Pty(someone.having(PATH=f"{tmp_path}/bin:/usr/bin:/bin"), "draw", "a fox") as terminal:
        terminal.shows(rb"a-fox\.png\r\n")
        terminal.ends(0)
        shown = terminal.shown.decode()
    assert ("drawn 6x20 ./a-fox.png" in shown) == is_shown and "half" not in shown, shown


def test_ctrl_c_while_the_web_is_searched(person):
    with Pty(person("search-hang"), "search", "Swift") as terminal:
        terminal.shows(b"Searching")
        terminal.type(CONTROL_C)
        terminal.ends(INTERRUPTED)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_while_a_picture_is_made_leaves_no_file(number, person, files):
    someone = person("image-hang")
    for words in (["a fox"], ["-o", "fox.png", "a fox"]):
        with Pty(someone, "draw", *words) as terminal:
            terminal.shows(rb"Drawing.*[5-9] s \(Ctrl-C stops it\)")
            terminal.send(number)
            terminal.ends(128 + number)
    assert files() == []


# MARK: Conversations

def test_a_model_makes_and_changes_pictures_in_a_conversation(person, files):
    someone = person()
    outcome = someone.run("ask", "--draw", "draw: A red fox\nreply: Here it is.")
    assert outcome.output == "Here it is.\n" and files() == ["a-red-fox.png"]
    assert outcome.errors == "· Draws: A red fox\nThe picture is in a-red-fox.png (48 × 32, PNG).\n", outcome.errors
    changed = 'call image_generation {"prompt": "make the hat red", "images": [1]}'
    events = someone.run("ask", "--draw", "-c", "--json", changed).events
    [picture] = [event for event in events if event["type"] == "picture"]
    assert (picture["path"], picture["width"], picture["height"]) == ("make-the-hat-red.png", 32, 48), picture
    assert files() == ["a-red-fox.png", "make-the-hat-red.png"]
    wait_until(lambda: requests(someone, EDITS), "the edit is in the simulator's log")
    # Without the option the model has no such tool.
    assert "image_generation" not in someone.run("ask", "draw: A red fox\nreply: No.").errors and len(files()) == 2


def test_a_folder_that_takes_no_file_loses_no_answer_and_costs_no_picture(person, monkeypatch):
    someone = person()
    monkeypatch.chdir("/proc")
    someone.run("draw", "a fox", status=USAGE, says="A picture in this folder can't be written")
    assert requests(someone, GENERATIONS) == 0
    outcome = someone.run("ask", "--draw", "draw: a fox\nreply: Woof.", says="a-fox.png can't be written")
    assert outcome.output == "Woof.\n"


def test_a_search_in_an_answer_shows_its_steps_and_sources(person):
    someone = person()
    outcome = someone.run("ask", "--web", "search: swift\nreply: It is out: https://example.com/swift/1")
    assert outcome.errors == "· Searches the web: swift\n", outcome.errors
    assert outcome.output.endswith("\n\nSources:\n1. swift, page 1: https://example.com/swift/1\n"), outcome.output
    opened = someone.run("ask", "--web", 'call web_search {"open": [{"ref_id": "https://swift.org/"}]}')
    assert "· Opens https://swift.org/\n" in opened.errors and "web_search" not in opened.errors, opened.errors


def test_a_search_inside_of_the_answer_has_rows_too(person):
    with Pty(person("search-404"), "chat", "--web") as terminal:
        terminal.shows(PROMPT)
        terminal.type(b"search: swift\r")
        terminal.shows(b"Searches the web: swift.*can't be reached here.*" + PROMPT)
        terminal.type(b"search: linux\r")
        terminal.shows("· Searched the web: linux".encode() + b".*" + PROMPT)
        terminal.type(CONTROL_D)
        terminal.ends(0)


def test_ctrl_c_while_a_model_searches_or_draws(person, files):
    for scenario, words, row in (("search-hang", ["--web", "search: swift"], b"Searches the web: swift"),
                                 ("image-hang", ["--draw", "draw: a fox"], b"Draws: a fox.*Drawing")):
        with Pty(person(scenario), "ask", *words) as terminal:
            terminal.shows(row)
            terminal.type(CONTROL_C)
            terminal.ends(INTERRUPTED)
    assert files() == []


def test_a_chat_makes_pictures_when_it_is_told_to(person, files):
    someone = person()
    with Pty(someone.having(**KITTY), "chat") as terminal:
        terminal.shows(PROMPT)
        terminal.type(b"/draw on\r")
        terminal.shows(b"The model may make pictures." + b".*" + PROMPT)
        terminal.type(b"draw: a fox\r")
        terminal.shows(b"Draws: a fox.*\x1b_G.*The picture is in a-fox.png.*" + PROMPT)
        terminal.type(b"/draw off\r")
        terminal.shows(b"The model makes no pictures.*" + PROMPT)
        terminal.type(CONTROL_D)
        terminal.ends(0)
    assert files() == ["a-fox.png"]
    # A line of a pipe writes files only where that is allowed.
    someone.run("chat", input="/draw on\n", status=None, says="/draw needs --commands")
    someone.run("chat", "--commands", input="/draw on\ndraw: a hat\n")
    someone.run("chat", "--draw", input="draw: a dog\n")
    assert files() == ["a-dog.png", "a-fox.png", "a-hat.png"]


# MARK: Other programs

@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_other_programs_search_and_draw(era, person, files):
    someone = person()

    async def work(client):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        reports = []

        async def note(progress, total, message):
            reports.append(message)

        found = await client.call_tool("search_web", {"query": "Swift", "domains": ["swift.org"], "recent_days": 7})
        page = await client.call_tool("open_page", {"address": "https://swift.org/"})
        refused = await client.call_tool("open_page", {"address": "file:///etc/passwd"})
        drawn = await client.call_tool("draw_picture", {"prompt": "a fox", "quality": "low"}, progress_callback=note)
        return tools, found, page, refused, drawn, reports

    tools, found, page, refused, drawn, reports = served(someone, era, work, "--no-threads", "--search", "--draw")
    assert tools == ["ask", "search_web", "open_page", "draw_picture"]
    assert found.content[0].text.startswith("Swift, page 1\nhttps://swift.org/swift/1\n") and "made up" in page.content[0].text
    assert refused.is_error and "is not an address of the web" in refused.content[0].text
    picture, facts = drawn.content
    assert picture.type == "image" and picture.mime_type == "image/png" and base64.b64decode(picture.data).startswith(PNG)
    assert facts.text == "The picture: 48 × 32, PNG." and reports[0].startswith("Drawing"), (facts, reports)
    assert files() == []


def test_a_picture_for_another_program_is_cancelled_and_without_the_options_there_is_none(person):
    someone = person("image-hang")
    process = someone.start("mcp", "--draw", stdin=subprocess.PIPE)
    send = lambda **message: (process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n"), process.stdin.flush())
    send(id=1, method="tools/call", params={"name": "draw_picture", "arguments": {"prompt": "a fox"}, "_meta": {"progressToken": 7}})
    report = json.loads(process.stdout.readline())
    assert report["method"] == "notifications/progress" and report["params"]["progressToken"] == 7, report
    send(method="notifications/cancelled", params={"requestId": 1})
    send(id=2, method="ping")
    answer = json.loads(process.stdout.readline())
    assert answer == {"jsonrpc": "2.0", "id": 2, "result": {}}, answer
    process.stdin.close()
    assert process.wait(30 * PATIENCE) == 0
    listed = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    names = [tool["name"] for tool in someone.run("mcp", input=listed + "\n").events[0]["result"]["tools"]]
    assert names == ["ask", "search_threads", "read_thread"]
