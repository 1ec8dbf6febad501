"""What the network and the service can do to `chappie`, over real sockets: faults.py CHAPPIE [--stalls]

Every case is the program itself, run against `chappie simulator` (or a socket that is worse), its credential in a real
gnome-keyring. Each must end in the right text, or in one sentence and the right exit code, within its deadline.

--stalls runs only the cases that wait for a deadline of minutes; they do nothing meanwhile and go well beside others.
"""

import concurrent.futures
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from proxy import PASSWORD, Proxy
from secret_service import SecretService
from simulator import Simulator, Tally
from terminal import converse
from tls_front import TLSFront
from witnesses import Forwarder

USAGE, BAD_DATA, UNAVAILABLE, USAGE_LIMIT, SIGN_IN_NEEDED, HUNG_UP, INTERRUPTED = 64, 65, 69, 75, 77, 129, 130
QUESTION = "a quiet evening 🌙 with äöü"
TURN = {"method": "POST", "path": "/backend-api/codex/responses"}

# Scenario -> exit code, what standard error must say, seconds it may take.
FAILING = {
    "unauthorized-storm": (SIGN_IN_NEEDED, "login", 10),
    "usage-limit": (USAGE_LIMIT, "reset", 10),
    "usage-not-included": (USAGE_LIMIT, "plan", 10),
    "rate-limit": (UNAVAILABLE, "429", 20),
    "server-error-forever": (UNAVAILABLE, "500", 60),
    "overloaded": (UNAVAILABLE, "", 60),
    "bad-request": (UNAVAILABLE, "", 10),
    "blocked": (UNAVAILABLE, "", 10),
    "redirect-elsewhere": (UNAVAILABLE, "", 10),
    "html": (BAD_DATA, "", 10),
    "not-json": (BAD_DATA, "", 10),
    "cut-forever": (UNAVAILABLE, "", 60),
    "cut-clean": (UNAVAILABLE, "", 60),
    "hang-up": (UNAVAILABLE, "", 60),
    "hang-up-rst": (UNAVAILABLE, "", 60),
    "no-completed": (UNAVAILABLE, "", 60),
    "failed": (UNAVAILABLE, "", 60),
    "failed-context-length": (UNAVAILABLE, "", 10),
    "refresh-expired": (SIGN_IN_NEEDED, "login", 10),
    "refresh-reused": (SIGN_IN_NEEDED, "login", 10),
    "refresh-invalidated": (SIGN_IN_NEEDED, "login", 10),
}

# Scenarios that must not be noticed, and how long they may take.
HARMLESS = {
    "cut": 10,
    "cut-rst": 10,
    "server-error-once": 10,
    "drip": 60,
    "drip-slow": 60,
    "slow-head": 20,
    "slow-body": 20,
    "unauthorized-once": 10,
    "rate-limit-retry-after": 20,
    "unknown-events": 10,
    "giant-event": 60,
    "malformed-event": 10,
    "no-final-blank-line": 10,
    "no-created": 10,
    "incomplete": 10,
    "crlf": 10,
    "bom": 10,
    "comments": 10,
    "bare-data": 10,
    "completed-twice": 10,
    "close-delimited": 10,
    "short-tokens": 10,
    "refresh-500": 10,
}

# WebSocket first: scenario -> exit code, what standard error must say, options. All others in which something is wrong
# with WebSocket must not be noticed.
WEB_SOCKET_FAILING = {
    "ws-usage-limit": (USAGE_LIMIT, "reset", []),
    "ws-error-usage-limit": (USAGE_LIMIT, "reset", []),
    "ws-401": (SIGN_IN_NEEDED, "login", []),
    "ws-426": (UNAVAILABLE, "426", ["--transport", "websocket"]),
    "ws-cut-forever": (UNAVAILABLE, "", ["--transport", "websocket"]),
    "ws-rst": (UNAVAILABLE, "", ["--transport", "websocket"]),
    "ws-wrong-accept": (BAD_DATA, "", ["--transport", "websocket"]),
    "diverge": (UNAVAILABLE, "began differently", []),
}

# Starting a sign-in that can't succeed.
SIGN_IN = {
    "device-off": (None, "settings"),
    "device-start-500": (UNAVAILABLE, ""),
    "device-start-html": (BAD_DATA, ""),
}

# Deadlines of the program, in seconds, with room for a busy machine.
STALLS = {"stall-before-head": (60, 90), "stall-before-body": (120, 160), "stall": (300, 340), "rate-limit-far-date": (60, 90)}


class Outcome:
    def __init__(self, status, output, errors, seconds):
        self.status, self.output, self.errors, self.seconds = status, output, errors, seconds

    def expect(self, status, sentence=""):
        shown = f"{self.output[-300:]!r} {self.errors[-500:]!r}"
        assert self.status == status, f"ended with {self.status} instead of {status}: {shown}"
        assert sentence.lower() in self.errors.lower(), f"doesn't say {sentence!r}: {shown}"
        lines = [line for line in self.errors.splitlines() if line.startswith("chappie: ")]
        assert status == 0 or lines, f"says nothing: {shown}"
        assert "Fatal error" not in self.errors, shown


