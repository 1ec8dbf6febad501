"""Starts `chappie simulator` for a test and ends it by its own process; speaks to it as a device would."""

import json
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

CLIENT_ID = "app_EMoamEEZ73f0CkXaXp7hrann"


class Simulator:
    """A running simulator: `with Simulator(program, "--auto-approve") as simulator:`"""

    def __init__(self, program, *options):
        self.process = subprocess.Popen(
            [program, "simulator", "--json", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the simulator ended at once: {self.process.communicate()[1].strip()}")
        announced = json.loads(line)
        self.issuer, self.backend, self.port = announced["issuer"], announced["backend"], announced["port"]
        # Its log, with --verbose: one line for each exchange.
        self.log, self.logged = [], threading.Condition()
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()

    def _read_log(self):
        for line in self.process.stderr:
            with self.logged:
                self.log.append(line.rstrip("\n"))
                self.logged.notify_all()

    def wait_for_log(self, is_there, since=0, timeout=10):
        """The lines of the log from number `since` on, as soon as `is_there(lines)`; an AssertionError after `timeout` s."""
        with self.logged:
            found = self.logged.wait_for(lambda: is_there(self.log[since:]), timeout)
            assert found, f"the simulator's log says only {self.log[since:]}"
            return self.log[since:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(timeout=10)
        self.process.stdout.close()
        self.process.stderr.close()

    def post(self, path, body, **headers):
        """(status, JSON or text) of a POST to the issuer's origin."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            self.issuer + path, data, {"content-type": "application/json", **headers}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                status, text = response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def start_sign_in(self):
        """A device authorization: the object with device_auth_id and user_code."""
        status, answer = self.post("/api/accounts/deviceauth/usercode", {"client_id": CLIENT_ID})
        assert status == 200, (status, answer)
        return answer

    def poll(self, authorization):
        wanted = {key: authorization[key] for key in ("device_auth_id", "user_code")}
        return self.post("/api/accounts/deviceauth/token", wanted)

    def sign_in(self):
        """Tokens from a whole device sign-in; the simulator has to approve by itself."""
        authorization = self.start_sign_in()
        deadline = time.monotonic() + 30
        while True:
            status, grant = self.poll(authorization)
            if status == 200:
                break
            assert status in (403, 404) and time.monotonic() < deadline, (status, grant)
            time.sleep(0.1)
        form = urllib.parse.urlencode(
            {
                "grant_type": "authorization_code",
                "client_id": CLIENT_ID,
                "code": grant["authorization_code"],
                "redirect_uri": self.issuer + "/deviceauth/callback",
                "code_verifier": grant["code_verifier"],
            }
        )
        headers = {"content-type": "application/x-www-form-urlencoded"}
        status, tokens = self.post("/oauth/token", form.encode(), **headers)
        assert status == 200, (status, tokens)
        return tokens


class Tally:
    """Counts checks as the scripts do: one line each, the last one "N passed, M failed"."""

    def __init__(self):
        self.passed = self.failed = 0
        self.lock = threading.Lock()

    def check(self, name, action):
        begin = time.monotonic()
        try:
            action()
        except Exception as error:  # noqa: BLE001: whatever goes wrong is this check's failure
            with self.lock:
                self.failed += 1
                print(f"  FAIL  {name} ({time.monotonic() - begin:.1f} s): {type(error).__name__}: {error}", flush=True)
        else:
            with self.lock:
                self.passed += 1
                print(f"  ok    {name} ({time.monotonic() - begin:.1f} s)", flush=True)

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.passed and not self.failed else 1
