"""The machines of an operator, on which the commands of docs/Operations.md run as root: each is a group of namespaces with copies
of the folders that the commands change. They share a network that nothing else reaches."""

import contextlib
import os
import pathlib
import subprocess

from counterparts import PATIENCE

# Installing and the service manager are all that is not the system's own. The packages are installed already, and a service is
# started as its unit describes.
APT_GET = """#!/bin/sh
# apt-get install -y NAME…
shift 2
apt-cache show "$@" >/dev/null || ! apt-cache show apt >/dev/null 2>&1 || exit 100
case " $* " in *" postgresql "*) pg_createcluster 15 main >/dev/null && pg_ctlcluster 15 main start ;; esac
"""
SWIFT = """#!/bin/sh
[ "$*" = "build -c release --package-path Examples/server --static-swift-stdlib" ]
"""
SYSTEMCTL = r'''#!/usr/bin/python3
import os, pathlib, re, shlex, signal, subprocess, sys, time

def settings(unit):
    """The words after each name of a unit, whose lines may be continued."""
    lines = re.sub(r"\\\n\s*", " ", unit.read_text()).splitlines()
    found = {}
    for name, _, value in (line.partition("=") for line in lines if re.match(r"\w+=", line)):
        found.setdefault(name, []).append(value)
    return found

def start(name):
    unit = settings(pathlib.Path(f"/etc/systemd/system/{name}.service"))
    folder = pathlib.Path("/run/credentials")
    folder.mkdir(exist_ok=True)
    environment = {key: os.environ[key] for key in ("PATH", "CHAPPIE_ISSUER", "CHAPPIE_BACKEND") if key in os.environ}
    environment |= {"HOME": "/run", "CREDENTIALS_DIRECTORY": str(folder)}
    for key in unit["LoadCredentialEncrypted"]:
        (folder / key).unlink(missing_ok=True)
        (folder / key).touch(mode=0o400)
        subprocess.run(["systemd-creds", "decrypt", f"--name={key}", f"/etc/credstore.encrypted/{key}", folder / key], check=True)
    lines = [pair for line in unit.get("Environment", []) for pair in shlex.split(line)]
    for path in unit.get("EnvironmentFile", []):
        lines += [line for line in pathlib.Path(path.lstrip("-")).read_text().splitlines() if "=" in line]
    environment |= {key: value.replace("%d", str(folder)) for key, _, value in (line.partition("=") for line in lines)}
    [command] = unit["ExecStart"]
    with open(f"/run/{name}.log", "ab") as log:
        process = subprocess.Popen(shlex.split(command), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    pathlib.Path(f"/run/{name}.pid").write_text(str(process.pid))

def stop(name):
    try:
        number = int(pathlib.Path(f"/run/{name}.pid").read_text())
        os.kill(number, signal.SIGTERM)
        while pathlib.Path(f"/proc/{number}/cmdline").read_bytes():
            time.sleep(0.05)
    except OSError:
        pass

match sys.argv[1:]:
    case ["daemon-reload"]: pass
    case ["restart", "postgresql"]: subprocess.run(["pg_ctlcluster", "15", "main", "restart"], check=True)
    case ["restart", "nginx"]: subprocess.run(["nginx"], check=True)
    case ["enable", "--now", name]: start(name)
    case ["restart", name]: stop(name); start(name)
'''
# What the commands change is a copy or empty. The first process of a machine waits for what it inherits.
MACHINE = """
set -e
mkdir "$1/etc" "$1/systemd"
cp -a /etc/. "$1/etc"
mount --bind "$1/etc" /etc
mount --bind "$1/systemd" /var/lib/systemd
rm -rf /etc/postgresql/15
for folder in /run /usr/local/bin /var/lib/postgresql /var/log/postgresql /var/log/nginx; do mount -t tmpfs none "$folder"; done
install -d -o postgres /run/postgresql
chown postgres /var/lib/postgresql /var/log/postgresql
cp "$1"/../bin/* /usr/local/bin
[ -e /etc/ssl/certs/ssl-cert-snakeoil.pem ] || openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
    -out /etc/ssl/certs/ssl-cert-snakeoil.pem -keyout /etc/ssl/private/ssl-cert-snakeoil.key 2>/dev/null
chown root:ssl-cert /etc/ssl/private /etc/ssl/private/ssl-cert-snakeoil.key
chmod 710 /etc/ssl/private
chmod 640 /etc/ssl/private/ssl-cert-snakeoil.key
echo ready
while :; do sleep 1000 & wait; done
"""


def can_make_machines():
    """Whether this user may make namespaces with mounts and networks."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True).returncode == 0


class Fleet(contextlib.ExitStack):
    """Machines by name. `with` ends everything that was started on them."""

    def __init__(self, folder, machines, addresses):
        super().__init__()
        self.folder, self.environment = pathlib.Path(folder), {"PATH": f"/usr/local/bin:{os.environ['PATH']}:/usr/sbin", "LANG": "C.UTF-8"}
        (self.folder / "bin").mkdir()
        for name, text in {"apt-get": APT_GET, "swift": SWIFT, "systemctl": SYSTEMCTL}.items():
            (self.folder / "bin" / name).write_text(text)
            (self.folder / "bin" / name).chmod(0o755)
        commands = "; ".join(["ip link set lo up", *(f"ip address add {address}/32 dev lo" for address in addresses), "echo ready", "exec sleep inf"])
        self.network = self._hold("unshare", "--net", "--fork", "--kill-child", "sh", "-ec", commands)
        self.machines = {}
        for name in machines:
            (self.folder / name).mkdir()
            self.machines[name] = self._hold(
                *self._entering(self.network, "--net"), "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                "bash", "-c", MACHINE, "machine", str(self.folder / name))

    def _hold(self, *command):
        """Starts what holds namespaces, and returns the process in them."""
        process = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.callback(process.wait)
        self.callback(process.kill)
        assert process.stdout.readline() == "ready\n", f"{command[:4]} does not start"
        return int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])

    @staticmethod
    def _entering(process, *namespaces):
        return ["nsenter", "--target", str(process), *namespaces, "--"]

    def run(self, machine, *command, folder=None):
        """Runs a command on a machine, in this folder or the test's own. Returns what it printed."""
        entering = [*self._entering(self.machines[machine], "--net", "--mount", "--pid"), "env", f"--chdir={folder or self.folder}"]
        with open(self.folder / "output", "w+") as output:
            # Services inherit the output, so it is not a pipe that they would keep open.
            done = subprocess.run([*entering, *command], env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, timeout=120 * PATIENCE)
        printed = (self.folder / "output").read_text()
        assert done.returncode == 0, f"on {machine}: {command}: {printed}\n{self.logs(machine)}"
        return printed

    def start(self, *command, **options):
        """Starts a program in the network, outside of the machines."""
        process = subprocess.Popen([*self._entering(self.network, "--net"), *command], stdin=subprocess.DEVNULL, **options)
        self.callback(process.wait)
        self.callback(process.terminate)
        return process

    def logs(self, machine):
        done = subprocess.run(
            [*self._entering(self.machines[machine], "--mount"), "sh", "-c", "tail -n 20 /run/*.log /var/log/postgresql/* /var/log/nginx/*"],
            capture_output=True, text=True)
        return done.stdout