class Bench:
    """A keyring, and a way to run the program in it."""

    def __init__(self, program, service):
        self.program, self.service = program, service
        self.seen = []
        self.lock = threading.Lock()

    def environment(self, account, **settings):
        return {**self.service.environment, "CHAPPIE_ACCOUNT": account, **settings}

    def run(self, environment, *arguments, input=None, timeout=60):
        begin = time.monotonic()
        done = subprocess.run(
            [self.program, *arguments],
            env=environment,
            **({"stdin": subprocess.DEVNULL} if input is None else {"input": input}),
            capture_output=True,
            text=True,
            timeout=timeout,
            # Without a terminal, wherever these tests are run.
            start_new_session=True,
        )
        with self.lock:
            self.seen += [done.stdout, done.stderr]
        return Outcome(done.returncode, done.stdout, done.stderr, time.monotonic() - begin)

    def signed_in(self, simulator, account, **settings):
        """The environment of somebody who has signed in to this simulator."""
        environment = self.environment(
            account, CHAPPIE_ISSUER=simulator.issuer, CHAPPIE_BACKEND=simulator.backend, **settings
        )
        self.run(environment, "login", "--no-browser").expect(0)
        return environment

    def ask(self, environment, *words, timeout=60, transport="sse"):
        return self.run(environment, "ask", "--transport", transport, *words, timeout=timeout)

    def web_socket_scenarios(self):
        """The names of the scenarios that are about WebSocket."""
        listed = self.run(self.environment("nobody"), "simulator", "--list-scenarios").output
        names = [line.split()[0] for line in listed.splitlines() if line.startswith("ws-")]
        assert len(names) > 40, listed
        return names


