"""The sign-in page in a real headless Chromium."""

import os
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.wait import WebDriverWait

from counterparts import PATIENCE

pytestmark = pytest.mark.page
INPUT = "input:not([type=hidden])"


class Page:
    def __init__(self, simulator, driver, folder):
        self.simulator, self.driver, self.folder = simulator, driver, folder
        self.authorization = simulator.start_sign_in()
        driver.get(simulator.issuer + "/codex/device")

    def run(self, script):
        return self.driver.execute_script("return " + script)

    def shoot(self, name):
        if self.folder:
            os.makedirs(self.folder, exist_ok=True)
            self.driver.save_screenshot(os.path.join(self.folder, name + ".png"))

    def submit(self, code, label):
        """Types a code and clicks the button that a user would call `label`; the text of the page that follows."""
        self.driver.find_element(By.CSS_SELECTOR, INPUT).send_keys(code)
        button = f"//button[contains(normalize-space(.), '{label}')] | //input[@type='submit'][contains(@value, '{label}')]"
        button = self.driver.find_element(By.XPATH, button)
        button.click()
        WebDriverWait(self.driver, 10 * PATIENCE).until(staleness_of(button))
        return self.driver.find_element(By.TAG_NAME, "body").text.lower()

    def colour(self, selector, name):
        return luminance(self.run(f"getComputedStyle(document.querySelector('{selector}')).{name}"))

    @property
    def status(self):
        """What the program's poll gets."""
        return self.simulator.poll(self.authorization)[0]


@pytest.fixture
def page(simulate, tmp_path, request, stack):
    def open(width=1000, dark=False):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                         "--disable-background-networking", f"--user-data-dir={tmp_path}/profile", "--no-sandbox"):
            options.add_argument(argument)
        driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        stack.callback(driver.quit)
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        return Page(simulate(approves=False), driver, request.config.getoption("--screenshots"))
    return open


@pytest.mark.parametrize("wrong", ["WRNG-CODE0", "<b id=injected>x</b>"])
def test_a_typed_code_is_approved_after_a_wrong_one_whose_markup_stays_text(wrong, page):
    page = page()
    assert page.run("document.title") and page.run("document.documentElement.lang")
    assert page.run(f"[...document.querySelectorAll('{INPUT}')].every(input => input.labels.length || input.type == 'submit')")
    page.shoot("1-code")
    assert "return to the app" not in page.submit(wrong, "Approve")
    assert not page.run("!!document.getElementById('injected')")
    page.shoot("2-wrong-code")
    assert page.status in (403, 404)
    page.driver.find_element(By.CSS_SELECTOR, INPUT).clear()
    # As a user types it: in lower case, with a space around.
    assert "return to the app" in page.submit(" " + page.authorization["user_code"].lower(), "Approve")
    page.shoot("3-approved")
    assert page.status == 200


def test_it_is_dark_where_the_user_prefers_dark_and_legible_in_both(page):
    dark = page(dark=True)
    dark.shoot("4-dark")
    assert dark.colour("body", "backgroundColor") < 0.2 < 0.6 < dark.colour("body", "color")
    dark.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "light"}]})
    ink, ground = dark.colour("label", "color"), dark.colour("body", "backgroundColor")
    assert (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05) >= 4.5, "labels have too little contrast"


def test_it_fits_a_narrow_screen(page):
    page = page(width=320)
    page.shoot("5-narrow")
    assert page.run("document.documentElement.scrollWidth") <= 320


def luminance(colour):
    """Relative luminance (WCAG 2.2) of what getComputedStyle says: rgb(…) or rgba(…)."""
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].replace(" ", "").split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
