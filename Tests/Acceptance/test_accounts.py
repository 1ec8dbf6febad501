"""Two accounts in processes of their own, in one home with one store.

The simulator knows both, tells them apart by their tokens, and logs whose token each request brought and in which session.
Both do everything at once: nothing of one may reach the other, and what ends one leaves the other alone.
"""

import concurrent.futures
import contextlib
import datetime
import fcntl
import json
import os
import re
import threading
import time
import urllib.parse

import pytest

from conftest import SIGN_IN_NEEDED
from counterparts import FORM, PATIENCE, wait_until

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


def is_turn(exchange):
    return exchange["method"] == "POST" and exchange["path"].endswith("/codex/responses")


class Resident:
    """One of the two, who knows the account under a name of their own."""

    def __init__(self, house, id, name):
        self.house, self.id, self.name, self.file = house, id, name, None
        self.email, self.facts = id + "@example.com", ACCOUNTS[id]

    def run(self, *words, **expected):
        return self.house.user.run(*words, "--account", self.name, **expected)

    def events(self, *words, **expected):
        return self.run(*words, "--json", **expected).events

    def sign_in(self):
        with self.house.user.start("login", "--no-browser", "--json", "--account", self.name) as process:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            form = {"user_code": json.loads(line)["user_code"], "action": "approve", "account": self.id}
            status, page = self.house.simulator.post("/codex/device", urllib.parse.urlencode(form).encode(), **FORM)
            assert status == 200, page
            output, errors = process.communicate(timeout=60 * PATIENCE)
        assert process.returncode == 0 and json.loads(output)["account"]["email"] == self.email, (output, errors)
        if self.house.store == "file":
            self.file = re.search("encrypted file (.*)", self.run("status").output)[1]

    def ask(self, number, transport):
        """One question; everything in its answer has to be the account's own."""
        text = f"{self.id} says {number}"
        events = self.events("ask", "--transport", transport, f"reply: {text}")
        assert events[-1]["type"] == "completed" and events[-1]["response"]["text"] == text, events[-1]
        used = {event["usage_limits"]["primary"]["used_percent"] for event in events if event["type"] == "usage_limits"}
        assert used == {self.facts["primaryUsedPercent"]}, used

    def chat(self):
        """A conversation on one connection."""
        texts = [f"{self.id} line {number}" for number in range(LINES)]
        events = self.events("chat", "--transport", "websocket", input="".join(f"reply: {text}\n" for text in texts))
        assert [event["response"]["text"] for event in events if event["type"] == "completed"] == texts, events[-1]

    @property
    def stored(self):
        """What the store holds; empty for nothing."""
        if not self.file:
            return self.house.keyring.secret(self.name)
        with contextlib.suppress(FileNotFoundError), open(self.file, "rb") as file:
            return file.read()
        return ""


class House:
    """A home and a store in which both sign in to one simulator."""

    def __init__(self, store, simulator, user, keyring):
        self.store, self.simulator, self.keyring, name = store, simulator, keyring, user.account
        self.user = user.having(CHAPPIE_ACCOUNT=None, CHAPPIE_CREDENTIAL_STORE=store)
        self.first, self.second = (Resident(self, id, f"{name}-{id}") for id in ACCOUNTS)
        self.first.sign_in()
        locks = os.path.join(user.environment["XDG_STATE_HOME"], "chappie", "locks")
        self.first_lock = next(entry.path for entry in os.scandir(locks) if entry.name.endswith(".lock") and "settings" not in entry.name)
        self.second.sign_in()
        self.begin = len(simulator.log)

    def exchanges(self, turns):
        """The log once it has so many turns since both are signed in. No session may belong to two accounts."""
        read = lambda lines: [EXCHANGE.match(line).groupdict() for line in lines]
        exchanges = read(self.simulator.wait_for_log(lambda lines: sum(map(is_turn, read(lines))) >= turns, self.begin))
        assert sum(map(is_turn, exchanges)) == turns, f"more than {turns} turns"
        for key in ("session", "connection"):
            owners = {(exchange[key], exchange["account"]) for exchange in exchanges if exchange[key]}
            assert len(owners) == len({name for name, _ in owners}), f"shared {key}s: {owners}"
        return exchanges

    def refreshed(self, turns):
        return [exchange["account"] for exchange in self.exchanges(turns) if exchange["path"] == "/oauth/token"]


@pytest.fixture(params=["file", "keyring"])
def house(request, simulate, user, keyring, tmp_path):
    def build(**settings):
        passphrase = tmp_path / "passphrase"
        passphrase.touch(mode=0o600)
        passphrase.write_text("a passphrase for tests\n")
        simulator = simulate(pollInterval=0, otherAccounts=SCENARIO, approves=False, **settings)
        return House(request.param, simulator, user(simulator, CHAPPIE_PASSPHRASE_FILE=str(passphrase)), keyring)
    return build


