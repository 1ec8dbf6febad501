"""`chappie login --route plan` ("Continue with ChatGPT") and what follows, against the simulator's plan route. The tests are the
browser: they load the page, and come back to the program's listener by plain sockets, as pages and programs elsewhere may too."""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import time
import urllib.parse

import pexpect
import pytest

from conftest import BAD_DATA, SIGN_IN_NEEDED, UNAVAILABLE, USAGE, USAGE_LIMIT
from counterparts import PATIENCE, wait_until

TOKEN = {"method": "POST", "path": "/api/accounts/oauth/token"}
MANAGE_USAGE = "https://chatgpt.com/settings/usage"
HELLO = "reply: Hello, world"


def fields_of(address):
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(address).query, strict_parsing=True))


def load(address):
    """(status, Location, body) of a page, as a browser without a memory gets it."""
    parts = urllib.parse.urlsplit(address)
    with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=30 * PATIENCE)) as connection:
        connection.request("GET", urllib.parse.urlunsplit(("", "", parts.path, parts.query, "")))
        answer = connection.getresponse()
        return answer.status, answer.getheader("Location"), answer.read().decode()


class Attempt:
    """A sign-in that waits for the browser."""

    def __init__(self, user, *words):
        self.user, self.process = user, user.start("login", "--route", "plan", "--json", *words)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        event = json.loads(line)
        assert event["type"] == "open_page" and "user_code" not in event, event
        self.page = event["verification_url"]
        self.fields = fields_of(self.page)
        self.redirect, self.state = self.fields["redirect_uri"], self.fields["state"]
        self.port = urllib.parse.urlsplit(self.redirect).port

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def approved(self):
        """The address to which the page sends the browser."""
        status, location, body = load(self.page)
        assert status == 302 and location.startswith(self.redirect + "?"), (status, location, body)
        return location

    def send(self, head):
        """The whole answer of the listener to these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30 * PATIENCE) as connection:
            connection.sendall(head.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def get(self, target, method="GET", hosts=None, body=""):
        hosts = [f"127.0.0.1:{self.port}"] if hosts is None else hosts
        lines = [f"{method} {target} HTTP/1.1", *(f"Host: {host}" for host in hosts), f"Content-Length: {len(body)}"]
        return self.send("\r\n".join(lines) + "\r\n\r\n" + body)

    def come_back(self):
        """The browser's whole way: the page, the callback and the page after it."""
        status, location, _ = load(self.approved())
        assert (status, location) == (303, "/auth/done"), (status, location)
        status, _, body = load(f"http://127.0.0.1:{self.port}{location}")
        assert status == 200 and "close this page" in body, body

    def ends(self, status=0, says=""):
        """What it said. Its exit status must be this one; None accepts any failure."""
        output, errors = self.process.communicate(timeout=60 * PATIENCE)
        ended = self.process.returncode
        assert ended != 0 if status is None else ended == status, (ended, output, errors)
        assert says.lower() in (output + errors).lower(), (ended, output, errors)
        for secret in (self.state, self.fields["nonce"]):
            assert secret not in errors, errors
        return output + errors


def sign_in(user):
    with Attempt(user) as attempt:
        attempt.come_back()
        attempt.ends()
        return attempt


@pytest.fixture
def person(user, simulate):
    """`person("plan-bare")`, `person(rules=[…])`: (simulator, user) of the plan route; nothing is signed in."""
    def make(*words, **options):
        simulator = simulate(*words, **options)
        return simulator, user(simulator, CHAPPIE_BACKEND=simulator.issuer + "/v1")
    return make


def requests(simulator, start):
    """Those that the log has by now: for what must not happen."""
    return [line for line in simulator.log if line.startswith(start)]


def saw(simulator, start, count=1):
    """Waits until the simulator has answered so many requests, and says how many there were."""
    is_there = lambda lines: sum(line.startswith(start) for line in lines) >= count
    return sum(line.startswith(start) for line in simulator.wait_for_log(is_there))


# The whole way


def test_a_user_signs_in_and_asks_on_their_plan(person):
    simulator, user = person()
    attempt = sign_in(user)
    assert attempt.fields["client_id"] == "dynamic_agent_client" and attempt.fields["agent_name_hint"] == "Chappie"
    assert "Hello, world" in user.ask(HELLO).output
    assert saw(simulator, "POST /v1/responses 200") and not requests(simulator, "POST /backend-api"), simulator.log
    status = user.run("status", "--json").events[0]
    assert status["signed_in"] and status["route"] == "plan", status
    assert MANAGE_USAGE in user.run("usage", status=None).output + user.run("usage", status=None).errors
    assert "not part of a sign-in" in user.run("usage", "--reset", "--force", status=None).errors


