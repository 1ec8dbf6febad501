"""One network policy for OAuth, HTTP and WebSocket.

In each situation, with real nginx as the server and a real proxy on the way, the program signs in, renews a token that has
run out, and asks over HTTP and over WebSocket. Each use ends well, and the simulator behind nginx has seen exactly its
requests; or it is refused with the same reason, which names the host, or the proxy, and nothing was sent.
"""

import contextlib
import dataclasses
import datetime
import json
import pathlib
import re
import socket
import subprocess
import types

import pytest

from conftest import UNAVAILABLE
from counterparts import HIDDEN_NAME, PASSWORD, PATIENCE, WRONG, Authority, Proxy, Socks, TLSFront, wait_until
from witnesses import Forwarder

pytestmark = pytest.mark.network
TURN = "POST /backend-api/codex/responses 200"
# What the simulator sees of each use when all is well.
SEEN = {
    "sign-in": ["POST /api/accounts/deviceauth/usercode 200", "POST /api/accounts/deviceauth/token 200", "POST /oauth/token 200"],
    # The first turn of an account asks for its list of models.
    "refresh": ["POST /oauth/token 200", "GET /backend-api/codex/models 200", TURN],
    "sse": [TURN],
    "websocket": ["GET /backend-api/codex/responses 101", TURN + " (websocket)"],
}
# Kind of refusal: what its message says, what it advises, whether it names the proxy.
REFUSALS = {
    "expired": ("its certificate has expired", "clock", False),
    "another host's": ("its certificate is for another host", "address", False),
    "not trusted": ("its certificate is from an authority that is not trusted here", "CHAPPIE_CA_FILE", False),
    "TLS version": ("it supports no version of TLS that is allowed here", "TLS 1.2 or newer", False),
    "wrong password": ("wants other credentials", "credentials", True),
    "password wanted": ("wants a user name and a password", "credentials", True),
    "no proxy there": ("can't be reached", "proxy address", True),
    "unknown name": ("the name does not resolve", "address", False),
}


@dataclasses.dataclass
class Situation:
    """`proxy` is its scheme, or "dead" where no server listens; SOCKS proxies alone resolve the name of the host."""

    expected: str = "ok"
    proxy: str = ""
    password: str = ""
    wants_password: bool = False
    certificate: str = "good"
    versions: str = "TLSv1.2 TLSv1.3"
    is_authority_given: bool = True
    settings: dict = dataclasses.field(default_factory=dict)


SITUATIONS = {
    "private authority, given": Situation(),
    "private authority, not given": Situation("not trusted", is_authority_given=False),
    "certificate expired": Situation("expired", certificate="expired"),
    "certificate of another host": Situation("another host's", certificate="elsewhere"),
    "self-signed certificate": Situation("not trusted", certificate="self-signed"),
    "TLS 1.1 only": Situation("TLS version", versions="TLSv1.1"),
    "TLS 1.2 only": Situation(versions="TLSv1.2"),
    "TLS 1.2 only, 1.3 asked for": Situation("TLS version", versions="TLSv1.2", settings={"CHAPPIE_MINIMUM_TLS": "1.3"}),
    "TLS 1.3 only": Situation(versions="TLSv1.3"),
    "CONNECT proxy, right password": Situation("ok", "http", PASSWORD),
    "CONNECT proxy, wrong password": Situation("wrong password", "http", WRONG),
    "CONNECT proxy, no password": Situation("password wanted", "http"),
    "CONNECT proxy, authority not given": Situation("not trusted", "http", PASSWORD, is_authority_given=False),
    "CONNECT proxy, no server there": Situation("no proxy there", "dead"),
    # It would refuse.
    "CONNECT proxy, host in NO_PROXY": Situation("ok", "http", WRONG, settings={"NO_PROXY": "localhost"}),
    "socks5h, name known to it alone": Situation("ok", "socks5h"),
    "socks5h, right password": Situation("ok", "socks5h", PASSWORD, wants_password=True),
    "socks5h, wrong password": Situation("wrong password", "socks5h", WRONG, wants_password=True),
    "socks5h, no password": Situation("password wanted", "socks5h", wants_password=True),
    "socks5, name known to it alone": Situation("unknown name", "socks5"),
}