def test_both_ask_and_talk_at_once(house):
    house = house()
    residents = (house.first, house.second)
    for number in range(ROUNDS):
        at_once(*(lambda resident=resident, transport=transport: resident.ask(number, transport)
                  for resident in residents for transport in ("websocket", "sse")))
    at_once(house.first.chat, house.second.chat)
    exchanges = house.exchanges(4 * ROUNDS + 2 * LINES)
    # A token that came with another account's name would have got 403, a foreign chain 400.
    assert all(exchange["status"] in ("101", "200") for exchange in exchanges), exchanges
    assert {exchange["account"] for exchange in exchanges} == set(ACCOUNTS), "a request without a token"
    for resident in residents:
        turns = [exchange for exchange in exchanges if exchange["account"] == resident.id and is_turn(exchange)]
        assert len(turns) == 2 * ROUNDS + LINES
        assert len({turn["session"] for turn in turns}) == 2 * ROUNDS + 1, "a session for each process"
        assert sum(turn["form"] == "incremental" for turn in turns) >= LINES - 1, "the conversation was not continued"
        assert len({turn["connection"] for turn in turns if turn["connection"]}) == ROUNDS + 1, "a connection for each process"


def test_each_has_its_own_models_limits_and_last_answer(house):
    def learn(resident, transport):
        resident.ask(1, transport)
        assert [model["slug"] for model in resident.events("models")[0]["models"]] == resident.facts["models"]
        usage = resident.events("usage")[0]
        assert (usage["plan"], usage["primary"]["used_percent"]) == (resident.facts["plan"], resident.facts["primaryUsedPercent"]), usage
        status = resident.events("status")[0]
        assert status["account"]["email"] == resident.email, status
        assert status["last_answer"]["transport"]["kind"] == transport, status

    house = house()
    at_once(lambda: learn(house.first, "websocket"), lambda: learn(house.second, "sse"))
    assert house.first.events("status")[0]["last_answer"]["transport"]["kind"] == "websocket"


def test_a_refresh_that_waits_for_its_lock_holds_up_no_other(house):
    house = house(firstAccessTokenLifetime=1)
    ends = [resident.events("status")[0]["expires_at"] for resident in (house.first, house.second)]
    last = max(datetime.datetime.fromisoformat(end.replace("Z", "+00:00")).timestamp() for end in ends)
    wait_until(lambda: time.time() > last + 1, "the end of both tokens")
    with open(house.first_lock, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = house.user.start("ask", "--transport", "sse", "--account", house.first.name, "reply: at last")
        try:
            files = f"/proc/{waiting.pid}/fd"
            wait_until(lambda: any(os.path.realpath(f"{files}/{name}") == os.path.realpath(house.first_lock) for name in os.listdir(files)),
                       "asking for the lock")
            house.second.ask(1, "sse")
            assert house.refreshed(1) == ["second"] and waiting.poll() is None
            fcntl.flock(held, fcntl.LOCK_UN)
            output, errors = waiting.communicate(timeout=60 * PATIENCE)
        finally:
            waiting.kill()
    assert (waiting.returncode, output) == (0, "at last\n"), errors
    assert house.refreshed(2) == ["second", "first"]


def test_one_signs_out_and_in_while_the_other_asks(house):
    house, is_over, asked = house(), threading.Event(), []
    kept = house.second.stored

    def keep_asking():
        while not (is_over.is_set() and asked):
            house.second.ask(len(asked), ("websocket", "sse")[len(asked) % 2])
            asked.append(True)

    def come_and_go():
        try:
            for _ in range(2):
                assert house.first.events("logout") == [{"signed_out": True, "revoked": True, "was_signed_in": True}]
                assert not house.first.stored
                house.first.run("ask", "reply: never", status=SIGN_IN_NEEDED)
                house.first.sign_in()
                house.first.ask(1, "websocket")
        finally:
            is_over.set()

    at_once(keep_asking, come_and_go)
    own = [exchange for exchange in house.exchanges(len(asked) + 2) if exchange["account"] == "second"]
    assert all(exchange["status"] in ("101", "200") and exchange["path"].endswith("/responses") for exchange in own), own
    assert house.second.stored == kept, "the other's credential has changed"


def test_the_service_ends_one_sign_in_and_only_that_one_needs_another(house, tmp_path):
    house, export = house(), tmp_path / "export"
    kept = house.second.stored
    house.first.run("auth", "export", str(export))
    token = json.loads(export.read_text())["tokens"]["refresh_token"]
    assert house.simulator.post("/oauth/revoke", {"token": token})[0] == 200
    at_once(lambda: house.first.run("ask", "--transport", "sse", "reply: never", status=SIGN_IN_NEEDED),
            lambda: house.second.ask(1, "websocket"), lambda: house.second.ask(2, "sse"))
    assert {exchange["account"] for exchange in house.exchanges(3) if exchange["status"] == "401"} == {"first"}
    assert not house.first.stored and house.second.stored == kept


def test_names_that_are_added_chosen_and_removed_at_once_are_not_lost(simulate, user):
    user = user(simulate(pollInterval=0)).having(CHAPPIE_ACCOUNT=None)
    prefix, names = user.account, [f"{user.account}-{number}" for number in range(8)]
    listed = lambda: user.run("accounts", "list", "--json").events[0]["accounts"]
    at_once(*(lambda name=name: user.run("login", "--no-browser", "--account", name) for name in names))
    assert sorted(entry["name"] for entry in listed()) == names
    at_once(lambda: user.run("accounts", "use", names[1]),
            *(lambda name=name: user.run("accounts", "remove", name) for name in names[4:]))
    assert sorted((entry["name"], entry["is_current"]) for entry in listed()) == [(name, name == names[1]) for name in names[:4]]
    assert user.run("ask", "reply: current").output == "current\n"
    assert user.having(CHAPPIE_ACCOUNT=names[2]).run("ask", "reply: chosen").output == "chosen\n"
    for name in names[:4]:
        user.run("accounts", "remove", name)
    assert listed() == [], prefix
