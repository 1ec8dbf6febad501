"""Where the secrets go. Every command runs under strace, against a simulator behind witnesses that tell which tokens and codes
there were. Files, arguments, environments, output and whatever else the program says to the system are searched for them, in
several encodings and for any sixteen bytes of them; they may be on their wire and in the store, nowhere else. The keyring's
D-Bus session is left aside. Then the same search has to find secrets that are planted."""

import base64
import os
import re
import secrets
import shlex
import signal
import stat
import urllib.parse
import urllib.request

import pytest

from conftest import INTERRUPTED, SIGN_IN_NEEDED, UNAVAILABLE
from counterparts import USER, Authority, Proxy, free_port, private_file, wait_until
from test_tool_sign_in import Guarded, stopped_before_the_callback, visit
from traces import BACKEND, PROXY, SHARED, Story
from witnesses import Echo, Forwarder, Listener, legible

pytestmark = [pytest.mark.traces, pytest.mark.slow]
RESPONSES = {"path": "/backend-api/codex/responses"}
SIGNING_IN = ("device id", "authorization code", "code verifier")
REFRESH = {"path": "/oauth/token", "bodyContains": '"refresh_token"'}
# Where the store does not matter, the encrypted file is tried only with --full.
ENCRYPTED_FILE = pytest.param("file", marks=pytest.mark.full)
a_store = pytest.mark.parametrize("store", ["keyring", ENCRYPTED_FILE])


def each(*commands):
    """Each with no option, with --json and with --verbose."""
    return [command + option for command in commands for option in ("", " --json", " --verbose")]


# Situation: the simulator's settings, what is run after a sign-in, and what must have been seen on its way.
STORIES = {
    "every command": ({}, [
        "login --verbose --qr always", *each("status", "models", "usage", "doctor", "tools"), "completions bash", "manual --json", "logout --verbose",
        "77 status", "77 status --json", "77 ask x", "77 ask --json x"], [*SIGNING_IN, "user code", "access token", "refresh token"]),
    "questions and conversations": ({}, [
        *each("ask --transport sse evening", "ask --transport websocket evening"), "chat --verbose", "chat --json --transport sse",
        "ask --verbose --transport sse -c more", *each("threads list", "threads search evening", "threads list --usage"), "threads show",
        "threads export --format html", *each("search evening", "draw evening")],
        ["access token"]),
    "a refresh": ({"firstAccessTokenLifetime": 0}, ["ask --verbose x", "ask --json --transport sse x"], ["access token", "refresh token"]),
    **{f"a refresh that is {refusal}": (
        {"rules": [{"match": REFRESH, "effect": {"refresh": refusal}}], "firstAccessTokenLifetime": 0},
        # Otherwise a sign-out would revoke the access token at the issuer (RFC 7009, 2.1), since there is no other token left.
        ["77 ask --verbose --json x", "77 status --json", "69 doctor --verbose", "logout --local --verbose"], ["refresh token"])
       for refusal in ("expired", "reused", "invalidated")},
    **{f"401 without end over {over}": (
        {"rules": [{"match": {**RESPONSES, "over": over}, "effect": {"unauthorized": True}}]},
        [f"77 ask --verbose --transport {transport} x", f"77 chat --json --transport {transport}"], ["access token", "refresh token"])
       for over, transport in (("http", "sse"), ("websocket", "websocket"))},
}


@pytest.fixture
def story(user, keyring, passphrase, tmp_path, stack):
    def begin(store="keyring"):
        secret = secrets.token_urlsafe(12) + " and " + secrets.token_urlsafe(12)
        settings = {"CHAPPIE_CREDENTIAL_STORE": "file", **passphrase(secret)} if store == "file" else {}
        story = stack.enter_context(Story(user(**settings), keyring, tmp_path))
        story.needles.add("passphrase", secret)
        return story
    return begin


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.mark.parametrize("store, name", [
    pytest.param(store, name, marks=[pytest.mark.full] if store == "file" and name.startswith(("a refresh that", "401")) else [])
    for store in ("keyring", "file") for name in STORIES])
