"""The Autobahn fuzzing server against ChappieWebSocket, over libcurl and over the adapter of Network.framework with its stand-in:
with --full every case of groups 1 to 13 over ws and wss, which takes ten to twenty minutes each; otherwise the quick ones, and a few of
the others."""

import contextlib
import fcntl
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import trustme

from conftest import ROOT
from counterparts import PATIENCE, Authority, Counterpart, free_port

sys.path.insert(0, str(ROOT / "Scripts/lib"))
import swiftui

pytestmark = [pytest.mark.conformance, pytest.mark.autobahn, pytest.mark.slow, pytest.mark.xdist_group("autobahn")]
VERSION, VIRTUALENV = "autobahntestsuite==0.8.2", "virtualenv==20.15.1"  # The last that makes environments for Python 2.7.
AGENT = "chappie"
# The suite's server is slow and has one thread, so that two of them share the cases, about equally long ones.
SHARDS = (
    ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*", "12.1.*", "12.3.*", "13.1.*", "13.2.*", "13.3.*", "13.4.*", "13.6.*"],
    ["12.2.*", "12.4.*", "12.5.*", "13.5.*", "13.7.*"],
)
QUICK = (["1.*", "2.*", "3.*", "4.*", "5.*", "7.*", "10.*", "9.1.1", "9.2.1"], ["6.1.*", "6.2.*", "6.3.*", "12.1.1", "12.2.1", "13.1.1"])

# `wstest` as it is, but on loopback only: it has no setting for that.
WSTEST = """
from twisted.internet import reactor
tcp, ssl = reactor.listenTCP, reactor.listenSSL
reactor.listenTCP = lambda port, factory, backlog=50, interface='': tcp(port, factory, backlog, '127.0.0.1')
reactor.listenSSL = lambda port, factory, context, backlog=50, interface='': ssl(port, factory, context, backlog, '127.0.0.1')
from autobahntestsuite import wstest
wstest.run()
"""

# Cases that may be NON-STRICT: what comes before a wrong frame is delivered, but once that frame has come, in the same read, the
# connection has failed (RFC 6455, 7.1.7) and nothing is answered any more; the suite prefers an echo first.
NON_STRICT = {"3.2", "3.3", "3.4", "4.1.3", "4.1.4", "4.1.5", "4.2.3", "4.2.4", "4.2.5", "5.15"}


def runs(python):
    with contextlib.suppress(OSError):
        return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


@pytest.fixture(scope="session")
def python2():
    """A Python 2.7 that has the suite, which was never ported; made once. A half-made one has no mark and is made again."""
    there = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"), "chappie-tests", "autobahn-0.8.2")
    there.parent.mkdir(parents=True, exist_ok=True)
    with open(str(there) + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A folder that this user may not read counts as one that is not there.
        if not (os.access(there / "complete", os.R_OK) and runs(there / "bin/python")):
            install(there)
    return str(there / "bin/python")


def install(there):
    versions = os.path.join(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"), "versions/2.7*/bin/python2.7")
    found = [python for python in (*glob.glob(versions), shutil.which("python2.7")) if python and runs(python)]
    if not found:
        # Debian 12 has none. ChappieWebSocketTests check what the suite does.
        pytest.skip("there is no Python 2.7 that this user may run, which the Autobahn suite needs; `pyenv install 2.7.18` brings one")
    shutil.rmtree(there, ignore_errors=True)
    tools = str(there) + "-tools"
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    print(f"Installing {VERSION} from PyPI into {there}")
    subprocess.run([found[0], *pip, "--upgrade", "--target", tools, VIRTUALENV], check=True)
    subprocess.run([found[0], "-m", "virtualenv", "--quiet", "--no-download", there], env={**os.environ, "PYTHONPATH": tools}, check=True)
    subprocess.run([there / "bin/python", *pip, VERSION], check=True)
    (there / "complete").touch()


def client_over(network, full):
    """The program that runs the cases. The stand-in's is built for debugging, in both forms."""
    if network == "Network.framework":
        swiftui.build()
        return swiftui.BUILD / "autobahn"
    if full:
        # With the program's own options: with others, each would have the modules of both built again.
        options = ["-c", "release", "--static-swift-stdlib", "-debug-info-format", "none"]
        subprocess.run(["swift", "build", *options, "--product", "autobahn", "--package-path", ROOT], check=True)
    return ROOT / ".build" / ("release" if full else "debug") / "autobahn"


@pytest.mark.parametrize("network", ["libcurl", "Network.framework"])
@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_autobahn(scheme, network, python2, full, tmp_path, stack):
    client = client_over(network, full)
    authority = Authority(tmp_path, trustme.KeyType.RSA)
    certificate = authority.issue("127.0.0.1")
    servers, clients, results = [], [], {}
    for cases in SHARDS if full else QUICK:
        server = stack.enter_context(Counterpart())
        server.port = free_port()
        url = f"{scheme}://127.0.0.1:{server.port}"
        specification = {"url": url, "outdir": str(server.folder / "reports"), "cases": cases, "exclude-cases": [], "exclude-agent-cases": {}}
        if scheme == "wss":
            specification |= dict(zip(("cert", "key"), certificate))
        path = server.write("specification.json", json.dumps(specification))
        server.serve(python2, "-W", "ignore", "-c", WSTEST, "--mode=fuzzingserver", "--webport=0", "--spec=" + path, cwd=server.folder)
        servers.append(server)
        clients.append(server.start(client, url, AGENT, "2", *([authority.file] if scheme == "wss" else []), stderr=None))
    assert [client.wait(2700 if full else 300 * PATIENCE) for client in clients] == [0, 0]
    for server in servers:
        results |= json.loads(server.read("reports/index.json"))[AGENT]
    assert len(results) == 517 if full else len(results) > 100
    # The suite gives a closing handshake one second. The quick form runs beside other tests, where a busy machine may need longer,
    # so that it judges the behaviour alone.
    good = ("OK", "INFORMATIONAL")
    accepted = lambda case, row: ((row["behavior"] in good or row["behavior"] == "NON-STRICT" and case in NON_STRICT)
                                  and (row["behaviorClose"] in good or not full))
    wrong = {case: (row["behavior"], row["behaviorClose"]) for case, row in results.items() if not accepted(case, row)}
    assert not wrong, wrong
