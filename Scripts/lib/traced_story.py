"""What one person does with the program on a machine of their own, and a search of all that anybody could see of it."""

import contextlib
import dataclasses
import json
import os
import re
import secrets
import subprocess

from needles import Needles
from simulator import Simulator
from strace import Traced
from witnesses import Forwarder, legible

# What may travel to whom; nothing else may hold any of it but the store.
ISSUER = {"device id", "user code", "authorization code", "code verifier", "refresh token"}
BACKEND = {"access token"}
PROXY = {"proxy password"}
EXPORT = {"access token", "refresh token", "id token"}

ISSUED = re.compile(
    rb'"(access_token|id_token|refresh_token|authorization_code|code_verifier|device_auth_id|user_code)": ?"([^"\\]+)"'
)
NAMES = {b"device_auth_id": "device id"}
COOKIE = re.compile(rb"(?i)\r\nset-cookie: [^=]+=([^;\r]+)")
# Not files: the names of a program's threads, and what swallows everything.
HARMLESS = re.compile(r"/dev/null|/dev/tty|/proc/(thread-)?self/(task/\d+/)?comm")


@dataclasses.dataclass
class Run:
    """One command of a story."""

    label: str
    traced: Traced
    is_ours: bool
    output: bytes = b""
    errors: bytes = b""


