"""Drives the sign-in page in a real headless Chromium: page_test.py CHAPPIE SCREENSHOT_FOLDER

Speaks WebDriver (https://www.w3.org/TR/webdriver2/) to chromedriver directly, so that nothing but Debian's chromium and
chromium-driver is needed.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from simulator import Simulator, Tally

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """A WebDriver session of headless Chromium with a window of the given size."""

    def __init__(self, driver, profile, width=1000, height=800, dark=False):
        self.driver = driver
        arguments = [
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
        ]
        # Chromium's own sandbox refuses to run as root.
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        if not self.has_user_namespaces():
            arguments.append("--no-sandbox")
        options = {"goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")}}
        answer = self.call("POST", "", {"capabilities": {"alwaysMatch": options}}, session=False)
        self.session = answer["sessionId"]
        scheme = "dark" if dark else "light"
        self.devtools(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    @staticmethod
    def has_user_namespaces():
        try:
            with open("/proc/sys/kernel/unprivileged_userns_clone", encoding="ascii") as stream:
                return stream.read().strip() == "1"
        except OSError:
            return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("DELETE", "")

    def call(self, method, path, body=None, session=True):
        url = f"{self.driver}/session" + (f"/{self.session}{path}" if session else "")
        data = None if method in ("GET", "DELETE") else json.dumps(body or {}).encode()
        request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            value = json.loads(error.read())["value"]
            raise AssertionError(f"{value['error']}: {value['message'].splitlines()[0]}") from None

    def devtools(self, command, parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def find(self, selector):
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        return found[ELEMENT]

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def text(self):
        return self.run("return document.body.innerText")

    def click(self, label):
        """Clicks the button that a person would call `label`, and waits for the page that follows."""
        using = f"//button[contains(normalize-space(.), '{label}')] | //input[@type='submit'][contains(@value, '{label}')]"
        found = self.call("POST", "/element", {"using": "xpath", "value": using})
        self.run("window.isBeforeTheClick = true")
        self.call("POST", f"/element/{found[ELEMENT]}/click")
        deadline = time.monotonic() + 10
        while self.run("return window.isBeforeTheClick === true || document.readyState !== 'complete'"):
            assert time.monotonic() < deadline, f"no page followed the click on {label}"
            time.sleep(0.02)

    def screenshot(self, path):
        with open(path, "wb") as stream:
            stream.write(base64.b64decode(self.call("GET", "/screenshot")))


class Driver:
    """chromedriver on a free port of loopback, ended by its own process."""

    def __enter__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [shutil.which("chromedriver"), f"--port={port}", "--silent"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(self.url + "/status", timeout=5) as response:
                    if json.load(response)["value"]["ready"]:
                        return self
            except OSError:
                pass
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.__exit__()
                raise RuntimeError("chromedriver doesn't answer")
            time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=20)


class Pages:
    def __init__(self, simulator, driver, folder, profiles):
        self.simulator, self.driver, self.folder, self.profiles = simulator, driver, folder, profiles

    def browser(self, **options):
        return Browser(self.driver.url, tempfile.mkdtemp(dir=self.profiles), **options)

    def shoot(self, browser, name):
        browser.screenshot(os.path.join(self.folder, name + ".png"))

    def enter(self, browser, code):
        browser.open(self.simulator.issuer + "/codex/device")
        browser.type("input:not([type=hidden])", code)

    def approve(self):
        authorization = self.simulator.start_sign_in()
        status, _ = self.simulator.poll(authorization)
        assert status in (403, 404), f"polling before the approval gave {status}"
        with self.browser() as browser:
            # As a person types it: in lower case, with a space around.
            self.enter(browser, " " + authorization["user_code"].lower())
            self.shoot(browser, "1-code")
            assert browser.run("return document.title"), "the page has no title"
            assert browser.run("return document.documentElement.lang"), "the page names no language"
            assert browser.run(
                "return [...document.querySelectorAll('input:not([type=hidden])')].every(i => i.labels.length || i.type == 'submit')"
            ), "an input has no label"
            browser.click("Approve")
            text = browser.text()
            assert "return to the app" in text.lower(), f"after approving, the page says: {text}"
            self.shoot(browser, "2-approved")
        status, grant = self.simulator.poll(authorization)
        assert status == 200 and {"authorization_code", "code_verifier"} <= set(grant), f"polling gave {status}"

    def refuse(self):
        authorization = self.simulator.start_sign_in()
        with self.browser() as browser:
            self.enter(browser, authorization["user_code"])
            browser.click("Refuse")
            self.shoot(browser, "3-refused")
            text = browser.text()
            assert "refused" in text.lower(), f"after refusing, the page says: {text}"
        status, _ = self.simulator.poll(authorization)
        assert status == 400, f"polling after a refusal gave {status}"

    def wrong_code(self):
        authorization = self.simulator.start_sign_in()
        with self.browser() as browser:
            self.enter(browser, "WRNG-CODE0")
            browser.click("Approve")
            self.shoot(browser, "4-wrong-code")
            # The same page takes the right one.
            assert browser.find("input:not([type=hidden])"), "no second try"
            text = browser.text()
            assert "code" in text.lower() and "return to the app" not in text.lower(), text
        status, _ = self.simulator.poll(authorization)
        assert status in (403, 404), f"a wrong code changed the state to {status}"

    def markup_is_text(self):
        with self.browser() as browser:
            self.enter(browser, "<b id=injected>x</b>")
            browser.click("Approve")
            assert not browser.run("return !!document.getElementById('injected')"), "the page repeats markup as markup"

    def dark(self):
        with self.browser(dark=True) as browser:
            browser.open(self.simulator.issuer + "/codex/device")
            self.shoot(browser, "5-dark")
            background, ink = (
                browser.run(f"return getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color")
            )
            assert luminance(background) < 0.2 < 0.6 < luminance(ink), f"dark is {ink} on {background}"

    def narrow(self):
        with self.browser(width=320, height=640) as browser:
            browser.open(self.simulator.issuer + "/codex/device")
            self.shoot(browser, "6-narrow")
            width = browser.run("return document.documentElement.scrollWidth")
            assert width <= 320, f"the page is {width} pixels wide on a screen of 320"

    def contrast(self):
        with self.browser() as browser:
            browser.open(self.simulator.issuer + "/codex/device")
            ink = luminance(browser.run("return getComputedStyle(document.querySelector('label')).color"))
            ground = luminance(browser.run("return getComputedStyle(document.body).backgroundColor"))
            ratio = (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05)
            assert ratio >= 4.5, f"labels have a contrast of {ratio:.1f}"


def luminance(colour):
    """Relative luminance (WCAG 2.2) of what getComputedStyle says: rgb(…) or rgba(…)."""
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].replace(" ", "").split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def main(program, folder):
    os.makedirs(folder, exist_ok=True)
    tally = Tally()
    with Simulator(program) as simulator, Driver() as driver, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profiles:
        pages = Pages(simulator, driver, folder, profiles)
        tally.check("a typed code is approved, and polling succeeds", pages.approve)
        tally.check("a refusal is said, and ends the polling", pages.refuse)
        tally.check("a wrong code gets a second try", pages.wrong_code)
        tally.check("markup in a code stays text", pages.markup_is_text)
        tally.check("dark where the person prefers dark", pages.dark)
        tally.check("fits a screen of 320 pixels", pages.narrow)
        tally.check("labels have enough contrast", pages.contrast)
    print(f"Screenshots: {folder}")
    return tally.finish()


sys.exit(main(sys.argv[1], sys.argv[2]))
