"""Two accounts in processes of their own, in one home with one store: two_accounts.py CHAPPIE

The simulator knows both accounts, tells them apart by their tokens, and logs whose token each request brought and in which
session. Both do everything at once: nothing of one may reach the other, and what ends one leaves the other alone. Once over
a folder of encrypted files, once over a real gnome-keyring.
"""

import concurrent.futures
import contextlib
import datetime
import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from secret_service import SecretService
from simulator import Simulator, Tally

SIGN_IN_NEEDED = 77
SERVICE = "com.chappie.sdk"
ROUNDS = 3
LINES = 6


class Account:
    def __init__(self, name, plan, used, models):
        self.name, self.plan, self.used, self.models = name, plan, used, models
        self.email = name + "@example.com"
        self.scenario = {
            "id": name, "userID": "user-" + name, "email": self.email, "plan": plan, "primaryUsedPercent": used, "models": models,
        }


FIRST = Account("first", "plus", 11, ["gpt-5.5", "gpt-6.1-sol"])
SECOND = Account("second", "pro", 77, ["gpt-5.5-mini"])


class Exchange:
    """A line of the simulator's log: METHOD PATH STATUS (websocket 3, whole, …) as ACCOUNT in SESSION"""

    FORM = re.compile(r"(\S+) (\S+) (\d+)(?: \(websocket (\d+), (whole|incremental), [^)]*\))?(?: as (\S+))?(?: in (\S+))?$")

    def __init__(self, line):
        match = self.FORM.match(line)
        assert match, f"the log says {line!r}"
        self.method, self.path, self.status = match[1], match[2], int(match[3])
        self.connection, self.is_incremental = match[4], match[5] == "incremental"
        self.account, self.session = match[6], match[7]
        self.is_turn = self.method == "POST" and self.path.endswith("/codex/responses")


