"""Where the secrets go. Every command runs under strace, against a simulator behind witnesses that tell which tokens and codes
there were. Files, arguments, environments, output and whatever else the program says to the system are searched for them, in
several encodings and for any sixteen bytes of them; they may be on their wire and in the store, nowhere else. The keyring's
D-Bus session is left aside. Then the same search has to find secrets that are planted."""

import base64
import os
import secrets
import ssl
import stat
import urllib.parse
import urllib.request

import pytest

from conftest import INTERRUPTED, SIGN_IN_NEEDED, UNAVAILABLE, USAGE
from counterparts import USER, Authority, Proxy
from traces import BACKEND, PROXY, Story
from witnesses import Echo, Forwarder, Listener, legible

pytestmark = [pytest.mark.traces, pytest.mark.slow]
STORES = ("keyring", "file")
RESPONSES = {"path": "/backend-api/codex/responses"}
SIGNING_IN = ("device id", "authorization code", "code verifier")
both_stores = pytest.mark.parametrize("store", STORES)


def with_stores(name, values):
    """Each value with the keyring; the first also with an encrypted file, whose key costs time with every command."""
    return pytest.mark.parametrize(f"store, {name}", [("keyring", value) for value in values] + [("file", values[0])])


@pytest.fixture
def story(program, keyring, account_names, tmp_path, stack):
    return lambda store="keyring": stack.enter_context(Story(program, keyring, tmp_path, store, next(account_names)))


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def context(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("localhost"))
    return context


@both_stores
def test_every_command(store, story, keyring):
    story = story(store).service()
    story.run("login", "--verbose")
    story.learn()
    if store == "file":
        assert os.listdir(os.path.join(story.folder, "data/chappie/credentials")), "no file was written"
    else:
        assert story.needles.find(keyring.secret(story.account).encode()) >= {"access token", "refresh token"}, "nothing is in the keyring"
    for command in ("status", "models", "usage", "doctor"):
        for options in ([], ["--json"], ["--verbose"]):
            story.run(command, *options)
    story.run("logout", "--verbose")
    for options in ([], ["--json"]):
        story.run("status", *options, status=SIGN_IN_NEEDED)
        story.run("ask", *options, "x", status=SIGN_IN_NEEDED)
    story.finish(*SIGNING_IN, "user code", "access token", "refresh token")


@both_stores
def test_questions_and_conversations(store, story):
    story = story(store).service().sign_in()
    for transport in ("sse", "websocket"):
        for options in ([], ["--json"], ["--verbose"]):
            assert "evening" in story.run("ask", "--transport", transport, *options, "a quiet evening")
    assert story.run("chat", "--verbose", input="one\ntwo\nthree\n").count("You asked") == 3
    story.run("chat", "--json", "--transport", "sse", input="one\n")
    spoken = [legible(bytes(heard)) for heard in story.backend.heard if b"Upgrade: websocket" in heard]
    assert any(b"a quiet evening" in text for text in spoken), "what was said over WebSocket can't be read"
    story.finish("access token")


@both_stores
def test_accounts_export_and_import(store, story):
    story = story(store).service().sign_in()
    story.run("login", "--json", "--no-browser", "--account", "second")
    for words in ([], ["list", "--json"], ["use", "second"]):
        story.run("accounts", *words)
    first, second = story.export("first.json"), story.export("second.json")
    story.run("auth", "export", first)
    story.run("auth", "export", "--json", "--remove", "--account", "second", second)
    story.learn()
    for path in (first, second):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, "others may read the exported sign-in"
        with open(path, "rb") as file:
            assert "refresh token" in story.needles.find(file.read()), "nothing was exported"
    story.run("auth", "export", first, status=USAGE)
    story.run("auth", "import", "--account", "third", second)
    story.run("accounts", "remove", "third")
    story.run("auth", "import", "--json", "--verbose", "--account", "third", second)
    story.run("logout", "--json", "--account", "third")
    story.run("logout")
    story.finish(*SIGNING_IN, "user code", "refresh token")


@both_stores
def test_a_refresh(store, story):
    story = story(store).service(firstAccessTokenLifetime=1).sign_in()
    story.run("ask", "--verbose", "x")
    story.run("ask", "--json", "--transport", "sse", "x")
    assert b"".join(map(bytes, story.issuer.heard)).count(b'"grant_type":"refresh_token"') == 1
    story.finish("access token", "refresh token")