def test_a_story(name, store, story):
    settings, commands, carried = STORIES[name]
    story = story(store).service(**settings).sign_in()
    story.run(*commands)
    if "--qr always" in commands[0]:
        assert "▄".encode() in story.runs[1].read("output"), "no QR code was painted"
    if name.startswith("questions"):
        spoken = [legible(bytes(heard)) for heard in story.backend.heard if b"Upgrade: websocket" in heard]
        assert any(b"evening" in text for text in spoken), "what was said over WebSocket can't be read"
    story.finish(*carried)


@pytest.mark.parametrize("store", ["keyring", "file"])
def test_accounts_export_and_import(store, story):
    story = story(store).service().sign_in()
    first, second = (os.path.join(story.folder, name + ".export") for name in ("first", "second"))
    story.run("login --json --no-browser --account second", "accounts", "accounts list --json", "accounts use second",
              f"auth export {first}", f"auth export --json --remove --account second {second}")
    story.learn()
    for path in (first, second):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, "others may read the exported sign-in"
        with open(path, "rb") as file:
            assert "refresh token" in story.needles.find(file.read()), "nothing was exported"
    story.run(f"64 auth export {first}", f"auth import --account third {second}", "accounts remove third",
              f"auth import --json --verbose --account third {second}", "logout --json --account third", "logout")
    story.finish(*SIGNING_IN, "user code", "refresh token")


@pytest.mark.parametrize("store, code", [("file", 400), *(("keyring", code) for code in (400, 101, 200, 401, 403, 429, 500))])
def test_a_service_that_echoes(store, code, story):
    story = story(store).service().sign_in()
    story.backend.become(Echo(code))
    wanted = SIGN_IN_NEEDED if code == 401 else UNAVAILABLE
    story.run(f"{wanted} ask --verbose --json --transport {'websocket' if code == 101 else 'sse'} x")
    if code in (400, 401):
        # After a final 401 the sign-in has ended; the doctor says so by name, and ends as it does for a service in trouble.
        story.run(f"{wanted} ask --transport websocket x", "69 models", "69 usage --json", "69 doctor")
    story.finish("access token")


@a_store
def test_an_issuer_that_echoes(store, story):
    story = story(store).service(firstAccessTokenLifetime=60).sign_in()
    for echo, command in ((Echo(500), "ask --verbose x"), (Echo(400, echoes_polls=True), "69 login --no-browser --verbose"),
                          (Echo(400), "69 login --no-browser --verbose"), (Echo(401), "ask --verbose x"),
                          (None, "login --no-browser"), (Echo(500), "logout --verbose")):
        story.issuer.become(echo)
        story.run(command)
    story.finish(*SIGNING_IN, "access token", "refresh token")


@a_store
def test_certificates_that_are_not_trusted(store, story, authority):
    story, trusting = story(store).service(authority.context()), {"CHAPPIE_CA_FILE": authority.file}
    story.run("69 login --no-browser --verbose")
    story.run("login --no-browser --verbose", "ask --verbose x", **trusting)
    heard = b"".join(map(bytes, story.backend.heard))
    story.run("69 ask --verbose x", "69 doctor --json")
    assert heard == b"".join(map(bytes, story.backend.heard)), "something was sent to a server that is not trusted"
    story.run("logout --verbose", **trusting)
    story.finish(*SIGNING_IN, "access token", "refresh token")


@a_store
def test_a_proxy_with_a_password(store, story, authority, stack):
    story, password = story(store).service(authority.context()), secrets.token_urlsafe(24)
    proxy = stack.enter_context(Proxy(password))
    witness = story.wire(Forwarder(proxy.port), "the proxy", PROXY)

    def through(password, port=witness.port):
        story.needles.add("proxy password", password)
        return {"HTTPS_PROXY": f"http://{USER}:{password}@127.0.0.1:{port}"}

    story.environment |= {"CHAPPIE_CA_FILE": authority.file, **through(password)}
    story.sign_in().run("ask --verbose --transport sse x", "ask --verbose --transport websocket x", "doctor", "doctor --json --verbose")
    assert proxy.connected.count(f"localhost:{story.backend.port}") >= 4, "the proxy has seen too little"
    with Listener() as closed:
        dead = through(password, closed.port)
    for settings in (through(password[::-1]), dead):
        story.run("69 ask --verbose x", "69 doctor --verbose", **settings)
    story.run("logout --verbose")
    story.finish("proxy password", "access token", "refresh token")


