"""tinyproxy with a password, on loopback; ended by its own process."""

import os
import re
import subprocess
import tempfile

from listening import free_port, wait_until_listening

USER, PASSWORD = "someone", "s3cret"


class Proxy:
    """`with Proxy() as proxy:`; `proxy.url(password)` for HTTPS_PROXY, `proxy.tunnels()` for what it was asked for."""

    def __init__(self, password=PASSWORD):
        self.password = password

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="chappie-proxy.")
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log = os.path.join(self.folder.name, "log")
        settings = os.path.join(self.folder.name, "tinyproxy.conf")
        with open(settings, "w", encoding="ascii") as file:
            file.write(
                f'Port {self.port}\nListen 127.0.0.1\nTimeout 600\nLogFile "{self.log}"\nLogLevel Connect\n'
                f"MaxClients 100\nBasicAuth {USER} {self.password}\n"
            )
        self.process = subprocess.Popen(
            ["tinyproxy", "-d", "-c", settings],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        wait_until_listening(self.port, self.process, lambda: "tinyproxy does not start")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.folder.cleanup()

    def url(self, password=PASSWORD):
        return f"http://{f'{USER}:{password}@' if password else ''}{self.address}"

    def tunnels(self, port):
        """How many tunnels to a local port its log tells of, whether granted or not."""
        return len(re.findall(rf"CONNECT localhost:{port} ", self.read()))

    def granted(self):
        """How many tunnels it has opened."""
        return self.read().count("Established connection to host")

    def visits(self):
        """How many connections it has had; the first was to see whether it is there."""
        return self.read().count(": Connect (file descriptor")

    def read(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()