@contextlib.contextmanager
def dead():
    """A proxy's address, held, so that none comes to listen there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        yield types.SimpleNamespace(address=address, connected=[], url=lambda *_: f"http://{address}")


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_every_use_of_the_network_obeys_one_policy(situation, simulate, user, stack, tmp_path):
    authority, now, is_well = Authority(tmp_path), datetime.datetime.now(datetime.timezone.utc), situation.expected == "ok"
    good = authority.issue("localhost", HIDDEN_NAME)
    certificate = {
        "good": lambda: good, "self-signed": lambda: authority.self_signed("localhost"),
        "expired": lambda: authority.issue("localhost", not_before=now - datetime.timedelta(2), not_after=now - datetime.timedelta(0, 3600)),
        "elsewhere": lambda: authority.issue("elsewhere.invalid"),
    }[situation.certificate]()
    simulator, is_socks = simulate(pollInterval=0, firstAccessTokenLifetime=0), situation.proxy.startswith("socks")
    host = HIDDEN_NAME if is_socks else "localhost"

    # Two users sign in where all is well; then the server and the proxy are replaced by those of the situation.
    with TLSFront(simulator.port, good) as front, Socks(None) as open_proxy:
        port, far = front.port, f"https://{host}:{front.port}"
        secured = {"CHAPPIE_ISSUER": far, "CHAPPIE_BACKEND": f"{far}/backend-api", "CHAPPIE_CA_FILE": authority.file}
        asking = user(simulator, **secured, HTTPS_PROXY=open_proxy.url("socks5h", None) if is_socks else None).sign_in()
        asking.ask("reply: here")
        refreshing = asking.having(CHAPPIE_BACKEND=simulator.backend, CHAPPIE_ACCOUNT=asking.account + "-refreshing").sign_in()
    front = stack.enter_context(TLSFront(simulator.port, certificate, situation.versions, port=port))
    change, proxy = {"HTTPS_PROXY": None, **situation.settings}, None
    if situation.proxy:
        start = {"http": Proxy, "dead": dead}.get(situation.proxy, lambda: Socks(PASSWORD if situation.wants_password else None))
        proxy = stack.enter_context(start())
        change["HTTPS_PROXY"] = proxy.url(situation.proxy, situation.password)
    if not situation.is_authority_given:
        change["CHAPPIE_CA_FILE"] = None
    asking, refreshing = asking.having(**change), refreshing.having(**change)
    newcomer = asking.having(CHAPPIE_ACCOUNT=asking.account + "-new")
    since = mark(simulator, "/before")
    for use, expected in SEEN.items():
        if use == "sign-in":
            outcome = newcomer.run("login", "--no-browser", "--json", status=None)
        else:
            who, transport = (refreshing, "sse") if use == "refresh" else (asking, use)
            outcome = who.ask("reply: here", "--json", transport=transport, status=None)
        before, since = since, mark(simulator, f"/after/{use}")
        seen = [re.sub(r" \(websocket .*", " (websocket)", line) for line in simulator.log[before:since - 1]]
        assert PASSWORD not in repr(outcome) and WRONG not in outcome.output + outcome.errors, f"{use}: it tells the proxy's password"
        assert sorted(seen) == (sorted(expected) if is_well else []), f"{use}: the simulator saw {seen}"
        if is_well and use == "sign-in":
            assert outcome.expect().events[-1]["type"] == "linked", outcome
        elif is_well:
            last, kind = outcome.expect().events[-1], "websocket" if use == "websocket" else "sse"
            assert last["transport"] == {"kind": kind, "reconnects": 0, "fell_back": False}, last
            assert last["response"]["text"] == "here", last
        else:
            reason, advice, names_proxy = REFUSALS[situation.expected]
            assert outcome.status == UNAVAILABLE, f"{use}: {outcome}"
            for words in (reason, advice, f"{host}:{port}", *([proxy.address] if names_proxy else [])):
                assert words in outcome.errors, f"{use}: the message lacks {words!r}: {outcome}"
    count, newest = 6 if is_well else 0, situation.versions.split()[-1]
    # nginx logs a request a moment after its answer.
    wait_until(lambda: len(front.requests) >= count, lambda: f"six requests in {front.requests}")
    assert len(front.requests) == count and all(line.startswith(f"{newest} ") for line in front.requests), front.requests
    if proxy:
        is_used = situation.expected in ("ok", "not trusted") and "NO_PROXY" not in situation.settings
        assert len(proxy.connected) >= len(SEEN) if is_used else not proxy.connected, proxy.connected
        assert set(proxy.connected) <= {f"{host}:{port}"}, proxy.connected
    if is_socks:
        with pytest.raises(socket.gaierror):
            socket.getaddrinfo(HIDDEN_NAME, None)
    if situation.versions == "TLSv1.1":
        prove_old_version(port, authority.file)


def test_socks_alone_means_the_socks_that_looks_names_up(simulate, user, stack, tmp_path):
    """GNOME's proxy settings write this, and offer nothing else."""
    authority, simulator = Authority(tmp_path), simulate()
    front = stack.enter_context(TLSFront(simulator.port, authority.issue(HIDDEN_NAME)))
    proxy, far = stack.enter_context(Socks(None)), f"https://{HIDDEN_NAME}:{front.port}"
    person = user(CHAPPIE_ISSUER=far, CHAPPIE_BACKEND=f"{far}/backend-api", CHAPPIE_CA_FILE=authority.file,
                  ALL_PROXY=f"socks://{proxy.address}/\n").sign_in()
    for transport in ("sse", "websocket"):
        assert "here" in person.ask("reply: here", transport=transport).output
    assert set(proxy.connected) == {f"{HIDDEN_NAME}:{front.port}"}, proxy.connected


