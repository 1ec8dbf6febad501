"""microsocks, a SOCKS5 server, on loopback; ended by its own process. It knows a name that nobody else does."""

import os
import re
import subprocess
import tempfile

from listening import free_port, wait_until_listening
from proxy import PASSWORD, USER

# Never given to anybody (RFC 6761, 6.4). nss_wrapper lets this one process resolve it.
NAME = "service.invalid"


class Socks:
    """`with Socks(password=True) as proxy:`; `proxy.url(…)` for HTTPS_PROXY, `proxy.connected()` for what it has done."""

    def __init__(self, password=False):
        # It takes a password as an argument only; this one opens nothing.
        self.credentials = ["-u", USER, "-P", PASSWORD] if password else []

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="chappie-socks.")
        self.log = os.path.join(self.folder.name, "log")
        hosts = os.path.join(self.folder.name, "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write(f"127.0.0.1 {NAME}\n")
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["microsocks", "-i", "127.0.0.1", "-p", str(self.port), *self.credentials],
                env={**os.environ, "LD_PRELOAD": "libnss_wrapper.so", "NSS_WRAPPER_HOSTS": hosts},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
            )
        wait_until_listening(self.port, self.process, lambda: f"microsocks does not start: {self.read()}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.folder.cleanup()

    def url(self, scheme="socks5h", password=None):
        return f"{scheme}://{f'{USER}:{password}@' if password else ''}{self.address}"

    def connected(self):
        """What it has connected somebody to, as it was asked: ["service.invalid:443", …]."""
        return re.findall(r": connected to (\S+)", self.read())

    def read(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()
