"""Where the secrets go: traces.py CHAPPIE

Every command runs under strace, against a simulator behind witnesses that tell which tokens and codes there were. Files,
arguments, environments, output and whatever else the program says to the system are searched for them, in several
encodings and for any sixteen bytes of them; they may be on their wire and in the store, nowhere else. The keyring's D-Bus
session is left aside. Then the same search has to find secrets that are planted.
"""

import base64
import collections
import concurrent.futures
import os
import secrets
import ssl
import stat
import sys
import tempfile
import threading
import urllib.parse
import urllib.request

import strace
from certificates import Authority
from echo import Echo
from proxy import USER, Proxy
from secret_service import SecretService
from simulator import Tally
from traced_story import BACKEND, ISSUER, PROXY, Story
from witnesses import Forwarder, Listener, legible

USAGE, UNAVAILABLE, SIGN_IN_NEEDED, INTERRUPTED = 64, 69, 77, 130
STORES = ("keyring", "file")
ECHOES = (400, 101, 200, 401, 403, 429, 500)
TRANSPORTS = ("http", "websocket")
REFUSALS = ("expired", "reused", "invalidated")
RESPONSES = {"path": "/backend-api/codex/responses"}


class Totals:
    """What was looked for, and through."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts, self.kinds = collections.Counter(), collections.Counter()

    def add(self, **counts):
        with self.lock:
            self.counts.update(counts)

    def add_secrets(self, needles):
        with self.lock:
            self.kinds.update(needles.kinds)

    def print(self):
        kinds = ", ".join(f"{count} {kind}s" for kind, count in sorted(self.kinds.items()))
        counts = self.counts
        print(f"        looked for {sum(self.kinds.values())} secrets: {kinds}")
        print(
            f"        in {counts['commands']} commands: {counts['programs']} programs started, {counts['openings']} files opened "
            f"for writing, {counts['files']} files read afterwards, {counts['bytes'] / 1e6:.1f} MB in all; "
            f"{counts['bus'] / 1e3:.0f} kB of D-Bus left aside", flush=True,
        )


class Bench:
    """What all stories share: the program, a keyring, a desktop's helpers, a certificate."""

    def __init__(self, program, service, folder):
        self.program, self.service, self.folder = os.path.abspath(program), service, folder
        self.totals, self.proxies = Totals(), set()
        self.desktop = os.path.join(folder, "desktop")
        os.mkdir(self.desktop)
        for name in ("xclip", "xdg-open"):
            path = os.path.join(self.desktop, name)
            with open(path, "w", encoding="ascii") as script:
                script.write("#!/bin/sh\nexit 0\n")
            os.chmod(path, 0o755)
        authority = Authority(folder)
        self.authority = authority.file
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*authority.issue("server", "localhost"))


