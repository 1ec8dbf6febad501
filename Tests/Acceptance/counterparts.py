"""The servers that the program meets in these tests, all on loopback. `with` ends each by its own process."""

import contextlib
import json
import os
import pathlib
import re
import socket
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
FORM = {"content-type": "application/x-www-form-urlencoded"}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def wait_until(is_so, what, seconds=20):
    """Waits for what no event announces: another process's file, port or log."""
    deadline = time.monotonic() + seconds * PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"{what() if callable(what) else what}: not within {seconds * PATIENCE:.0f} s"
        time.sleep(0.02)


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

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")

    def write(self, name, text):
        """The path of a file that only its owner can read."""
        with open(os.open(self.folder / name, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        return str(self.folder / name)


def end(process):
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Simulator(Counterpart):
    """`chappie simulator` with a scenario of that name, or one of these settings and rules; it approves by itself."""

    def __init__(self, program, scenario=None, rules=(), approves=True, **settings):
        super().__init__()
        if rules or settings:
            scenario = self.write("scenario.json", json.dumps({"name": "test", "settings": settings, "rules": list(rules)}))
        options = (["--auto-approve"] if approves else []) + (["--scenario", scenario] if scenario else [])
        self.log, self.logged = [], threading.Condition()
        process = self.start(program, "simulator", "--json", "--verbose", *options,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        assert line, f"the simulator ended at once: {process.stderr.read()}"
        self.__dict__ |= {name: json.loads(line)[name] for name in ("issuer", "backend", "port")}
        threading.Thread(target=self._read_log, args=[process.stderr], daemon=True).start()

    def _read_log(self, stream):
        for line in stream:
            with self.logged:
                self.log.append(line.rstrip("\n"))
                self.logged.notify_all()

    def wait_for_log(self, is_there, since=0, timeout=20):
        """The lines of the log from number `since` on, as soon as `is_there(lines)`."""
        with self.logged:
            assert self.logged.wait_for(lambda: is_there(self.log[since:]), timeout * PATIENCE), self.log[since:]
            return self.log[since:]

    @property
    def settings(self):
        return {"CHAPPIE_ISSUER": self.issuer, "CHAPPIE_BACKEND": self.backend}

    def post(self, path, body, **headers):
        """(status, JSON or text) of a POST to the issuer's origin."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.issuer + path, data, {"content-type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                status, text = response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        with contextlib.suppress(ValueError):
            return status, json.loads(text)
        return status, text

    def start_sign_in(self):
        """A device authorization: the object with device_auth_id and user_code."""
        status, answer = self.post("/api/accounts/deviceauth/usercode", {"client_id": CLIENT_ID})
        assert status == 200, answer
        return answer

    def poll(self, authorization):
        return self.post("/api/accounts/deviceauth/token", {key: authorization[key] for key in ("device_auth_id", "user_code")})

    def sign_in(self):
        """The tokens of a device sign-in that the simulator approves by itself."""
        authorization, answers = self.start_sign_in(), []
        wait_until(lambda: answers.append(self.poll(authorization)) or answers[-1][0] == 200, "an approval")
        form = {
            "grant_type": "authorization_code", "client_id": CLIENT_ID, "redirect_uri": self.issuer + "/deviceauth/callback",
            "code": answers[-1][1]["authorization_code"], "code_verifier": answers[-1][1]["code_verifier"],
        }
        status, tokens = self.post("/oauth/token", urllib.parse.urlencode(form).encode(), **FORM)
        assert status == 200, tokens
        return tokens


class TLSFront(Counterpart):
    """nginx with TLS before a server. Its certificate is for localhost, from an authority of its own, unless another is
    given as (certificate, key); `versions` are as nginx names them. With `refuses_upgrades` it answers 403 to WebSocket."""

    CONFIGURATION = """
daemon off; pid nginx.pid; error_log error.log; worker_processes 1;
events { worker_connections 4096; }
http {
    log_format exchange "$ssl_protocol $request"; access_log requests.log exchange;
    client_body_temp_path body; proxy_temp_path proxied; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    server {
        listen 127.0.0.1:PORT ssl; server_name localhost; ssl_certificate CERTIFICATE; ssl_certificate_key KEY; VERSIONS
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

    def __init__(self, target, certificate=None, versions=None, refuses_upgrades=False, keep_alive=75, port=None):
        super().__init__()
        self.port = port or free_port()
        if not certificate:
            authority = Authority(self.folder)
            self.authority, certificate = authority.file, authority.issue("localhost")
        values = {
            "PORT": self.port, "TARGET": target, "CERTIFICATE": certificate[0], "KEY": certificate[1], "KEEP_ALIVE": keep_alive,
            # OpenSSL's own security level forbids what is older than 1.2.
            "VERSIONS": f"ssl_protocols {versions}; ssl_ciphers DEFAULT@SECLEVEL=0;" if versions else "",
            "UPGRADES": "if ($http_upgrade) { return 403; }" if refuses_upgrades else "",
        }
        self.write("nginx.conf", re.sub(r"\b(?:" + "|".join(values) + r")\b", lambda found: str(values[found[0]]), self.CONFIGURATION))
        self.serve("nginx", "-p", str(self.folder), "-c", "nginx.conf", "-e", "error.log")

    @property
    def requests(self):
        """What has come through its TLS: ["TLSv1.3 POST /oauth/token HTTP/1.1", …]."""
        return self.read("requests.log").splitlines()

    def before(self, path=""):
        return f"https://localhost:{self.port}{path}"


class Authority:
    """A private certificate authority; `file` is for CHAPPIE_CA_FILE. Certificates come as (certificate, key)."""

    def __init__(self, folder):
        self.folder, self.authority, self.count = pathlib.Path(folder), trustme.CA(organization_name="test authority"), 0
        self.file = str(self.folder / "authority.pem")
        self.authority.cert_pem.write_to_path(self.file)

    def issue(self, *names, **validity):
        self.count += 1
        issued = self.authority.issue_cert(*names, **validity)
        paths = [str(self.folder / f"{self.count}.{part}") for part in ("pem", "key")]
        issued.cert_chain_pems[0].write_to_path(paths[0])
        issued.private_key_pem.write_to_path(paths[1])
        return paths

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
        self.write("tinyproxy.conf", f'Port {self.port}\nListen 127.0.0.1\nTimeout 600\nLogFile "{self.folder}/log"\n'
                                     f"LogLevel Connect\nMaxClients 100\nBasicAuth {USER} {password}\n")
        self.serve("tinyproxy", "-d", "-c", str(self.folder / "tinyproxy.conf"))

    def url(self, password=PASSWORD):
        return f"http://{f'{USER}:{password}@' if password else ''}{self.address}"

    def tunnels(self, port):
        """How many tunnels to a local port it was asked for."""
        return self.read("log").count(f"CONNECT localhost:{port} ")

    @property
    def granted(self):
        return self.read("log").count("Established connection to host")

    @property
    def visits(self):
        """How many connections it has had; the first was to see whether it is there."""
        return self.read("log").count(": Connect (file descriptor")


class Socks(Counterpart):
    """microsocks, which alone resolves the hidden name. It takes a password as an argument only; this one opens nothing."""

    def __init__(self, wants_password=False):
        super().__init__()
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        hosts = self.write("hosts", f"127.0.0.1 {HIDDEN_NAME}\n")
        self.serve("microsocks", "-i", "127.0.0.1", "-p", str(self.port), *(["-u", USER, "-P", PASSWORD] if wants_password else []),
                   env={**os.environ, "LD_PRELOAD": "libnss_wrapper.so", "NSS_WRAPPER_HOSTS": hosts})

    def url(self, scheme, password=None):
        return f"{scheme}://{f'{USER}:{password}@' if password else ''}{self.address}"

    @property
    def connected(self):
        """What it has connected clients to, as it was asked: ["service.invalid:443", …]."""
        return re.findall(r": connected to (\S+)", self.read("output"))


class Keyring(Counterpart):
    """A private D-Bus session with a real gnome-keyring, unlocked; `environment` is what a program needs to see it.

    Without a keyring the service is there, and has none to store anything in.
    """

    def __init__(self, has_keyring=True):
        super().__init__()
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")}
        names = ("XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
        self.environment = {**kept, "HOME": str(self.folder), "TERM": "dumb", **{name: str(self.folder / name) for name in names}}
        for name in names:
            (self.folder / name).mkdir(mode=0o700)
        bus = self.start("dbus-daemon", "--session", "--nofork", "--nosyslog", "--print-address", env=self.environment,
                         stdout=subprocess.PIPE, text=True)
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().strip()
        daemon = self.start("gnome-keyring-daemon", "--foreground", *(["--unlock"] if has_keyring else []), "--components=secrets",
                            stdin=subprocess.PIPE, env=self.environment, text=True)
        daemon.stdin.write("a password for tests\n")
        daemon.stdin.close()
        # Asking for a secret too early would make the bus start another service in its place.
        self.call("gdbus", "wait", "--session", "--timeout=20", "org.freedesktop.secrets").check_returncode()
        if has_keyring:
            wait_until(lambda: self.call("secret-tool", "store", "--label=ready", "purpose", "ready", input="yes").returncode == 0,
                       "gnome-keyring takes a secret")

    def call(self, *command, input=""):
        return subprocess.run(command, env=self.environment, input=input, capture_output=True, text=True, timeout=60)

    def lock(self):
        self.call("dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.secrets", "/org/freedesktop/secrets",
                  "org.freedesktop.Secret.Service.Lock", "array:objpath:/org/freedesktop/secrets/aliases/default").check_returncode()

    def secret(self, account):
        """What is stored for an account, as text; empty for nothing."""
        return self.call("secret-tool", "lookup", "account", account).stdout

    def replace(self, account, secret):
        """Puts something else in the place of an account's secret."""
        found = self.call("secret-tool", "search", "account", account)
        attributes = dict(re.findall(r"^(?:attribute\.)?(\S+) = (.*)$", found.stdout + found.stderr, re.MULTILINE))
        assert "account" in attributes, f"nothing is stored for {account}"
        attributes["xdg:schema"] = attributes.pop("schema")
        words = [word for name in attributes.keys() - {"label", "secret", "created", "modified"} for word in (name, attributes[name])]
        self.call("secret-tool", "store", "--label=replaced", *words, input=secret).check_returncode()
