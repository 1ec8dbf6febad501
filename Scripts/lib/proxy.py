"""tinyproxy with a password, on loopback; ended by its own process."""

import os
import socket
import subprocess
import tempfile
import time

USER, PASSWORD = "someone", "s3cret"


class Proxy:
    """`with Proxy() as proxy:`; `proxy.url(password)` for HTTPS_PROXY, `proxy.tunnels()` for what it has connected."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="chappie-proxy.")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.log = os.path.join(self.folder.name, "log")
        settings = os.path.join(self.folder.name, "tinyproxy.conf")
        with open(settings, "w", encoding="ascii") as file:
            file.write(
                f'Port {self.port}\nListen 127.0.0.1\nTimeout 600\nLogFile "{self.log}"\nLogLevel Connect\n'
                f"MaxClients 100\nBasicAuth {USER} {PASSWORD}\n"
            )
        self.process = subprocess.Popen(
            ["tinyproxy", "-d", "-c", settings],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                assert time.monotonic() < deadline and self.process.poll() is None, "tinyproxy does not start"
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.folder.cleanup()

    def url(self, password=PASSWORD):
        return f"http://{USER}:{password}@127.0.0.1:{self.port}"

    def tunnels(self, port):
        """How many tunnels to a local port its log tells of."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return sum(f"CONNECT localhost:{port} " in line for line in log)