def test_what_the_sign_in_does_not_include_is_refused_with_the_way_to_it(person, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    simulator, user = person()
    sign_in(user)
    before = len(simulator.log)
    for words in (["draw", "a fox"], ["search", "swift"], ["search", "--open", "https://example.com/"], ["ask", "--draw", "a fox"]):
        user.run(*words, status=USAGE, says="chappie login --route device")
    assert not [line for line in simulator.log[before:] if "images" in line or "search" in line or "responses" in line]
    assert not list(tmp_path.glob("*.png"))


def test_the_second_sign_in_has_the_same_client_and_host(person):
    _, user = person()
    first, second = sign_in(user), sign_in(user)
    assert second.fields["client_id"].startswith("oaiapp_") and "agent_name_hint" not in second.fields
    assert second.fields["ext_agent_host_id"] == first.fields["ext_agent_host_id"]
    # The address that is printed has no token in it.
    assert "id_token_hint" not in second.fields and "prompt" not in second.fields
    for name in ("state", "nonce", "code_challenge"):
        assert first.fields[name] != second.fields[name]


def test_signing_out_revokes_and_keeps_the_registration(person):
    simulator, user = person()
    first = sign_in(user)
    user.run("logout")
    assert saw(simulator, "POST /api/accounts/oauth/revoke 200")
    assert user.run("status", status=None).status == SIGN_IN_NEEDED
    second = sign_in(user)
    assert second.fields["client_id"].startswith("oaiapp_") and "id_token_hint" not in second.fields
    assert second.fields["ext_agent_host_id"] == first.fields["ext_agent_host_id"]


def test_a_sign_out_that_is_not_confirmed_says_where_to_disconnect(person):
    _, user = person("plan-revoke-503")
    sign_in(user)
    outcome = user.run("logout", status=None)
    assert "ChatGPT's settings" in outcome.output + outcome.errors, outcome
    assert user.run("status", status=None).status == SIGN_IN_NEEDED


def test_two_routes_stand_side_by_side(person):
    simulator, user = person(pollInterval=0)
    sign_in(user)
    device = user.having(CHAPPIE_BACKEND=simulator.backend).sign_in()
    assert "Hello, world" in device.ask(HELLO).output
    assert saw(simulator, "POST /backend-api/codex/responses 200")
    assert "Hello, world" in user.run("ask", "--route", "plan", "--transport", "sse", HELLO).output
    assert saw(simulator, "POST /v1/responses 200")


def test_an_access_token_keeps_to_its_own_service(person):
    simulator, user = person()
    sign_in(user)
    job = user.having(CHAPPIE_BACKEND=simulator.backend, CHAPPIE_ACCESS_TOKEN="at-acct_00000000-0000-4000-8000-000000000001")
    assert "Hello, world" in job.ask(HELLO).output
    assert saw(simulator, "POST /backend-api/codex/responses 200") and not requests(simulator, "POST /v1"), simulator.log
    job.run("ask", "--route", "plan", HELLO, status=USAGE, says="takes no access token")
    user.run("login", "--route", "plan", "--with-access-token", input="at-x", status=USAGE, says="takes no access token")


def test_without_a_browser_here_the_failed_address_is_pasted(person):
    _, user = person()
    child = pexpect.spawn(user.program, ["login", "--route", "plan", "--no-browser"], env=user.environment, encoding="utf-8",
                          dimensions=(40, 4000), timeout=60 * PATIENCE)
    try:
        child.expect(r"(http://127\.0\.0\.1:\d+/api/accounts/authorize\?[^\s\x1b]+)")
        address = load(child.match[1])[1]
        child.expect_exact("Address: ")
        child.send(re.sub("state=[^&]*", "state=" + "A" * 43, address) + "\r")
        child.expect_exact("not of the sign-in that is waiting")
        child.send(address + "\r")
        child.expect(pexpect.EOF)
    finally:
        child.close()
    assert child.exitstatus == 0, child.before
    assert "Hello, world" in user.ask(HELLO).output


def load_as_nobody(address):
    """The status of a request by another user of this machine."""
    return subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "curl", "--noproxy", "*", "-s", "-o", "/dev/null",
         "-w", "%{http_code}", address], capture_output=True, text=True, timeout=60 * PATIENCE, check=True).stdout


