"""Reset credits: `chappie usage` lists them, and `chappie usage --reset` redeems one at most, whatever becomes of an attempt."""

import json
import signal

import pytest

from conftest import INTERRUPTED, SIGN_IN_NEEDED, TURN, UNAVAILABLE, USAGE, USAGE_LIMIT

LIST = "GET /backend-api/wham/rate-limit-reset-credits"
REDEEM = "POST /backend-api/wham/rate-limit-reset-credits/consume"
RESET = ("usage", "--reset", "--force")


def asked(simulator, what):
    return sum(line.startswith(f"{what} ") for line in simulator.log)


def credits_left(person):
    return [credit["id"] for credit in person.run("usage", "--json").events[0]["reset_credits"] if credit["status"] == "available"]


def test_usage_lists_the_credits_with_their_expiry(simulate, signed_in):
    person = signed_in(simulate("credits"))
    lines = person.run("usage").output.splitlines()
    assert "You can reset your limits for free 2 times: chappie usage --reset" in lines, lines
    credits = [line for line in lines if line.startswith("Reset credit ")]
    assert [line.split()[2] for line in credits] == ["credit_2", "credit_1"], lines
    assert all("(Full reset) expires in " in line for line in credits), lines
    shown = person.run("usage", "--json").events[0]["reset_credits"]
    assert [credit["id"] for credit in shown] == ["credit_2", "credit_1"] and shown[0]["expires_at"] < shown[1]["expires_at"], shown


def test_an_account_without_credits_is_not_asked_for_them(simulate, signed_in):
    simulator = simulate()
    person = signed_in(simulator)
    assert "reset" not in person.run("usage").output.split("Plan: ")[1].split("\n", 3)[3], "a mention of credits"
    assert person.run("usage", "--json").events[0]["reset_credits"] == [] and not asked(simulator, LIST)
    person.run(*RESET, status=UNAVAILABLE, says="no reset credit")
    assert not asked(simulator, REDEEM)


@pytest.mark.parametrize("scenario", ["credits-list-500", "credits-list-html"])
def test_a_list_that_fails_leaves_the_usage(scenario, simulate, signed_in):
    person = signed_in(simulate(scenario))
    outcome = person.run("usage", says="couldn't load your reset credits")
    assert "12 %" in outcome.output, outcome
    assert person.run("usage", "--json").events[0]["reset_credits"] is None
    person.run(*RESET, status=UNAVAILABLE)


def test_the_credit_that_expires_first_is_redeemed(simulate, signed_in):
    simulator = simulate("credits")
    person = signed_in(simulator)
    person.run("usage", "--force", status=USAGE)
    person.run("usage", "--reset", status=USAGE, says="--force")
    person.run(*RESET, "--credit", "credit_9", status=UNAVAILABLE, says="credit_9")
    assert not asked(simulator, REDEEM)
    [event] = person.run(*RESET, "--json").events
    assert event == {"redeemed": "credit_2", "windows_reset": 2, "already_redeemed": False}, event
    assert credits_left(person) == ["credit_1"] and "0 %" in person.run("usage").output
    outcome = person.run(*RESET, "--credit", "credit_1", "--json", status=None)
    assert (outcome.status, outcome.events[0]["error"]["code"]) == (UNAVAILABLE, "nothing_to_reset"), outcome
    assert credits_left(person) == ["credit_1"]


def test_another_credit_can_be_named(simulate, signed_in):
    person = signed_in(simulate("credits"))
    assert "Redeemed credit_1. Your limits are reset (2 windows)." in person.run(*RESET, "--credit", "credit_1").output
    assert credits_left(person) == ["credit_2"]


def test_a_terminal_asks_first(simulate, signed_in):
    simulator = simulate("credits")
    person = signed_in(simulator)
    question = "Reset your limits with it? [y/N]"
    status, shown = person.converse("usage", "--reset", answers=[(question, "n\r")], echoing=[question])
    assert status == 0 and "credit_2 (Full reset) expires in" in shown and "Nothing was redeemed." in shown, shown
    assert not asked(simulator, REDEEM)
    status, shown = person.converse("usage", "--reset", answers=[(question, "y\r")], echoing=[question])
    assert status == 0 and "Redeemed credit_2" in shown, shown


@pytest.mark.parametrize("scenario, already", [("credits-redeem-cut-once", True), ("credits-redeem-503-once", False)])
def test_an_attempt_that_was_cut_redeems_one_credit(scenario, already, simulate, signed_in):
    simulator = simulate(scenario)
    person = signed_in(simulator)
    person.run(*RESET, status=UNAVAILABLE, says="it redeems one at most")
    # Naming another credit does not change what is repeated.
    [event] = person.run(*RESET, "--credit", "credit_1", "--json", says="earlier attempt").events
    assert (event["redeemed"], event["already_redeemed"]) == ("credit_2", already), event
    assert credits_left(person) == ["credit_1"] and asked(simulator, REDEEM) == 2, simulator.log
    person.run(*RESET, status=UNAVAILABLE, says="no limit is used")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_an_attempt_that_was_ended_redeems_one_credit(number, simulate, signed_in):
    simulator = simulate("credits-redeem-hang-once")
    person = signed_in(simulator)
    with person.start(*RESET) as process:
        simulator.wait_for_log(lambda lines: any(line.startswith(REDEEM) for line in lines))
        process.send_signal(number)
        errors = process.communicate()[1]
    if number == signal.SIGINT:
        assert process.returncode == INTERRUPTED and "it redeems one at most" in errors, errors
    assert "The earlier attempt had redeemed credit_2." in person.run(*RESET).output
    assert credits_left(person) == ["credit_1"]


def test_a_refusal_ends_the_attempt(simulate, signed_in, tmp_path):
    person = signed_in(simulate("credits-ineligible"))
    outcome = person.run(*RESET, "--json", status=None)
    assert (outcome.status, outcome.events[0]["error"]["code"]) == (UNAVAILABLE, "rate_limit_reset_ineligible"), outcome
    notes = json.loads((tmp_path / "home/state/chappie/notes.json").read_text())
    assert "request" not in json.dumps(notes), notes


def test_a_usage_limit_mentions_a_credit_that_is_known(simulate, signed_in):
    simulator = simulate(rules=[{"match": TURN, "effect": {"usageLimit": {}}}], resetCredits=1)
    person = signed_in(simulator)
    assert "usage --reset" not in person.ask("hello", status=USAGE_LIMIT).errors
    person.run("usage")
    simulator.wait_for_log(lambda log: any(line.startswith(f"{LIST} ") for line in log))
    listed = asked(simulator, LIST)
    person.ask("hello", status=USAGE_LIMIT, says="chappie usage --reset")
    assert "usage --reset" in person.run("chat", "--transport", "sse", input="hello\n", status=None).errors
    assert asked(simulator, LIST) == listed
    person.run(*RESET)
    assert "usage --reset" not in person.ask("hello", status=USAGE_LIMIT).errors


def test_a_signed_out_user_is_told_to_sign_in(simulate, user):
    user(simulate("credits")).run(*RESET, status=SIGN_IN_NEEDED, says="not signed in")