class Faults:
    def __init__(self, bench, folder):
        self.bench, self.folder = bench, folder
        with Simulator(bench.program, "--auto-approve") as simulator:
            outcome = bench.ask(bench.signed_in(simulator, "reference"), QUESTION)
            outcome.expect(0)
            self.reference = outcome.output
            assert QUESTION in self.reference, self.reference

    def scenario(self, name, rules, **settings):
        path = os.path.join(self.folder, name + ".json")
        with open(path, "w", encoding="utf-8") as stream:
            json.dump({"name": name, "settings": settings, "rules": rules}, stream)
        return path

    def private_file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
        return path

    def environment(self, simulator, account, **settings):
        """That of somebody who has not signed in to this simulator."""
        return self.bench.environment(account, CHAPPIE_ISSUER=simulator.issuer, CHAPPIE_BACKEND=simulator.backend, **settings)

    def failing(self, name, status, sentence, seconds):
        with Simulator(self.bench.program, "--auto-approve", "--scenario", name) as simulator:
            environment = self.bench.signed_in(simulator, name)
            outcome = self.bench.ask(environment, QUESTION, timeout=seconds + 30)
            outcome.expect(status, sentence)
            assert outcome.seconds <= seconds, f"took {outcome.seconds:.1f} s of {seconds}"
            assert self.reference.rstrip().startswith(outcome.output.rstrip()), f"other text: {outcome.output!r}"

    def harmless(self, name, seconds):
        with Simulator(self.bench.program, "--auto-approve", "--scenario", name) as simulator:
            environment = self.bench.signed_in(simulator, name)
            outcome = self.bench.ask(environment, QUESTION, timeout=seconds + 30)
            outcome.expect(0)
            assert outcome.output == self.reference, f"other text: {outcome.output!r}"
            assert outcome.seconds <= seconds, f"took {outcome.seconds:.1f} s of {seconds}"

    def web_socket_failing(self, name, status, sentence, options):
        with Simulator(self.bench.program, "--auto-approve", "--scenario", name) as simulator:
            environment = self.bench.signed_in(simulator, name)
            outcome = self.bench.run(environment, "--timeout", "5", "ask", *options, QUESTION)
            outcome.expect(status, sentence)
            assert self.reference.rstrip().startswith(outcome.output.rstrip()), f"other text: {outcome.output!r}"

    def web_socket_harmless(self, name):
        """The whole answer, once, whichever way it came."""
        with Simulator(self.bench.program, "--auto-approve", "--scenario", name) as simulator:
            environment = self.bench.signed_in(simulator, name)
            outcome = self.bench.run(environment, "--timeout", "5", "ask", QUESTION)
            outcome.expect(0)
            assert outcome.output == self.reference, f"other text: {outcome.output!r}"
            assert outcome.seconds <= 25, f"took {outcome.seconds:.1f} s"

    def web_socket_conversation(self):
        """Four turns of a chat on one connection, and what the program says of it."""
        with Simulator(self.bench.program, "--auto-approve", "--verbose") as simulator:
            environment = self.bench.signed_in(simulator, "conversation")
            outcome = self.bench.run(environment, "chat", input="one\ntwo\nthree\nfour\n")
            outcome.expect(0)
            upgrades = [line for line in simulator.log if " 101" in line]
            assert len(upgrades) == 1, f"{len(upgrades)} connections: {simulator.log}"
            self.bench.run(environment, "ask", "--json", QUESTION).expect(0)
            status = self.bench.run(environment, "status", "--json")
            last = json.loads(status.output)["last_answer"]["transport"]
            assert last == {"kind": "websocket", "reconnects": 0, "fell_back": False}, last
            shown = self.bench.run(environment, "status", "--verbose").output
            assert "websocket, 0 reconnects" in shown, shown

    def web_socket_secured(self):
        """The same question over wss: with a private authority, without it, and through a proxy with a password."""
        with Simulator(self.bench.program, "--auto-approve") as simulator, TLSFront(simulator.port) as front, Proxy() as proxy:
            environment = self.bench.signed_in(simulator, "secured")
            environment["CHAPPIE_BACKEND"] = f"https://localhost:{front.port}/backend-api"
            trusting = {**environment, "CHAPPIE_CA_FILE": front.authority}
            ask = lambda env: self.bench.ask(env, "--json", QUESTION, transport="websocket")

            def expect_answer(env):
                outcome = ask(env)
                outcome.expect(0)
                last = json.loads(outcome.output.splitlines()[-1])
                assert last["transport"]["kind"] == "websocket" and last["response"]["text"] + "\n" == self.reference, last

            expect_answer(trusting)
            refused = ask(environment)
            refused.expect(UNAVAILABLE, "localhost")
            assert "certificate" in refused.errors.lower(), refused.errors
            assert proxy.tunnels(front.port) == 0
            expect_answer({**trusting, "HTTPS_PROXY": proxy.url()})
            assert proxy.tunnels(front.port) > 0, "the proxy has seen nothing"
            tunnels = proxy.tunnels(front.port)
            expect_answer({**trusting, "HTTPS_PROXY": proxy.url(), "NO_PROXY": "localhost"})
            assert proxy.tunnels(front.port) == tunnels, "NO_PROXY was not heeded"
            locked_out = ask({**trusting, "HTTPS_PROXY": proxy.url("wrong")})
            locked_out.expect(UNAVAILABLE, "proxy")
            assert PASSWORD not in locked_out.errors and "wrong" not in locked_out.errors, locked_out.errors

    def doctor(self, environment):
        """(exit code, {check: (status, detail, remedy)}) of `chappie doctor --json`."""
        outcome = self.bench.run(environment, "--timeout", "10", "doctor", "--json")
        report = json.loads(outcome.output.splitlines()[0])
        for row in report["checks"]:
            assert row["remedy"] or row["status"] in ("ok", "skip"), f"no advice: {row}"
        assert report["ok"] == (outcome.status == 0), outcome.output
        return outcome.status, {row["name"]: (row["status"], row["detail"], row["remedy"]) for row in report["checks"]}

    def expect_finding(self, environment, name, status, sentence, code=UNAVAILABLE):
        ended, findings = self.doctor(environment)
        assert ended == code, f"ended with {ended}: {findings}"
        assert name in findings and findings[name][0] == status, f"{name}: {findings}"
        assert sentence in " ".join(map(str, findings[name])), findings[name]

    def doctor_visits(self):
        """What `chappie doctor` says of a machine that is well, and of eight that are not."""
        with Simulator(self.bench.program, "--auto-approve") as simulator, TLSFront(simulator.port) as front:
            environment = self.bench.signed_in(simulator, "doctor")
            status, findings = self.doctor(environment)
            assert status == 0 and {row[0] for row in findings.values()} <= {"ok", "skip"}, findings
            secured = {**environment, "CHAPPIE_BACKEND": f"https://localhost:{front.port}/backend-api"}
            trusting = {**secured, "CHAPPIE_CA_FILE": front.authority}
            status, findings = self.doctor(trusting)
            assert status == 0 and "test authority" in findings["service: TLS"][1], findings
            self.expect_finding(secured, "service: TLS", "fail", "certificate")
            with socket.create_server(("127.0.0.1", 0)) as closed:
                port = closed.getsockname()[1]
            self.expect_finding({**trusting, "HTTPS_PROXY": f"http://127.0.0.1:{port}"}, "service: proxy", "fail", "proxy")
            nobody = {**environment, "XDG_RUNTIME_DIR": self.folder}
            del nobody["DBUS_SESSION_BUS_ADDRESS"]
            self.expect_finding(nobody, "keyring", "fail", "keyring")
            with TLSFront(simulator.port, refuses_upgrades=True) as proxy:
                blocked = {**environment, "CHAPPIE_BACKEND": f"https://localhost:{proxy.port}/backend-api", "CHAPPIE_CA_FILE": proxy.authority}
                self.expect_finding(blocked, "WebSocket", "warn", "403", code=0)
            with SecretService() as service:
                locked = {**environment, **service.environment}
                service.lock()
                self.expect_finding(locked, "keyring", "fail", "Unlock the keyring")
        with Simulator(self.bench.program, "--auto-approve", "--scenario", "device-off") as simulator:
            environment = {**environment, "CHAPPIE_ISSUER": simulator.issuer, "CHAPPIE_BACKEND": simulator.backend}
            self.expect_finding(environment, "device sign-in", "fail", "Security")
        then = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() - 3600))
        rules = [{"match": {"method": "GET", "path": "/"}, "effect": {"headers": {"date": then}}}]
        with Simulator(self.bench.program, "--auto-approve", "--scenario", self.scenario("late", rules)) as simulator:
            environment = self.bench.signed_in(simulator, "doctor-late")
            self.expect_finding(environment, "clock", "fail", "60 minutes ahead")

    def passphrase_at_a_terminal(self):
        """An encrypted file whose passphrase a person types: unseen, twice at first, wrong, and broken off."""
        with Simulator(self.bench.program, "--auto-approve") as simulator:
            environment = self.bench.environment(
                "typed", CHAPPIE_ISSUER=simulator.issuer, CHAPPIE_BACKEND=simulator.backend, CHAPPIE_CREDENTIAL_STORE="file",
                XDG_DATA_HOME=os.path.join(self.folder, "typed"), TERM="xterm",
            )
            visit = lambda *words, **options: converse([self.bench.program, *words], environment, **options)
            new, again, old = "New passphrase", "The same again", "Passphrase for"
            typed = [(new, "a phrase\n"), (again, "another\n"), (new, "a phrase\n"), (again, "a phrase\n")]
            # Long enough for a code to be approved, and for the status line to show what it waits for.
            status, text = visit("login", "--no-browser", answers=typed, thinking=2.5)
            assert status == 0 and "The two differ" in text and "in the encrypted file" in text, (status, text)
            asked = text[:text.rindex(again)]
            assert "enter this code" in text and "enter this code" not in asked and "Waiting" not in asked, f"not asked first: {text}"
            assert "a phrase" not in text and "another" not in text, f"what was typed shows: {text}"
            status, text = visit("ask", QUESTION, answers=[(old, "a phrase\n")])
            assert status == 0 and "That is" in text, (status, text)
            status, text = visit("ask", QUESTION, answers=[(old, "wrong\n")])
            assert status == UNAVAILABLE and "does not open" in text, (status, text)
            for words in (("ask", QUESTION), ("login", "--no-browser")):
                status, text = visit(*words, answers=[(old, "\x03")])
                assert status == INTERRUPTED, (words, status, text)
            status, text = visit("logout", answers=[(old, "\n")])
            assert status == 0 and "could not be read" in text and text.count(old) == 1, (status, text)
            assert "Nobody was signed in" in visit("logout", answers=[])[1]

    def words_at_a_terminal(self):
        """Escape sequences in an answer, in a list and in an error: data in a pipe, never orders to a terminal."""
        clear, clipboard = "\x1b[2J", "\x1b]52;c;YQ==\x07"
        sequences = clear + clipboard
        rules = [
            {"match": {"method": "GET", "path": "/backend-api/codex/models"},
             "effect": {"body": {"models": [{"slug": "m", "display_name": sequences}]}}},
            {"match": {"method": "GET", "path": "/backend-api/wham/usage"}, "effect": {"body": {"plan_type": sequences}}},
        ]
        failing = [{"match": TURN, "effect": {"status": 400, "body": {"error": {"message": sequences}}}}]
        with Simulator(self.bench.program, "--auto-approve", "--scenario", self.scenario("words", rules)) as simulator:
            environment = self.bench.signed_in(simulator, "words")
            asked = ["ask", "--transport", "sse", "reply: " + sequences]
            for words in (asked, ["models"], ["usage"]):
                outcome = self.bench.run(environment, *words)
                outcome.expect(0)
                assert sequences in outcome.output, f"{words} lost data: {outcome.output!r}"
                status, text = converse([self.bench.program, *words], environment, [])
                assert status == 0 and "\N{REPLACEMENT CHARACTER}[2J" in text, (words, status, text)
                assert clear not in text and clipboard not in text, f"{words} obeys a server: {text!r}"
        with Simulator(self.bench.program, "--auto-approve", "--scenario", self.scenario("words-failing", failing)) as simulator:
            environment = self.bench.signed_in(simulator, "words-failing")
            outcome = self.bench.ask(environment, QUESTION)
            outcome.expect(UNAVAILABLE, "\N{REPLACEMENT CHARACTER}[2J")
            assert "\x1b" not in outcome.errors, outcome.errors

    def numbers_of_a_server(self):
        """Numbers that no integer and no calendar holds."""
        fields = {"x-codex-primary-used-percent": "1e19", "x-codex-primary-reset-at": "1e300"}
        window = {"used_percent": 1e300, "limit_window_seconds": 18000, "reset_at": 1e300}
        rules = [
            {"match": TURN, "effect": {"headers": fields}},
            {"match": {"method": "GET", "path": "/backend-api/wham/usage"},
             "effect": {"body": {"plan_type": "plus", "rate_limit": {"primary_window": window}}}},
        ]
        with Simulator(self.bench.program, "--auto-approve", "--scenario", self.scenario("numbers", rules)) as simulator:
            environment = self.bench.signed_in(simulator, "numbers")
            self.bench.ask(environment, QUESTION).expect(0, "1000000 % of the short-term")
            usage = self.bench.run(environment, "usage")
            usage.expect(0)
            assert "1000000 % of 5 h" in usage.output, usage.output
            self.expect_finding(environment, "limits", "fail", "1000000 %")
            limit = {"type": "usage_limit_reached", "message": "Enough.", "resets_at": 1e300, "resets_in_seconds": 1e300}
        failing = [{"match": TURN, "effect": {"status": 429, "body": {"error": limit}}}]
        with Simulator(self.bench.program, "--auto-approve", "--scenario", self.scenario("numbers-failing", failing)) as simulator:
            environment = self.bench.signed_in(simulator, "numbers-failing")
            self.bench.ask(environment, QUESTION).expect(USAGE_LIMIT, "Enough.")

    def stall(self, name, least, most):
        with Simulator(self.bench.program, "--auto-approve", "--scenario", name) as simulator:
            environment = self.bench.signed_in(simulator, name)
            outcome = self.bench.ask(environment, QUESTION, timeout=most + 30)
            outcome.expect(UNAVAILABLE)
            assert least - 2 <= outcome.seconds <= most, f"took {outcome.seconds:.1f} s, not {least}"

    def cut_everywhere(self):
        """The same question again and again, its answer cut 97 bytes later each time, by FIN and by RST in turn."""
        effects = [{"cut": {"afterBytes": 97 * index, "with": ("fin", "rst")[index % 2]}} for index in range(400)]
        rules = [{"match": {**TURN, "nth": index + 1}, "effect": effect} for index, effect in enumerate(effects)]
        path = self.scenario("cut-everywhere", rules)
        with Simulator(self.bench.program, "--auto-approve", "--scenario", path) as simulator:
            environment = self.bench.signed_in(simulator, "cut-everywhere")
            whole = early = 0
            for index in range(len(rules)):
                outcome = self.bench.ask(environment, QUESTION)
                place = f"cut after {97 * index} bytes"
                if outcome.status == 0:
                    whole += 1
                    assert outcome.output == self.reference, f"{place}: success with other text: {outcome.output!r}"
                else:
                    early += 1
                    assert whole == 0, f"{place}: failed after an earlier cut had succeeded"
                    outcome.expect(UNAVAILABLE)
                    text = outcome.output.rstrip()
                    assert self.reference.startswith(text), f"{place}: other text: {outcome.output!r}"
                if whole == 3:
                    break
            assert early > 10 and whole == 3, f"{early} cuts failed, {whole} succeeded"

    def signs_in_badly(self, name, status, sentence):
        with Simulator(self.bench.program, "--auto-approve", "--scenario", name) as simulator:
            environment = self.bench.environment(
                name, CHAPPIE_ISSUER=simulator.issuer, CHAPPIE_BACKEND=simulator.backend
            )
            outcome = self.bench.run(environment, "login", "--no-browser")
            outcome.expect(outcome.status if status is None else status, sentence)
            assert outcome.status not in (0, 70), f"ended with {outcome.status}"
            assert not self.bench.service.secrets(account=name), "something was stored"

    def round_trip(self):
        """Sign-in, status, a question, sign-out; the credential lies in the keyring in between, and only there."""
        with Simulator(self.bench.program, "--auto-approve") as simulator:
            environment = self.bench.signed_in(simulator, "round-trip")
            stored = self.bench.service.secrets(account="round-trip")
            tokens = [word for word in strings(json.loads(stored)) if len(word) > 20 and "@" not in word and "acct" not in word]
            assert tokens, "no token in the keyring"
            status = self.bench.run(environment, "status")
            status.expect(0)
            for arguments in (["ask", "--json", "--verbose", QUESTION], ["models"], ["usage"], ["status", "--json"], ["logout"]):
                self.bench.run(environment, *arguments).expect(0)
            assert not self.bench.service.secrets(account="round-trip"), "the credential outlived the sign-out"
            self.bench.ask(environment, QUESTION).expect(SIGN_IN_NEEDED, "login")
            for text in self.bench.seen:
                assert not any(token in text for token in tokens), "a token was printed"
            for path in every_file(self.bench.service.home):
                with open(path, "rb") as stream:
                    content = stream.read()
                assert not any(token.encode() in content for token in tokens), f"a token lies in {path}"

    def corrupt_credential(self):
        with Simulator(self.bench.program, "--auto-approve") as simulator:
            environment = self.bench.signed_in(simulator, "corrupt")
            subprocess.run(
                ["secret-tool", "store", "--label=broken", "service", "com.chappie.sdk", "account", "corrupt",
                 "xdg:schema", "com.chappie.Credential"],
                input="{not json", text=True, env=environment, check=True, timeout=10,
            )
            self.bench.ask(environment, QUESTION).expect(SIGN_IN_NEEDED, "login")
            kept = self.bench.service.secrets(account="corrupt")
            assert kept == "{not json", f"it was changed to {kept!r}"
            self.bench.signed_in(simulator, "corrupt")
            self.bench.ask(environment, QUESTION).expect(0)

    def unreadable_credential(self):
        """Signing out removes what can't be read, and does not say that there was nothing."""
        with Simulator(self.bench.program, "--auto-approve", "--verbose") as simulator:
            environment = self.environment(simulator, "unreadable", CHAPPIE_CREDENTIAL_STORE="file")
            passphrases = [self.private_file(f"passphrase-{number}", f"phrase {number}\n") for number in range(2)]
            mine, other = ({**environment, "CHAPPIE_PASSPHRASE_FILE": path} for path in passphrases)
            for options, wanted in (([], "could not be read"), (["--json"], '"was_signed_in":null')):
                self.bench.run(mine, "login", "--no-browser").expect(0)
                outcome = self.bench.run(other, "logout", *options)
                outcome.expect(0)
                assert wanted in outcome.output, outcome.output
                outcome = self.bench.run(other, "logout", *options)
                outcome.expect(0)
                assert "Nobody was signed in" in outcome.output or '"was_signed_in":false' in outcome.output, outcome.output
            self.bench.ask(mine, QUESTION).expect(SIGN_IN_NEEDED, "login")
            assert not any("/oauth/revoke" in line for line in simulator.log), simulator.log

    def nowhere_to_keep_it(self):
        """A sign-in that could not be kept is not begun: a keyring service without a keyring, and a file without a passphrase."""
        with Simulator(self.bench.program, "--auto-approve", "--verbose") as simulator:
            environment = self.environment(simulator, "nowhere")
            with SecretService(has_keyring=False) as service:
                empty = {**environment, **service.environment}
                for store, reason in (("keyring", "default keyring"), ("file", "no passphrase")):
                    outcome = self.bench.run({**empty, "CHAPPIE_CREDENTIAL_STORE": store}, "login", "--no-browser")
                    outcome.expect(UNAVAILABLE, reason)
                    assert outcome.output == "" and not simulator.log, (outcome.output, simulator.log)
                self.expect_finding(empty, "keyring", "fail", "default keyring")
                since, choice, new, again = len(simulator.log), "[y/N]", "New passphrase", "The same again"
                typed = [(choice, "y\n"), (new, "a phrase\n"), (again, "a phrase\n")]
                status, text = converse([self.bench.program, "login", "--no-browser"], empty, typed, echoing={choice})
                assert status == 0 and "in the encrypted file" in text, (status, text)
                simulator.wait_for_log(lambda lines: any("/deviceauth/usercode" in line for line in lines), since)

    def imports(self):
        """What would be lost is not imported, nor what others could have read or put there."""
        with Simulator(self.bench.program, "--auto-approve") as simulator:
            environment = self.bench.signed_in(simulator, "exporter")
            path = lambda name: os.path.join(self.folder, name)
            self.bench.run(environment, "auth", "export", "--remove", path("export")).expect(0)
            importer = {**environment, "CHAPPIE_ACCOUNT": "importer"}
            into = lambda name, *options, **settings: self.bench.run({**importer, **settings}, "auth", "import", *options, path(name))
            into("export", CHAPPIE_CREDENTIAL_STORE="memory").expect(USAGE, "lost")
            into("export", "--simulate").expect(USAGE, "lost")
            os.symlink(path("export"), path("link"))
            os.mkfifo(path("pipe"), 0o600)
            os.mkdir(path("drawer"), 0o700)
            for name in ("link", "pipe", "drawer"):
                into(name).expect(USAGE, "plain file")
            os.chmod(path("export"), 0o640)
            into("export").expect(USAGE, "chmod 600")
            os.chmod(path("export"), 0o600)
            into("absent").expect(USAGE, "No such file")
            into("export").expect(0)
            self.bench.ask(importer, QUESTION).expect(0)

    def simulated_accounts(self):
        """A simulation leaves a person's accounts as they are."""
        with Simulator(self.bench.program, "--auto-approve") as simulator:
            environment = {**self.environment(simulator, "mine"), "XDG_CONFIG_HOME": os.path.join(self.folder, "simulated")}
            self.bench.run(environment, "login", "--no-browser").expect(0)
            for word in ("use", "remove"):
                self.bench.run(environment, "--simulate", "accounts", word, "mine").expect(USAGE, "simulation")
            listed = self.bench.run(environment, "accounts", "--json")
            assert json.loads(listed.output) == {"accounts": [{"name": "mine", "is_current": True}]}, listed.output
            with open(os.path.join(self.folder, "simulated/chappie/settings.json"), encoding="utf-8") as stream:
                assert json.load(stream) == {"accounts": ["mine"]}, "the settings have changed"

    def untrusted_certificate(self):
        certificate = make_certificate(self.folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        with Simulator(self.bench.program, "--auto-approve") as simulator, Server(context) as server:
            environment = self.bench.signed_in(simulator, "tls")
            environment["CHAPPIE_BACKEND"] = f"https://localhost:{server.port}/backend-api"
            outcome = self.bench.ask(environment, QUESTION)
            outcome.expect(UNAVAILABLE, "localhost")
            assert "certificate" in outcome.errors.lower(), outcome.errors
            assert server.heard == b"", "something was sent before the certificate was refused"

    def event_without_end(self):
        """65 MiB in one event: past the bound of 64."""
        with Simulator(self.bench.program, "--auto-approve") as simulator, Flood(65 << 20) as flood:
            environment = self.bench.signed_in(simulator, "flood")
            environment["CHAPPIE_BACKEND"] = f"http://127.0.0.1:{flood.port}/backend-api"
            self.bench.ask(environment, QUESTION, timeout=120).expect(BAD_DATA)

    def not_tls(self):
        with Simulator(self.bench.program, "--auto-approve") as simulator:
            environment = self.bench.signed_in(simulator, "not-tls")
            environment["CHAPPIE_BACKEND"] = f"https://127.0.0.1:{simulator.port}/backend-api"
            self.bench.ask(environment, QUESTION).expect(UNAVAILABLE, "127.0.0.1")

    def refused_port(self):
        with Simulator(self.bench.program, "--auto-approve") as simulator:
            environment = self.bench.signed_in(simulator, "refused")
        self.bench.ask(environment, QUESTION).expect(UNAVAILABLE, "127.0.0.1")

    def settings(self):
        """A setting that can't be used is named, before anything is sent."""
        garbage = os.path.join(self.folder, "garbage.pem")
        with open(garbage, "w", encoding="utf-8") as stream:
            stream.write("not a certificate\n")
        cases = [
            ("CHAPPIE_CA_FILE", os.path.join(self.folder, "missing.pem"), "missing.pem"),
            ("CHAPPIE_CA_FILE", garbage, "garbage.pem"),
            ("CHAPPIE_BACKEND", "not an address", "CHAPPIE_BACKEND"),
            ("CHAPPIE_ISSUER", "ftp://localhost", "CHAPPIE_ISSUER"),
            ("CHAPPIE_CREDENTIAL_STORE", "drawer", "CHAPPIE_CREDENTIAL_STORE"),
        ]
        with Simulator(self.bench.program, "--auto-approve") as simulator:
            environment = self.bench.signed_in(simulator, "settings")
            for name, value, sentence in cases:
                self.bench.ask({**environment, name: value}, QUESTION).expect(USAGE, sentence)
                self.bench.run({**environment, name: value}, "login", "--no-browser").expect(USAGE, sentence)
            self.bench.run({**environment, "CHAPPIE_BACKEND": "http://example.org/backend-api"}, "ask", "x").expect(USAGE, "example.org")

    def port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            self.bench.run(self.bench.environment("port"), "simulator", "--port", port).expect(UNAVAILABLE, port)

    def no_keyring(self):
        environment = self.bench.environment("nobody")
        del environment["DBUS_SESSION_BUS_ADDRESS"]
        environment["XDG_RUNTIME_DIR"] = self.folder
        self.bench.ask(environment, QUESTION).expect(UNAVAILABLE, "keyring")

    def missing_credential(self):
        self.bench.ask(self.bench.environment("nobody"), QUESTION).expect(SIGN_IN_NEEDED, "login")

    def nothing_to_ask(self):
        self.bench.ask(self.bench.environment("nobody")).expect(USAGE)

    def interrupted(self):
        with Simulator(self.bench.program, "--auto-approve", "--scenario", "stall") as simulator:
            environment = self.bench.signed_in(simulator, "interrupted")
            process = subprocess.Popen(
                [self.bench.program, "ask", QUESTION],
                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )
            process.stdout.read(1)  # It has begun to answer.
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
            assert process.returncode == INTERRUPTED, f"ended with {process.returncode}"
            assert time.monotonic() - begin < 2, "took over two seconds to stop"

    def hung_up(self):
        """A terminal that is closed while a token is renewed: what the service answers is kept. With nohup nothing happens."""
        start = lambda disposition, environment, *words: subprocess.Popen(
            ["env", f"--{disposition}-signal=HUP", self.bench.program, *words],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        slow = {"match": {"path": "/oauth/token", "bodyContains": '"refresh_token"'}, "effect": {"delayBeforeHead": 2}}
        scenario = self.scenario("slow-refresh", [slow], firstAccessTokenLifetime=60)
        with Simulator(self.bench.program, "--auto-approve", "--scenario", scenario) as simulator, Forwarder(simulator.port) as front:
            environment = {**self.bench.signed_in(simulator, "hung-up"), "CHAPPIE_ISSUER": f"http://127.0.0.1:{front.port}"}
            with start("default", environment, "ask", QUESTION) as process:
                deadline = time.monotonic() + 30
                while not any(b"refresh_token" in heard for heard in front.heard):
                    assert time.monotonic() < deadline and process.poll() is None, "the token is not renewed"
                    time.sleep(0.01)
                # The system tells of it, and so does the shell.
                process.send_signal(signal.SIGHUP)
                process.send_signal(signal.SIGHUP)
                errors = process.communicate(timeout=30)[1]
            assert process.returncode == HUNG_UP, (process.returncode, errors)
            self.bench.ask(environment, QUESTION).expect(0)
            assert sum(bytes(heard).count(b'"grant_type":"refresh_token"') for heard in front.heard) == 1, "renewed again"
            with start("ignore", environment, "ask", "repeat 50000 words") as process:
                process.stdout.read(1)
                process.send_signal(signal.SIGHUP)
                output, errors = process.communicate(timeout=60)
            assert process.returncode == 0 and len(output) > 100_000, (process.returncode, len(output), errors)

    def broken_pipe(self):
        with Simulator(self.bench.program, "--auto-approve") as simulator:
            environment = self.bench.signed_in(simulator, "pipe")
            process = subprocess.Popen(
                [self.bench.program, "ask", "repeat 50000 words"],
                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            process.stdout.read(1)
            process.stdout.close()
            errors = process.stderr.read()
            process.stderr.close()
            process.wait(timeout=20)
            assert errors == b"", f"a broken pipe made it say {errors!r}"
            assert process.returncode in (-signal.SIGPIPE, 141), f"ended with {process.returncode}"


class Server:
    """A TLS server that only listens."""

    def __init__(self, context):
        self.context, self.heard = context, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.settimeout(20)
            try:
                with self.context.wrap_socket(connection, server_side=True) as secured:
                    self.heard += secured.recv(65536)
            except OSError:
                connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


class Flood(Server):
    """A server that answers with an event of so many bytes, and no end."""

    def __init__(self, size):
        self.size = size
        super().__init__(None)

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(60)
                try:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ")
                    for _ in range(self.size >> 16):
                        connection.sendall(b"x" * 65536)
                    # Closing with unread bytes would reset the connection, and with it what is still on its way.
                    while connection.recv(65536):
                        pass
                except OSError:
                    pass  # The client has had enough, as it should.


def make_certificate(folder):
    """A certificate that nobody has signed but itself, with its key, in one file."""
    path = os.path.join(folder, "self-signed.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", path, "-out", path + ".crt"],
        check=True, capture_output=True,
    )
    with open(path, "a", encoding="ascii") as joined, open(path + ".crt", encoding="ascii") as certificate:
        joined.write(certificate.read())
    return path


def strings(value):
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(part)


def every_file(folder):
    for path, _, names in os.walk(folder):
        yield from (os.path.join(path, name) for name in names if os.path.isfile(os.path.join(path, name)))


def main(program, stalls):
    tally = Tally()
    with SecretService() as service, tempfile.TemporaryDirectory() as folder:
        faults = Faults(Bench(program, service), folder)
        if stalls:
            cases = [(f"{name} ends at its deadline", faults.stall, name, *times) for name, times in STALLS.items()]
        else:
            cases = [("cut at every 97th byte of an answer", faults.cut_everywhere)]
            cases += [(f"{name} ends with {row[0]}", faults.failing, name, *row) for name, row in FAILING.items()]
            cases += [(f"{name} does no harm", faults.harmless, name, seconds) for name, seconds in HARMLESS.items()]
            cases += [
                (f"{name}{' without fallback' if row[2] else ''} ends with {row[0]}", faults.web_socket_failing, name, *row)
                for name, row in WEB_SOCKET_FAILING.items()
            ]
            quiet = [name for name in faults.bench.web_socket_scenarios()
                     if name not in WEB_SOCKET_FAILING or WEB_SOCKET_FAILING[name][2]]
            cases += [(f"{name} does no harm", faults.web_socket_harmless, name) for name in quiet]
            cases += [(f"signing in, {name}", faults.signs_in_badly, name, *row) for name, row in SIGN_IN.items()]
            cases += [
                ("a conversation on one WebSocket", faults.web_socket_conversation),
                ("what the doctor finds", faults.doctor_visits),
                ("WebSocket with a private authority, and through a proxy", faults.web_socket_secured),
                ("sign in, ask, sign out; no token leaves the keyring", faults.round_trip),
                ("a corrupt credential is left alone until a sign-in", faults.corrupt_credential),
                ("signing out of what can't be read", faults.unreadable_credential),
                ("nowhere to keep a credential", faults.nowhere_to_keep_it),
                ("imports that are refused", faults.imports),
                ("a simulation's accounts", faults.simulated_accounts),
                ("a certificate that nobody trusts", faults.untrusted_certificate),
                ("an event without end", faults.event_without_end),
                ("no TLS where TLS is asked for", faults.not_tls),
                ("a port that nobody listens on", faults.refused_port),
                ("settings that can't be used", faults.settings),
                ("a simulator's port that is in use", faults.port_in_use),
                ("no keyring", faults.no_keyring),
                ("a passphrase at a terminal", faults.passphrase_at_a_terminal),
                ("a server's words at a terminal", faults.words_at_a_terminal),
                ("a server's numbers", faults.numbers_of_a_server),
                ("no credential", faults.missing_credential),
                ("nothing to ask", faults.nothing_to_ask),
                ("Ctrl-C in the middle of an answer", faults.interrupted),
                ("a terminal that is closed", faults.hung_up),
                ("a reader that has gone", faults.broken_pipe),
            ]
        # Most of a case is waiting for polls and deadlines.
        with concurrent.futures.ThreadPoolExecutor(max_workers=6) as pool:
            list(pool.map(lambda case: tally.check(case[0], lambda: case[1](*case[2:])), cases))
    return tally.finish()


sys.exit(main(sys.argv[1], "--stalls" in sys.argv[2:]))