def test_a_browser_is_started_with_an_address_that_tells_nothing(person, tmp_path):
    """Other users of a machine can read the arguments of a program."""
    desktop, told = tmp_path / "desktop", tmp_path / "told"
    desktop.mkdir()
    (desktop / "xdg-open").write_text(f"#!/bin/sh\necho \"$@\" >'{told}.new'; mv '{told}.new' '{told}'\n")
    (desktop / "xdg-open").chmod(0o755)
    _, user = person()
    user = user.having(DISPLAY=":77", WAYLAND_DISPLAY=None, PATH=f"{desktop}:{user.environment.get('PATH', '/usr/bin:/bin')}")
    for is_first in (True, False):
        with user.start("login", "--route", "plan") as process:
            try:
                wait_until(told.exists, "the browser is started", 30)
                started = told.read_text().strip()
                told.unlink()
                assert re.fullmatch(r"http://127\.0\.0\.1:\d+/auth/start/[\w-]{43}", started), started
                if os.getuid() == 0:
                    # Nobody else gets the page, and nobody else uses the address up.
                    assert [load_as_nobody(started) for _ in range(2)] == ["403", "403"]
                else:
                    print("another user's request is not tried: only root can act as one")
                status, page, _ = load(started)
                assert status == 303 and "/api/accounts/authorize?" in page, (status, page)
                assert ("id_token_hint" in fields_of(page)) != is_first, page
                status, _, text = load(started)
                assert status == 410 and "already used" in text, (status, text)
                callback = load(page)[1]
                assert load(callback)[:2] == (303, "/auth/done")
                assert load(urllib.parse.urljoin(callback, "/auth/done"))[0] == 200
                assert process.wait(60 * PATIENCE) == 0
                assert "id_token_hint" not in process.stdout.read() + process.stderr.read()
            finally:
                process.kill()
    assert "Hello, world" in user.ask(HELLO).output


def test_the_user_can_deny(person):
    _, user = person("plan-callback-denied")
    with Attempt(user) as attempt:
        assert load(attempt.approved())[0] == 303
        attempt.ends(SIGN_IN_NEEDED, "not allowed")
    assert user.run("status", status=None).status == SIGN_IN_NEEDED


# What reaches the listener


def test_requests_of_others_are_refused_and_the_sign_in_goes_on(person):
    _, user = person()
    with Attempt(user) as attempt:
        location = attempt.approved()
        right = location.removeprefix(f"http://127.0.0.1:{attempt.port}")
        wrong_state = right.replace(attempt.state, "A" * len(attempt.state))
        no_state = right.replace("state=" + attempt.state, "")
        own = f"127.0.0.1:{attempt.port}"
        for status, answer in [
            (400, attempt.get(right, hosts=["evil.example"])), (400, attempt.get(right, hosts=[f"evil.example:{attempt.port}"])),
            (400, attempt.get(right, hosts=[f"localhost:{attempt.port}"])), (400, attempt.get(right, hosts=["127.0.0.1"])),
            (400, attempt.get(right, hosts=[])), (400, attempt.get(right, hosts=[own, "evil.example"])),
            (400, attempt.get(right, hosts=[own, own])), (404, attempt.get("/")), (404, attempt.get("/callback?" + right.partition("?")[2])),
            (404, attempt.get("/auth/callback/?" + right.partition("?")[2])), (404, attempt.get("/auth/done")),
            (405, attempt.get(right, method="POST", body="x=y")), (405, attempt.get(right, method="OPTIONS")),
            (405, attempt.get(right, method="PUT")), (400, attempt.get(wrong_state)), (400, attempt.get(no_state)),
            (400, attempt.get(right + "&state=" + attempt.state)), (400, attempt.get(right + "&code=another")),
            (400, attempt.get(wrong_state + "&error=access_denied")), (400, attempt.get("http://evil.example" + right)),
            (400, attempt.send("nonsense\r\n\r\n")),
        ]:
            assert answer.startswith(f"HTTP/1.1 {status} "), (status, answer)
            assert fields_of(location)["code"] not in answer
        assert attempt.process.poll() is None
        answer = attempt.get(right)
        assert answer.startswith("HTTP/1.1 303 ") and "no-store" in answer and "no-referrer" in answer, answer
        assert fields_of(location)["code"] not in answer
        with contextlib.suppress(ConnectionError):
            # The listener may be gone by now.
            assert not (again := attempt.get(right)) or again.startswith("HTTP/1.1 400 "), again
        attempt.ends()
    assert "Hello, world" in user.ask(HELLO).output


