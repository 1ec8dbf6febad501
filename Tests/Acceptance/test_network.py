"""One network policy for OAuth, HTTP and WebSocket.

In each situation, with real nginx as the server and a real proxy on the way, the program signs in, renews a token that has
run out, and asks over HTTP and over WebSocket. Each use ends well, and the simulator behind nginx has seen exactly its
requests; or it is refused with the same reason, which names the host, or the proxy, and nothing was sent.
"""

import contextlib
import dataclasses
import datetime
import re
import socket
import subprocess
import time
import typing

import pytest

from conftest import UNAVAILABLE
from counterparts import HIDDEN_NAME, PASSWORD, WRONG, Authority, Proxy, Socks, TLSFront, wait_until

pytestmark = pytest.mark.network
TURN = "POST /backend-api/codex/responses 200"
# What the simulator sees of each use when all is well.
SEEN = {
    "sign-in": ["POST /api/accounts/deviceauth/usercode 200", "POST /api/accounts/deviceauth/token 200", "POST /oauth/token 200"],
    "refresh": ["POST /oauth/token 200", TURN],
    "HTTP": [TURN],
    "WebSocket": ["GET /backend-api/codex/responses 101", TURN + " (websocket)"],
}
# Kind of refusal: what its message says, what it advises, whether it names the proxy.
REFUSALS = {
    "expired": ("its certificate has expired", "extra CA file", False),
    "another host's": ("its certificate is for another host", "extra CA file", False),
    "not trusted": ("its certificate is from no authority that is trusted here", "extra CA file", False),
    "TLS version": ("it speaks no version of TLS that is allowed here", "TLS 1.2 or newer", False),
    "wrong password": ("wants other credentials", "credentials", True),
    "password wanted": ("wants a user name and a password", "credentials", True),
    "no proxy there": ("can't be reached", "proxy address", True),
    "unknown name": ("the name does not resolve", "address", False),
}


@dataclasses.dataclass
class Way:
    """The settings that send the program this way, the host it shall ask for, the proxy's address, and what the proxy must have
    seen of so many uses of a port."""

    settings: dict
    host: str = "localhost"
    address: str = ""
    check: typing.Callable = lambda port, uses: None


@contextlib.contextmanager
def direct(**settings):
    yield Way(settings)


@contextlib.contextmanager
def tunnel(password=PASSWORD):
    """A CONNECT proxy that wants a password."""
    with Proxy() as proxy:
        def check(port, uses):
            assert proxy.tunnels(port) >= uses, proxy.read("log")
            assert proxy.granted >= uses if password == PASSWORD else proxy.granted == 0, proxy.read("log")

        yield Way({"HTTPS_PROXY": proxy.url(password)}, "localhost", proxy.address, check)


@contextlib.contextmanager
def exempt():
    """A CONNECT proxy that would refuse, and a host that isn't to be reached through it."""
    with Proxy() as proxy:
        def check(_port, _uses):
            # Its log may lag behind: one more visit of ours, and when that is in it, so is what came before.
            socket.create_connection(("127.0.0.1", proxy.port), timeout=10).close()
            wait_until(lambda: proxy.visits >= 2, "the visit in the proxy's log")
            assert proxy.visits == 2, proxy.read("log")

        yield Way({"HTTPS_PROXY": proxy.url(WRONG), "NO_PROXY": "localhost"}, "localhost", proxy.address, check)


