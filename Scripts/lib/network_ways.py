"""Ways from a program to a host: direct, or through a real proxy. Each says what the proxy must have seen.

`with WAY() as way:`; `way.settings` is for the program's environment, `way.host` the name it shall ask for, `way.address`
who a message has to name when the way is the trouble. `way.check(port, uses)` raises an AssertionError unless the proxy
has seen what it should, of so many uses of a host at that port.
"""

import contextlib
import socket
import time

from proxy import PASSWORD, Proxy
from socks import NAME, Socks

WRONG = "n0t-th1s"


class Way:
    def __init__(self, settings, check=lambda port, uses: None, host="localhost", address=None):
        self.settings, self.check, self.host, self.address = settings, check, host, address


@contextlib.contextmanager
def direct():
    yield Way({})


@contextlib.contextmanager
def direct_with_1_3():
    """Nothing older than TLS 1.3."""
    yield Way({"CHAPPIE_MINIMUM_TLS": "1.3"})


def tunnel(password=PASSWORD):
    """A CONNECT proxy that wants a password."""

    @contextlib.contextmanager
    def way():
        with Proxy() as proxy:
            def check(port, uses):
                granted = proxy.granted()
                assert proxy.tunnels(port) >= uses, f"the proxy was asked for {proxy.tunnels(port)} tunnels by {uses} uses"
                assert granted >= uses if password == PASSWORD else granted == 0, f"the proxy opened {granted} tunnels"

            yield Way({"HTTPS_PROXY": proxy.url(password)}, check, address=proxy.address)

    return way


@contextlib.contextmanager
def exempt():
    """A CONNECT proxy that would refuse, and a host that isn't to be reached through it."""
    with Proxy() as proxy:
        def check(_port, _uses):
            # Its log may lag behind: one more visit of ours, and when that is in it, so is what came before.
            socket.create_connection(("127.0.0.1", proxy.port), timeout=10).close()
            deadline = time.monotonic() + 20
            while proxy.visits() < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            assert proxy.visits() == 2, f"the proxy had {proxy.visits() - 2} visits too many"

        yield Way({"HTTPS_PROXY": proxy.url(WRONG), "NO_PROXY": "localhost"}, check, address=proxy.address)


@contextlib.contextmanager
def dead():
    """A proxy's address where nobody listens; held, so that nobody else comes to listen there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        yield Way({"HTTPS_PROXY": f"http://{address}"}, address=address)


def socks(scheme="socks5h", wants_password=False, password=None, is_let_through=True):
    """A SOCKS5 proxy, and a host whose name it alone can resolve."""

    @contextlib.contextmanager
    def way():
        with Socks(wants_password) as proxy:
            def check(port, uses):
                connected = proxy.connected()
                wanted = f"{NAME}:{port}"
                assert set(connected) <= {wanted}, f"the proxy was asked for {connected}"
                assert len(connected) >= uses if is_let_through else not connected, f"the proxy connected {connected}"
                assert not is_resolved_here(), f"{NAME} is known here"

            yield Way({"HTTPS_PROXY": proxy.url(scheme, password)}, check, NAME, proxy.address)

    return way


def is_resolved_here():
    try:
        socket.getaddrinfo(NAME, None)
    except socket.gaierror:
        return False
    return True