def test_a_proxy_that_can_not_be_used(simulate, signed_in, front):
    simulator = simulate()
    person = signed_in(simulator, **front(simulator).settings)
    unusable = person.having(ALL_PROXY="ftp://someone:s3cret@nowhere:1")
    outcome = unusable.ask(status=UNAVAILABLE, says="the proxy in ALL_PROXY has the scheme ftp")
    assert "s3cret" not in outcome.errors, outcome
    # What doesn't need it doesn't mind, and the doctor shows it in its table.
    for words in (("status",), ("threads", "list"), ("accounts",)):
        unusable.run(*words)
    status, rows = unusable.doctor()
    assert status == UNAVAILABLE and "ALL_PROXY" in rows["service: proxy"]["detail"], rows
    assert "world" in unusable.having(no_proxy="localhost,127.0.0.0/8,::1").ask("reply: Hello, world").output
    unusable.run("logout", status=None)


# What the user sets, with {good}, {bad} and {marked} for files; whether it works, and what is said.
AUTHORITIES = {
    "SSL_CERT_FILE": ({"SSL_CERT_FILE": "{good}"}, True, ""),
    "SSL_CERT_DIR": ({"SSL_CERT_DIR": "/nowhere:{folder}"}, True, ""),
    "both": ({"SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt", "CHAPPIE_CA_FILE": "{good}"}, True, ""),
    "a mark of the byte order": ({"CHAPPIE_CA_FILE": "{marked}"}, True, ""),
    "one bad certificate": ({"CHAPPIE_CA_FILE": "{mixed}"}, True, "Certificate 1 of 2 in CHAPPIE_CA_FILE ({mixed}) can't be read"),
    "bad certificates only": ({"CHAPPIE_CA_FILE": "{bad}"}, False, "CHAPPIE_CA_FILE ({bad}) holds no certificate that can be read"),
    "no certificate": ({"CHAPPIE_CA_FILE": "{empty}"}, False, "CHAPPIE_CA_FILE ({empty}) holds no certificate in PEM form"),
    "a stale SSL_CERT_FILE": ({"SSL_CERT_FILE": "{folder}/gone.pem"}, False, "SSL_CERT_FILE ({folder}/gone.pem) can't be read"),
    "a stale SSL_CERT_DIR": ({"SSL_CERT_DIR": "{folder}/gone"}, False, "SSL_CERT_DIR ({folder}/gone) holds no certificate"),
    "another authority": ({"CHAPPIE_CA_FILE": "{other}"}, False, "CHAPPIE_CA_FILE ({other}) does not hold the authority"),
    "none": ({}, False, "name the file as CHAPPIE_CA_FILE"),
    "another in SSL_CERT_FILE": ({"SSL_CERT_FILE": "{other}"}, False, "SSL_CERT_FILE ({other}) replaces this machine's"),
}


