"""nginx with TLS before a simulator, on loopback; ended by its own process."""

import os
import subprocess
import tempfile

from certificates import Authority
from listening import free_port, wait_until_listening


class TLSFront:
    """`with TLSFront(simulator.port) as front:`; `front.port`, and `front.authority` for CHAPPIE_CA_FILE.

    Its certificate is for localhost, from an authority of its own, unless another is given as (certificate, key).
    `versions` are as nginx names them: "TLSv1.2 TLSv1.3"; else nginx's default. With `refuses_upgrades` it answers 403
    to whoever wants WebSocket, as some proxies do.
    """

    CONFIGURATION = """
daemon off; pid nginx.pid; error_log error.log; worker_processes 1;
events {{ worker_connections 4096; }}
http {{
    log_format exchange "$ssl_protocol $request"; access_log {log};
    client_body_temp_path body; proxy_temp_path proxied; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    server {{
        listen 127.0.0.1:{port} ssl; server_name localhost;
        ssl_certificate {certificate}; ssl_certificate_key {key}; {versions}
        keepalive_timeout {keep_alive}; client_max_body_size 64m;
        location / {{
            {upgrades}
            proxy_pass http://127.0.0.1:{target}; proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 1h;
            proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
        }}
    }}
    map $http_upgrade $connection_upgrade {{ default upgrade; "" ""; }}
}}
"""

    def __init__(self, target, keep_alive=75, certificate=None, versions=None, log=False, refuses_upgrades=False):
        self.target, self.keep_alive, self.certificate = target, keep_alive, certificate
        # OpenSSL's own security level forbids what is older than 1.2.
        self.versions = f"ssl_protocols {versions}; ssl_ciphers DEFAULT@SECLEVEL=0;" if versions else ""
        self.upgrades = "if ($http_upgrade) { return 403; }" if refuses_upgrades else ""
        self.log = "requests.log exchange" if log else "off"

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="chappie-tls.")
        folder = self.folder.name
        if not self.certificate:
            authority = Authority(folder)
            self.authority, self.certificate = authority.file, authority.issue("server", "localhost")
        certificate, key = self.certificate
        self.port = free_port()
        with open(os.path.join(folder, "nginx.conf"), "w", encoding="ascii") as file:
            file.write(self.CONFIGURATION.format(
                port=self.port, target=self.target, keep_alive=self.keep_alive, certificate=certificate, key=key,
                versions=self.versions, log=self.log, upgrades=self.upgrades))
        self.process = subprocess.Popen(
            ["nginx", "-p", folder, "-c", "nginx.conf", "-e", "error.log"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        wait_until_listening(self.port, self.process, lambda: f"nginx does not start: {self.read('error.log')}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.folder.cleanup()

    def requests(self):
        """What has come through its TLS, where it keeps a log: ["TLSv1.3 POST /oauth/token HTTP/1.1", …]."""
        return self.read("requests.log").splitlines()

    def read(self, name):
        with open(os.path.join(self.folder.name, name), encoding="utf-8", errors="replace") as file:
            return file.read()
