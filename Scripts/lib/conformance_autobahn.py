"""The Autobahn fuzzing server against our client: conformance_autobahn.py PYTHON2 CLIENT WORK

PYTHON2 is the interpreter that has the suite, CLIENT the program of Tests/Autobahn, WORK a folder for reports. Every case
of groups 1 to 13, over ws and then over wss; the counts are those of the suite's own index.json. The last line is
"N passed, M failed".
"""

import collections
import json
import os
import signal
import socket
import subprocess
import sys
import time

AGENT = "chappie"

# The suite's server is slow and has one thread, so that two of them share the cases, about equally long ones. What has
# deadlines of a second comes first. (There are no groups 8 and 11.)
SHARDS = (
    ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*", "12.1.*", "12.3.*", "13.1.*", "13.2.*", "13.3.*",
     "13.4.*", "13.6.*"],
    ["12.2.*", "12.4.*", "12.5.*", "13.5.*", "13.7.*"],
)
# What version 0.8.2 has in these groups.
EXPECTED_CASES = 517
# At a time, at each server.
PARALLEL = 2
# For all cases of one transport, in seconds; the slowest machine seen took a quarter of it.
PATIENCE = 2700

# `wstest` as it is, but on loopback only: it has no setting for that.
WSTEST = """
from twisted.internet import reactor
listen = reactor.listenTCP
listen_tls = reactor.listenSSL
reactor.listenTCP = lambda port, factory, backlog=50, interface='': listen(port, factory, backlog, '127.0.0.1')
reactor.listenSSL = lambda port, factory, context, backlog=50, interface='': listen_tls(
    port, factory, context, backlog, '127.0.0.1')
from autobahntestsuite import wstest
wstest.run()
"""

EARLY_END = (
    "what comes before a wrong frame is delivered, but once that frame has come, in the same read, the connection has "
    "failed (RFC 6455, 7.1.7) and nothing is answered any more; the suite prefers an echo first"
)
# Cases that may be NON-STRICT, and why.
NON_STRICT = {
    case: EARLY_END
    for case in ("3.2", "3.3", "3.4", "4.1.3", "4.1.4", "4.1.5", "4.2.3", "4.2.4", "4.2.5", "5.15")
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def certificates(folder):
    """(CA file, key file, certificate file) of a private authority and of a server called 127.0.0.1."""
    at = lambda name: os.path.join(folder, name)
    with open(at("extensions"), "w", encoding="ascii") as file:
        file.write("subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n")
    for command in (
        ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=Conformance authority",
         "-keyout", at("ca.key"), "-out", at("ca.pem")],
        ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-keyout", at("server.key"),
         "-out", at("server.csr")],
        ["x509", "-req", "-in", at("server.csr"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial",
         "-days", "2", "-extfile", at("extensions"), "-out", at("server.pem")],
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    return at("ca.pem"), at("server.key"), at("server.pem")


class FuzzingServer:
    """wstest in a folder of its own, on a free port of loopback."""

    def __init__(self, python, folder, cases, key=None, certificate=None):
        os.makedirs(folder)
        self.folder, self.port = folder, free_port()
        self.url = f"{'wss' if key else 'ws'}://127.0.0.1:{self.port}"
        specification = {
            "url": self.url, "outdir": os.path.join(folder, "reports"), "cases": cases, "exclude-cases": [],
            "exclude-agent-cases": {},
        }
        if key:
            specification.update(key=key, cert=certificate)
        with open(os.path.join(folder, "specification.json"), "w", encoding="ascii") as file:
            json.dump(specification, file)
        self.log = open(os.path.join(folder, "log"), "wb")
        self.process = subprocess.Popen(
            [python, "-W", "ignore", "-c", WSTEST, "--mode=fuzzingserver", "--webport=0", "--spec=specification.json"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
        )

    def __enter__(self):
        limit = time.monotonic() + 60
        while time.monotonic() < limit and self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.1)
        self.__exit__()
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            raise RuntimeError(f"the fuzzing server does not start: {file.read()[-2000:]}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def report(self):
        """What the suite itself says of each case."""
        with open(os.path.join(self.folder, "reports", "index.json"), encoding="utf-8") as file:
            return json.load(file)[AGENT]


def run_clients(program, servers, authority):
    """Each server's cases by a client of its own, all at once; whether all of them came to their end."""
    clients = [
        subprocess.Popen(
            [program, server.url, AGENT, str(PARALLEL), *([authority] if authority else [])],
            stdin=subprocess.DEVNULL,
        )
        for server in servers
    ]
    limit = time.monotonic() + PATIENCE
    try:
        return all([client.wait(max(1, limit - time.monotonic())) == 0 for client in clients])
    except subprocess.TimeoutExpired:
        print(f"  the clients were stopped after {PATIENCE} s")
        return False
    finally:
        for client in clients:
            if client.poll() is None:
                client.kill()
                client.wait()


def order(case):
    return [int(part) for part in case.split(".")]


def judge(results):
    """Prints what the suite says; (passed, failed)."""
    passed = failed = 0
    counts = collections.Counter()
    groups = collections.defaultdict(collections.Counter)
    for case in sorted(results, key=order):
        behavior, close = results[case]["behavior"], results[case]["behaviorClose"]
        counts[behavior] += 1
        groups[order(case)[0]][behavior] += 1
        accepted = behavior in ("OK", "INFORMATIONAL") or behavior == "NON-STRICT" and case in NON_STRICT
        # FAILED BY CLIENT and the like speak of who closed the connection and how.
        if accepted and close in ("OK", "INFORMATIONAL"):
            passed += 1
        else:
            failed += 1
            print(f"  FAIL  {case}: {behavior}, closing {close}")
    if len(results) != EXPECTED_CASES:
        failed += 1
        print(f"  FAIL  the report has {len(results)} cases, not {EXPECTED_CASES}")
    for group, behaviors in sorted(groups.items()):
        print(f"  group {group}: " + ", ".join(f"{count} {name}" for name, count in sorted(behaviors.items())))
    tolerated = [case for case in sorted(results, key=order) if results[case]["behavior"] == "NON-STRICT"]
    for reason in sorted({NON_STRICT[case] for case in tolerated if case in NON_STRICT}):
        listed = " ".join(case for case in tolerated if NON_STRICT.get(case) == reason)
        print(f"  NON-STRICT {listed}: {reason}")
    print("  " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    return passed, failed


def main():
    python, program, work = sys.argv[1:4]
    authority, key, certificate = certificates(work)
    passed = failed = 0
    for name in ("ws", "wss"):
        begin = time.monotonic()
        print(f"  over {name}:", flush=True)
        secure = (key, certificate) if name == "wss" else ()
        servers = [
            FuzzingServer(python, os.path.join(work, f"{name}-{index}"), cases, *secure)
            for index, cases in enumerate(SHARDS)
        ]
        try:
            for server in servers:
                server.__enter__()
            if not run_clients(program, servers, authority if secure else None):
                failed += 1
                print(f"  FAIL  a client did not come to its end over {name}")
            results = {}
            for server in servers:
                results.update(server.report())
        except (OSError, KeyError, ValueError, RuntimeError) as error:
            failed += 1
            print(f"  FAIL  {name}: {error}")
            continue
        finally:
            for server in servers:
                server.__exit__()
        good, bad = judge(results)
        passed, failed = passed + good, failed + bad
        print(f"  {name} took {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