def test_slow_sockets_and_spare_connections_hold_nothing_up(person):
    _, user = person()
    with Attempt(user) as attempt, contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(("127.0.0.1", attempt.port), timeout=30 * PATIENCE)) for _ in range(40)]
        for number, connection in enumerate(sockets):
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"GET /auth/callback?state=" if number % 2 else b"")
        attempt.come_back()
        attempt.ends()
        # All of them are closed: this waits for the end of each.
        for connection in sockets:
            with contextlib.suppress(ConnectionError):
                while connection.recv(65536):
                    pass
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", attempt.port), timeout=5 * PATIENCE).close()


def test_two_sign_ins_at_once_have_ports_and_states_of_their_own(person, user):
    simulator, one = person()
    other = user(simulator, CHAPPIE_BACKEND=simulator.issuer + "/v1")
    with Attempt(one) as first, Attempt(other) as second:
        assert first.port != second.port
        lost = first.approved().removeprefix(f"http://127.0.0.1:{first.port}")
        assert second.get(lost).startswith("HTTP/1.1 400 ")
        second.come_back()
        second.ends()
        # The page may be loaded again.
        first.come_back()
        first.ends()


# What the browser brings, and who the user is

CALLBACKS = [
    ("plan-callback-error", SIGN_IN_NEEDED, "temporarily_unavailable"), ("plan-callback-no-client", SIGN_IN_NEEDED, "registration"),
    ("plan-callback-bootstrap-client", SIGN_IN_NEEDED, "registration"), ("plan-callback-malformed-client", SIGN_IN_NEEDED, "registration"),
    ("plan-callback-other-client", SIGN_IN_NEEDED, "registration"), ("plan-callback-extra", 0, ""), ("plan-callback-client-again", 0, ""),
]


@pytest.mark.parametrize("scenario, status, says", CALLBACKS)
def test_the_browser_may_come_back_in_other_ways(scenario, status, says, person):
    _, user = person(scenario)
    with Attempt(user) as attempt:
        assert load(attempt.approved())[0] == 303
        attempt.ends(status, says)
    if status:
        assert user.run("status", status=None).status == SIGN_IN_NEEDED


@pytest.mark.parametrize("scenario", ["plan-callback-wrong-state", "plan-callback-two-states", "plan-callback-two-codes", "plan-callback-no-code"])
def test_a_way_back_that_is_none_is_refused_and_the_sign_in_goes_on(scenario, person):
    _, user = person(scenario)
    with Attempt(user) as attempt:
        assert load(attempt.approved())[0] == 400
        assert attempt.process.poll() is None
        target = f"/auth/callback?error=access_denied&state={attempt.state}"
        assert attempt.get(target).startswith("HTTP/1.1 303 ")
        attempt.ends(SIGN_IN_NEEDED, "not allowed")


def test_another_client_id_at_a_later_sign_in_is_refused_and_the_old_sign_in_stays(person):
    rules = [{"match": {"path": "/api/accounts/authorize", "nth": 2}, "effect": {"authorize": {"clientID": "other"}}}]
    _, user = person(rules=rules)
    sign_in(user)
    with Attempt(user) as attempt:
        assert load(attempt.approved())[0] == 303
        attempt.ends(SIGN_IN_NEEDED, "another registration")
    assert "Hello, world" in user.ask(HELLO).output


WRONG_IDENTITIES = ["alg-none", "hs256", "wrong-signature", "unknown-key", "other-issuer", "other-audience", "other-party", "no-party",
                    "expired", "issued-later", "other-nonce", "no-nonce", "no-key-id"]


@pytest.mark.parametrize("name", WRONG_IDENTITIES)
def test_a_wrong_identity_is_refused(name, person):
    _, user = person("plan-id-token-" + name)
    with Attempt(user) as attempt:
        assert load(attempt.approved())[0] == 303
        attempt.ends(SIGN_IN_NEEDED, "identity token has expired" if name == "expired" else "identity token is not valid")
    assert user.run("status", status=None).status == SIGN_IN_NEEDED