class Traces:
    def __init__(self, bench):
        self.bench = bench

    def commands(self, store):
        with Story(self.bench, "commands", store) as story:
            story.service()
            story.run("login", "--verbose")
            self.expect_stored(story)
            for command in ("status", "models", "usage", "doctor"):
                for options in ([], ["--json"], ["--verbose"]):
                    story.run(command, *options)
            story.run("logout", "--verbose")
            for options in ([], ["--json"]):
                story.run("status", *options, status=SIGN_IN_NEEDED)
                story.run("ask", *options, "x", status=SIGN_IN_NEEDED)
            story.finish("device id", "user code", "authorization code", "code verifier", "access token", "refresh token")

    def answers(self, store):
        with Story(self.bench, "answers", store) as story:
            story.service()
            story.sign_in()
            for transport in ("sse", "websocket"):
                for options in ([], ["--json"], ["--verbose"]):
                    assert "evening" in story.run("ask", "--transport", transport, *options, "a quiet evening")
            assert story.run("chat", "--verbose", input="one\ntwo\nthree\n").count("You asked") == 3
            story.run("chat", "--json", "--transport", "sse", input="one\n")
            spoken = [legible(bytes(heard)) for heard in story.backend.heard if b"Upgrade: websocket" in heard]
            assert any(b"a quiet evening" in text for text in spoken), "what was said over WebSocket can't be read"
            story.finish("access token")

    def accounts(self, store):
        with Story(self.bench, "accounts", store) as story:
            story.service()
            story.sign_in()
            story.run("login", "--json", "--no-browser", "--account", "second")
            for words in ([], ["list", "--json"], ["use", "second"]):
                story.run("accounts", *words)
            first, second = story.export("first.json"), story.export("second.json")
            story.run("auth", "export", first)
            story.run("auth", "export", "--json", "--remove", "--account", "second", second)
            self.expect_exported(story, first, second)
            story.run("auth", "export", first, status=USAGE)
            story.run("auth", "import", "--account", "third", second)
            story.run("accounts", "remove", "third")
            story.run("auth", "import", "--json", "--verbose", "--account", "third", second)
            story.run("logout", "--json", "--account", "third")
            story.run("logout")
            story.finish("device id", "user code", "authorization code", "code verifier", "refresh token")

    def expect_stored(self, story):
        """The credential is where it belongs."""
        story.learn()
        if story.store == "file":
            assert os.listdir(os.path.join(story.folder, "data/chappie/credentials")), "no file was written"
        else:
            stored = self.bench.service.secrets(account=story.account)
            assert story.needles.find(stored.encode()) >= {"access token", "refresh token"}, "nothing is in the keyring"

    def expect_exported(self, story, *paths):
        story.learn()
        for path in paths:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, "others may read the exported sign-in"
            with open(path, "rb") as file:
                assert "refresh token" in story.needles.find(file.read()), "nothing was exported"

    def refreshes(self, store):
        with Story(self.bench, "refresh", store) as story:
            story.service(settings={"firstAccessTokenLifetime": 1})
            story.sign_in()
            story.run("ask", "--verbose", "x")
            story.run("ask", "--json", "--transport", "sse", "x")
            asked = b"".join(map(bytes, story.issuer.heard))
            assert asked.count(b'"grant_type":"refresh_token"') == 1, "there was no refresh, or more than one"
            story.finish("access token", "refresh token")

    def refused_refresh(self, store, name):
        with Story(self.bench, f"refresh-{name}", store) as story:
            refusal = {"match": {"path": "/oauth/token", "bodyContains": '"refresh_token"'}, "effect": {"refresh": name}}
            story.service(settings={"firstAccessTokenLifetime": 1}, rules=[refusal])
            story.sign_in()
            story.run("ask", "--verbose", "--json", "x", status=SIGN_IN_NEEDED)
            story.run("status", "--json", status=SIGN_IN_NEEDED)
            story.run("doctor", "--verbose")
            story.run("logout", "--verbose")
            story.finish("refresh token")

    def storm(self, store, over):
        """A service that lets nobody in, whatever token they have."""
        with Story(self.bench, f"storm-{over}", store) as story:
            story.service(rules=[{"match": {**RESPONSES, "over": over}, "effect": {"unauthorized": True}}])
            story.sign_in()
            transport = ["--transport", "sse" if over == "http" else "websocket"]
            story.run("ask", "--verbose", *transport, "x", status=SIGN_IN_NEEDED)
            story.run("chat", "--json", *transport, input="one\n", status=SIGN_IN_NEEDED)
            story.finish("access token", "refresh token")

    def echoes(self, store, statuses):
        """A service that puts what it was sent into its errors, in the shapes that errors have."""
        with Story(self.bench, "echo", store) as story:
            story.service()
            story.sign_in()
            for status in statuses:
                server = story.wire(Echo(status), f"a backend that echoes with {status}", BACKEND)
                story.environment["CHAPPIE_BACKEND"] = f"{origin(server)}/backend-api"
                wanted = SIGN_IN_NEEDED if status == 401 else UNAVAILABLE
                transport = "websocket" if status == 101 else "sse"
                story.run("ask", "--verbose", "--json", "--transport", transport, "x", status=wanted)
                if status in (400, 401):
                    story.run("ask", "--transport", "websocket", "x", status=wanted)
                    story.run("models", status=wanted)
                    story.run("usage", "--json", status=wanted)
                    story.run("doctor", status=UNAVAILABLE)
            story.finish("access token")

    def echoing_issuer(self, store):
        with Story(self.bench, "echoing-issuer", store) as story:
            story.service(settings={"firstAccessTokenLifetime": 60})
            story.sign_in()
            echo = lambda status: story.wire(Echo(status), f"an issuer that echoes with {status}", ISSUER)
            issuers = {status: echo(status) for status in (400, 401, 500)}
            polled = story.wire(Echo(400, echoes_polls=True), "an issuer that echoes polls", ISSUER)
            story.run("ask", "--verbose", "x", CHAPPIE_ISSUER=origin(issuers[500]))
            for server in (polled, issuers[400]):
                story.run("login", "--no-browser", "--verbose", status=SIGN_IN_NEEDED, CHAPPIE_ISSUER=origin(server))
            story.run("ask", "--verbose", "x", status=SIGN_IN_NEEDED, CHAPPIE_ISSUER=origin(issuers[401]))
            story.sign_in()
            story.run("logout", "--verbose", CHAPPIE_ISSUER=origin(issuers[500]))
            story.finish("device id", "authorization code", "code verifier", "access token", "refresh token")

    def certificates(self, store):
        with Story(self.bench, "tls", store) as story:
            story.service(context=self.bench.context)
            trusting = {"CHAPPIE_CA_FILE": self.bench.authority}
            story.run("login", "--no-browser", "--verbose", status=UNAVAILABLE)
            story.run("login", "--no-browser", "--verbose", **trusting)
            story.run("ask", "--verbose", "x", **trusting)
            heard = len(b"".join(map(bytes, story.backend.heard)))
            story.run("ask", "--verbose", "x", status=UNAVAILABLE)
            story.run("doctor", "--json", status=UNAVAILABLE)
            assert heard == len(b"".join(map(bytes, story.backend.heard))), "something was sent to a server that nobody trusts"
            story.run("logout", "--verbose", **trusting)
            story.finish("device id", "authorization code", "code verifier", "access token", "refresh token")

    def proxies(self, store):
        password = secrets.token_urlsafe(24)
        with Proxy(password) as proxy, Story(self.bench, "proxy", store) as story:
            story.needles.add("proxy password", password)
            story.service(context=self.bench.context)
            front = story.wire(Forwarder(proxy.port), "the proxy", PROXY)
            story.environment |= {"CHAPPIE_CA_FILE": self.bench.authority, "HTTPS_PROXY": self.proxy(password, front.port)}
            story.sign_in()
            story.run("ask", "--verbose", "--transport", "sse", "x")
            story.run("ask", "--verbose", "--transport", "websocket", "x")
            story.run("doctor")
            story.run("doctor", "--json", "--verbose")
            assert proxy.tunnels(story.backend.port) >= 4, "the proxy has seen too little"
            wrong = {"HTTPS_PROXY": self.proxy(password[::-1], front.port)}
            story.needles.add("proxy password", password[::-1])
            story.run("ask", "--verbose", "x", status=UNAVAILABLE, **wrong)
            story.run("doctor", status=UNAVAILABLE, **wrong)
            with Listener() as closed:
                dead = {"HTTPS_PROXY": self.proxy(password, closed.port)}
            story.run("ask", "--verbose", "x", status=UNAVAILABLE, **dead)
            story.run("doctor", "--verbose", status=UNAVAILABLE, **dead)
            story.run("logout", "--verbose")
            story.finish("proxy password", "access token", "refresh token")

    def proxy(self, password, port):
        address = f"http://{USER}:{password}@127.0.0.1:{port}"
        self.bench.proxies.add(address)
        return address

    def redirects(self, store):
        """Every request is sent on to a stranger, who must not get anything that is meant for the service."""
        with Story(self.bench, "redirect", store) as story:
            stranger = story.wire(Listener(), "a stranger")
            away = lambda status: {
                "status": status,
                "headers": {"location": origin(stranger) + "/", "set-cookie": "it=" + secrets.token_urlsafe(24)},
            }
            rules = [
                {"match": {"path": "/api/accounts/deviceauth/usercode", "nth": 2}, "effect": away(307)},
                {"match": {"path": "/api/accounts/deviceauth/token", "nth": 2}, "effect": away(308)},
                {"match": {"path": "/oauth/token", "bodyContains": "authorization_code", "nth": 2}, "effect": away(307)},
                {"match": {"path": "/oauth/token", "bodyContains": '"refresh_token"'}, "effect": away(308)},
                {"match": {"path": "/oauth/revoke"}, "effect": away(307)},
                {"match": {**RESPONSES, "method": "GET"}, "effect": away(302)},
                {"match": {**RESPONSES, "method": "POST"}, "effect": away(307)},
                {"match": {"path": "/backend-api/*"}, "effect": away(301)},
            ]
            story.service(settings={"firstAccessTokenLifetime": 60}, rules=rules)
            story.sign_in()
            for _ in range(3):
                story.run("login", "--no-browser", "--verbose", status=UNAVAILABLE)
            story.run("ask", "--verbose", "--transport", "sse", "x", status=UNAVAILABLE)
            story.run("ask", "--verbose", "--transport", "websocket", "x", status=UNAVAILABLE)
            story.run("ask", "x", status=UNAVAILABLE)
            story.run("models", "--json", status=UNAVAILABLE)
            story.run("usage", status=UNAVAILABLE)
            story.run("doctor", "--verbose", status=UNAVAILABLE)
            story.run("logout", "--verbose")
            location = f"location: {origin(stranger)}".encode()
            told = b"".join(map(bytes, story.issuer.told + story.backend.told)).lower()
            sent = told.count(location)
            assert sent >= 10, f"only {sent} requests were redirected"
            reached = b"".join(map(bytes, stranger.heard)).lower()
            for word in (b"authorization:", b"cookie:", b"account-id:", b"acct_"):
                assert word not in reached, f"{word.decode()} reached the stranger"
            print(f"        {sent} redirects, {len(stranger.heard)} of them followed", flush=True)
            urllib.request.urlopen(origin(stranger), data=b"it listens", timeout=20).close()
            assert b"it listens" in bytes(stranger.heard[-1]), "the stranger hears nothing"
            story.finish("authorization code", "access token", "refresh token")

    def interruptions(self, store):
        with Story(self.bench, "ctrl-c", store) as story:
            rules = [{"match": {**RESPONSES, "method": "POST"}, "effect": {"stall": {"afterDeltas": 3}}}]
            story.service(rules=rules)
            story.sign_in()
            for words in (["--transport", "sse"], ["--transport", "websocket", "--verbose"], ["--json"]):
                run = story.start("ask", *words, "a quiet evening")
                run.traced.interrupt_answer()
                story.end(run, INTERRUPTED)
            story.finish("access token")

    # What the search is worth

    def planted(self):
        """Secrets that are let out on purpose, one each time: all have to be found, and nothing where there is none."""
        secret = "s" + secrets.token_urlsafe(32)
        mixed = secret[:20] + "+/&" + secret[20:]
        coded = base64.b64encode(b"x" + secret.encode()).decode()
        quoted = urllib.parse.quote(mixed, safe="")
        plants = {
            "true nothing": "",
            "true $HTTPS_PROXY": "",
            f"/bin/true {secret}": "the calls of",
            f"VARIABLE={secret} /bin/true": "the calls of",
            "/bin/true $HTTPS_PROXY": "the calls of",
            "/bin/true HTTPS_PROXY=$HTTPS_PROXY": "the calls of",
            f"printf %s {secret} >gone; rm gone": "/gone",
            f"printf %s {secret[:10]} >gone; printf %s {secret[10:20]} >>gone; rm gone": "/gone",
            f"printf %s {secret} >kept": "the file kept",
            f": >{secret}": "the name of a file",
            f"printf %s {secret[7:23]}": "standard output",
            f"printf %s {coded}": "standard output",
            f"printf %s {quoted}": "standard output",
            f"printf %s {secret.encode().hex()} >&2": "standard error",
            f"printf %s {secret} >/dev/tcp/127.0.0.1/STRANGER": "127.0.0.1:STRANGER",
            f"printf %s {secret} >/dev/tcp/127.0.0.1/BACKEND": "127.0.0.1:BACKEND",
            f"printf %s {secret} >/dev/udp/127.0.0.1/9 || :": "127.0.0.1:9",
            ": >>/dev/full": "opens /dev/full for writing",
        }
        for number, (script, place) in enumerate(plants.items()):
            self.plant(number, script, place, [secret, mixed])
        print(f"        {len(list(filter(None, plants.values())))} planted secrets were found", flush=True)

    def plant(self, number, script, place, tokens):
        with Story(self.bench, f"planted-{number}") as story, Listener() as stranger:
            backend = story.wire(Listener(), "the backend", BACKEND)
            story.environment["HTTPS_PROXY"] = self.proxy(tokens[0], backend.port)
            for token in tokens:
                story.needles.add("planted token", token)
            for word, port in (("STRANGER", str(stranger.port)), ("BACKEND", str(backend.port))):
                script, place = script.replace(word, port), place.replace(word, port)
            story.run(story.secret_file("script", script + "\n"), program="bash")
            leaks = ""
            try:
                story.finish()
            except AssertionError as found:
                leaks = str(found)
            assert place in leaks and bool(place) == bool(leaks), f"plant {number} gave {leaks!r} instead of {place!r}"