@pytest.mark.parametrize("settings, works, says", AUTHORITIES.values(), ids=AUTHORITIES)
def test_the_authorities_that_a_user_sets(settings, works, says, simulate, user, stack, tmp_path):
    authority, simulator = Authority(tmp_path), simulate(pollInterval=0)
    front = stack.enter_context(TLSFront(simulator.port, authority.issue("localhost")))
    (tmp_path / "elsewhere").mkdir()
    good, bad = (tmp_path / "authority.pem").read_text(), "-----BEGIN CERTIFICATE-----\nMIIBIjANBgkq\n-----END CERTIFICATE-----\n"
    texts = {"good": good, "bad": bad, "mixed": bad + good, "marked": "\ufeff" + good, "empty": "nothing\n",
             "other": pathlib.Path(Authority(tmp_path / "elsewhere").file).read_text()}
    files = {name: tmp_path / f"{name}.pem" for name in texts}
    for name, text in texts.items():
        files[name].write_text(text)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "company.crt").write_text(good)
    known = {**files, "folder": folder}
    origin = f"https://localhost:{front.port}"
    person = user(CHAPPIE_ISSUER=origin, CHAPPIE_BACKEND=f"{origin}/backend-api",
                  **{name: value.format(**known) for name, value in settings.items()})
    # The advice is the same at a sign-in and at a question about the account.
    outcome = person.run("login", "--no-browser", status=None)
    assert (outcome.status == 0) == works and says.format(**known) in outcome.errors, outcome
    if works:
        assert "here" in person.ask("reply: here", transport="websocket").output
    else:
        assert not front.requests, front.requests
        status, rows = person.doctor()
        shown = rows["service: TLS"]
        assert says.format(**known) in f"{shown['detail']} {shown['remedy']}", rows


def mark(simulator, path):
    """The number of the log's lines, once all that has happened is in it: a request of ours is the last."""
    simulator.post(path)
    is_ours = lambda line: line.startswith(f"POST {path} ")
    lines = simulator.wait_for_log(lambda lines: any(map(is_ours, lines)))
    return next(number for number, line in enumerate(lines, 1) if is_ours(line))


def prove_old_version(port, authority):
    """The server does speak it: the refusal is the program's."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0",
               "-servername", "localhost", "-verify_hostname", "localhost", "-verify_return_error", "-CAfile", authority]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60 * PATIENCE)
    assert done.returncode == 0 and re.search(r"Protocol *: TLSv1\.1", done.stdout), done


def test_a_sign_in_outlives_the_network_that_it_was_begun_in(simulate, user, front):
    """The user changes the network while the page is open, and then approves: the connection that was polled over is dead."""
    simulator = simulate(pollInterval=1, approves=False)
    front = front(simulator, http2=True)
    with user(**front.settings).start("--timeout", "3", "login", "--no-browser", "--json") as process:
        code = json.loads(process.stdout.readline())["user_code"]
        simulator.wait_for_log(lambda lines: any("deviceauth/token" in line for line in lines))
        front.fall_silent()
        assert simulator.post("/codex/device", user_code=code, action="approve") == 200
        output, errors = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode == 0, (output, errors)
    assert all(line.endswith("HTTP/2.0") for line in front.requests), front.requests


class HTTP1Only(Forwarder):
    """Ends each stream of HTTP/2 with HTTP_1_1_REQUIRED (RFC 9113, 7), and forwards HTTP/1.1."""

    refusals = 0

    async def serve(self, reader, writer, heard):
        if writer.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            return await super().serve(reader, writer, heard)
        frame = lambda kind, flags, stream, data=b"": len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data
        await reader.readexactly(24)
        writer.write(frame(4, 0, 0))
        while True:
            head = await reader.readexactly(9)
            await reader.readexactly(int.from_bytes(head[:3], "big"))
            if head[3] == 4 and not head[4] & 1:
                writer.write(frame(4, 1, 0))
            if head[3] == 1:
                self.refusals += 1
                writer.write(frame(3, 0, int.from_bytes(head[5:], "big"), (13).to_bytes(4, "big")))
            await writer.drain()


def test_a_server_that_demands_http_1_gets_it(simulate, user, tmp_path, stack):
    simulator, authority = simulate(), Authority(tmp_path)
    context = authority.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    server = stack.enter_context(HTTP1Only(simulator.port, context))
    origin = f"https://localhost:{server.port}"
    person = user(CHAPPIE_ISSUER=origin, CHAPPIE_BACKEND=origin + "/backend-api", CHAPPIE_CA_FILE=authority.file)
    person.run("login", "--no-browser")
    assert "here" in person.ask("reply: here", transport="sse").output
    # One for each of the two processes: what a server demands is remembered.
    assert server.refusals == 2, server.refusals
    assert sum(line.startswith(TURN) for line in simulator.wait_for_log(lambda lines: any(line.startswith(TURN) for line in lines))) == 1
