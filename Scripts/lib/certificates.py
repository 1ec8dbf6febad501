"""A private certificate authority and what it has issued, made by OpenSSL."""

import os
import subprocess
import time

HOUR, DAY = 3600, 86400
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Authority:
    """An authority in a folder; `file` is for CHAPPIE_CA_FILE. Certificates come as (certificate, key)."""

    CONFIGURATION = """
[ca]
default_ca = own
[own]
database = issued
new_certs_dir = .
certificate = ca.pem
private_key = ca.key
default_md = sha256
rand_serial = yes
unique_subject = no
copy_extensions = copy
policy = anything
[anything]
commonName = supplied
"""

    def __init__(self, folder):
        self.folder, self.file = folder, os.path.join(folder, "ca.pem")
        self.openssl("req", "-x509", *KEY, "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem")
        for name, text in (("ca.cnf", self.CONFIGURATION), ("issued", "")):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)

    def issue(self, name, *hosts, valid=(-HOUR, 2 * DAY)):
        """A certificate for these hosts, valid from and to so many seconds from now."""
        self.openssl("req", *KEY, *self.subject(hosts), "-keyout", f"{name}.key", "-out", f"{name}.csr")
        begin, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds)) for seconds in valid)
        self.openssl("ca", "-batch", "-notext", "-config", "ca.cnf", "-startdate", begin, "-enddate", end,
                     "-in", f"{name}.csr", "-out", f"{name}.pem")
        return self.paths(name)

    def self_signed(self, name, *hosts):
        """A certificate that nobody has signed but itself."""
        self.openssl("req", "-x509", *KEY, *self.subject(hosts), "-days", "2", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        return self.paths(name)

    def subject(self, hosts):
        names = ",".join(f"DNS:{host}" for host in hosts)
        return ["-subj", f"/CN={hosts[0]}", "-addext", f"subjectAltName={names}"]

    def paths(self, name):
        return os.path.join(self.folder, f"{name}.pem"), os.path.join(self.folder, f"{name}.key")

    def openssl(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
