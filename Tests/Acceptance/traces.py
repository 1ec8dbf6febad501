"""Runs the program under strace, and searches all that others could see of it for secrets."""

import base64
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import urllib.parse

from counterparts import PATIENCE, Simulator, private_file
from witnesses import Forwarder, legible

# So many bytes in a row of a secret are a leak; of shorter secrets, the whole.
WINDOW = 16
BLOCK = WINDOW // 2


class Needles:
    """Secrets that a search looks for, in every form in which they could have got out."""

    def __init__(self):
        self.secrets, self.blocks = set(), set()
        self.windows, self.short = collections.defaultdict(set), collections.defaultdict(set)

    def add(self, kind, secret):
        # strace prints such characters as they are, so that a plain search of its text is right.
        assert secret.isascii() and secret.isprintable() and not set(secret) & set('"\\'), f"an unforeseen {kind}"
        if secret in self.secrets:
            return
        self.secrets.add(secret)
        header, *others = secret.split(".")
        if secret.startswith("eyJ") and len(others) == 2:
            # The header of a token is the same for all users; its number is in the claims.
            self._add_forms(kind, secret[len(header) + 1 :])
            secret = json.loads(base64.urlsafe_b64decode(others[0] + "==")).get("jti")
        if secret:
            self._add_forms(kind, secret)

    def _add_forms(self, kind, text):
        data = text.encode()
        forms = {data, data.hex().encode(), data.hex().upper().encode(), urllib.parse.quote(text, safe="").encode()}
        for before in range(3):
            coded = base64.b64encode(bytes(before) + data)
            # What stands at the edges depends on the neighbours as well.
            coded = coded[4 if before else 0 : -4 if (before + len(data)) % 3 else None]
            forms |= {coded, coded.translate(bytes.maketrans(b"+/", b"-_"))}
        for form in forms:
            if len(form) < WINDOW:
                self.short[form].add(kind)
                continue
            for start in range(len(form) - WINDOW + 1):
                self.windows[form[start : start + WINDOW]].add(kind)
                self.blocks |= {form[start : start + BLOCK], form[start + BLOCK : start + WINDOW]}

    def find(self, data, allowed=()):
        """The kinds of the secrets in `data`, without those `allowed` there."""
        hits = {form for form in self.short if form in data}
        # Every window has a whole block in it that starts at a multiple of its length: few of them are looked at.
        if any(data[start : start + BLOCK] in self.blocks for start in range(0, len(data), BLOCK)):
            hits |= {data[start : start + WINDOW] for start in range(len(data) - WINDOW + 1)} & self.windows.keys()
        # Two tokens of one user have parts in common: those are allowed where one of the two is.
        owners = [self.short.get(hit) or self.windows[hit] for hit in hits]
        owners = [kinds for kinds in owners if not kinds & set(allowed)]
        return set().union(*([kinds for kinds in owners if len(kinds) == 1] or owners))


# What a program takes in, and waiting: everything else that it says to the system is recorded.
UNSEEN = ("read pread64 readv preadv preadv2 recvfrom recvmsg recvmmsg getrandom futex poll ppoll select pselect6 epoll_wait "
          "epoll_pwait epoll_pwait2").split()
SENDING = {b"write", b"pwrite64", b"writev", b"pwritev", b"pwritev2", b"sendto", b"sendmsg", b"sendmmsg"}
HIDDEN = {b"sendfile", b"copy_file_range", b"splice", b"vmsplice", b"tee", b"io_uring_setup", b"process_vm_writev"}
# Not files: the names of a program's threads, and what swallows everything.
HARMLESS = re.compile(r"/dev/null|/dev/tty|/proc/(thread-)?self/(task/\d+/)?comm")

LINE = re.compile(rb"\d+ +(\w+)\((.*)", re.DOTALL)
DESCRIPTOR = re.compile(rb"\d+<((?:->|[^<>]|<[^<>]*>)*)>")
STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"')
WRITABLE = re.compile(rb'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"(.*)', re.DOTALL)
LIST = rb'\[((?:"(?:[^"\\]|\\.)*"(?:, )?)*)\]'
EXECUTION = re.compile(rb'("(?:[^"\\]|\\.)*"), ' + LIST + b", " + LIST)
ENTRY = re.compile(rb'"(?:[^"\\]|\\.)*"')
# A file that is written to by way of memory. The shared index of SQLite's log holds numbers of pages; the log itself is written
# by calls. After the descriptor there may be "<unfinished ...>", if another thread's call comes between.
SHARED = re.compile(rb"PROT_WRITE[^,]*, [^,]*MAP_SHARED[^,]*, \d+<(?![^<>]*-shm>)")
CONNECTION = re.compile(rb'\d+<(socket:\[\d+\])>, \{sa_family=\w+, '
                        rb'(?:sun_path=(@?)"([^"]*)"|sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]+)"\))')