def test_a_missing_identity_is_refused(person):
    _, user = person("plan-id-token-absent")
    with Attempt(user) as attempt:
        assert load(attempt.approved())[0] == 303
        attempt.ends(BAD_DATA)


@pytest.mark.parametrize("scenario", ["plan-id-token-several-audiences", "plan-keys-rotated", "plan-keys-503-once"])
def test_a_good_identity_is_recognised(scenario, person):
    _, user = person(scenario)
    sign_in(user)
    assert "Hello, world" in user.ask(HELLO).output


def test_the_identity_of_another_user_does_not_replace_a_sign_in(person):
    _, user = person(rules=[{"match": {**TOKEN, "nth": 2}, "effect": {"idToken": "otherSubject"}}])
    sign_in(user)
    with Attempt(user) as attempt:
        assert load(attempt.approved())[0] == 303
        attempt.ends(SIGN_IN_NEEDED, "account")
    assert "Hello, world" in user.ask(HELLO).output


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/.well-known/jwks.json"])
def test_an_outage_is_no_verdict_and_the_registration_is_kept(path, person):
    # The first attempt asks twice.
    _, user = person(rules=[{"match": {"path": path, "to": 2}, "effect": {"status": 503}}])
    with Attempt(user) as attempt:
        assert load(attempt.approved())[0] == 303
        attempt.ends(UNAVAILABLE, "later")
    assert sign_in(user).fields["client_id"].startswith("oaiapp_")


def test_a_code_that_is_refused_costs_no_registration(person):
    _, user = person("plan-exchange-invalid-grant")
    with Attempt(user) as attempt:
        assert load(attempt.approved())[0] == 303
        attempt.ends(None)
    assert sign_in(user).fields["client_id"].startswith("oaiapp_")


# Sessions


def test_a_token_that_is_nearly_over_is_renewed_once(person):
    simulator, user = person(firstAccessTokenLifetime=60)
    sign_in(user)
    for _ in range(2):
        assert "Hello, world" in user.ask(HELLO).output
    assert saw(simulator, "POST /api/accounts/oauth/token 200", 2) == 2, simulator.log


def refusing(code, status=400):
    """Settings and rules: access tokens end at once, and no refresh is granted."""
    match = {**TOKEN, "bodyContains": "grant_type=refresh_token"}
    return {"firstAccessTokenLifetime": 0, "rules": [{"match": match, "effect": {"status": status, "body": {"error": code}}}]}


@pytest.mark.parametrize("code", ["invalid_grant", "invalid_refresh_token", "token_expired", "refresh_token_expired",
                                  "refresh_token_invalidated", "refresh_token_reused"])
def test_a_refused_refresh_asks_for_one_more_click(code, person):
    simulator, user = person(**refusing(code))
    sign_in(user)
    user.ask(HELLO, status=SIGN_IN_NEEDED, says="login --route plan")
    assert not requests(simulator, "POST /v1/responses"), simulator.log
    assert sign_in(user).fields["client_id"].startswith("oaiapp_")


@pytest.mark.parametrize("code, status", [("invalid_client", 401), ("temporarily_unavailable", 503)])
def test_a_refresh_that_says_nothing_about_the_user_keeps_the_sign_in(code, status, person):
    _, user = person(**refusing(code, status))
    sign_in(user)
    assert user.ask(HELLO, status=None).status != 0
    assert user.run("status", "--json").events[0]["signed_in"]


@pytest.mark.parametrize("scenario", ["plan-refresh-other-identity", "plan-refresh-no-id-token", "plan-refresh-no-scope"])
def test_a_refresh_keeps_what_its_answer_lacks(scenario, person):
    _, user = person(scenario)
    sign_in(user)
    for _ in range(2):
        assert "Hello, world" in user.ask(HELLO).output


# Plan use


def test_without_the_permission_nothing_is_sent_and_the_next_sign_in_asks_for_it(person):
    simulator, user = person("plan-use-until-consent")
    sign_in(user)
    user.ask(HELLO, status=SIGN_IN_NEEDED, says="allow plan use")
    assert not requests(simulator, "POST /v1/responses"), simulator.log
    assert sign_in(user).fields["prompt"] == "consent"
    assert "Hello, world" in user.ask(HELLO).output


