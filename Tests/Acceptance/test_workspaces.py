"""Accounts whose workspace is pinned to a region, accounts without an id, and one account in the place of another."""

import json

import pytest

from conftest import UNAVAILABLE

ELSEWHERE = "https://eu.chatgpt.example"
TRANSPORTS = pytest.mark.parametrize("transport", ["websocket", "sse"])
OTHER = {"id": "acct-second", "userID": "user-second", "email": "second@example.com", "plan": "team"}


@pytest.fixture
def person(simulate, user, passphrase):
    """`person("scenario")`: somebody who has signed in to a simulator of it."""
    def make(*words, **settings):
        # A scenario of that name brings its own settings.
        simulator = simulate(*words, **({} if words else {"pollInterval": 0, **settings}))
        someone = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")).sign_in()
        someone.simulator = simulator
        return someone
    return make


def count(person, path):
    return sum(path in line for line in person.simulator.log)


@TRANSPORTS
@pytest.mark.parametrize("scenario, checks", [("pinned-workspace", 0), ("pinned-workspace-routed", 1)])
def test_a_workspace_that_is_pinned_to_a_region_is_asked_for_its_region(person, transport, scenario, checks):
    someone = person(scenario)
    assert "gpt-6.1-sol" in someone.run("models").output
    assert "world" in someone.ask("reply: Hello, world", transport=transport).output
    someone.run("usage")
    assert bool(count(someone, "wham/accounts/check")) == bool(checks)
    assert count(someone, "/oauth/token") == 1, "the sign-in itself"


@TRANSPORTS
def test_a_workspace_at_another_address_is_named_and_never_asked(person, transport):
    someone = person("pinned-workspace-elsewhere")
    for words in (["models"], ["usage"], ["ask", "--transport", transport, "hello"]):
        outcome = someone.run(*words, status=UNAVAILABLE, says="Your workspace allows requests from its region only")
        assert 'region "eu"' in outcome.errors and ELSEWHERE in outcome.errors and "chappie login" not in outcome.errors, outcome
    assert count(someone, "/oauth/token") == 1
    assert someone.run("status").status == 0


@TRANSPORTS
def test_an_account_without_an_id_can_do_everything(person, transport):
    someone = person("no-account-id")
    assert "world" in someone.ask("reply: Hello, world", transport=transport).output
    someone.run("models")
    someone.run("usage")
    status = someone.run("status").output
    assert "Account   " not in status and "User      user-simulated" in status, status
    assert someone.run("status", "--json").events[0]["account"]["account_id"] is None


def sign_in(person, *words, account):
    with person.start("login", "--no-browser", "--json", *words) as process:
        code = json.loads(process.stdout.readline())["user_code"]
        assert person.simulator.post("/codex/device", user_code=code, action="approve", account=account) == 200
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return json.loads(output)


def test_a_sign_in_revokes_nothing_and_names_the_account_that_it_replaces(simulate, user, passphrase):
    simulator = simulate(pollInterval=0, otherAccounts=[OTHER], approves=False)
    someone = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"))
    someone.simulator = simulator
    first = "acct_00000000-0000-4000-8000-000000000001"
    for account, replaced in ((first, None), (first, None), ("acct-second", first)):
        linked = sign_in(someone, account=account)
        assert linked.get("replaced", {}).get("account_id") == replaced, linked
    assert count(someone, "/oauth/revoke") == 0
    outcome = someone.run("logout", "--local")
    assert "Signed out." in outcome.output and "stays valid" in outcome.errors, outcome
    assert count(someone, "/oauth/revoke") == 0
    sign_in(someone, account=first)
    outcome = someone.run("logout")
    assert "Signed out." in outcome.output and "other programs" in outcome.errors, outcome
    assert count(someone, "/oauth/revoke") == 1
    sign_in(someone, account=first)
    assert someone.run("accounts", "remove", "--local", someone.account, "--json").events == [{"removed": someone.account, "revoked": False}]
    assert count(someone, "/oauth/revoke") == 1


def test_a_thread_that_another_account_continues_says_so_once(simulate, user, passphrase):
    simulator = simulate(pollInterval=0, otherAccounts=[OTHER], approves=False)
    someone = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"))
    someone.simulator = simulator
    sign_in(someone, account="acct_00000000-0000-4000-8000-000000000001")
    someone.ask("reply: a secret")
    sign_in(someone, account="acct-second")
    said = "This conversation belongs to another account. It continues with second@example.com"
    assert said in someone.run("ask", "-c", "reply: two").errors
    assert said not in someone.run("ask", "-c", "reply: three").errors


def test_an_error_names_the_request(person):
    rule = {"match": {"path": "/backend-api/codex/responses"}, "effect": {"status": 400, "headers": {"x-request-id": "req_of_the_test"},
                                                                        "body": {"error": {"message": "No."}}}}
    someone = person(rules=[rule])
    assert "The request's id is req_of_the_test." in someone.run("ask", "--transport", "sse", "x", status=UNAVAILABLE).errors
    error = someone.run("ask", "--transport", "sse", "--json", "x", status=UNAVAILABLE).events[-1]["error"]
    assert error["request_id"] == "req_of_the_test", error
