"""Threads on their way out and in: the page in a real headless Chromium, and the histories of other programs."""

import base64
import json
import os
import pathlib
import shutil

import pytest
from selenium import webdriver

from conftest import BAD_DATA

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
        add("turn.started", turn=turn, model="gpt-5.5", messages=[message("user", question, *images)])
        if items is None:
            add("turn.failed", turn=turn, error="The usage limit of your plan is reached.")
        else:
            usage = {"inputTokens": 1234, "cachedInputTokens": 0, "outputTokens": 567, "reasoningTokens": 0, "totalTokens": 1801}
            add("turn.finished", **{"turn": turn, "from": 1, "items": items, "model": "gpt-5.5", "usage": usage,
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


def test_a_damaged_file_is_refused_with_its_line_and_nothing_is_kept(simulate, user, tmp_path):
    someone = user(simulate())
    good = exported(tmp_path, ("one", [], [message("assistant", "1")]))
    bad = tmp_path / "rollout-bad.jsonl"
    bad.write_text('{"timestamp":"2026-11-22T12:17:34Z","type":"session_meta","payload":{"id":"a"}}\n{"type":\n{}\n')
    someone.run("threads", "import", str(good), str(bad), status=BAD_DATA, says="Line 2")
    assert someone.run("threads", "list", "--json").events == [{"threads": []}]
