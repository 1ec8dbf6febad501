"""`chappie login --browser`, the browser sign-in of the device code's client, against the simulator. The tests are the browser.
The service accepts two ports only, so the tests take turns."""

import json
import re
import signal

import pexpect
import pytest

from conftest import SIGN_IN_NEEDED, UNAVAILABLE, USAGE
from counterparts import CLIENT_ID, PATIENCE, wait_until
from test_plan_route import fields_of, load
from witnesses import Forwarder

pytestmark = pytest.mark.usefixtures("ports")


class Attempt:
    """A sign-in that waits for the browser."""

    def __init__(self, user, *words):
        self.process = user.start("login", "--browser", "--json", *words)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        event = json.loads(line)
        assert event["type"] == "open_page" and "user_code" not in event, event
        self.page = event["verification_url"]
        self.fields = fields_of(self.page)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def come_back(self):
        status, callback, _ = load(self.page)
        assert status == 302 and callback.startswith(self.fields["redirect_uri"] + "?"), (status, callback)
        assert load(callback)[:2] == (303, "/auth/done")
        status, _, body = load(self.fields["redirect_uri"].replace("/auth/callback", "/auth/done"))
        assert status == 200 and "close this page" in body, body

    def ends(self, status=0, says=""):
        output, errors = self.process.communicate(timeout=60 * PATIENCE)
        assert self.process.returncode == status and says in output + errors, (self.process.returncode, output, errors)
        return output + errors


def test_a_user_signs_in_without_a_code_and_asks(simulate, user):
    simulator = simulate()
    person = user(simulator)
    with Attempt(person) as attempt:
        assert attempt.page.startswith(simulator.issuer + "/oauth/authorize?"), attempt.page
        assert (attempt.fields["client_id"], attempt.fields["originator"]) == (CLIENT_ID, "chappie"), attempt.fields
        assert attempt.fields["redirect_uri"] == "http://localhost:1455/auth/callback", attempt.fields
        attempt.come_back()
        attempt.ends()
    status = person.run("status", "--json").events[0]
    assert (status["grant"], status["route"], status["signed_in"]) == ("browser", "device", True), status
    assert "Hello, world" in person.ask("reply: Hello, world").output
    person.run("logout")
    assert "POST /oauth/revoke 200" in simulator.wait_for_log(lambda lines: "POST /oauth/revoke 200" in lines)


def test_a_second_sign_in_at_once_takes_the_second_port_and_a_third_is_told(simulate, user):
    simulator = simulate()
    one, other, third = user(simulator), user(simulator), user(simulator)
    with Attempt(one) as first, Attempt(other) as second:
        assert second.fields["redirect_uri"] == "http://localhost:1457/auth/callback", second.fields
        outcome = third.run("login", "--browser", "--no-browser", status=UNAVAILABLE, says="1455 and 1457")
        assert "Codex CLI" in outcome.errors and "`chappie login`" in outcome.errors, outcome
        second.come_back()
        second.ends()
        first.come_back()
        first.ends()


def test_the_next_sign_in_gets_the_port_at_once(simulate, user):
    person = user(simulate())
    for _ in range(2):
        with Attempt(person) as attempt:
            assert "localhost:1455" in attempt.fields["redirect_uri"], attempt.fields
            attempt.come_back()
            attempt.ends()


def test_without_a_browser_here_the_failed_address_is_pasted(simulate, user):
    person = user(simulate())
    child = pexpect.spawn(person.program, ["login", "--browser", "--no-browser"], env=person.environment, encoding="utf-8",
                          dimensions=(40, 4000), timeout=60 * PATIENCE)
    try:
        child.expect(r"(http://127\.0\.0\.1:\d+/oauth/authorize\?[^\s\x1b]+)")
        address = load(child.match[1])[1]
        assert address.startswith("http://localhost:1455/auth/callback?"), address
        child.expect_exact("begins with http://localhost")
        child.expect_exact("Address: ")
        child.send(re.sub("state=[^&]*", "state=" + "A" * 43, address) + "\r")
        child.expect_exact("not of the sign-in that is waiting")
        child.send(address + "\r")
        child.expect(pexpect.EOF)
    finally:
        child.close()
    assert child.exitstatus == 0, child.before
    assert "Hello, world" in person.ask("reply: Hello, world").output


def test_the_browser_gets_an_address_that_tells_nothing(simulate, user, tmp_path):
    desktop, told = tmp_path / "desktop", tmp_path / "told"
    desktop.mkdir()
    (desktop / "xdg-open").write_text(f"#!/bin/sh\necho \"$@\" >'{told}.new'; mv '{told}.new' '{told}'\n")
    (desktop / "xdg-open").chmod(0o755)
    person = user(simulate(), DISPLAY=":77", WAYLAND_DISPLAY=None)
    person = person.having(PATH=f"{desktop}:{person.environment.get('PATH', '/usr/bin:/bin')}")
    with person.start("login", "--browser") as process:
        try:
            wait_until(told.exists, "the browser is started", 30)
            started = told.read_text().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:1455/auth/start/[\w-]{43}", started), started
            status, page, _ = load(started)
            assert status == 303 and "/oauth/authorize?" in page, (status, page)
            assert load(load(page)[1])[:2] == (303, "/auth/done")
            assert load("http://localhost:1455/auth/done")[0] == 200
            assert process.wait(60 * PATIENCE) == 0
        finally:
            process.kill()


def test_the_user_can_deny(simulate, user):
    person = user(simulate())
    with Attempt(person) as attempt:
        target = f"{attempt.fields['redirect_uri']}?error=access_denied&state={attempt.fields['state']}"
        assert load(target)[0] == 303
        attempt.ends(SIGN_IN_NEEDED, "not allowed")


@pytest.mark.parametrize("options, says", [
    (["--route", "plan"], "its own sign-in"), (["--with-access-token"], "two ways"), (["--simulate"], "without a browser")])
def test_it_goes_with_no_other_way(options, says, simulate, user):
    user(simulate()).run("login", "--browser", *options, status=USAGE, says=says)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_exchange_leaves_no_tokens_behind(number, simulate, user, stack):
    """The tokens are on their way: the program waits for them, and revokes them."""
    simulator = simulate(rules=[{"match": {"path": "/oauth/token"}, "effect": {"delayBeforeHead": 2}}], pollInterval=0)
    witness = stack.enter_context(Forwarder(simulator.port))
    person = user(simulator, CHAPPIE_ISSUER=witness.origin)
    with person.start("login", "--no-browser") as process:
        try:
            wait_until(lambda: any(b"POST /oauth/token" in bytes(heard) for heard in witness.heard), "the exchange")
            process.send_signal(number)
            assert process.wait(60 * PATIENCE) == 128 + number
        finally:
            process.kill()
    simulator.wait_for_log(lambda lines: "POST /oauth/revoke 200" in lines)
    assert person.run("status", status=None).status == SIGN_IN_NEEDED
