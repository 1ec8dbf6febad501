"""A private D-Bus session with a real, unlocked gnome-keyring, for programs under test."""

import os
import shutil
import subprocess
import tempfile
import time


class SecretService:
    """`with SecretService() as service:`; `service.environment` is what a program needs to see it.

    Without a keyring the service is there, and has none to keep anything in.
    """

    def __init__(self, has_keyring=True):
        self.has_keyring = has_keyring

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="chappie-home.")
        self.processes = []
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        runtime = os.path.join(self.home, "run")
        os.mkdir(runtime, 0o700)
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")}
        self.environment = {
            **kept,
            "HOME": self.home,
            "XDG_RUNTIME_DIR": runtime,
            "XDG_DATA_HOME": os.path.join(self.home, "data"),
            "XDG_CONFIG_HOME": os.path.join(self.home, "config"),
            "XDG_CACHE_HOME": os.path.join(self.home, "cache"),
            "XDG_STATE_HOME": os.path.join(self.home, "state"),
            "TERM": "dumb",
        }
        bus = self.run(["dbus-daemon", "--session", "--nofork", "--nosyslog", "--print-address"], stdout=subprocess.PIPE)
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().strip()
        keyring = self.run(
            ["gnome-keyring-daemon", "--foreground", *(["--unlock"] if self.has_keyring else []), "--components=secrets"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        keyring.stdin.write("a password for tests\n")
        keyring.stdin.close()
        deadline = time.monotonic() + 20
        while not self.is_ready():
            if time.monotonic() > deadline or keyring.poll() is not None:
                raise RuntimeError("gnome-keyring doesn't start")
            time.sleep(0.05)

    def run(self, command, **streams):
        streams.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL, text=True, **streams)
        self.processes.append(process)
        return process

    def is_ready(self):
        """Whether the service is there and, where it has a keyring, takes a secret."""
        # Asking for a secret too early would make the bus start another service in its place.
        commands = [["gdbus", "wait", "--session", "--timeout=4", "org.freedesktop.secrets"]]
        if self.has_keyring:
            commands.append(["secret-tool", "store", "--label=ready", "purpose", "ready"])
        try:
            return all(
                subprocess.run(command, input="yes", text=True, env=self.environment, capture_output=True, timeout=5).returncode == 0
                for command in commands
            )
        except subprocess.TimeoutExpired:
            return False

    def lock(self):
        """Locks the keyring, as a person does who has left."""
        subprocess.run(
            ["dbus-send", "--session", "--print-reply", "--reply-timeout=5000", "--dest=org.freedesktop.secrets",
             "/org/freedesktop/secrets", "org.freedesktop.Secret.Service.Lock",
             "array:objpath:/org/freedesktop/secrets/aliases/default"],
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=True,
        )

    def secrets(self, **attributes):
        """The secret with these attributes, as text; empty when there is none."""
        words = [word for pair in attributes.items() for word in pair]
        done = subprocess.run(
            ["secret-tool", "lookup", *words],
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10,
        )
        return done.stdout

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()
        shutil.rmtree(self.home, ignore_errors=True)
