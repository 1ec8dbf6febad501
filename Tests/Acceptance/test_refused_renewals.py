"""A renewal that is refused while the access token is good, a service that wants no renewal yet, and what ends a sign-in."""

import re
import time

import pytest

from conftest import SIGN_IN_NEEDED, UNAVAILABLE

TOKEN = {"path": "/oauth/token", "bodyContains": "refresh_token"}
RESPONSES = {"path": "/backend-api/codex/responses"}


@pytest.fixture
def person(simulate, user, passphrase):
    """`person(rules=[…])`: somebody who has signed in to a simulator with these rules."""
    def make(**settings):
        simulator = simulate(pollInterval=0, **settings)
        someone = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")).sign_in()
        someone.simulator = simulator
        return someone
    return make


def refused(code, status=401):
    return {"match": TOKEN, "effect": {"status": status, "body": {"error": {"code": code, "message": "No."}}}}


def refreshes(person):
    return sum("/oauth/token" in line for line in person.simulator.log) - 1


@pytest.mark.parametrize("code", ["refresh_token_reused", "refresh_token_invalidated", "invalid_grant", "app_session_terminated",
                                  "account_deactivated"])
def test_a_refused_renewal_costs_no_good_access_token(person, code):
    someone = person(rules=[refused(code)], firstAccessTokenLifetime=200)
    first = someone.ask()
    assert re.search(r"You can continue until \d\d:\d\d", first.errors) and "chappie login" in first.errors, first
    # It is told once, and the service is not asked again.
    assert someone.ask().errors == ""
    assert refreshes(someone) == 1
    status = someone.run("status").output
    assert "can't be renewed" in status and "good until" in status, status
    assert someone.run("status", "--json").events[0]["renewal_refused"]


def test_a_sign_in_whose_tokens_have_ended_says_why_in_every_command(person):
    someone = person(rules=[refused("refresh_token_invalidated")], firstAccessTokenLifetime=0)
    for _ in range(2):
        someone.ask(status=SIGN_IN_NEEDED, says="Your sign-in was revoked")
    status = someone.run("status", status=None)
    assert status.status == SIGN_IN_NEEDED and "Your sign-in was revoked" in status.output, status
    assert refreshes(someone) == 1
    assert someone.run("logout").output == "Signed out.\n"


@pytest.mark.parametrize("path, command", [("/backend-api/wham/usage", "usage"), ("/backend-api/codex/models", "models")])
def test_a_401_of_another_endpoint_says_nothing_about_the_sign_in(person, path, command):
    someone = person(rules=[{"match": {"path": path}, "effect": {"unauthorized": True}}, refused("refresh_token_reused")])
    someone.ask()
    someone.run(command, status=UNAVAILABLE, says="If your questions are refused as well")
    someone.ask()
    assert refreshes(someone) == 0
    assert someone.run("status").status == 0


def test_a_service_that_wants_no_renewal_yet_is_not_asked_for_one(person):
    early = {"match": {"path": "/oauth/token"}, "effect": {"members": {"earliest_refresh_at": int(time.time()) + 3000}}}
    someone = person(rules=[early, {"match": {**RESPONSES, "to": 1}, "effect": {"unauthorized": True}}])
    outcome = someone.ask(status=SIGN_IN_NEEDED, says="Renewable at ")
    assert re.search(r"Renewable at \d\d:\d\d.*Run `chappie login` to continue now\.", outcome.errors, re.S), outcome
    assert refreshes(someone) == 0
    # The refresh token is kept, and the next answer may be another.
    someone.ask()