@with_stores("refusal", ["expired", "reused", "invalidated"])
def test_a_refresh_that_is_refused(store, refusal, story):
    refused = {"match": {"path": "/oauth/token", "bodyContains": '"refresh_token"'}, "effect": {"refresh": refusal}}
    story = story(store).service(rules=[refused], firstAccessTokenLifetime=1).sign_in()
    story.run("ask", "--verbose", "--json", "x", status=SIGN_IN_NEEDED)
    story.run("status", "--json", status=SIGN_IN_NEEDED)
    story.run("doctor", "--verbose")
    story.run("logout", "--verbose")
    story.finish("refresh token")


@with_stores("over", ["http", "websocket"])
def test_401_without_end(store, over, story):
    story = story(store).service(rules=[{"match": {**RESPONSES, "over": over}, "effect": {"unauthorized": True}}]).sign_in()
    transport = ["--transport", "sse" if over == "http" else "websocket"]
    story.run("ask", "--verbose", *transport, "x", status=SIGN_IN_NEEDED)
    story.run("chat", "--json", *transport, input="one\n", status=SIGN_IN_NEEDED)
    story.finish("access token", "refresh token")


@with_stores("code", [400, 101, 200, 401, 403, 429, 500])
def test_a_service_that_echoes(store, code, story):
    story = story(store).service().sign_in()
    story.backend.become(Echo(code))
    wanted = SIGN_IN_NEEDED if code == 401 else UNAVAILABLE
    story.run("ask", "--verbose", "--json", "--transport", "websocket" if code == 101 else "sse", "x", status=wanted)
    if code in (400, 401):
        # After a final 401 the sign-in has ended; the doctor says so by name, and ends as it does for a service in trouble.
        story.run("ask", "--transport", "websocket", "x", status=wanted)
        story.run("models", status=wanted)
        story.run("usage", "--json", status=wanted)
        story.run("doctor", status=UNAVAILABLE)
    story.finish("access token")


@both_stores
def test_an_issuer_that_echoes(store, story):
    story = story(store).service(firstAccessTokenLifetime=60).sign_in()
    story.issuer.become(Echo(500))
    story.run("ask", "--verbose", "x")
    for echo in (Echo(400, echoes_polls=True), Echo(400)):
        story.issuer.become(echo)
        story.run("login", "--no-browser", "--verbose", status=UNAVAILABLE)
    story.issuer.become(Echo(401))
    story.run("ask", "--verbose", "x", status=SIGN_IN_NEEDED)
    story.issuer.become(None)
    story.sign_in()
    story.issuer.become(Echo(500))
    story.run("logout", "--verbose")
    story.finish(*SIGNING_IN, "access token", "refresh token")


@both_stores
def test_certificates_that_are_not_trusted(store, story, context, authority):
    story, trusting = story(store).service(context), {"CHAPPIE_CA_FILE": authority.file}
    story.run("login", "--no-browser", "--verbose", status=UNAVAILABLE)
    story.run("login", "--no-browser", "--verbose", **trusting)
    story.run("ask", "--verbose", "x", **trusting)
    heard = b"".join(map(bytes, story.backend.heard))
    story.run("ask", "--verbose", "x", status=UNAVAILABLE)
    story.run("doctor", "--json", status=UNAVAILABLE)
    assert heard == b"".join(map(bytes, story.backend.heard)), "something was sent to a server that is not trusted"
    story.run("logout", "--verbose", **trusting)
    story.finish(*SIGNING_IN, "access token", "refresh token")


