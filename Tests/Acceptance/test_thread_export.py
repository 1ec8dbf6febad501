"""Threads on their way out and in: the page in a real headless Chromium, and the histories of other programs."""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import sqlite3

import pytest
from selenium import webdriver

from conftest import BAD_DATA
from counterparts import PATIENCE

TITLE, TAKEN = "Plans, <b>indexes</b> and a few files", "document.title='taken'"
ANSWER = f"""The **short** version: use an *index*.

## What the planner does

1. It estimates.
   - A scan reads every page.
2. It compares.

| Approach | Reads |
|:---|---:|
| Scan | 10,000 |
| Index | 14 |

```swift
let plan = try await database.explain("SELECT * FROM threads WHERE id = ?") // a line that is longer than a narrow screen
```

> A missing index is no optimisation.

- [x] measure

<script>{TAKEN}</script> <img src=x onerror="{TAKEN}"> ![pixel](https://tracker.invalid/pixel.png)
[run](javascript:{TAKEN}) [read](https://manual.invalid/)
"""
OUTPUT = f"</code></pre></details><script>{TAKEN}</script>\x1b]0;taken\x07\u202egnp.exe"
PIXEL = ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTk"
         "SuQmCC")


def message(role, text, *images):
    kind = "output_text" if role == "assistant" else "input_text"
    shown = [{"type": "input_image", "image_url": image, "detail": "high"} for image in images]
    return {"type": "message", "role": role, "content": [*shown, {"type": kind, "text": text}]}


def exported(folder, *turns):
    """The file of a thread: per turn a question, images, and items with which it ended."""
    records = []
    def add(kind, **body):
        position = len(records)
        records.append({"position": position, "kind": kind, "date": f"2026-11-22T12:{position:02}:05.000Z", "body": body})
    for number, (question, images, items) in enumerate(turns, 1):
        turn = f"turn-{number}"
        add("turn.started", turn=turn, model="gpt-6-sol", messages=[message("user", question, *images)])
        if items is None:
            add("turn.failed", turn=turn, error="The usage limit of your plan is reached.")
        else:
            usage = {"inputTokens": 1234, "cachedInputTokens": 0, "outputTokens": 567, "reasoningTokens": 0, "totalTokens": 1801}
            add("turn.finished", **{"turn": turn, "from": 1, "items": items, "model": "gpt-6-sol", "usage": usage,
                                    "text": items[-1]["content"][0]["text"], "output": items[-1:]})
        if number == 1:
            add("thread.compacted", context={"items": [], "summary": "They spoke of **plans**."})
    add("thread.renamed", title=TITLE)
    file = folder / "thread.json"
    file.write_text(json.dumps({"format": "chappie.thread", "version": 1, "id": "0199-exported", "records": records}))
    return file


@pytest.fixture
def page(simulate, user, tmp_path):
    call = {"type": "function_call", "name": "list_files", "call_id": "c1", "arguments": '{"path": "."}'}
    output = {"type": "function_call_output", "call_id": "c1", "output": OUTPUT}
    file = exported(
        tmp_path, (f"How does it choose?\n\n<script>{TAKEN}</script>", [PIXEL, "https://tracker.invalid/a.png"],
                   [call, output, message("assistant", ANSWER)]),
        ("ما الفرق بين الفهرس والمسح الكامل؟", [], [message("assistant", "الفهرس يقرأ صفحات قليلة.")]), ("And again?", [], None))
    someone = user(simulate())
    someone.run("threads", "import", str(file))
    someone.run("threads", "export", "-o", str(tmp_path / "page.html"))
    return tmp_path / "page.html"


@pytest.fixture
def browser(tmp_path, stack):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                     "--disable-background-networking", f"--user-data-dir={tmp_path}/profile", "--no-sandbox"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    stack.callback(driver.quit)
    driver.command_executor.client_config.timeout = 120 * PATIENCE
    return driver


def shoot(browser, folder, name):
    if folder:
        os.makedirs(folder, exist_ok=True)
        picture = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        pathlib.Path(folder, f"thread-{name}.png").write_bytes(base64.b64decode(picture["data"]))