def test_the_cap_of_an_app_leads_to_the_settings_and_names_no_time(person):
    _, user = person("plan-app-cap")
    sign_in(user)
    for _ in range(2):
        user.ask(HELLO)
    outcome = user.ask(HELLO, status=USAGE_LIMIT, says=MANAGE_USAGE)
    assert "reset" not in outcome.errors.lower(), outcome


ERRORS = [
    (SIGN_IN_NEEDED, "plan", ["plan-401-detail", "plan-scope-not-authorized", "plan-invalid-context"]),
    (UNAVAILABLE, "", ["plan-403-detail", "plan-503-detail", "plan-not-eligible", "plan-usage-unavailable", "plan-user-unavailable",
                       "plan-usage-unavailable-midstream", "plan-route-not-supported", "plan-invalid-user", "plan-v2-not-eligible",
                       "plan-v2-client-not-enabled", "plan-failed", "plan-redirect"]),
    (USAGE, "", ["plan-400-detail", "plan-unsupported-capability"]),
    (USAGE_LIMIT, MANAGE_USAGE, ["plan-usage-limit", "plan-usage-limit-midstream", "plan-v2-usage-limit", "plan-v2-usage-limit-midstream"]),
    (USAGE, "model", ["plan-model-not-found"]),
]


@pytest.mark.parametrize("scenario, status, says", [(scenario, status, says) for status, says, scenarios in ERRORS for scenario in scenarios])
def test_every_error_ends_in_a_sentence_and_keeps_the_sign_in(scenario, status, says, person):
    simulator, user = person(scenario)
    sign_in(user)
    outcome = user.ask(HELLO, status=status, says=says)
    assert outcome.status != 0 and says.lower() in outcome.errors.lower(), outcome
    assert user.run("status", "--json").events[0]["signed_in"]
    assert len(requests(simulator, "POST /v1/responses")) <= 10, simulator.log
    assert not requests(simulator, "POST /backend-api"), simulator.log


def test_an_answer_without_its_last_event_is_taken(person):
    simulator, user = person("plan-no-completed")
    sign_in(user)
    assert "Hello, world" in user.ask(HELLO).output
    assert len(requests(simulator, "POST /v1/responses")) == 1, simulator.log


def test_a_refused_access_token_is_renewed_once(person):
    simulator, user = person("plan-invalid-token-once")
    sign_in(user)
    assert "Hello, world" in user.ask(HELLO).output
    assert saw(simulator, "POST /api/accounts/oauth/token 200", 2) == 2, simulator.log


def test_an_access_token_that_is_refused_forever_ends_in_a_sentence(person):
    simulator, user = person("plan-invalid-token")
    sign_in(user)
    assert user.ask(HELLO, status=None).status in (SIGN_IN_NEEDED, UNAVAILABLE)
    assert len(requests(simulator, "POST /v1/responses")) <= 3, simulator.log


@pytest.mark.parametrize("scenario", ["plan-no-content-type", "plan-empty-output", "plan-bare", "plan-cut", "plan-503-detail-once",
                                      "plan-usage-unavailable-once"])
def test_a_peculiar_answer_is_the_same_answer(scenario, person):
    _, user = person(scenario)
    sign_in(user)
    assert user.ask(HELLO).output.strip().endswith("Hello, world")


@pytest.mark.parametrize("scenario", [None, "plan-namespaces-only", "plan-flat-only"])
def test_tools_have_the_form_that_the_service_takes(scenario, person, tmp_path):
    simulator, user = person(scenario)
    sign_in(user)
    tool, manifest = tmp_path / "tool", tmp_path / "tools.json"
    tool.write_text("#!/bin/sh\necho the tool was here\n")
    tool.chmod(0o755)
    schema = {"type": "object", "properties": {}}
    look = {"name": "look", "description": "Looks.", "command": str(tool), "policy": "automatic", "inputSchema": schema}
    manifest.write_text(json.dumps({"tools": [look]}))
    assert "the tool was here" in user.ask("call look {}", "--tools", str(manifest)).output
    assert len(requests(simulator, "POST /v1/responses 400")) == (scenario == "plan-flat-only"), simulator.log


def test_a_disconnected_app_learns_it_from_a_request(person):
    _, user = person("plan-disconnected")
    sign_in(user)
    assert "Hello, world" in user.ask(HELLO).output
    assert user.ask(HELLO, status=None).status in (SIGN_IN_NEEDED, UNAVAILABLE)
