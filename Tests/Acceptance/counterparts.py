"""The servers that the program meets in these tests, all on loopback. `with` ends each by its own process."""

import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import trustme

PATIENCE = float(os.environ.get("TEST_PATIENCE", 1))
CLIENT_ID = "app_EMoamEEZ73f0CkXaXp7hrann"
USER, PASSWORD, WRONG = "someone", "s3cret", "n0t-th1s"
# Never given to anybody (RFC 6761, 6.4). Only the SOCKS proxy resolves it.
HIDDEN_NAME = "service.invalid"


def free_port():
    """A port that nothing listens on. It is below those that the system gives to clients, one of which could take it before the
    server does that it is for."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_until(is_so, what, seconds=20):
    """Waits for what no event announces: another process's file, port or log."""
    deadline = time.monotonic() + seconds * PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"{what() if callable(what) else what}: not within {seconds * PATIENCE:.0f} s"
        time.sleep(0.02)


def is_asleep(process):
    """Whether each of its threads waits for something, or it has ended."""
    with contextlib.suppress(OSError):  # A thread has ended meanwhile.
        stats = [path.read_text() for path in pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat")]
        # The state follows the name, which may be anything in brackets.
        return all(stat.rpartition(")")[2].split()[0] in "SZ" for stat in stats)


def private_file(path, text):
    """The path of a file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return str(path)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Counterpart(contextlib.ExitStack):
    """A server with a folder of its own, which goes away with it."""

    def __init__(self):
        super().__init__()
        self.folder = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(prefix="chappie-", ignore_cleanup_errors=True)))

    def start(self, *command, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
        process = subprocess.Popen(command, **options)
        self.callback(end, process)
        return process

    def serve(self, *command, **options):
        """Starts what listens on `port`, and returns when it does."""
        with open(self.folder / "output", "wb") as output:
            process = self.start(*command, stderr=output, **options)
        wait_until(lambda: listens(self.port) or process.poll() is not None, f"{command[0]} listens")
        assert process.poll() is None, f"{command[0]} does not start: {self.read('output')}"
        return process

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")

    def write(self, name, text):
        return private_file(self.folder / name, text)


def end(process):
    process.terminate()
    try:
        process.wait(timeout=10 * PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Simulator(Counterpart):
    """`chappie simulator` with a scenario of that name, or one of these settings and rules; it approves by itself."""

    def __init__(self, program, scenario=None, rules=(), approves=True, **settings):
        super().__init__()
        if rules or settings:
            scenario = self.write("scenario.json", json.dumps({"name": "test", "settings": settings, "rules": list(rules)}))
        options = [*(["--auto-approve"] if approves else []), *(["--scenario", scenario] if scenario else [])]
        self.log, self.logged = [], threading.Condition()
        process = self.process = self.start(program, "simulator", "--json", "--verbose", *options,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        assert line, f"the simulator ended at once: {process.stderr.read()}"
        self.__dict__ |= {name: json.loads(line)[name] for name in ("issuer", "backend", "port")}
        self.settings = {"CHAPPIE_ISSUER": self.issuer, "CHAPPIE_BACKEND": self.backend}
        threading.Thread(target=self._read_log, args=[process.stderr], daemon=True).start()

    def _read_log(self, stream):
        for line in stream:
            with self.logged:
                self.log.append(line.rstrip("\n"))
                self.logged.notify_all()

    @contextlib.contextmanager
    def paused(self):
        """It takes connections, and answers nothing before the end of the block."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def wait_for_log(self, is_there, since=0, timeout=20):
        """The lines of the log from number `since` on, as soon as `is_there(lines)`."""
        with self.logged:
            assert self.logged.wait_for(lambda: is_there(self.log[since:]), timeout * PATIENCE), self.log[since:]
            return self.log[since:]

    def post(self, path, **form):
        """The status of a form that is sent to the issuer's origin."""
        try:
            with urllib.request.urlopen(self.issuer + path, urllib.parse.urlencode(form).encode(), timeout=30 * PATIENCE) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code


class TLSFront(Counterpart):
    """nginx with TLS before a server. Its certificate is for localhost, from an authority of its own, unless another is
    given as (certificate, key); `versions` are as nginx names them. With `refuses_upgrades` it answers 403 to WebSocket, with
    `http2` it offers HTTP/2."""

    CONFIGURATION = """
daemon off; pid nginx.pid; error_log error.log; worker_processes 1;
events { worker_connections 4096; }
http {
    log_format exchange "$ssl_protocol $request"; access_log requests.log exchange;
    client_body_temp_path body; proxy_temp_path proxied; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    server {
        listen 127.0.0.1:PORT ssl HTTP2; server_name localhost; ssl_certificate CERTIFICATE; ssl_certificate_key KEY; VERSIONS
        keepalive_timeout KEEP_ALIVE; client_max_body_size 64m;
        location / {
            UPGRADES
            proxy_pass http://127.0.0.1:TARGET; proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 1h;
            proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
        }
    }
    map $http_upgrade $connection_upgrade { default upgrade; "" ""; }
}
"""

    def __init__(self, target, certificate=None, versions=None, refuses_upgrades=False, keep_alive=75, port=None, http2=False):
        super().__init__()
        self.port, authority = port or free_port(), None
        if not certificate:
            authority = Authority(self.folder)
            certificate = authority.issue("localhost")
        values = {
            "PORT": self.port, "TARGET": target, "CERTIFICATE": certificate[0], "KEY": certificate[1], "KEEP_ALIVE": keep_alive,
            # OpenSSL's own security level forbids what is older than 1.2.
            "VERSIONS": f"ssl_protocols {versions}; ssl_ciphers DEFAULT@SECLEVEL=0;" if versions else "",
            "HTTP2": "http2" if http2 else "",
            "UPGRADES": "if ($http_upgrade) { return 403; }" if refuses_upgrades else "",
        }
        self.write("nginx.conf", re.sub(r"\b(?:" + "|".join(values) + r")\b", lambda found: str(values[found[0]]), self.CONFIGURATION))
        self.master = self.serve("nginx", "-p", str(self.folder), "-c", "nginx.conf", "-e", "error.log")

        origin = f"https://localhost:{self.port}"
        self.settings = {"CHAPPIE_ISSUER": origin, "CHAPPIE_BACKEND": origin + "/backend-api"}
        if authority:
            self.settings["CHAPPIE_CA_FILE"] = authority.file

    def fall_silent(self):
        """What is connected is acknowledged and not answered any more, as after a change of network. New connections are served."""
        workers = lambda: pathlib.Path(f"/proc/{self.master.pid}/task/{self.master.pid}/children").read_text().split()
        [old] = workers()
        os.kill(int(old), signal.SIGSTOP)
        self.callback(os.kill, int(old), signal.SIGKILL)
        self.master.send_signal(signal.SIGHUP)
        wait_until(lambda: len(workers()) == 2, "nginx has a new worker")

    @property
    def requests(self):
        """What has come through its TLS: ["TLSv1.3 POST /oauth/token HTTP/1.1", …]."""
        return self.read("requests.log").splitlines()


class Authority:
    """A private certificate authority; `file` is for CHAPPIE_CA_FILE. Certificates come as (certificate, key)."""

    def __init__(self, folder, key_type=trustme.KeyType.ECDSA):
        self.folder, self.key_type, self.count = pathlib.Path(folder), key_type, 0
        self.authority = trustme.CA(organization_name="test authority", key_type=key_type)
        self.file = str(self.folder / "authority.pem")
        self.authority.cert_pem.write_to_path(self.file)

    def issue(self, *names, **validity):
        self.count += 1
        issued = self.authority.issue_cert(*names, key_type=self.key_type, **validity)
        paths = [str(self.folder / f"{self.count}.{part}") for part in ("pem", "key")]
        issued.cert_chain_pems[0].write_to_path(paths[0])
        issued.private_key_pem.write_to_path(paths[1])
        return paths

    def context(self):
        """What a server needs that stands at localhost."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue("localhost"))
        return context

    def self_signed(self, name):
        paths = [str(self.folder / f"self-signed.{part}") for part in ("pem", "key")]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
             "-addext", f"subjectAltName=DNS:{name}", "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
        return paths


class Proxy(Counterpart):
    """tinyproxy, which wants a password."""

    def __init__(self, password=PASSWORD):
        super().__init__()
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.serve(*self.command(password))

    def command(self, password):
        text = (f'Port {self.port}\nListen 127.0.0.1\nTimeout 600\nLogFile "{self.folder}/log"\nLogLevel Connect\nMaxClients 100\n'
                f"BasicAuth {USER} {password}\n")
        return "tinyproxy", "-d", "-c", self.write("tinyproxy.conf", text)

    def url(self, scheme, password):
        return f"{scheme}://{f'{USER}:{password}@' if password else ''}{self.address}"

    @property
    def connected(self):
        """What it has connected clients to, as it was asked: ["localhost:443", …]."""
        log = self.read("log")
        asked = re.findall(r"CONNECT (\S+) HTTP", log)
        return asked if "Established connection to host" in log else []


class Socks(Proxy):
    """microsocks, which alone resolves the hidden name. It takes a password as an argument only; this one opens nothing."""

    def command(self, password):
        hosts = self.write("hosts", f"127.0.0.1 {HIDDEN_NAME}\n")
        return ("env", "LD_PRELOAD=libnss_wrapper.so", f"NSS_WRAPPER_HOSTS={hosts}", "microsocks", "-i", "127.0.0.1",
                "-p", str(self.port), *(["-u", USER, "-P", password] if password else []))

    @property
    def connected(self):
        return re.findall(r": connected to (\S+)", self.read("output"))


class Session(Counterpart):
    """A private D-Bus session; `environment` is what a program of its user sees."""

    def __init__(self):
        super().__init__()
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")}
        names = ("XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
        self.environment = {**kept, "HOME": str(self.folder), "TERM": "dumb", **{name: str(self.folder / name) for name in names}}
        for name in names:
            (self.folder / name).mkdir(mode=0o700)
        bus = self.start("dbus-daemon", "--session", "--nofork", "--nosyslog", "--print-address", env=self.environment,
                         stdout=subprocess.PIPE, text=True)
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().strip()

    def call(self, *command, input=""):
        return subprocess.run(command, env=self.environment, input=input, capture_output=True, text=True, timeout=60 * PATIENCE)


class Keyring(Session):
    """A session with a real gnome-keyring, unlocked. Without a keyring the service is there, and has none to store anything in."""

    def __init__(self, has_keyring=True):
        super().__init__()
        daemon = self.start("gnome-keyring-daemon", "--foreground", *(["--unlock"] if has_keyring else []), "--components=secrets",
                            stdin=subprocess.PIPE, env=self.environment, text=True)
        daemon.stdin.write("a password for tests\n")
        daemon.stdin.close()
        # Asking for a secret too early would make the bus start another service in its place.
        self.call("gdbus", "wait", "--session", "--timeout=20", "org.freedesktop.secrets").check_returncode()
        if has_keyring:
            wait_until(lambda: self.call("secret-tool", "store", "--label=ready", "purpose", "ready", input="yes").returncode == 0,
                       "gnome-keyring takes a secret")

    def lock(self):
        self.call("dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.secrets", "/org/freedesktop/secrets",
                  "org.freedesktop.Secret.Service.Lock", "array:objpath:/org/freedesktop/secrets/aliases/default").check_returncode()

    def reads(self, work):
        """How many secrets are read from the keyring while `work` runs."""
        rules = ["type='method_call',member='GetSecret'", "interface='chappie.test'"]
        monitor = self.start("dbus-monitor", "--session", *rules, env=self.environment, stdout=subprocess.PIPE, text=True)
        # With this the bus lets it listen.
        next(line for line in monitor.stdout if "member=NameLost" in line)
        work()
        self.call("dbus-send", "--session", "/", "chappie.test.End").check_returncode()
        heard = list(itertools.takewhile(lambda line: "member=End" not in line, monitor.stdout))
        end(monitor)
        return sum("member=GetSecret" in line for line in heard)

    def secret(self, account):
        """What is stored for an account, as text; empty for nothing."""
        return self.call("secret-tool", "lookup", "account", account).stdout
