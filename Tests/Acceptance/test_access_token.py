"""Servers and jobs without a browser: an access token that its owner made, stored by `chappie login --with-access-token` or
named in CHAPPIE_ACCESS_TOKEN."""

import json

import pytest

from conftest import SIGN_IN_NEEDED, USAGE

ACCOUNT = "acct_00000000-0000-4000-8000-000000000001"
TOKEN = "at-" + ACCOUNT
REVOKED = {"status": 401, "body": {"error": {"code": "token_revoked", "message": "It was revoked."}}}
REFUSED = [{"match": {"path": "/backend-api/codex/responses"}, "effect": REVOKED}]
LOGIN = ("login", "--with-access-token")


def is_signed_out(user):
    return user.run("status", status=None).status == SIGN_IN_NEEDED


@pytest.fixture
def person(simulate, user, passphrase):
    return user(simulate(), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"))


def test_a_token_from_standard_input_is_stored_with_its_owner(person):
    outcome = person.run(*LOGIN, input=TOKEN + "\n")
    assert "Signed in as" in outcome.output and "It is not renewed." in outcome.output, outcome
    assert TOKEN not in outcome.output + outcome.errors
    status = person.run("status", "--json").events[0]
    assert status["grant"] == "access_token" and status["account"]["account_id"] == ACCOUNT, status
    assert "Token     an access token, not renewed" in person.run("status").output
    assert "world" in person.ask("reply: Hello, world").output
    assert "Signed out: the access token is not revoked" in person.run("logout").output
    assert is_signed_out(person)


@pytest.mark.parametrize("text", [f"Bearer {TOKEN}\r\n", f'"{TOKEN}"', f"\ufeff'{TOKEN}'\n", f" {TOKEN} "])
def test_a_token_is_taken_as_it_was_pasted(text, person):
    person.run(*LOGIN, input=text)
    assert "world" in person.ask("reply: Hello, world").output
    assert "world" in person.having(CHAPPIE_CREDENTIAL_STORE=None, CHAPPIE_ACCESS_TOKEN=text).ask("reply: Hello, world").output


def test_json_says_that_signing_out_revoked_nothing(person):
    linked = person.run(*LOGIN, "--json", input=TOKEN).events
    assert [(event["type"], event["account"]["account_id"]) for event in linked] == [("linked", ACCOUNT)]
    assert person.run("logout", "--json").events == [{"signed_out": True, "revoked": False, "was_signed_in": True}]


@pytest.mark.parametrize("text, status, says", [
    ("", USAGE, "no access token on standard input"), (" \n", USAGE, "no access token on standard input"),
    ("at-unknown", SIGN_IN_NEEDED, "not accepted"), ("sk-proj-123", SIGN_IN_NEEDED, "API key"),
    ("two words", SIGN_IN_NEEDED, "can't travel in a header"),
    (f"{TOKEN}\nanother", SIGN_IN_NEEDED, "one token on one line"), (f"TOKEN={TOKEN}", SIGN_IN_NEEDED, "one token on one line"),
])
def test_another_text_is_refused_and_stores_nothing(person, text, status, says):
    outcome = person.run(*LOGIN, input=text, status=status, says=says)
    assert not text.strip() or text not in outcome.errors, outcome
    assert is_signed_out(person)


def test_a_token_is_typed_unseen_on_a_terminal(person):
    status, shown = person.converse(*LOGIN, answers=[("Access token: ", TOKEN + "\n")])
    assert status == 0 and TOKEN not in shown and "Signed in as" in shown, shown


def test_a_token_of_the_environment_is_used_and_nothing_is_stored(simulate, user, tmp_path):
    job = user(simulate(), CHAPPIE_ACCESS_TOKEN=TOKEN)
    assert "world" in job.ask("reply: Hello, world").output
    assert "not stored (taken from CHAPPIE_ACCESS_TOKEN)" in job.run("status").output
    assert job.run("models").output
    assert is_signed_out(job.having(CHAPPIE_ACCESS_TOKEN=None))
    assert TOKEN not in "".join(path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file())


def test_a_token_of_the_environment_goes_before_a_stored_sign_in(simulate, signed_in):
    simulator = simulate(otherAccounts=[{"id": "other", "userID": "user-other", "email": "other@example.com"}])
    person = signed_in(simulator)
    other = person.having(CHAPPIE_ACCESS_TOKEN="at-other").run("status", "--json").events[0]
    assert other["account"]["account_id"] == "other"
    assert person.run("status", "--json").events[0]["account"]["account_id"] == ACCOUNT


@pytest.mark.parametrize("words", [("login", "--no-browser"), LOGIN, ("logout",), ("auth", "export", "x"), ("auth", "import", "x")])
def test_commands_about_the_stored_sign_in_refuse_a_token_of_the_environment(person, words):
    person.having(CHAPPIE_ACCESS_TOKEN=TOKEN).run(*words, status=USAGE, says="CHAPPIE_ACCESS_TOKEN is set")


def test_commands_without_a_sign_in_ignore_a_token_of_the_environment(person):
    person.having(CHAPPIE_ACCESS_TOKEN="at-unknown").run("threads", "list")


def test_a_token_of_the_environment_that_is_not_accepted_ends_the_command(person):
    job = person.having(CHAPPIE_ACCESS_TOKEN="at-unknown")
    outcome = job.run("ask", "hello", status=SIGN_IN_NEEDED, says="not accepted")
    assert "Put a new access token into CHAPPIE_ACCESS_TOKEN" in outcome.errors
    status, rows = job.doctor()
    assert rows["credential"]["status"] == "fail" and "not accepted" in rows["credential"]["detail"], rows


def test_a_token_that_ends_is_not_renewed_and_stays(simulate, user, passphrase):
    simulator = simulate(rules=REFUSED)
    person = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"))
    person.run(*LOGIN, input=TOKEN)
    outcome = person.ask("hello", status=SIGN_IN_NEEDED, says="can't be renewed")
    assert not [line for line in simulator.log if "/oauth/token" in line]
    assert person.run("status", "--json").events[0]["signed_in"]


def test_a_tool_does_not_get_the_token(simulate, user, tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\nenv\n")
    tool.chmod(0o755)
    manifest = tmp_path / "tools.json"
    manifest.write_text(json.dumps({"tools": [{"name": "environment", "description": "Shows it.", "command": str(tool), "passEnv": ["CHAPPIE_ACCESS_TOKEN"],
                                               "policy": "automatic", "inputSchema": {"type": "object", "properties": {}}}]}))
    job = user(simulate(), CHAPPIE_ACCESS_TOKEN=TOKEN)
    outcome = job.ask("call environment {}", "--tools", str(manifest))
    assert "PATH=" in outcome.output and TOKEN not in outcome.output, outcome