class House:
    """A home and a store in which both accounts sign in to one simulator."""

    def __init__(self, program, service, store, folder, **settings):
        self.program, self.service, self.store, self.folder = program, service, store, tempfile.mkdtemp(dir=folder)
        self.files = {}
        scenario = self.file("accounts.json", json.dumps({
            "name": "accounts", "settings": {"pollInterval": 0, "otherAccounts": [FIRST.scenario, SECOND.scenario], **settings},
        }))
        self.simulator = Simulator(program, "--verbose", "--scenario", scenario)
        self.environment = {
            **service.environment,
            **{f"XDG_{name}_HOME": os.path.join(self.folder, name.lower()) for name in ("DATA", "CONFIG", "STATE")},
            "CHAPPIE_CREDENTIAL_STORE": store, "CHAPPIE_PASSPHRASE_FILE": self.file("passphrase", "a passphrase for tests\n"),
            "CHAPPIE_ISSUER": self.simulator.issuer, "CHAPPIE_BACKEND": self.simulator.backend,
        }

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self.simulator.__exit__(*details)

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
        return path

    # The program

    def start(self, name, *words, **settings):
        """The program at work for the account `name`; `None` leaves that to the program."""
        return subprocess.Popen(
            [self.program, *words, *(["--account", name] if name else [])], env={**self.environment, **settings},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )

    def run(self, name, *words, input="", status=0, **settings):
        with self.start(name, *words, **settings) as process:
            output, errors = process.communicate(input, timeout=90)
        assert process.returncode == status, f"{name}: {words} ended with {process.returncode}: {output[-300:]!r} {errors[-500:]!r}"
        return output

    def events(self, name, *words, **settings):
        return [json.loads(line) for line in self.run(name, *words, "--json", **settings).splitlines()]

    def sign_in(self, name, account):
        """Signs in as `account`, under `name`."""
        with self.start(name, "login", "--no-browser", "--json") as process:
            line = process.stdout.readline()
            assert line, process.communicate(timeout=30)[1]
            form = {"user_code": json.loads(line)["user_code"], "action": "approve", "account": account.name}
            status, page = self.simulator.post(
                "/codex/device", urllib.parse.urlencode(form).encode(), **{"content-type": "application/x-www-form-urlencoded"})
            assert status == 200, page
            output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert json.loads(output)["account"]["email"] == account.email, output
        if self.store == "file":
            self.files[name] = re.search("encrypted file (.*)", self.run(name, "status"))[1]

    def ask(self, account, number, transport):
        """One question; everything in its answer has to be the account's own."""
        text = f"{account.name} says {number}"
        events = self.events(account.name, "ask", "--transport", transport, f"reply: {text}")
        assert events[-1]["type"] == "completed" and events[-1]["response"]["text"] == text, events[-1]
        limits = {event["usage_limits"]["primary"]["used_percent"] for event in events if event["type"] == "usage_limits"}
        assert limits == {account.used}, f"{account.name} was told that {limits} percent are used"

    def chat(self, account):
        """A conversation on one connection."""
        texts = [f"{account.name} line {number}" for number in range(LINES)]
        lines = "".join(f"reply: {text}\n" for text in texts)
        events = self.events(account.name, "chat", "--transport", "websocket", input=lines)
        assert [event["response"]["text"] for event in events if event["type"] == "completed"] == texts, events[-1]

    # What is to be seen from outside

    def stored(self, account):
        """What the store holds for the account, as a digest; `None` for nothing."""
        if self.store == "keyring":
            content = self.service.secrets(service=SERVICE, account=account.name).encode()
        else:
            path = self.files[account.name]
            content = open(path, "rb").read() if os.path.exists(path) else b""
        return hashlib.sha256(content).hexdigest() if content else None

    def exchanges(self, since, turns=0):
        """The log from line `since` on, once it has so many turns. No session may belong to two accounts."""
        count = lambda lines: sum(Exchange(line).is_turn for line in lines)
        exchanges = [Exchange(line) for line in self.simulator.wait_for_log(lambda lines: count(lines) >= turns, since)]
        assert sum(exchange.is_turn for exchange in exchanges) == turns, f"more than {turns} turns"
        for key in ("session", "connection"):
            owners = {}
            for exchange in exchanges:
                if getattr(exchange, key):
                    owners.setdefault(getattr(exchange, key), set()).add(exchange.account)
            assert all(len(accounts) == 1 for accounts in owners.values()), f"shared {key}s: {owners}"
        return exchanges

    @contextlib.contextmanager
    def locked(self, account):
        """Holds the lock under which processes change the account's credential; gives its file."""
        digest = 0xCBF29CE484222325
        for byte in f"{SERVICE}\0{account.name}\0".encode():
            digest = (digest ^ byte) * 0x100000001B3 % 2**64
        path = os.path.join(self.environment["XDG_STATE_HOME"], "chappie", "locks", f"{digest:016x}.lock")
        with open(path, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield path


def at_once(*actions):
    """Runs all of them at the same time; the first error is everybody's."""
    with concurrent.futures.ThreadPoolExecutor(len(actions)) as pool:
        for done in [pool.submit(action) for action in actions]:
            done.result()


def wait_until(is_so, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


class Checks:
    def __init__(self, program, service, store, folder):
        self.store = store
        self.open = lambda **settings: House(program, service, store, folder, **settings)

    def turns(self):
        with self.open() as house:
            at_once(lambda: house.sign_in("first", FIRST), lambda: house.sign_in("second", SECOND))
            since = len(house.simulator.log)
            for number in range(ROUNDS):
                at_once(*(
                    lambda account=account, transport=transport: house.ask(account, number, transport)
                    for account in (FIRST, SECOND) for transport in ("websocket", "sse")
                ))
            at_once(lambda: house.chat(FIRST), lambda: house.chat(SECOND))
            exchanges = house.exchanges(since, 4 * ROUNDS + 2 * LINES)
            # A token that came with another account's name would have got 403, a foreign chain 400.
            wrong = [vars(exchange) for exchange in exchanges if exchange.status not in (101, 200)]
            assert not wrong, wrong
            for account in (FIRST, SECOND):
                own = [exchange for exchange in exchanges if exchange.account == account.name]
                turns = [exchange for exchange in own if exchange.is_turn]
                assert len(turns) == 2 * ROUNDS + LINES, f"{len(turns)} turns of {account.name}"
                assert len({turn.session for turn in turns}) == 2 * ROUNDS + 1, "a session for each process"
                assert sum(turn.is_incremental for turn in turns) >= LINES - 1, "the conversation was not continued"
                assert len({turn.connection for turn in turns if turn.connection}) == ROUNDS + 1, "a connection for each process"
            assert {exchange.account for exchange in exchanges} == {"first", "second"}, "a request without a token"
            print(f"        {len(exchanges)} exchanges of both at once: each with its own token, session and connection")

    def facts(self):
        """Lists, limits, names, and what `status` remembers of the last answer."""
        def own(house, account, transport):
            house.ask(account, 1, transport)
            models = house.events(account.name, "models")[0]["models"]
            assert [model["slug"] for model in models] == account.models, models
            usage = house.events(account.name, "usage")[0]
            assert (usage["plan"], usage["primary"]["used_percent"]) == (account.plan, account.used), usage
            status = house.events(account.name, "status")[0]
            assert status["account"]["email"] == account.email, status
            assert status["last_answer"]["transport"]["kind"] == transport, status["last_answer"]

        with self.open() as house:
            house.sign_in("first", FIRST)
            house.sign_in("second", SECOND)
            at_once(lambda: own(house, FIRST, "websocket"), lambda: own(house, SECOND, "sse"))
            assert house.events("first", "status")[0]["last_answer"]["transport"]["kind"] == "websocket"
            print("        models, limits, names and last answers of each its own")

    def lock(self):
        """A refresh that has to wait for its lock holds up nobody else's."""
        with self.open(firstAccessTokenLifetime=1) as house:
            house.sign_in("first", FIRST)
            house.sign_in("second", SECOND)
            ends = [house.events(name, "status")[0]["expires_at"] for name in ("first", "second")]
            last = max(datetime.datetime.fromisoformat(end.replace("Z", "+00:00")).timestamp() for end in ends)
            wait_until(lambda: time.time() > last + 1, "the end of both tokens")
            since = len(house.simulator.log)
            waiting = None
            try:
                with house.locked(FIRST) as path:
                    waiting = house.start("first", "ask", "--transport", "sse", "reply: at last")
                    files = f"/proc/{waiting.pid}/fd"
                    wait_until(lambda: any(os.path.realpath(f"{files}/{name}") == path for name in os.listdir(files)), "asking for the lock")
                    house.ask(SECOND, 1, "sse")
                    refreshed = [exchange.account for exchange in house.exchanges(since, 1) if exchange.path == "/oauth/token"]
                    assert refreshed == ["second"] and waiting.poll() is None, refreshed
                output, errors = waiting.communicate(timeout=60)
            finally:
                if waiting and waiting.poll() is None:
                    waiting.kill()
                    waiting.communicate()
            assert (waiting.returncode, output) == (0, "at last\n"), errors
            refreshed = [exchange.account for exchange in house.exchanges(since, 2) if exchange.path == "/oauth/token"]
            assert refreshed == ["second", "first"], refreshed
            print("        one refresh each, the second's while the first's waited")

    def sign_out(self):
        """One signs out and in again and again, while the other asks without a pause."""
        with self.open() as house:
            house.sign_in("first", FIRST)
            house.sign_in("second", SECOND)
            kept, since, is_over, asked = house.stored(SECOND), len(house.simulator.log), threading.Event(), []

            def keep_asking():
                while not (is_over.is_set() and asked):
                    house.ask(SECOND, len(asked), ("websocket", "sse")[len(asked) % 2])
                    asked.append(len(asked))

            def come_and_go():
                try:
                    for _ in range(2):
                        assert json.loads(house.run("first", "logout", "--json")) == {"signed_out": True, "revoked": True, "was_signed_in": True}
                        assert house.stored(FIRST) is None
                        house.run("first", "ask", "reply: never", status=SIGN_IN_NEEDED)
                        house.sign_in("first", FIRST)
                        house.ask(FIRST, 1, "websocket")
                finally:
                    is_over.set()

            at_once(keep_asking, come_and_go)
            own = [exchange for exchange in house.exchanges(since, len(asked) + 2) if exchange.account == "second"]
            assert all(exchange.status in (101, 200) and exchange.path.endswith("/responses") for exchange in own), [vars(it) for it in own]
            assert house.stored(SECOND) == kept, "the other's credential has changed"
            print(f"        two sign-outs of one, {len(asked)} answers of the other meanwhile, its credential untouched")

    def death(self):
        """The service ends one sign-in: only that one asks for another."""
        with self.open() as house:
            house.sign_in("first", FIRST)
            house.sign_in("second", SECOND)
            kept, since, export = house.stored(SECOND), len(house.simulator.log), os.path.join(house.folder, "export")
            house.run("first", "auth", "export", export)
            with open(export, encoding="utf-8") as stream:
                status, _ = house.simulator.post("/oauth/revoke", {"token": json.load(stream)["tokens"]["refresh_token"]})
            os.remove(export)
            assert status == 200
            at_once(
                lambda: house.run("first", "ask", "--transport", "sse", "reply: never", status=SIGN_IN_NEEDED),
                lambda: house.ask(SECOND, 1, "websocket"), lambda: house.ask(SECOND, 2, "sse"))
            refused = {exchange.account for exchange in house.exchanges(since, 3) if exchange.status == 401}
            assert refused == {"first"}, refused
            assert house.stored(FIRST) is None and house.stored(SECOND) == kept
            print("        the first needs a new sign-in, the second noticed nothing")

    def settings(self):
        """Names that are added, chosen and removed at the same time are none of them lost."""
        people = [f"person-{number}" for number in range(8)]
        account = lambda name: (FIRST, SECOND)[int(name[-1]) % 2]
        listed = lambda house: house.events(None, "accounts", "list")[0]["accounts"]
        with self.open() as house:
            at_once(*(lambda name=name: house.sign_in(name, account(name)) for name in people))
            assert sorted(entry["name"] for entry in listed(house)) == people, listed(house)
            at_once(
                lambda: house.run(None, "accounts", "use", "person-1"),
                *(lambda name=name: house.run(None, "accounts", "remove", name) for name in people[4:]))
            assert sorted((entry["name"], entry["is_current"]) for entry in listed(house)) == [(name, name == "person-1") for name in people[:4]]
            since = len(house.simulator.log)
            for name, settings in (("second", {}), ("first", {"CHAPPIE_ACCOUNT": "person-2"})):
                assert house.run(None, "ask", f"reply: {name}", **settings) == name + "\n"
            turns = [exchange.account for exchange in house.exchanges(since, 2) if exchange.is_turn]
            assert turns == ["second", "first"], turns
            for name in people[:4]:
                house.run(None, "accounts", "remove", name)
            assert listed(house) == []
            print(f"        {len(people)} names added at once, {len(people) // 2} removed while another was chosen: none lost")


def main():
    tally = Tally()
    with SecretService() as service, tempfile.TemporaryDirectory() as folder:
        stores = [Checks(sys.argv[1], service, store, folder) for store in ("file", "keyring")]

        def check(checks):
            tally.check(f"{checks.store}: both ask and talk at once", checks.turns)
            tally.check(f"{checks.store}: what is known of each", checks.facts)
            tally.check(f"{checks.store}: a lock for each", checks.lock)
            tally.check(f"{checks.store}: one signs out while the other asks", checks.sign_out)
            tally.check(f"{checks.store}: one sign-in ends at the service", checks.death)

        with concurrent.futures.ThreadPoolExecutor(len(stores)) as pool:
            list(pool.map(check, stores))
        # These do not lie in the store.
        tally.check("the names of accounts", stores[0].settings)
    return tally.finish()


sys.exit(main())