@pytest.mark.page
def test_the_page_runs_nothing_fetches_nothing_and_fits_each_screen_and_paper(page, browser, request):
    folder = request.config.getoption("--screenshots")
    browser.get("about:blank")
    browser.get_log("performance")
    browser.get(page.as_uri())
    assert browser.title == TITLE
    for width in (400, 900, 1600):
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            opens = "true" if scheme == "dark" else "false"
            browser.execute_script(f"document.querySelectorAll('details').forEach(details => details.open = {opens})")
            shoot(browser, folder, f"{width}-{scheme}")
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width, "it is wider than the screen"
    text = browser.find_element("tag name", "body").text
    for part in ("How does it choose?", f"<script>{TAKEN}</script>", "What the planner does", "10,000", "They spoke of plans.",
                 "list_files", "1234 tokens in", "The usage limit of your plan is reached.", "الفهرس يقرأ صفحات قليلة.",
                 "image: https://tracker.invalid/a.png"):
        assert part in text, part
    headings = browser.execute_script("return [...document.querySelectorAll('h1,h2,h3,h4')].map(heading => heading.tagName)")
    assert headings == ["H1", "H2", "H4", "H2", "H2"], headings
    assert browser.execute_script("return [...document.images].map(image => image.naturalWidth)") == [10]
    # The links that lead nowhere are followed all the same.
    browser.execute_script("[...document.links].filter(link => link.textContent == 'run').forEach(link => link.click())")
    assert browser.title == TITLE
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    browser.execute_script("document.querySelectorAll('details').forEach(details => details.open = false)")
    shoot(browser, folder, "paper")
    shown = browser.execute_script("return document.querySelector('.tool pre').getBoundingClientRect().height")
    assert shown > 0, "what is folded away is missing on paper"
    paper = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    assert base64.b64decode(paper["data"]).startswith(b"%PDF-")
    requests = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    addresses = {event["params"]["request"]["url"] for event in requests if event["method"] == "Network.requestWillBeSent"}
    assert all(address.startswith(("file:", "data:image/png")) for address in addresses), addresses
    assert browser.get_log("browser") == [], "the page complains"


def test_complete_forms_come_back_and_a_second_import_changes_nothing(simulate, user, tmp_path):
    simulator = simulate()
    first, second = user(simulator), user(simulator)
    file = exported(tmp_path, ("one", [], [message("assistant", OUTPUT)]), ("two", [], None))
    first.run("threads", "import", str(file))
    whole = first.run("threads", "export").output
    for name in ("a.json", "a.jsonl"):
        first.run("threads", "export", "-o", str(tmp_path / name))
    for name, imported, present in (("a.jsonl", 1, 0), ("a.json", 0, 1), ("a.jsonl", 0, 1)):
        [told] = second.run("threads", "import", "--json", str(tmp_path / name)).events
        assert (len(told["imported"]), len(told["present"])) == (imported, present), told
    assert second.run("threads", "export").output == whole
    text = first.run("threads", "export", "--format", "markdown").output
    assert "> one" in text and not set(text) & set("\x1b\x07\u202e")


@pytest.mark.slow
@pytest.mark.page
def test_ten_megabytes_are_one_message_like_another(simulate, user, tmp_path, browser):
    someone = user(simulate())
    long = "\u202eword " * 1_250_000 + "the end"
    someone.run("threads", "import", str(exported(tmp_path, (long, [], [message("assistant", "1")]))), timeout=300)
    for words in (["show"], ["export", "--format", "html"]):
        text = someone.run("threads", *words, timeout=300).output
        assert text.count("word") == 1_250_000 and text.count("the end") == 1 and "\u202e" not in text
    (tmp_path / "page.html").write_text(text)
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.execute_script("return document.body.textContent.split('word').length") == 1_250_001
    assert browser.get_log("browser") == [], "the page complains"



