"""Two accounts in processes of their own, in one home with one store. In one process, IntegrationTests show the same and more.

The simulator knows both, tells them apart by their tokens, and logs whose token each request brought and in which session."""

import concurrent.futures
import json
import re
import urllib.parse

import pytest

from conftest import SIGN_IN_NEEDED
from counterparts import FORM, PATIENCE

ROUNDS, LINES = 3, 6
# METHOD PATH STATUS (websocket 3, whole, …) as ACCOUNT in SESSION
EXCHANGE = re.compile(r"(?P<method>\S+) (?P<path>\S+) (?P<status>\d+)(?: \(websocket (?P<connection>\d+), (?P<form>whole|incremental), "
                      r"[^)]*\))?(?: as (?P<account>\S+))?(?: in (?P<session>\S+))?$")
ACCOUNTS = {
    "first": {"plan": "plus", "primaryUsedPercent": 11, "models": ["gpt-5.5", "gpt-6.1-sol"]},
    "second": {"plan": "pro", "primaryUsedPercent": 77, "models": ["gpt-5.5-mini"]},
}
SCENARIO = [{"id": id, "userID": "user-" + id, "email": id + "@example.com", **facts} for id, facts in ACCOUNTS.items()]


def at_once(*actions):
    """Runs all of them at the same time; the first error is everybody's."""
    with concurrent.futures.ThreadPoolExecutor(len(actions)) as pool:
        for done in [pool.submit(action) for action in actions]:
            done.result()


@pytest.fixture(params=["file", "keyring"])
def house(request, simulate, user, passphrase):
    """A simulator, and the two who sign in to it: {account: user}."""
    simulator = simulate(pollInterval=0, otherAccounts=SCENARIO, approves=False)
    base = user(simulator, CHAPPIE_CREDENTIAL_STORE=request.param, **passphrase("a passphrase"))
    users = {id: base.having(CHAPPIE_ACCOUNT=f"{base.account}-{id}") for id in ACCOUNTS}
    for id in ACCOUNTS:
        sign_in(simulator, users[id], id)
    return simulator, users


def sign_in(simulator, user, id):
    with user.start("login", "--no-browser", "--json") as process:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        form = {"user_code": json.loads(line)["user_code"], "action": "approve", "account": id}
        assert simulator.post("/codex/device", urllib.parse.urlencode(form).encode(), **FORM)[0] == 200
        output, errors = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode == 0 and json.loads(output)["account"]["email"] == id + "@example.com", (output, errors)


def ask(user, id, number, transport):
    """One question; everything in its answer has to be the account's own."""
    events = user.ask(f"reply: {id} says {number}", "--json", transport=transport).events
    assert events[-1]["response"]["text"] == f"{id} says {number}", events[-1]
    used = {event["usage_limits"]["primary"]["used_percent"] for event in events if event["type"] == "usage_limits"}
    assert used == {ACCOUNTS[id]["primaryUsedPercent"]}, used
    assert user.run("status", "--json").events[0]["account"]["email"] == id + "@example.com"


def chat(user, id):
    """A conversation on one connection."""
    texts = [f"{id} line {number}" for number in range(LINES)]
    events = user.run("chat", "--json", "--transport", "websocket", input="".join(f"reply: {text}\n" for text in texts)).events
    assert [event["response"]["text"] for event in events if event["type"] == "completed"] == texts, events[-1]


def exchanges(simulator, since, turns):
    """What is in the log once it has so many turns. No session and no connection may belong to two accounts."""
    is_turn = lambda exchange: exchange["method"] == "POST" and exchange["path"].endswith("/codex/responses")
    read = lambda lines: [EXCHANGE.match(line).groupdict() for line in lines]
    found = read(simulator.wait_for_log(lambda lines: sum(map(is_turn, read(lines))) >= turns, since))
    for key in ("session", "connection"):
        owners = {(exchange[key], exchange["account"]) for exchange in found if exchange[key]}
        assert len(owners) == len({name for name, _ in owners}), f"shared {key}s: {owners}"
    return found, [exchange for exchange in found if is_turn(exchange)]


def test_both_ask_and_talk_at_once(house):
    simulator, users = house
    since = len(simulator.log)
    for number in range(ROUNDS):
        at_once(*(lambda row=row, transport=transport: ask(users[row], row, number, transport)
                  for row in users for transport in ("websocket", "sse")))
    at_once(*(lambda row=row: chat(users[row], row) for row in users))
    found, turns = exchanges(simulator, since, 4 * ROUNDS + 2 * LINES)
    # A token that came with another account's name would have got 403, a foreign chain 400.
    assert all(exchange["status"] in ("101", "200") for exchange in found), found
    assert len(turns) == 4 * ROUNDS + 2 * LINES and {exchange["account"] for exchange in found} == set(ACCOUNTS), found
    for id in ACCOUNTS:
        own = [turn for turn in turns if turn["account"] == id]
        assert len({turn["session"] for turn in own}) == 2 * ROUNDS + 1, "a session for each process"
        assert sum(turn["form"] == "incremental" for turn in own) >= LINES - 1, "the conversation was not continued"
        assert len({turn["connection"] for turn in own if turn["connection"]}) == ROUNDS + 1, "a connection for each process"


def test_one_signs_out_and_in_while_the_other_asks(house, keyring):
    simulator, users = house
    first, second = users.values()
    since, kept = len(simulator.log), keyring.secret(second.account)

    def come_and_go():
        for _ in range(2):
            assert first.run("logout", "--json").events == [{"signed_out": True, "revoked": True, "was_signed_in": True}]
            assert not keyring.secret(first.account)
            first.ask("reply: never", status=SIGN_IN_NEEDED)
            sign_in(simulator, first, "first")
            ask(first, "first", 1, "websocket")

    at_once(come_and_go, *(lambda transport=transport: [ask(second, "second", number, transport) for number in range(4)]
                           for transport in ("websocket", "sse")))
    own = [exchange for exchange in exchanges(simulator, since, 10)[0] if exchange["account"] == "second"]
    assert all(exchange["status"] in ("101", "200") and exchange["path"].endswith("/responses") for exchange in own), own
    assert keyring.secret(second.account) == kept, "the other's credential has changed"


def test_names_that_are_added_chosen_and_removed_at_once_are_not_lost(simulate, user):
    user = user(simulate(pollInterval=0)).having(CHAPPIE_ACCOUNT=None)
    names = [f"{user.account}-{number}" for number in range(8)]
    listed = lambda: sorted((entry["name"], entry["is_current"]) for entry in user.run("accounts", "--json").events[0]["accounts"])
    at_once(*(lambda name=name: user.run("login", "--no-browser", "--account", name) for name in names))
    assert [name for name, _ in listed()] == names
    at_once(lambda: user.run("accounts", "use", names[1]),
            *(lambda name=name: user.run("accounts", "remove", name) for name in names[4:]))
    assert listed() == [(name, name == names[1]) for name in names[:4]]
    assert user.run("ask", "reply: current").output == "current\n"
    assert user.having(CHAPPIE_ACCOUNT=names[2]).run("ask", "reply: chosen").output == "chosen\n"
    for name in names[:4]:
        user.run("accounts", "remove", name)
    assert listed() == []