def origin(server):
    return f"http://127.0.0.1:{server.port}"


def main(program):
    tally = Tally()
    with SecretService() as service, tempfile.TemporaryDirectory(prefix="chappie-traces.") as folder:
        strace.check(os.path.join(folder, "probe.strace"))
        traces = Traces(Bench(program, service, folder))
        cases = [("a search that finds what is planted", traces.planted)]
        for store in STORES:
            cases += [
                (f"every command, {store}", traces.commands, store),
                (f"questions and conversations, {store}", traces.answers, store),
                (f"accounts, export and import, {store}", traces.accounts, store),
                (f"a proxy with a password, {store}", traces.proxies, store),
                (f"redirects to another origin, {store}", traces.redirects, store),
                (f"certificates nobody trusts, {store}", traces.certificates, store),
                (f"an issuer that echoes, {store}", traces.echoing_issuer, store),
                (f"a refresh, {store}", traces.refreshes, store),
                (f"Ctrl-C, {store}", traces.interruptions, store),
            ]
            # An encrypted file costs its key with every command: there, one of each kind that a store has little to do with.
            few = slice(1) if store == "file" else slice(None)
            cases += [(f"a service that echoes, {store}", traces.echoes, store, ECHOES[few])]
            cases += [(f"a refresh token that is {name}, {store}", traces.refused_refresh, store, name) for name in REFUSALS[few]]
            cases += [(f"401 without end over {over}, {store}", traces.storm, store, over) for over in TRANSPORTS[few]]
        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(lambda case: tally.check(case[0], lambda: case[1](*case[2:])), cases))
        traces.bench.totals.print()
    return tally.finish()


sys.exit(main(sys.argv[1]))