@a_store
def test_redirects_to_another_origin(store, story):
    """Each request is sent on to a stranger, who must not get anything that is meant for the service."""
    story = story(store)
    stranger = story.wire(Listener(), "a stranger")

    def away(status, **match):
        headers = {"location": stranger.origin + "/", "set-cookie": "it=" + secrets.token_urlsafe(24)}
        return {"match": match, "effect": {"status": status, "headers": headers}}

    story.service(firstAccessTokenLifetime=60, rules=[
        away(307, path="/api/accounts/deviceauth/usercode", nth=2), away(308, path="/api/accounts/deviceauth/token", nth=2),
        away(307, path="/oauth/token", bodyContains="authorization_code", nth=2), away(308, **REFRESH), away(307, path="/oauth/revoke"),
        away(302, **RESPONSES, method="GET"), away(307, **RESPONSES, method="POST"), away(301, path="/backend-api/*"),
    ]).sign_in()
    story.run(*["69 login --no-browser --verbose"] * 3, "69 ask --verbose --transport sse x", "69 ask --verbose --transport websocket x",
              "69 ask x", "69 models --json", "69 usage", "69 doctor --verbose", "logout --verbose")
    told = b"".join(map(bytes, story.issuer.told + story.backend.told)).lower()
    assert told.count(f"location: {stranger.origin}".encode()) >= 10, "too few requests were redirected"
    reached = b"".join(map(bytes, stranger.heard)).lower()
    assert not [word for word in (b"authorization:", b"cookie:", b"account-id:", b"acct_") if word in reached], reached
    urllib.request.urlopen(stranger.origin, data=b"it listens", timeout=20).close()
    assert b"it listens" in bytes(stranger.heard[-1]), "the stranger hears nothing"
    story.finish("authorization code", "access token", "refresh token")


@pytest.mark.parametrize("store", ["keyring", "file"])
def test_a_sign_in_at_a_tool_server(store, story):
    """Its secrets go to it alone, and those of the service do not."""
    story, port = story(store).service().sign_in(), free_port()
    kinds = {"access_token", "refresh_token", "client_secret"}
    witness = story.wire(Forwarder(port), "the tool server", {f"tool server's {kind}" for kind in (*kinds, "code", "code_verifier")})
    server = story.enter_context(Guarded(f"port={port}", f"base=http://127.0.0.1:{witness.port}"))

    def learn():
        for name, secret in re.findall(rb'"(access_token|refresh_token|client_secret)": ?"([^"]+)"', b"".join(map(bytes, witness.told))):
            story.needles.add(f"tool server's {name.decode()}", secret.decode())
        for verifier in re.findall(rb"code_verifier=([\w-]+)", b"".join(map(bytes, witness.heard))):
            story.needles.add("tool server's code_verifier", verifier.decode())

    login = story.start(f"tools login docs --tools {server.manifest} --no-browser --verbose")
    wait_until(lambda: b"/authorize?" in login.read("output"), "the page", 60)
    callback = stopped_before_the_callback(re.search(rb"http://127\S+/authorize\?\S+", login.read("output"))[0].decode())
    story.needles.add("tool server's code", re.search(r"code=([\w-]+)", callback)[1])
    visit(callback)
    login.end(0)
    learn()
    call = shlex.quote('call add {"first":40,"second":2}')
    server.wants("forget")
    assert '"42"' in story.run(f"ask --verbose --json --transport sse --tools {server.manifest} {call}")
    server.wants("downgrade")
    story.run(f"ask --verbose --transport sse --tools {server.manifest} {call}", f"tools list --tools {server.manifest}")
    learn()
    server.wants("refuse")
    server.wants("forget")
    story.run(f"ask --verbose --transport sse --tools {server.manifest} {call}", f"tools logout docs --verbose --tools {server.manifest}")
    learn()
    story.finish("access token", *(f"tool server's {kind}" for kind in (*kinds, "code", "code_verifier")))


