"""One network policy for OAuth, HTTP and WebSocket: network_table.py CHAPPIE

In each situation (a row), with real nginx as the server and a real proxy on the way, the program signs in, renews a token
that has run out, and asks over HTTP and over WebSocket (the columns). A cell is what was measured: `ok` where the
simulator behind nginx has seen exactly the requests of that use, or why the program refused and its exit code. A refusal
has to name the host, or the proxy, and the reason, and nothing may have been sent.
"""

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import typing

import network_ways as ways
from certificates import DAY, HOUR, Authority
from proxy import PASSWORD
from secret_service import SecretService
from simulator import Simulator, Tally
from socks import NAME
from tls_front import TLSFront

UNAVAILABLE = 69
SETTINGS = {"autoApprove": True, "pollInterval": 0, "firstAccessTokenLifetime": 1}
# What the simulator sees of each use when all is well.
TURN = "POST /backend-api/codex/responses 200"
SEEN = {
    "sign-in": ["POST /api/accounts/deviceauth/usercode 200", "POST /api/accounts/deviceauth/token 200", "POST /oauth/token 200"],
    "refresh": ["POST /oauth/token 200", TURN],
    "HTTP": [TURN],
    "WebSocket": ["GET /backend-api/codex/responses 101", TURN + " (websocket)"],
}
COLUMNS = {"sign-in": "OAuth sign-in", "refresh": "OAuth refresh", "HTTP": "HTTP", "WebSocket": "WebSocket"}
# Kind of refusal -> what a message of that kind says, what it advises.
REFUSALS = {
    "expired": ("its certificate has expired", "extra CA file"),
    "another host's": ("its certificate is for another host", "extra CA file"),
    "not trusted": ("its certificate is from no authority that is trusted here", "extra CA file"),
    "TLS version": ("it speaks no version of TLS that is allowed here", "TLS 1.2 or newer"),
    "wrong password": ("wants other credentials", "credentials"),
    "password wanted": ("wants a user name and a password", "credentials"),
    "no proxy there": ("can't be reached", "proxy address"),
    "unknown name": ("the name does not resolve", "address"),
}
OF_THE_WAY = ("wrong password", "password wanted", "no proxy there")


@dataclasses.dataclass
class Situation:
    name: str
    expected: str = "ok"
    way: typing.Callable = ways.direct
    certificate: str = "good"
    versions: str = "TLSv1.2 TLSv1.3"
    is_authority_given: bool = True


SITUATIONS = [
    Situation("private authority, given"),
    Situation("private authority, not given", "not trusted", is_authority_given=False),
    Situation("certificate expired", "expired", certificate="expired"),
    Situation("certificate of another host", "another host's", certificate="elsewhere"),
    Situation("self-signed certificate", "not trusted", certificate="self-signed"),
    Situation("TLS 1.1 only", "TLS version", versions="TLSv1.1"),
    Situation("TLS 1.2 only", versions="TLSv1.2"),
    Situation("TLS 1.2 only, 1.3 asked for", "TLS version", ways.direct_with_1_3, versions="TLSv1.2"),
    Situation("TLS 1.3 only", versions="TLSv1.3"),
    Situation("CONNECT proxy, right password", way=ways.tunnel()),
    Situation("CONNECT proxy, wrong password", "wrong password", ways.tunnel(ways.WRONG)),
    Situation("CONNECT proxy, no password", "password wanted", ways.tunnel(None)),
    Situation("CONNECT proxy, authority not given", "not trusted", ways.tunnel(), is_authority_given=False),
    Situation("CONNECT proxy, nobody there", "no proxy there", ways.dead),
    Situation("CONNECT proxy, host in NO_PROXY", way=ways.exempt),
    Situation("socks5h, name known to it alone", way=ways.socks()),
    Situation("socks5h, right password", way=ways.socks(wants_password=True, password=PASSWORD)),
    Situation("socks5h, wrong password", "wrong password",
              ways.socks(wants_password=True, password=ways.WRONG, is_let_through=False)),
    Situation("socks5h, no password", "password wanted", ways.socks(wants_password=True, is_let_through=False)),
    Situation("socks5, name known to it alone", "unknown name", ways.socks("socks5", is_let_through=False)),
]


class Cell:
    """What came of one use: the program's exit code and words, and what the simulator saw of it."""

    def __init__(self, use, done, seen):
        self.use, self.status, self.output, self.errors = use, done.returncode, done.stdout, done.stderr
        self.seen = [re.sub(r" \(websocket .*", " (websocket)", line) for line in seen]

    @property
    def kind(self):
        return next((kind for kind, (reason, _) in REFUSALS.items() if reason in self.errors), "for no known reason")

    def __str__(self):
        if self.status != 0:
            return f"{self.kind} ({self.status})"
        return "ok" if not self.fault_of_success() else "ok, but not so"

    def fault_of_success(self):
        """What is wrong with an answer, if anything."""
        if sorted(self.seen) != sorted(SEEN[self.use]):
            return f"the simulator saw {self.seen}"
        last = json.loads(self.output.splitlines()[-1])
        if self.use == "sign-in":
            return "" if last["type"] == "linked" else f"it ended with {last['type']}"
        transport = {"kind": "websocket" if self.use == "WebSocket" else "sse", "reconnects": 0, "fell_back": False}
        if last["transport"] != transport:
            return f"the answer came over {last['transport']}"
        return "" if last["response"]["text"] == "here" else f"the answer was {last['response']['text']!r}"

    def fault_of_refusal(self, host, address):
        """What is wrong with a refusal, if anything; `address` is the proxy's."""
        _, advice = REFUSALS.get(self.kind, ("", ""))
        named = [host, address] if self.kind in OF_THE_WAY else [host]
        missing = [words for words in (*named, advice) if words not in self.errors]
        if self.seen:
            return f"it was refused, and the simulator saw {self.seen}"
        if self.status != UNAVAILABLE:
            return f"it ended with {self.status}"
        return f"the message lacks {missing}: {self.errors!r}" if missing else ""