@both_stores
def test_a_proxy_with_a_password(store, story, context, authority, stack):
    story, password = story(store).service(context), secrets.token_urlsafe(24)
    proxy = stack.enter_context(Proxy(password))
    witness = story.wire(Forwarder(proxy.port), "the proxy", PROXY)

    def through(password, port=witness.port):
        story.needles.add("proxy password", password)
        address = f"http://{USER}:{password}@127.0.0.1:{port}"
        story.proxies.add(address)
        return {"HTTPS_PROXY": address}

    story.environment |= {"CHAPPIE_CA_FILE": authority.file, **through(password)}
    story.sign_in()
    for words in (["ask", "--verbose", "--transport", "sse", "x"], ["ask", "--verbose", "--transport", "websocket", "x"],
                  ["doctor"], ["doctor", "--json", "--verbose"]):
        story.run(*words)
    assert proxy.tunnels(story.backend.port) >= 4, "the proxy has seen too little"
    with Listener() as closed:
        dead = through(password, closed.port)
    for settings in (through(password[::-1]), dead):
        story.run("ask", "--verbose", "x", status=UNAVAILABLE, **settings)
        story.run("doctor", "--verbose", status=UNAVAILABLE, **settings)
    story.run("logout", "--verbose")
    story.finish("proxy password", "access token", "refresh token")


@both_stores
def test_redirects_to_another_origin(store, story):
    """Each request is sent on to a stranger, who must not get anything that is meant for the service."""
    story = story(store)
    stranger = story.wire(Listener(), "a stranger")

    def away(status, **match):
        headers = {"location": stranger.origin + "/", "set-cookie": "it=" + secrets.token_urlsafe(24)}
        return {"match": match, "effect": {"status": status, "headers": headers}}

    story.service(firstAccessTokenLifetime=60, rules=[
        away(307, path="/api/accounts/deviceauth/usercode", nth=2), away(308, path="/api/accounts/deviceauth/token", nth=2),
        away(307, path="/oauth/token", bodyContains="authorization_code", nth=2),
        away(308, path="/oauth/token", bodyContains='"refresh_token"'), away(307, path="/oauth/revoke"),
        away(302, **RESPONSES, method="GET"), away(307, **RESPONSES, method="POST"), away(301, path="/backend-api/*"),
    ]).sign_in()
    for words in (*[["login", "--no-browser", "--verbose"]] * 3, ["ask", "--verbose", "--transport", "sse", "x"],
                  ["ask", "--verbose", "--transport", "websocket", "x"], ["ask", "x"], ["models", "--json"], ["usage"],
                  ["doctor", "--verbose"]):
        story.run(*words, status=UNAVAILABLE)
    story.run("logout", "--verbose")
    told = b"".join(map(bytes, story.issuer.told + story.backend.told)).lower()
    assert told.count(f"location: {stranger.origin}".encode()) >= 10, "too few requests were redirected"
    reached = b"".join(map(bytes, stranger.heard)).lower()
    assert not [word for word in (b"authorization:", b"cookie:", b"account-id:", b"acct_") if word in reached], reached
    urllib.request.urlopen(stranger.origin, data=b"it listens", timeout=20).close()
    assert b"it listens" in bytes(stranger.heard[-1]), "the stranger hears nothing"
    story.finish("authorization code", "access token", "refresh token")


@both_stores
def test_ctrl_c(store, story):
    story = story(store).service(rules=[{"match": {**RESPONSES, "method": "POST"}, "effect": {"stall": {"afterDeltas": 3}}}]).sign_in()
    for words in (["--transport", "sse"], ["--transport", "websocket", "--verbose"], ["--json"]):
        run = story.start("ask", *words, "a quiet evening")
        run.interrupt_answer()
        run.end(INTERRUPTED)
    story.finish("access token")


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


@pytest.mark.parametrize("number", range(len(PLANTS)))
def test_a_planted_secret_is_found(number, story):
    """What the search is worth: one secret is let out each time, or none."""
    script, place = list(PLANTS.items())[number]
    story = story()
    stranger, backend = story.enter_context(Listener()), story.wire(Listener(), "the backend", BACKEND)
    for token in (SECRET, MIXED):
        story.needles.add("planted token", token)
    address = f"http://{USER}:{SECRET}@127.0.0.1:{backend.port}"
    story.proxies.add(address)
    story.environment["HTTPS_PROXY"] = address
    for word, port in (("STRANGER", str(stranger.port)), ("BACKEND", str(backend.port))):
        script, place = script.replace(word, port), place.replace(word, port)
    story.run(story.secret_file("script", script + "\n"), program="bash")
    try:
        story.finish()
        leaks = ""
    except AssertionError as found:
        leaks = str(found)
    assert place in leaks and bool(place) == bool(leaks), leaks
