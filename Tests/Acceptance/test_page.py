"""The sign-in page in a real headless Chromium."""

import importlib.metadata
import json
import os
import pathlib
import re
import shutil

import pytest
from selenium import webdriver
from selenium.common.exceptions import JavascriptException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from counterparts import PATIENCE

pytestmark = pytest.mark.page
INPUT = "input:not([type=hidden])"
WIDTHS = (320, 768, 1600)
AXE = next(pathlib.Path(file.locate()) for file in importlib.metadata.files("axe-playwright-python") if file.name == "axe.min.js")
OTHERS = [{"id": "second", "userID": "user-second", "email": "second-with-a-long-name@department.example.com"}]


class Page:
    """The page of a sign-in that waits, in a browser."""

    def __init__(self, simulator, login, driver, folder):
        self.login, self.driver, self.folder = login, driver, folder
        self.code = json.loads(login.stdout.readline())["user_code"]
        driver.get(simulator.issuer + "/codex/device")

    def run(self, script):
        return self.driver.execute_script("return " + script)

    def shoot(self, name):
        if self.folder:
            os.makedirs(self.folder, exist_ok=True)
            self.driver.save_screenshot(os.path.join(self.folder, name + ".png"))

    def approve(self, code):
        """Types a code and approves; the text of the page that follows."""
        field = self.driver.find_element(By.CSS_SELECTOR, INPUT)
        field.clear()
        field.send_keys(code)
        button = self.driver.find_element(By.XPATH, "//button[contains(normalize-space(.), 'Approve')]")
        return self.text_after(button.click)

    def prefer(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def resize(self, width):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def press(self, *keys):
        """Sends keys to whatever has the focus; returns what then has it, in words."""
        self.driver.switch_to.active_element.send_keys(*keys)
        return self.run("document.activeElement.labels?.[0]?.innerText || document.activeElement.innerText")

    def leave(self, *keys):
        """Sends keys that lead to another page; returns its text."""
        return self.text_after(lambda: self.driver.switch_to.active_element.send_keys(*keys))

    def text_after(self, leave):
        """The text of the page that `leave` leads to. One script looks for the page and takes its text: between two steps it could
        give way to another."""
        self.run("window.isLeft = true")
        leave()
        wait = WebDriverWait(self.driver, 10 * PATIENCE, ignored_exceptions=[JavascriptException])
        return wait.until(lambda _: self.run("!window.isLeft && document.readyState == 'complete' && document.body.innerText")).lower()

    def findings(self):
        """What axe-core says of the page as it is, all of its rules, those of good practice too."""
        self.driver.execute_script(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
        assert found["passes"], "axe-core has looked at nothing"
        return [(finding["id"], node["html"]) for finding in found["violations"] for node in finding["nodes"]]

    def luminance(self, selector, name):
        """Relative luminance (WCAG 2.2) of a colour; getComputedStyle says rgb(…) or rgba(…)."""
        colour = self.run(f"getComputedStyle(document.querySelector('{selector}')).{name}")
        parts = [float(part) / 255 for part in re.findall(r"[\d.]+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.fixture
def page(simulate, user, tmp_path, request, stack):
    simulator, options = simulate(approves=False, **getattr(request, "param", {})), webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                     "--disable-background-networking", f"--user-data-dir={tmp_path}/profile", "--no-sandbox"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    stack.callback(driver.quit)
    driver.command_executor.client_config.timeout = 120 * PATIENCE
    login = stack.enter_context(user(simulator).start("login", "--no-browser", "--json"))
    stack.callback(login.kill)
    return Page(simulator, login, driver, request.config.getoption("--screenshots"))


@pytest.mark.parametrize("wrong", ["WRNG-CODE0", "<b id=injected>x</b>"])
def test_a_typed_code_is_approved_after_a_wrong_one_whose_markup_stays_text(wrong, page):
    assert page.run("document.title") and page.run("document.documentElement.lang")
    assert page.run(f"[...document.querySelectorAll('{INPUT}')].every(input => input.labels.length || input.type == 'submit')")
    page.shoot("1-code")
    assert "return to the app" not in page.approve(wrong)
    assert not page.run("!!document.getElementById('injected')")
    page.shoot("2-wrong-code")
    assert page.login.poll() is None, "it is signed in"
    # As a user types it: in lower case, with a space around.
    assert "return to the app" in page.approve(" " + page.code.lower())
    page.shoot("3-approved")
    assert page.login.wait(60 * PATIENCE) == 0


def test_it_is_dark_where_the_user_prefers_dark_legible_in_light_and_fits_a_narrow_screen(page):
    page.prefer("dark")
    page.shoot("4-dark")
    assert page.luminance("body", "backgroundColor") < 0.2 < 0.6 < page.luminance("body", "color")
    page.prefer("light")
    ink, ground = page.luminance("label", "color"), page.luminance("body", "backgroundColor")
    assert (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05) >= 4.5, "labels have too little contrast"
    page.resize(320)
    page.shoot("5-narrow")
    assert page.run("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("page", [{}, {"otherAccounts": OTHERS}], indirect=True, ids=["one account", "two accounts"])
def test_axe_finds_nothing_on_any_page_at_three_widths_in_light_and_dark(page):
    def look(name):
        for width in WIDTHS:
            page.resize(width)
            for scheme in ("light", "dark"):
                page.prefer(scheme)
                page.shoot(f"{name}-{width}-{scheme}")
                assert page.findings() == [], (name, width, scheme)
                assert page.run("document.documentElement.scrollWidth") <= width, (name, width)

    look("6-code")
    page.approve("WRNG-CODE0")
    look("7-wrong-code")
    page.approve(page.code)
    look("8-approved")
    page.driver.execute_script("document.documentElement.removeAttribute('lang')")
    assert [rule for rule, _ in page.findings()] == ["html-has-lang"], "axe-core sees what is planted"


@pytest.mark.parametrize("page", [{"otherAccounts": OTHERS}], indirect=True)
@pytest.mark.parametrize("button, says, status", [("Approve", "you are signed in", 0), ("Refuse", "sign-in refused", None)])
def test_a_keyboard_is_enough(button, says, status, page):
    assert page.press(*page.code) == "Code", "the field has the focus at once"
    assert page.press(Keys.TAB) == "Account"
    assert page.press(Keys.TAB) == "Approve"
    if button == "Refuse":
        assert page.press(Keys.TAB) == "Refuse"
    assert says in page.leave(Keys.ENTER)
    assert page.findings() == []
    assert (page.login.wait(60 * PATIENCE) == 0) == (status == 0)


def test_enter_in_the_field_approves(page):
    page.press(*page.code)
    assert "you are signed in" in page.leave(Keys.ENTER)
    assert page.login.wait(60 * PATIENCE) == 0