class Row:
    """A situation, played: its servers, its proxy, and one run of the program for each use."""

    def __init__(self, situation, program, service, scenario, certificates, authority):
        self.situation, self.program, self.service, self.scenario = situation, program, service, scenario
        self.certificate, self.authority = certificates[situation.certificate], authority
        self.cells = {}

    def play(self):
        situation = self.situation
        with contextlib.ExitStack() as stack:
            self.simulator = stack.enter_context(Simulator(self.program, "--verbose", "--scenario", self.scenario))
            self.front = stack.enter_context(
                TLSFront(self.simulator.port, certificate=self.certificate, versions=situation.versions, log=True))
            self.way = stack.enter_context(situation.way())
            self.measure()
            self.judge()

    def measure(self):
        simulator, name = self.simulator, self.situation.name
        near = {**self.service.environment, "CHAPPIE_ISSUER": simulator.issuer, "CHAPPIE_BACKEND": simulator.backend,
                "CHAPPIE_ACCOUNT": name}
        address = f"https://{self.way.host}:{self.front.port}"
        far = {**near, **self.way.settings, "CHAPPIE_ISSUER": address, "CHAPPIE_BACKEND": f"{address}/backend-api"}
        if self.situation.is_authority_given:
            far["CHAPPIE_CA_FILE"] = self.authority

        self.run(near, "login", "--no-browser").check_returncode()
        signed_in = time.monotonic()
        self.cell("sign-in", {**far, "CHAPPIE_ACCOUNT": f"{name}, new"}, "login", "--no-browser")
        # Until the token has ended: the subject of the test, not a signal.
        time.sleep(max(0, signed_in + 1.1 - time.monotonic()))
        self.ask("refresh", {**far, "CHAPPIE_BACKEND": simulator.backend}, "sse")
        if self.cells["refresh"].status != 0:
            self.run(near, "ask", "--transport", "sse", "reply: here").check_returncode()
        self.ask("HTTP", far, "sse")
        self.ask("WebSocket", far, "websocket")

    def run(self, environment, *arguments):
        return subprocess.run(
            [self.program, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)

    def ask(self, use, environment, transport):
        self.cell(use, environment, "ask", "--transport", transport, "reply: here")

    def cell(self, use, environment, *arguments):
        since = self.mark(f"/before/{len(self.cells)}")
        done = self.run(environment, *arguments, "--json")
        self.cells[use] = Cell(use, done, self.simulator.log[since:self.mark(f"/after/{len(self.cells)}") - 1])

    def mark(self, path):
        """The number of the log's lines, once all that has happened is in it: a request of ours is the last."""
        self.simulator.post(path, {})
        is_ours = lambda line: line.startswith(f"POST {path} ")
        lines = self.simulator.wait_for_log(lambda lines: any(map(is_ours, lines)))
        return next(number for number, line in enumerate(lines, 1) if is_ours(line))

    def judge(self):
        expected = self.situation.expected
        shown = "ok" if expected == "ok" else f"{expected} ({UNAVAILABLE})"
        host = f"{self.way.host}:{self.front.port}"
        for use, cell in self.cells.items():
            fault = cell.fault_of_success() if cell.status == 0 else cell.fault_of_refusal(host, self.way.address)
            assert str(cell) == shown and not fault, f"{use}: {cell} instead of {shown}: {fault or cell.errors!r}"
            told = cell.output + cell.errors
            assert PASSWORD not in told and ways.WRONG not in told, f"{use}: it tells the proxy's password"
        self.judge_front(0 if expected != "ok" else 6)
        self.way.check(self.front.port, len(self.cells))
        if self.situation.versions == "TLSv1.1":
            self.prove_old_version()

    def judge_front(self, count):
        """nginx logs a request a moment after its answer."""
        deadline = time.monotonic() + 20
        while len(self.front.requests()) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        requests = self.front.requests()
        newest = self.situation.versions.split()[-1]
        assert len(requests) == count, f"nginx saw {requests}"
        assert all(request.startswith(f"{newest} ") for request in requests), f"nginx saw {requests}"

    def prove_old_version(self):
        """The server does speak it: who refuses is the program."""
        done = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{self.front.port}", "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0",
             "-servername", "localhost", "-verify_hostname", "localhost", "-verify_return_error", "-CAfile", self.authority],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0 and re.search(r"Protocol *: TLSv1\.1", done.stdout), f"no TLS 1.1: {done.stdout} {done.stderr}"


def print_table(rows):
    lines = [["", *COLUMNS.values()]]
    lines += [[row.situation.name, *(str(row.cells.get(use, "not run")) for use in COLUMNS)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def main(program):
    tally = Tally()
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(SecretService())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="chappie-table."))
        authority = Authority(folder)
        certificates = {
            "good": authority.issue("good", "localhost", NAME),
            "expired": authority.issue("expired", "localhost", valid=(-2 * DAY, -HOUR)),
            "elsewhere": authority.issue("elsewhere", "elsewhere.invalid"),
            "self-signed": authority.self_signed("self-signed", "localhost"),
        }
        scenario = os.path.join(folder, "scenario.json")
        with open(scenario, "w", encoding="utf-8") as file:
            json.dump({"name": "table", "settings": SETTINGS, "rules": []}, file)
        rows = [Row(situation, program, service, scenario, certificates, authority.file) for situation in SITUATIONS]
        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(lambda row: tally.check(row.situation.name, row.play), rows))
        print_table(rows)
    return tally.finish()


sys.exit(main(sys.argv[1]))