class Story(contextlib.ExitStack):
    """`with Story(bench, "proxy", "file") as story:`, then `story.run(…)` for each command, and `story.finish(…)`."""

    def __init__(self, bench, name, store="keyring"):
        super().__init__()
        self.bench, self.name, self.store = bench, name, store
        self.account = f"{name}-{store}"
        self.needles, self.wires, self.runs, self.log = Needles(), {}, [], []
        self.exported, self.leaks = set(), []
        self.folder = os.path.join(bench.folder, self.account)
        for part in ("run", "tmp", "data", "config", "cache", "state"):
            os.makedirs(os.path.join(self.folder, part), mode=0o700)
        self.secrets_folder = self.folder + ".secrets"
        os.mkdir(self.secrets_folder, 0o700)
        self.environment = {
            **{key: value for key, value in bench.service.environment.items() if not key.startswith(("XDG_", "HOME"))},
            **{f"XDG_{part.upper()}_HOME": os.path.join(self.folder, part) for part in ("data", "config", "cache", "state")},
            "HOME": self.folder, "XDG_RUNTIME_DIR": os.path.join(self.folder, "run"), "TMPDIR": os.path.join(self.folder, "tmp"),
            "PATH": bench.desktop + os.pathsep + os.environ["PATH"], "DISPLAY": ":77", "CHAPPIE_ACCOUNT": self.account,
        }
        if store == "file":
            self.environment |= {"CHAPPIE_CREDENTIAL_STORE": "file", "CHAPPIE_PASSPHRASE_FILE": self.passphrase_file()}

    def passphrase_file(self):
        passphrase = secrets.token_urlsafe(12) + " and " + secrets.token_urlsafe(12)
        self.needles.add("passphrase", passphrase)
        return self.secret_file("passphrase", passphrase + "\n")

    def secret_file(self, name, text):
        """The path of a file with a secret that somebody has put there, outside of what is searched."""
        path = os.path.join(self.secrets_folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(text)
        return path

    # What the program talks to

    def wire(self, listener, label, allowed=frozenset()):
        """Lets the program talk to a listener: what reaches that one is searched there, and `allowed` may be in it."""
        listener = self.enter_context(listener)
        self.wires[listener.port] = (label, listener, set(allowed))
        return listener

    def service(self, settings=(), rules=(), context=None):
        """A simulator, with a witness before each of its two halves, which is where the program is sent."""
        scenario = self.folder + ".json"
        with open(scenario, "w", encoding="utf-8") as file:
            json.dump({"name": self.name, "settings": {"pollInterval": 0, **dict(settings)}, "rules": list(rules)}, file)
        simulator = self.enter_context(Simulator(self.bench.program, "--auto-approve", "--verbose", "--scenario", scenario))
        self.log = simulator.log
        self.issuer = self.wire(Forwarder(simulator.port, context), "the issuer", ISSUER)
        self.backend = self.wire(Forwarder(simulator.port, context), "the backend", BACKEND)
        scheme = "https://localhost" if context else "http://127.0.0.1"
        self.environment["CHAPPIE_ISSUER"] = f"{scheme}:{self.issuer.port}"
        self.environment["CHAPPIE_BACKEND"] = f"{scheme}:{self.backend.port}/backend-api"

    # What the person does

    def start(self, *words, program=None, stdin=subprocess.DEVNULL, **environment):
        log = os.path.join(self.bench.folder, f"{self.account}.{len(self.runs)}.strace")
        traced = Traced(
            [program or self.bench.program, *words], log, env={**self.environment, **environment}, cwd=self.folder, stdin=stdin,
        )
        self.callback(traced.kill)
        self.runs.append(Run(" ".join(words), traced, program is None))
        return self.runs[-1]

    def end(self, run, status=0, input=None):
        """What it printed, once it has ended with `status`."""
        ended, run.output, run.errors = run.traced.finish(input)
        shown = f"{run.output[-300:]!r} {run.errors[-500:]!r}"
        assert ended == status, f"`{run.label}` ended with {ended} instead of {status}: {shown}"
        return run.output.decode()

    def run(self, *words, status=0, input=None, **options):
        if input is None:
            return self.end(self.start(*words, **options), status)
        return self.end(self.start(*words, stdin=subprocess.PIPE, **options), status, input.encode())

    def sign_in(self):
        self.run("login", "--no-browser")

    # What others see

    def learn(self):
        """Takes over every secret that a server has handed out."""
        for _, listener, _ in self.wires.values():
            for told in listener.told:
                for name, secret in ISSUED.findall(told):
                    self.needles.add(NAMES.get(name, name.decode().replace("_", " ")), secret.decode())
                for cookie in COOKIE.findall(told):
                    self.needles.add("cookie", cookie.decode())

    def finish(self, *carried):
        """Searches everything; an AssertionError for whatever is found, and where a secret of the kinds `carried` was not
        seen on its way to a server: that would mean that the search has looked for the wrong things."""
        self.learn()
        for run in self.runs:
            self.look(f"standard output of `{run.label}`", run.output, {"user code"})
            self.look(f"standard error of `{run.label}`", run.errors, {"user code"})
            self.look_at_calls(run)
        seen = set()
        for label, listener, allowed in self.wires.values():
            for heard in [legible(bytes(heard)) for heard in listener.heard]:
                self.look(f"what reached {label}", heard, allowed)
                seen |= self.needles.find(heard)
        self.look("the simulator's log", "\n".join(self.log).encode())
        self.look_at_files()
        self.bench.totals.add_secrets(self.needles)
        for kind in carried:
            assert kind in seen, f"no {kind} was seen on its way"
        assert not self.leaks, "; ".join(dict.fromkeys(self.leaks))

    def look(self, place, data, allowed=()):
        self.bench.totals.add(bytes=len(data))
        self.leaks += [f"{kind} in {place}" for kind in sorted(self.needles.find(data, allowed))]

    def look_at_calls(self, run):
        """What the program has said to the system: all that it has written to one place together, and all else."""
        label, traced = run.label, run.traced
        totals, others, written, connections = self.bench.totals, [], {}, {}
        totals.add(commands=1)
        for call in traced.calls():
            assert not call.is_cut, f"strace has cut something short of `{label}`"
            if call.is_hidden:
                self.leaks.append(f"`{label}` uses {call.name.decode()}, whose bytes nobody sees")
            if connection := call.connection:
                connections[connection[0]] = connection[1].decode()
            if path := call.written_path:
                totals.add(openings=1)
                if not path.startswith(self.folder + "/") and not HARMLESS.fullmatch(path):
                    self.leaks.append(f"`{label}` opens {path} for writing")
            if call.sends:
                written[call.destination] = written.get(call.destination, b"") + call.payload
            elif execution := call.execution:
                totals.add(programs=1)
                arguments, environment = execution
                others += arguments + [entry for entry in environment if not self.is_setting(entry)]
            else:
                others.append(call.line)
        self.look(f"the calls of `{label}`", b"\n".join(others))
        if run.is_ours:
            assert b"PR_SET_DUMPABLE, SUID_DUMP_DISABLE" in b"\n".join(others), f"`{label}` lets others read its memory"
        for destination, data in written.items():
            place = connections.get(destination, destination.decode(errors="replace"))
            if destination in connections and place == self.bus:
                totals.add(bus=len(data))
            elif destination not in traced.printed:
                self.look(f"what `{label}` wrote to {place}", data, self.allowance(place))

    @property
    def bus(self):
        """The path of the D-Bus session, where the keyring is spoken to over it."""
        address = re.fullmatch(r"unix:path=([^,]+)(,.*)?", self.environment["DBUS_SESSION_BUS_ADDRESS"])
        return address[1] if address and self.store == "keyring" else None

    def allowance(self, place):
        """What may be written to a path or an address."""
        host, _, port = place.rpartition(":")
        if host == "127.0.0.1" and int(port) in self.wires:
            return self.wires[int(port)][2]
        if place in self.exported:
            return EXPORT
        # The person pastes the code: the clipboard's program gets it as its standard input.
        return {"user code"} if place.startswith("/memfd:chappie") else ()

    def is_setting(self, entry):
        """Whether it is the proxy, as the person has put it into the environment."""
        name, _, value = entry.strip(b'"').decode(errors="replace").partition("=")
        return name == "HTTPS_PROXY" and value in self.bench.proxies

    def look_at_files(self):
        for path in every_file(self.folder):
            self.look("the name of a file", path.encode())
            self.look_at_file(path, EXPORT if path in self.exported else ())
        if self.store == "keyring":
            for path in every_file(self.bench.service.home):
                self.look_at_file(path)

    def look_at_file(self, path, allowed=()):
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return  # The keyring writes a new one in another story's name, and renames it.
        self.look(f"the file {os.path.basename(path)}", content, allowed)
        self.bench.totals.add(files=1)

    def export(self, path):
        """A path in this machine's home where a sign-in may be written to."""
        path = os.path.join(self.folder, path)
        self.exported.add(path)
        return path


def every_file(folder):
    for path, _, names in os.walk(folder):
        yield from (os.path.join(path, name) for name in names if os.path.isfile(os.path.join(path, name)))