@contextlib.contextmanager
def dead():
    """A proxy's address where no server listens; held, so that none comes to listen there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        yield Way({"HTTPS_PROXY": f"http://{address}"}, "localhost", address)


@contextlib.contextmanager
def socks(scheme="socks5h", wants_password=False, password=None, is_let_through=True):
    """A SOCKS5 proxy, and a host whose name it alone resolves."""
    with Socks(wants_password) as proxy:
        def check(port, uses):
            assert set(proxy.connected) <= {f"{HIDDEN_NAME}:{port}"}, proxy.connected
            assert len(proxy.connected) >= uses if is_let_through else not proxy.connected, proxy.connected
            with pytest.raises(socket.gaierror):
                socket.getaddrinfo(HIDDEN_NAME, None)

        yield Way({"HTTPS_PROXY": proxy.url(scheme, password)}, HIDDEN_NAME, proxy.address, check)


@dataclasses.dataclass
class Situation:
    name: str
    expected: str = "ok"
    way: typing.Callable = direct
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
    Situation("TLS 1.2 only, 1.3 asked for", "TLS version", lambda: direct(CHAPPIE_MINIMUM_TLS="1.3"), versions="TLSv1.2"),
    Situation("TLS 1.3 only", versions="TLSv1.3"),
    Situation("CONNECT proxy, right password", way=tunnel),
    Situation("CONNECT proxy, wrong password", "wrong password", lambda: tunnel(WRONG)),
    Situation("CONNECT proxy, no password", "password wanted", lambda: tunnel(None)),
    Situation("CONNECT proxy, authority not given", "not trusted", tunnel, is_authority_given=False),
    Situation("CONNECT proxy, no server there", "no proxy there", dead),
    Situation("CONNECT proxy, host in NO_PROXY", way=exempt),
    Situation("socks5h, name known to it alone", way=socks),
    Situation("socks5h, right password", way=lambda: socks(wants_password=True, password=PASSWORD)),
    Situation("socks5h, wrong password", "wrong password", lambda: socks(wants_password=True, password=WRONG, is_let_through=False)),
    Situation("socks5h, no password", "password wanted", lambda: socks(wants_password=True, is_let_through=False)),
    Situation("socks5, name known to it alone", "unknown name", lambda: socks("socks5", is_let_through=False)),
]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_every_use_of_the_network_obeys_one_policy(situation, simulate, user, stack, tmp_path):
    authority, now = Authority(tmp_path), datetime.datetime.now(datetime.timezone.utc)
    good = authority.issue("localhost", HIDDEN_NAME)
    certificate = {
        "good": lambda: good, "self-signed": lambda: authority.self_signed("localhost"),
        "expired": lambda: authority.issue("localhost", not_before=now - datetime.timedelta(2), not_after=now - datetime.timedelta(0, 3600)),
        "elsewhere": lambda: authority.issue("elsewhere.invalid"),
    }[situation.certificate]()
    simulator, way = simulate(pollInterval=0, firstAccessTokenLifetime=1), stack.enter_context(situation.way())

    # Three users sign in where all is well; then the server is replaced by that of the situation.
    with TLSFront(simulator.port, good) as front, (socks() if way.host == HIDDEN_NAME else direct()) as good_way:
        port, far = front.port, f"https://{way.host}:{front.port}"
        secured = {"CHAPPIE_ISSUER": far, "CHAPPIE_BACKEND": f"{far}/backend-api"}
        asking = user(simulator, **secured, **good_way.settings, CHAPPIE_CA_FILE=authority.file).sign_in()
        asking.ask("reply: here")
        refreshing = asking.having(CHAPPIE_BACKEND=simulator.backend, CHAPPIE_ACCOUNT=asking.account + "-refreshing").sign_in()
    # Until the token has ended: the subject of the test, not a signal.
    time.sleep(1.1)
    front = stack.enter_context(TLSFront(simulator.port, certificate, situation.versions, port=port))
    change = {"HTTPS_PROXY": None, **way.settings, "CHAPPIE_CA_FILE": authority.file if situation.is_authority_given else None}
    asking, refreshing = asking.having(**change), refreshing.having(**change)
    question = ["--json", "reply: here"]
    uses = {
        "sign-in": lambda: asking.having(CHAPPIE_ACCOUNT=asking.account + "-new").run("login", "--no-browser", "--json", status=None),
        "refresh": lambda: refreshing.run("ask", "--transport", "sse", *question, status=None),
        "HTTP": lambda: asking.run("ask", "--transport", "sse", *question, status=None),
        "WebSocket": lambda: asking.run("ask", "--transport", "websocket", *question, status=None),
    }
    for number, (use, run) in enumerate(uses.items()):
        since = mark(simulator, f"/before/{number}")
        outcome = run()
        seen = simulator.log[since:mark(simulator, f"/after/{number}") - 1]
        assert PASSWORD not in repr(outcome) and WRONG not in outcome.output + outcome.errors, f"{use}: it tells the proxy's password"
        if situation.expected == "ok":
            expect_success(use, outcome, [re.sub(r" \(websocket .*", " (websocket)", line) for line in seen])
        else:
            expect_refusal(use, outcome, situation.expected, f"{way.host}:{port}", way.address)
            assert not seen, f"{use} was refused, and the simulator saw {seen}"
    count, newest = 6 if situation.expected == "ok" else 0, situation.versions.split()[-1]
    # nginx logs a request a moment after its answer.
    wait_until(lambda: len(front.requests) >= count, lambda: f"six requests in {front.requests}")
    assert len(front.requests) == count and all(line.startswith(f"{newest} ") for line in front.requests), front.requests
    way.check(port, len(uses))
    if situation.versions == "TLSv1.1":
        prove_old_version(port, authority.file)


def mark(simulator, path):
    """The number of the log's lines, once all that has happened is in it: a request of ours is the last."""
    simulator.post(path, {})
    is_ours = lambda line: line.startswith(f"POST {path} ")
    lines = simulator.wait_for_log(lambda lines: any(map(is_ours, lines)))
    return next(number for number, line in enumerate(lines, 1) if is_ours(line))


def expect_success(use, outcome, seen):
    outcome.expect()
    assert sorted(seen) == sorted(SEEN[use]), f"{use}: the simulator saw {seen}"
    last = outcome.events[-1]
    if use == "sign-in":
        assert last["type"] == "linked", last
    else:
        kind = "websocket" if use == "WebSocket" else "sse"
        assert last["transport"] == {"kind": kind, "reconnects": 0, "fell_back": False}, last
        assert last["response"]["text"] == "here", last


def expect_refusal(use, outcome, kind, host, proxy):
    assert outcome.status == UNAVAILABLE, f"{use}: {outcome}"
    reason, advice, names_proxy = REFUSALS[kind]
    for words in (reason, advice, host, *([proxy] if names_proxy else [])):
        assert words in outcome.errors, f"{use}: the message lacks {words!r}: {outcome}"


def prove_old_version(port, authority):
    """The server does speak it: the refusal is the program's."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0",
               "-servername", "localhost", "-verify_hostname", "localhost", "-verify_return_error", "-CAfile", authority]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and re.search(r"Protocol *: TLSv1\.1", done.stdout), done