def codex_session(folder, session, question, answer):
    """The file that the Codex CLI 0.163.0 writes of one turn with a command."""
    lines = []
    def add(kind, **payload):
        lines.append({"timestamp": f"2026-11-22T12:17:{len(lines):02}.250Z", "ordinal": len(lines), "type": kind, "payload": payload})
    def add_message(role, text, kind):
        shown = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": [kind]}} if role == "user" else {}
        add("response_item", id=f"msg_{len(lines)}", **message(role, text), **shown)
    add("session_meta", id=session, timestamp="2026-11-22T12:17:00.000Z", cwd="/home/user", originator="codex_exec",
        cli_version="0.163.0", source="exec", model_provider="openai")
    add("event_msg", type="task_started", turn_id="turn-a", model_context_window=258400)
    add("response_item", type="message", role="developer", content=[{"type": "input_text", "text": "<permissions>"}])
    add_message("user", "<environment_context>\n  <cwd>/home/user</cwd>", "environments.environment_context")
    add("turn_context", turn_id="turn-a", cwd="/home/user", approval_policy="never", model="gpt-6-sol", summary="auto")
    add_message("user", question, "user.text")
    add("event_msg", type="user_message", message=question)
    add("response_item", type="reasoning", id="rs_1", summary=[], encrypted_content="sealed")
    add("response_item", type="function_call", id="fc_1", name="exec_command", arguments='{"cmd":"date"}', call_id="call_1")
    add("response_item", type="function_call_output", call_id="call_1", output="Sun Nov 22")
    add_message("assistant", answer, None)
    add("event_msg", type="agent_message", message=answer)
    add("token_usage_record", turn_token_usage={"input_tokens": 70, "output_tokens": 3, "total_tokens": 73})
    add("event_msg", type="task_complete", turn_id="turn-a", last_agent_message=answer)
    file = folder / f"rollout-2026-11-22T12-17-00-{session}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_pictures_are_lines_on_a_terminal_files_next_to_markdown_and_inside_a_page(simulate, user, tmp_path):
    call = {"type": "function_call", "name": "image_generation", "call_id": "c1", "arguments": '{"prompt": "../../a fox"}'}
    made = [{"type": "input_image", "image_url": PIXEL, "detail": "high"}, {"type": "input_text", "text": "Picture 2."}]
    output = {"type": "function_call_output", "call_id": "c1", "output": made}
    file = exported(tmp_path, ("Like this.", [PIXEL], [call, output, message("assistant", "Here it is.")]))
    someone = user(simulate())
    someone.run("threads", "import", str(file))
    line, digits, bytes_of = "[picture: image/png, 10×10, 1 KB]", PIXEL.partition(",")[2], base64.b64decode(PIXEL.partition(",")[2])
    for words in [("show",), ("export", "--format", "markdown"), ("export", "--all", "--format", "markdown")]:
        shown = someone.run("threads", *words).output
        assert shown.count(line) == 2 and digits not in shown and "Picture 2." in shown, shown
    assert someone.run("threads", "export", "-o", "/dev/stdout", "--format", "markdown").output.count(line) == 2
    page = someone.run("threads", "export", "--format", "html").output
    assert page.count(f'<img class="picture" src="{PIXEL}"') == 2, page

    def check(folder, document):
        assert sorted(path.name for path in folder.iterdir()) == ["0199-exported-1.png", "0199-exported-2.png", document]
        text = (folder / document).read_text()
        assert "](0199-exported-1.png)" in text and "](0199-exported-2.png)" in text and f"*{line}*" not in text, text
        for path in folder.iterdir():
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.suffix != ".png" or path.read_bytes() == bytes_of
    one, every = tmp_path / "one", tmp_path / "all"
    one.mkdir()
    for _ in range(2):
        someone.run("threads", "export", "-o", str(one / "fox.md"))
        check(one, "fox.md")
        someone.run("threads", "export", "--all", "-o", str(every), "--format", "markdown")
        check(every, "0199-exported.md")
    # The complete form has them all, and each once.
    whole = someone.run("threads", "export").output
    assert whole.count(digits) == 2
    (tmp_path / "again.json").write_text(whole.replace("0199-exported", "0199-again"))
    assert someone.run("threads", "import", str(tmp_path / "again.json")).output == "Imported: 1.\n"
    assert someone.run("threads", "export", "0199-again").output.count(digits) == 2
    assert not someone.run("threads", "search", "--json", digits[:20]).events[0]["hits"]


# The tables of version 0.27.1 in which conversations are.
LLM = """
    CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
    CREATE TABLE responses (
        id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, prompt_json TEXT, options_json TEXT, response TEXT,
        response_json TEXT, conversation_id TEXT REFERENCES conversations(id), duration_ms INTEGER, datetime_utc TEXT,
        input_tokens INTEGER, output_tokens INTEGER, token_details TEXT, schema_id TEXT, resolved_model TEXT);
    CREATE VIRTUAL TABLE responses_fts USING FTS5 (prompt, response, content=responses);
    CREATE TABLE prompt_attachments (
        response_id TEXT REFERENCES responses(id), attachment_id TEXT, "order" INTEGER, PRIMARY KEY (response_id, attachment_id));
    CREATE TABLE prompt_fragments (response_id TEXT REFERENCES responses(id), fragment_id INTEGER, "order" INTEGER);
    CREATE TABLE tool_calls (
        id INTEGER PRIMARY KEY, response_id TEXT REFERENCES responses(id), tool_id INTEGER, name TEXT, arguments TEXT,
        tool_call_id TEXT);
    CREATE TABLE tool_results (
        id INTEGER PRIMARY KEY, response_id TEXT REFERENCES responses(id), tool_id INTEGER, name TEXT, output TEXT,
        tool_call_id TEXT, instance_id INTEGER, exception TEXT);
    INSERT INTO conversations VALUES ('01kb1', 'About nightingales', 'gpt-4o-mini');
    INSERT INTO responses VALUES
        ('01kb2', 'gpt-4o-mini', 'Do nightingales sing?', 'Be brief.', NULL, '{}', 'I look it up.', NULL, '01kb1', 1200,
         '2026-11-20T09:00:00.622911+00:00', 5, 6, NULL, NULL, 'gpt-4o-mini-2026'),
        ('01kb3', 'gpt-4o-mini', '', NULL, NULL, '{}', 'At night.', NULL, '01kb1', 800, '2026-11-20T09:00:02.545026+00:00',
         9, 3, NULL, NULL, NULL);
    INSERT INTO tool_calls VALUES (1, '01kb2', 1, 'birds', '{"name": "nightingale"}', 'tc1');
    INSERT INTO tool_results VALUES (1, '01kb3', 1, 'birds', 'sings at night', 'tc1', NULL, NULL);
    INSERT INTO prompt_attachments VALUES ('01kb2', 'picture', 0);
"""