@pytest.mark.parametrize("store", ["keyring", "file"])
def test_ctrl_c(store, story):
    story = story(store).service(rules=[{"match": {**RESPONSES, "method": "POST"}, "effect": {"stall": {"afterDeltas": 3}}}]).sign_in()
    for options in ("--transport sse", "--transport websocket --verbose", "--json"):
        run = story.start(f"ask {options} evening")
        wait_until(lambda: run.read("output"), "an answer", 60)
        # Every process in the foreground gets it; strace does not mind.
        os.killpg(run.process.pid, signal.SIGINT)
        run.end(INTERRUPTED)
    story.finish("access token")


@pytest.mark.parametrize("call, is_seen", [
    (b"PROT_READ|PROT_WRITE, MAP_SHARED, 7</a/b>, 0) = 0x7f", False), (b"PROT_WRITE, MAP_SHARED, 7</a/b>, 0 <unfinished ...>", False),
    (b"PROT_READ|PROT_WRITE, MAP_SHARED, 7</a/b-shm/c>, 0) = 0x7f", False), (b"PROT_READ, MAP_SHARED, 7</a/b>, 0) = 0x7f", True),
    (b"PROT_READ|PROT_WRITE, MAP_SHARED, 7</a/b-shm>, 0) = 0x7f", True),
    (b"PROT_READ|PROT_WRITE, MAP_SHARED, 7</a/b-shm>, 0 <unfinished ...>", True),
    (b"PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f", True)])
def test_what_is_written_by_way_of_memory_is_not_seen_in_calls(call, is_seen):
    assert bool(SHARED.search(b"NULL, 32768, " + call)) != is_seen


SECRET = "s" + secrets.token_urlsafe(32)
MIXED = SECRET[:20] + "+/&" + SECRET[20:]
PLANTS = {
    "true nothing": "",
    "true $HTTPS_PROXY": "",
    f"/bin/true {SECRET}": "the calls of",
    f"VARIABLE={SECRET} /bin/true": "the calls of",
    "/bin/true $HTTPS_PROXY": "the calls of",
    "/bin/true HTTPS_PROXY=$HTTPS_PROXY": "the calls of",
    f"printf %s {SECRET} >gone; rm gone": "/gone",
    f"printf %s {SECRET[:10]} >gone; printf %s {SECRET[10:20]} >>gone; rm gone": "/gone",
    f"printf %s {SECRET} >kept": "the file kept",
    f": >{SECRET}": "the name of a file",
    f"printf %s {SECRET[7:23]}": "standard output",
    f"printf %s {base64.b64encode(b'x' + SECRET.encode()).decode()}": "standard output",
    f"printf %s {urllib.parse.quote(MIXED, safe='')}": "standard output",
    f"printf %s {SECRET.encode().hex()} >&2": "standard error",
    f"printf %s {SECRET} >/dev/tcp/127.0.0.1/STRANGER": "127.0.0.1:STRANGER",
    f"printf %s {SECRET} >/dev/tcp/127.0.0.1/BACKEND": "127.0.0.1:BACKEND",
    f"printf %s {SECRET} >/dev/udp/127.0.0.1/9 || :": "127.0.0.1:9",
    ": >>/dev/full": "opens /dev/full for writing",
}


@pytest.mark.parametrize("script, place", PLANTS.items(), ids=range(len(PLANTS)))
def test_a_planted_secret_is_found(script, place, story):
    """What the search is worth: one secret is let out each time, or none."""
    story = story()
    stranger, backend = story.enter_context(Listener()), story.wire(Listener(), "the backend", BACKEND)
    for token in (SECRET, MIXED):
        story.needles.add("planted token", token)
    story.environment["HTTPS_PROXY"] = f"http://{USER}:{SECRET}@127.0.0.1:{backend.port}"
    for word, port in (("STRANGER", str(stranger.port)), ("BACKEND", str(backend.port))):
        script, place = script.replace(word, port), place.replace(word, port)
    story.run(private_file(story.base / "script", script + "\n"), program="bash")
    try:
        story.finish()
        leaks = ""
    except AssertionError as found:
        leaks = str(found)
    assert place in leaks and bool(place) == bool(leaks), leaks
