"""Two accounts in processes of their own, in one home with one store. In one process, IntegrationTests show the same and more.

The simulator knows both, tells them apart by their tokens, and logs whose token each request brought and in which session."""

import concurrent.futures
import json
import re

import pytest

from conftest import SIGN_IN_NEEDED
from counterparts import PATIENCE

ROUNDS, LINES = 3, 6
# METHOD PATH STATUS (websocket 3, whole, …) as ACCOUNT in SESSION
EXCHANGE = re.compile(r"(?P<method>\S+) (?P<path>\S+) (?P<status>\d+)(?: \(websocket (?P<connection>\d+), (?P<form>whole|incremental), "
                      r"[^)]*\))?(?: as (?P<account>\S+))?(?: in (?P<session>\S+))?$")
USED = {"first": 11, "second": 77}
ACCOUNTS = [{"id": id, "userID": "user-" + id, "email": id + "@example.com", "primaryUsedPercent": used} for id, used in USED.items()]


def refused(exchanges):
    """A token that came with another account's name would have got 403, a foreign chain 400. 304 is for a list of models that
    the process beside it has just kept."""
    return [exchange for exchange in exchanges if exchange["status"] not in ("101", "200", "304")]


def at_once(*actions):
    """Runs all of them at the same time; the first error is everybody's."""
    with concurrent.futures.ThreadPoolExecutor(len(actions)) as pool:
        for done in [pool.submit(action) for action in actions]:
            done.result()


def sign_in(simulator, user, id):
    with user.start("login", "--no-browser", "--json") as process:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        assert simulator.post("/codex/device", user_code=json.loads(line)["user_code"], action="approve", account=id) == 200
        output, errors = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode == 0 and json.loads(output)["account"]["email"] == id + "@example.com", (output, errors)


def ask(user, id, transport, number):
    """One question; everything in its answer has to be the account's own."""
    events = user.ask(f"reply: {id} says {number}", "--json", transport=transport).events
    assert events[-1]["response"]["text"] == f"{id} says {number}", events[-1]
    used = {event["usage_limits"]["primary"]["used_percent"] for event in events if event["type"] == "usage_limits"}
    assert used == {USED[id]}, used
    assert user.run("status", "--json").events[0]["account"]["email"] == id + "@example.com"


def chat(user, id):
    """A conversation on one connection."""
    texts = [f"{id} line {number}" for number in range(LINES)]
    events = user.run("chat", "--json", "--transport", "websocket", input="".join(f"reply: {text}\n" for text in texts)).events
    assert [event["response"]["text"] for event in events if event["type"] == "completed"] == texts, events[-1]


@pytest.mark.parametrize("store", ["file", "keyring"])
def test_both_ask_and_talk_at_once_and_one_signs_out_and_in(store, simulate, user, passphrase, keyring):
    simulator = simulate(pollInterval=0, otherAccounts=ACCOUNTS, approves=False)
    base = user(simulator, CHAPPIE_CREDENTIAL_STORE=store, **passphrase("a passphrase"))
    users = {id: base.having(CHAPPIE_ACCOUNT=f"{base.account}-{id}") for id in USED}
    for id, person in users.items():
        sign_in(simulator, person, id)
    since, kept = len(simulator.log), keyring.secret(users["second"].account)
    asking = lambda id: [lambda transport=transport: [ask(users[id], id, transport, number) for number in range(ROUNDS)]
                         for transport in ("websocket", "sse")]

    def exchanges(count):
        """{account: its exchanges}, once there are so many turns."""
        is_turn = lambda exchange: exchange["method"] == "POST" and exchange["path"].endswith("/codex/responses")
        read = lambda lines: [EXCHANGE.match(line).groupdict() for line in lines]
        found = read(simulator.wait_for_log(lambda lines: sum(map(is_turn, read(lines))) >= count, since))
        for key in ("session", "connection"):
            owners = {(exchange[key], exchange["account"]) for exchange in found if exchange[key]}
            assert len(owners) == len({name for name, _ in owners}), f"shared {key}s: {owners}"
        return {id: [exchange for exchange in found if exchange["account"] == id] for id in USED}

    at_once(*asking("first"), *asking("second"), *(lambda id=id: chat(users[id], id) for id in USED))
    for own in exchanges(2 * (2 * ROUNDS + LINES)).values():
        assert not refused(own)
        assert len({exchange["session"] for exchange in own} - {None}) == 2 * ROUNDS + 1, "a session for each process"
        assert sum(exchange["form"] == "incremental" for exchange in own) >= LINES - 1, "the conversation was not continued"
        assert len({exchange["connection"] for exchange in own if exchange["method"] == "POST"} - {None}) == ROUNDS + 1, \
            "a connection for each process, beside one whose prewarming a turn has cut short"

    def come_and_go():
        first = users["first"]
        assert first.run("logout", "--json").events == [{"signed_out": True, "revoked": True, "was_signed_in": True}]
        assert not keyring.secret(first.account)
        first.ask("reply: never", status=SIGN_IN_NEEDED)
        sign_in(simulator, first, "first")
        ask(first, "first", "websocket", 1)

    at_once(come_and_go, *asking("second"))
    own = exchanges(2 * (2 * ROUNDS + LINES) + 2 * ROUNDS + 1)["second"]
    assert not refused(own) and {exchange["path"].rpartition("/")[2] for exchange in own} <= {"responses", "models"}, own
    assert keyring.secret(users["second"].account) == kept, "the other's credential has changed"


def test_names_that_are_added_chosen_and_removed_at_once_are_not_lost(simulate, user):
    user = user(simulate(pollInterval=0), CHAPPIE_ACCOUNT=None)
    names = [f"{user.account}-{number}" for number in range(8)]
    listed = lambda: sorted((entry["name"], entry["is_current"]) for entry in user.run("accounts", "--json").events[0]["accounts"])
    at_once(*(lambda name=name: user.run("login", "--no-browser", "--account", name) for name in names))
    assert [name for name, _ in listed()] == names
    at_once(lambda: user.run("accounts", "use", names[1]),
            *(lambda name=name: user.run("accounts", "remove", name) for name in names[4:]))
    assert listed() == [(name, name == names[1]) for name in names[:4]]
    assert user.run("ask", "reply: current").output == "current\n"
