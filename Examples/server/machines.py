"""The programs that the drive starts: PostgreSQL, a simulator of the service, two servers, and nginx in front of them. All of them
listen on loopback only, and all files are in one folder, which is deleted at the end."""

import base64
import contextlib
import json
import os
import pathlib
import random
import re
import secrets
import shutil
import signal
import socket
import string
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
NOBODY = 65534
# The simulator sends the events of an answer to such a question one by one.
SLOW = [
    {"match": {"path": "/backend-api/codex/responses", "bodyContains": question}, "effect": {"drip": {"bytes": 100_000, "pause": 0.1}}}
    for question in ("repeat ", "use tool ")
]
# Debian keeps nginx where an ordinary user's PATH doesn't look.
PATH = os.environ.get("PATH", "") + ":/usr/sbin"


class Missing(Exception):
    """A program that the drive requires is not installed, or does not start."""


def free_port():
    """Returns a port that nothing listens on, below those that the system gives to clients."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_until(is_so, what, seconds=30):
    """Waits for another process's file or port."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise Missing(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def found(name, package):
    """Returns the path of a program of the system."""
    path = shutil.which(name, path=PATH)
    if not path:
        raise Missing(f"{name} is not installed. Install the package {package}")
    return path


class Process:
    """A program that runs, with its output in a file."""

    def __init__(self, command, log, environment=None, **options):
        self.name, self.log = pathlib.Path(command[0]).name, log
        base = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": str(log.parent)}
        # The terminal's Ctrl-C reaches only the drive, which then ends its programs in order.
        options = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, "start_new_session": True, **options}
        with open(log, "ab") as output:
            self.process = subprocess.Popen(command, stderr=output, env={**base, **(environment or {})}, **options)
        self.id = self.process.pid

    def has_ended(self):
        return self.process.poll() is not None

    def send(self, number):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def end(self, number=signal.SIGTERM, seconds=30):
        """Ends the program, and returns its exit status."""
        self.send(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def wait_until(self, is_so, what):
        wait_until(lambda: self.has_ended() or is_so(), what)
        if self.has_ended():
            words = self.log.read_text(errors="replace")[-2000:]
            raise Missing(f"{self.name} ended with status {self.process.returncode}: {words}")


class PostgreSQL:
    """A database server without fsync. It runs as another user if this one is root, for whom it refuses to start."""

    def __init__(self, folder):
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
        if not programs:
            raise Missing("PostgreSQL is not installed. Install the package postgresql")
        self.programs, self.folder, self.port = programs[-1].parent, folder / "postgres", free_port()
        self.version = programs[-1].parts[-3]
        self.data, self.process = self.folder / "data", None
        self.passwords = {role: secrets.token_urlsafe(18) for role in ("chat_owner", "chat_service")}
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        self.folder.mkdir(mode=0o700)
        if self.user:
            os.chown(self.folder, NOBODY, NOBODY)
        subprocess.run(
            [self.programs / "initdb", "-D", self.data, "-U", "admin", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync",
             "--wal-segsize=1"], check=True, capture_output=True, cwd=self.folder, **self.user)
        (self.data / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        self.start()
        for role, password in self.passwords.items():
            self.sql(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'", "postgres")
        self.sql("CREATE DATABASE chat OWNER chat_owner", "postgres")

    def start(self):
        settings = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder, "fsync": "off",
            "dynamic_shared_memory_type": "mmap",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(self.programs / "postgres"), "-D", str(self.data), *options]
        self.process = process = Process(command, self.folder.parent / "postgres.log", cwd=self.folder, **self.user)

        def is_ready():
            # The eighth line of the file has the server's state.
            with contextlib.suppress(OSError):
                lines = (self.data / "postmaster.pid").read_text().splitlines()
                return len(lines) > 7 and lines[0] == str(process.id) and lines[7].startswith("ready")

        process.wait_until(is_ready, "PostgreSQL is ready")

    def end(self):
        """Ends the server at once, like `pg_ctl stop -m immediate`."""
        self.process.end(signal.SIGQUIT)

    def address(self, role):
        return f"postgresql://{role}:{self.passwords[role]}@127.0.0.1:{self.port}/chat?sslmode=disable&gssencmode=disable"

    def sql(self, text, database="chat"):
        """Runs SQL as the superuser, and returns the rows as lists of text."""
        done = subprocess.run(
            [self.programs / "psql", "-X", "-A", "-t", "-q", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-p", str(self.port),
             "-U", "admin", "-d", database, "-c", text], capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"psql: {done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]


class Server:
    """One of the two machines: a server with a name and a port."""

    def __init__(self, program, name, folder, environment):
        self.program, self.name, self.folder, self.port = program, name, folder, free_port()
        self.environment = {
            **environment, "CHAPPIE_SERVER_NAME": name, "CHAPPIE_SERVER_LISTEN": f"127.0.0.1:{self.port}",
        }
        self.process = None

    def start(self):
        self.process = Process([self.program], self.folder / f"server-{self.name}.log", self.environment)
        self.process.wait_until(self.is_ready, f"the server {self.name} is ready")

    def is_ready(self):
        with contextlib.suppress(OSError):
            return self.get("/health/ready")[0] == 200

    def get(self, path):
        """Returns status and text of an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""

    def metrics(self):
        """Returns the sum of each metric's samples."""
        sums = {}
        for line in self.get("/metrics")[1].splitlines():
            sample = re.match(r"(\w+)(?:\{.*\})? ([-+.\deE]+)$", line)
            if sample:
                sums[sample[1]] = sums.get(sample[1], 0) + float(sample[2])
        return sums


class Machines(contextlib.ExitStack):
    """All programs. `with` ends each of them, and deletes the folder."""

    def __init__(self, program, simulator, settings=None, approves=True, idle=None):
        super().__init__()
        with contextlib.ExitStack() as begun:
            self._start(begun, program, simulator, settings or {}, approves, idle)
            self.push(begun.pop_all())

    def _start(self, begun, program, simulator, settings, approves, idle):
        # Other users must be able to enter the folder, because PostgreSQL and nginx's workers are another user's if this one is root.
        folder = begun.enter_context(tempfile.TemporaryDirectory(prefix="chappie-drive-", dir="/tmp", ignore_cleanup_errors=True))
        self.folder = pathlib.Path(folder)
        self.folder.chmod(0o711)
        self.database = PostgreSQL(self.folder)
        begun.callback(self.database.end)

        scenario = self.folder / "scenario.json"
        scenario.write_text(json.dumps({"name": "drive", "settings": settings, "rules": SLOW}))
        options = ["--json", "--scenario", str(scenario), *(["--auto-approve"] if approves else [])]
        started = Process([simulator, *options], self.folder / "simulator.log", stdout=subprocess.PIPE)
        begun.callback(started.end)
        line = started.process.stdout.readline()
        if not line:
            raise Missing(f"{simulator} ended at once: {started.log.read_text(errors='replace')}")
        service = json.loads(line)

        issuer = free_port()
        environment = {
            "CHAPPIE_ISSUER": f"http://127.0.0.1:{issuer}", "CHAPPIE_BACKEND": service["backend"],
            "CHAPPIE_SERVER_DATABASE": self.database.address("chat_service"),
            "CHAPPIE_SERVER_KEYS": self._key("keys"), "CHAPPIE_SERVER_COOKIE_KEY": self._key("cookie-key"),
        }
        if idle is not None:
            environment["CHAPPIE_SERVER_IDLE"] = str(idle)
        self._migrate(program, environment)
        self.servers = [Server(program, name, self.folder, environment) for name in ("a", "b")]
        self.port = free_port()
        self.issuer = environment["CHAPPIE_ISSUER"]
        self._start_nginx(begun, issuer, service["port"])
        for server in self.servers:
            server.start()
            begun.callback(lambda server=server: server.process.end())

    def _key(self, name):
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=") + "\n")
        return str(path)

    def _migrate(self, program, environment):
        """Makes the tables as their owner. The servers' role can't change them."""
        done = subprocess.run(
            [program, "--migrate", "chat_service"], capture_output=True, text=True,
            env={**environment, "PATH": PATH, "CHAPPIE_SERVER_DATABASE": self.database.address("chat_owner")})
        if done.returncode:
            raise Missing(f"{program} --migrate: {done.stderr.strip()}")

    def _start_nginx(self, begun, issuer, simulator):
        """nginx also stands between the servers and the issuer, to write down the refresh tokens that are used."""
        places = {"LISTEN": f"127.0.0.1:{self.port}"}
        places |= {name: f"127.0.0.1:{server.port}" for name, server in zip(("FIRST", "SECOND"), self.servers)}
        site = string.Template((HERE / "nginx.conf").read_text()).safe_substitute(places)
        (self.folder / "site.conf").write_text(site)
        (self.folder / "nginx.conf").write_text(f"""
daemon off; pid nginx.pid; worker_processes 1; worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxied; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    include site.conf;
    log_format renewal escape=json '$status $request_body';
    server {{
        listen 127.0.0.1:{issuer};
        proxy_set_header Host $http_host;
        location / {{ proxy_pass http://127.0.0.1:{simulator}; }}
        location = /oauth/token {{ access_log renewals.log renewal; proxy_pass http://127.0.0.1:{simulator}; }}
    }}
}}
""")
        command = [found("nginx", "nginx"), "-p", str(self.folder), "-c", "nginx.conf", "-e", "nginx.log"]
        self.nginx = Process(command, self.folder / "nginx.out")
        begun.callback(self.nginx.end)
        self.nginx.wait_until(lambda: listens(self.port), "nginx listens")

    def renewals(self):
        """Returns (status, refresh token) of each renewal so far."""
        found = []
        for line in (self.folder / "renewals.log").read_text().splitlines():
            status, _, body = line.partition(" ")
            token = re.search(r'refresh_token\W+(rt_[\w-]+)', body)
            if token:
                found.append((int(status), token[1]))
        return found