def test_histories_of_other_programs_are_shown_found_and_gone_on_with(simulate, signed_in, tmp_path):
    someone = signed_in(simulate())
    sessions = tmp_path / "sessions"
    day = sessions / "2026" / "11" / "22"
    ids = ["019aabcd-0000-7000-8000-000000000001", "019aabcd-0000-7000-8000-000000000002"]
    file = codex_session(day, ids[0], "Which day is it?", "It is **Sunday**.")
    codex_session(day, ids[1], "And tomorrow?", "Monday.")
    (day / "rollout-torn.jsonl").write_text("{")
    (day / "notes.jsonl").write_text("of another program")
    log = tmp_path / "logs.db"
    with contextlib.closing(sqlite3.connect(log)) as database:
        database.executescript(LLM)

    imports = lambda path, **more: someone.run("threads", "import", "--json", str(path), **more).events[0]
    assert imports(file) == {"imported": ids[:1], "updated": [], "present": [],
                             "left_out": {"instruction of the program": 2, "reasoning": 1}}
    # A session that cannot be read is damage, and another program's file is not.
    told = imports(sessions, status=BAD_DATA)
    assert (told["imported"], told["present"]) == (ids[1:], ids[:1])
    assert told["left_out"]["file of another kind 2026/11/22/notes.jsonl"] == 1, told
    assert any(what.startswith("unreadable file 2026/11/22/rollout-torn.jsonl") for what in told["left_out"]), told
    assert imports(log) == {"imported": ["01kb1"], "updated": [], "present": [], "left_out": {"attachment": 1}}
    someone.run("threads", "import", str(log), says="Left out: attachment (1)")

    for thread, parts in ((ids[0], ["Which day is it?", "date", "Sun Nov 22", "Sunday", "gpt-6-sol"]),
                          ("01kb1", ["Do nightingales sing?", "birds", "sings at night", "At night."])):
        shown = someone.run("threads", "export", "--format", "markdown", thread).output
        assert [part for part in parts if part not in shown] == [] and "<environment_context>" not in shown, shown
    [hit] = someone.run("threads", "search", "--json", "nightingal").events[0]["hits"]
    assert hit["thread"]["id"] == "01kb1"
    for thread in (ids[0], "01kb1"):
        assert someone.ask("reply: it goes on", "--thread", thread).output == "it goes on\n"


def test_a_file_without_threads_is_an_error_and_costs_no_other_file(simulate, user, tmp_path):
    someone = user(simulate())
    good = exported(tmp_path, ("one", [], [message("assistant", "1")]))
    bad = tmp_path / "rollout-bad.jsonl"
    bad.write_text('{"timestamp":"2026-11-22T12:17:34Z","type":"session_meta","payload":{"id":"a"}}\n{"type":\n{}\n')
    told = someone.run("threads", "import", str(bad), str(good), status=BAD_DATA, says="it contains no threads.")
    assert "Left out: unreadable line (2)." in told.errors, told.errors
    assert told.output == "Imported: 1.\n"
    assert len(someone.run("threads", "list", "--json").events[0]["threads"]) == 1


def test_threads_beyond_the_room_are_refused_before_any_of_their_file_is_kept(simulate, user, tmp_path):
    someone = user(simulate(), CHAPPIE_THREADS_LIMIT="1")
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir(), large.mkdir()
    files = [exported(small, ("one", [], [message("assistant", "1")])),
             exported(large, ("word " * 300_000, [], [message("assistant", "1")]))]
    exported_id = json.loads(files[1].read_text())["id"]
    files[1].write_text(files[1].read_text().replace(exported_id, "a-large-one"))
    told = someone.run("threads", "import", *map(str, files), status=None, says="of the 1048576 they may have")
    assert told.output == "Imported: 1.\n"


def test_a_session_that_has_grown_is_brought_up_to_date(simulate, user, tmp_path):
    someone = user(simulate())
    file = codex_session(tmp_path, "019aabcd-0000-7000-8000-000000000003", "Which day is it?", "It is **Sunday**.")
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join(whole[:10]))
    assert someone.run("threads", "import", str(file)).output == "Imported: 1.\n"
    file.write_text("".join(whole))
    assert someone.run("threads", "import", str(file)).output == "Imported: 0. Brought up to date: 1.\n"
    assert "Sunday" in someone.run("threads", "show").output
    assert someone.run("threads", "import", str(file)).output == "Imported: 0. Already present: 1.\n"
