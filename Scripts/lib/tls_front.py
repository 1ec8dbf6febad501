"""nginx with TLS and a certificate of a private authority before a simulator, on loopback; ended by its own process."""

import os
import socket
import subprocess
import tempfile
import time


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


class TLSFront:
    """`with TLSFront(simulator.port) as front:`; `front.port`, and `front.authority` for CHAPPIE_CA_FILE."""

    CONFIGURATION = """
daemon off; pid nginx.pid; error_log error.log; worker_processes 1;
events {{ worker_connections 4096; }}
http {{
    access_log off; client_body_temp_path body; proxy_temp_path proxied; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    server {{
        listen 127.0.0.1:{port} ssl; server_name localhost;
        ssl_certificate server.pem; ssl_certificate_key server.key;
        keepalive_timeout {keep_alive}; client_max_body_size 64m;
        location / {{
            proxy_pass http://127.0.0.1:{target}; proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 1h;
            proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
        }}
    }}
    map $http_upgrade $connection_upgrade {{ default upgrade; "" ""; }}
}}
"""

    def __init__(self, target, keep_alive=75):
        self.target, self.keep_alive = target, keep_alive

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="chappie-tls.")
        folder = self.folder.name
        openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem")
        openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost",
                "-keyout", "server.key", "-out", "server.csr")
        with open(os.path.join(folder, "names"), "w", encoding="ascii") as names:
            names.write("subjectAltName=DNS:localhost")
        openssl(folder, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", "names", "-out", "server.pem")
        self.authority = os.path.join(folder, "ca.pem")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        with open(os.path.join(folder, "nginx.conf"), "w", encoding="ascii") as file:
            file.write(self.CONFIGURATION.format(port=self.port, target=self.target, keep_alive=self.keep_alive))
        self.process = subprocess.Popen(
            ["nginx", "-p", folder, "-c", "nginx.conf", "-e", "error.log"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    with open(os.path.join(folder, "error.log"), encoding="utf-8", errors="replace") as log:
                        raise RuntimeError(f"nginx does not start: {log.read()}") from None
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.folder.cleanup()