# What may travel to which server; nothing else may hold any of it but the store.
ISSUER = {"device id", "user code", "authorization code", "code verifier", "refresh token"}
BACKEND = {"access token"}
PROXY = {"proxy password"}
EXPORT = {"access token", "refresh token", "id token"}
ISSUED = re.compile(rb'"(access_token|id_token|refresh_token|authorization_code|code_verifier|device_auth_id|user_code)": ?"([^"\\]+)"')
COOKIE = re.compile(rb"(?i)\r\nset-cookie: [^=]+=([^;\r]+)")


class Story(contextlib.ExitStack):
    """What one user does on a machine of their own: `story.run(…)` for each command, then `story.finish(…)`."""

    def __init__(self, user, keyring, folder):
        super().__init__()
        self.program, self.account, self.keyring = user.program, user.account, keyring
        self.needles, self.wires, self.runs, self.leaks = Needles(), {}, [], []
        self.simulator, self.base, self.folder, desktop = None, folder, user.environment["HOME"], folder / "desktop"
        self.environment = {**user.environment, "PATH": f"{desktop}:{os.environ['PATH']}", "DISPLAY": ":77"}
        self.store = self.environment.get("CHAPPIE_CREDENTIAL_STORE", "keyring")
        for name in ("XDG_RUNTIME_DIR", "TMPDIR"):
            self.environment[name] = os.path.join(self.folder, name)
            os.mkdir(self.environment[name], 0o700)
        desktop.mkdir()
        for name in ("xclip", "xdg-open"):
            (desktop / name).write_text("#!/bin/sh\nexit 0\n")
            (desktop / name).chmod(0o755)

    def wire(self, listener, label, allowed=frozenset()):
        """Lets the program talk to a listener: what reaches that one is searched there, and `allowed` may be in it."""
        listener = self.enter_context(listener)
        self.wires[listener.port] = (label, listener, set(allowed))
        return listener

    def service(self, context=None, **options):
        """A simulator, with a witness before each of its two halves, which is where the program is sent."""
        self.simulator = self.enter_context(Simulator(self.program, pollInterval=0, webSocketDeflate=False, **options))
        self.issuer = self.wire(Forwarder(self.simulator.port, context), "the issuer", ISSUER)
        self.backend = self.wire(Forwarder(self.simulator.port, context), "the backend", BACKEND)
        scheme = "https://localhost" if context else "http://127.0.0.1"
        self.environment["CHAPPIE_ISSUER"] = f"{scheme}:{self.issuer.port}"
        self.environment["CHAPPIE_BACKEND"] = f"{scheme}:{self.backend.port}/backend-api"
        return self

    def start(self, command, program=None, **environment):
        """Starts a command line under strace, in a session of its own; its input is a conversation of two lines for `chat`.

        The program forbids others to look into its memory, and unless strace is root's that means strace as well: so the call
        that does it, prctl, only seems to succeed."""
        environment = {**self.environment, **environment}
        proxy = f'"HTTPS_PROXY={environment.get("HTTPS_PROXY")}"'.encode()
        run = Run(command, program or self.program, str(self.base / str(len(self.runs))), proxy)
        unseen = ",".join("?" + name for name in UNSEEN)
        words = ["strace", "-f", "-y", "-v", "-s", str(1 << 24), "--seccomp-bpf", "-e", "inject=prctl:retval=0",
                 "-e", "trace=!" + unseen, "-o", run.path + ".calls", run.program, *shlex.split(command)]
        if "--qr always" in command:
            # A code is painted on a terminal alone.
            environment["TERM"] = "xterm"
            words = ["script", "--quiet", "--return", "--command", shlex.join(words), os.devnull]
        lines = private_file(self.base / "lines", "one\ntwo\n") if command.startswith("chat") else os.devnull
        with open(lines) as stdin, open(run.path + ".output", "wb") as stdout, open(run.path + ".errors", "wb") as stderr:
            run.process = subprocess.Popen(words, env=environment, cwd=self.folder, start_new_session=True,
                                           stdin=stdin, stdout=stdout, stderr=stderr)
        self.callback(run.kill)
        self.runs.append(run)
        return run

    def run(self, *commands, **environment):
        """Runs command lines to their ends, which are 0, or the number before them; what the last one has printed."""
        for command in commands:
            status, words = re.fullmatch(r"(\d*) ?(.*)", command).groups()
            output = self.start(words, **environment).end(int(status or 0))
        return output

    def sign_in(self):
        self.run("login --no-browser")
        self.learn()
        if self.store == "file":
            assert os.listdir(os.path.join(self.folder, "data/chappie/credentials")), "no file was written"
        else:
            assert self.needles.find(self.keyring.secret(self.account).encode()) >= {"access token", "refresh token"}, "nothing is stored"
        return self

    def learn(self):
        """Takes over every secret that a server has handed out."""
        for told in [told for _, listener, _ in self.wires.values() for told in listener.told]:
            for name, secret in ISSUED.findall(told):
                self.needles.add("device id" if name == b"device_auth_id" else name.decode().replace("_", " "), secret.decode())
            for cookie in COOKIE.findall(told):
                self.needles.add("cookie", cookie.decode())

    def finish(self, *carried):
        """Searches everything; an AssertionError for whatever is found, and where a secret of the kinds `carried` was not seen on
        its way to a server: that would mean that the search has looked for the wrong things."""
        self.learn()
        for run in self.runs:
            self.look(f"standard output of `{run.label}`", run.read("output"), {"user code"})
            self.look(f"standard error of `{run.label}`", run.read("errors"), {"user code"})
            self.look_at_calls(run)
        seen = set()
        for label, listener, allowed in self.wires.values():
            for heard in [legible(bytes(heard)) for heard in listener.heard]:
                self.look(f"what reached {label}", heard, allowed)
                seen |= self.needles.find(heard)
        if self.simulator:
            self.look("the simulator's log", "\n".join(self.simulator.log).encode())
        for folder in [self.folder] + ([self.keyring.folder] if self.store == "keyring" else []):
            for path in [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]:
                self.look("the name of a file", path.encode())
                # The keyring writes a new file in another story's name, and renames it.
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    self.look(f"the file {os.path.basename(path)}", file.read(), EXPORT if path.endswith(".export") else ())
        assert seen >= set(carried), f"only {seen} were seen on their way"
        assert not self.leaks, "; ".join(dict.fromkeys(self.leaks))

    def look(self, place, data, allowed=()):
        self.leaks += [f"{kind} in {place}" for kind in sorted(self.needles.find(data, allowed))]

    def look_at_calls(self, run):
        """What the program has said to the system: all that it has written to one place together, and all else."""
        others, written, connections = [], collections.defaultdict(bytes), {}
        for line in run.read("calls").split(b"\n"):
            name, arguments = match.groups() if (match := LINE.match(line)) else (b"", b"")
            assert not re.search(rb'^\d+ +(exec|p?write|send).*"\.\.\.', line), f"strace has cut something of `{run.label}`"
            if name in HIDDEN or name == b"mmap" and SHARED.search(arguments):
                self.leaks.append(f"`{run.label}` uses {name.decode()}, whose bytes are not seen")
            if name == b"connect" and (match := CONNECTION.match(arguments)):
                connections[match[1]] = (match[5] + b":" + match[4] if match[4] else match[2] + match[3]).decode()
            if name in (b"open", b"openat", b"openat2", b"creat") and (match := WRITABLE.match(arguments)):
                path = os.path.join(match[1] or b"", match[2]).decode(errors="replace")
                writes = name == b"creat" or re.search(rb"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", match[3])
                if writes and not path.startswith(self.folder + "/") and not HARMLESS.fullmatch(path):
                    self.leaks.append(f"`{run.label}` opens {path} for writing")
            if name in SENDING:
                match = DESCRIPTOR.match(arguments)
                written[match[1] if match else b""] += b"".join(STRING.findall(arguments))
            elif name == b"execve" and (match := EXECUTION.search(arguments)):
                others += [match[1], *ENTRY.findall(match[2])] + [entry for entry in ENTRY.findall(match[3]) if entry != run.proxy]
            else:
                others.append(line)
        others = b"\n".join(others)
        self.look(f"the calls of `{run.label}`", others)
        if run.program == self.program:
            assert b"PR_SET_DUMPABLE, SUID_DUMP_DISABLE" in others, f"`{run.label}` lets others read its memory"
        bus = re.fullmatch(r"unix:path=([^,]+)(,.*)?", self.environment["DBUS_SESSION_BUS_ADDRESS"])[1]
        for destination, data in written.items():
            place = connections.get(destination, destination.decode(errors="replace"))
            # The keyring is spoken to over the session's bus. What is printed has been searched.
            if not place.startswith((run.path + ".", "/dev/pts/")) and not (self.store == "keyring" and destination in connections and place == bus):
                self.look(f"what `{run.label}` wrote to {place}", data, self.allowance(place))

    def allowance(self, place):
        """What may be written to a path or an address."""
        host, _, port = place.rpartition(":")
        if host == "127.0.0.1" and int(port) in self.wires:
            return self.wires[int(port)][2]
        if place.startswith(self.folder + "/") and place.endswith(".export"):
            return EXPORT
        # The user pastes the code: the clipboard's program gets it as its standard input.
        return {"user code"} if place.startswith("/memfd:chappie") else ()


@dataclasses.dataclass
class Run:
    """A program under strace; beside `path` are the files with its output, its errors and its calls. `proxy` is what the user has
    put into its environment."""

    label: str
    program: str
    path: str
    proxy: bytes

    def read(self, what):
        return pathlib.Path(f"{self.path}.{what}").read_bytes()

    def end(self, status):
        """What it has printed, once it has ended with this status."""
        ended, output, errors = self.process.wait(120 * PATIENCE), self.read("output").decode(), self.read("errors").decode()
        assert ended == status, f"`{self.label}` should end with {status}, not with {ended}: {output} {errors}"
        return output

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
