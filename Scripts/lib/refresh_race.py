"""One single-use refresh token and many processes: refresh_race.py CHAPPIE [--rounds N] [--late N] [--kills N]

Every round is somebody new, signed in to a simulator that ends the whole sign-in when a refresh token comes twice.
Sixteen processes ask at once: there must be exactly one refresh and sixteen answers. Then the same where every process's
first request gets a 401 and one of those 401s comes late. Then a process is killed at a random moment of its refresh: the
next one must go on, or say that a new sign-in is needed where the server had already changed the token.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from secret_service import SecretService
from simulator import Simulator, Tally

PROCESSES = 16
SIGN_IN_NEEDED = 77
TURN = {"method": "POST", "path": "/backend-api/codex/responses", "over": "http"}
SETTINGS = {"autoApprove": True, "pollInterval": 0, "revokesFamilyOnReuse": True}


class Races:
    def __init__(self, program, service, folder):
        self.program, self.service, self.folder = program, service, folder

    def simulator(self, name, settings, rules=()):
        path = os.path.join(self.folder, name + ".json")
        with open(path, "w", encoding="utf-8") as stream:
            json.dump({"name": name, "settings": {**SETTINGS, **settings}, "rules": list(rules)}, stream)
        return Simulator(self.program, "--verbose", "--scenario", path)

    def environment(self, simulator, account):
        return {**self.service.environment, "CHAPPIE_ACCOUNT": account, "CHAPPIE_ISSUER": simulator.issuer, "CHAPPIE_BACKEND": simulator.backend}

    def signed_in(self, simulator, account):
        environment = self.environment(simulator, account)
        subprocess.run([self.program, "login", "--no-browser"], env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        return environment

    def ask(self, environment):
        return subprocess.Popen(
            [self.program, "ask", "--transport", "sse", "reply: here"],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )

    def refreshes(self, simulator, since):
        return sum("POST /oauth/token" in line for line in simulator.log[since:])

    def race(self, simulator, environment, name):
        since = len(simulator.log)
        outcomes = []
        for process in [self.ask(environment) for _ in range(PROCESSES)]:
            output, errors = process.communicate(timeout=90)
            outcomes.append((process.returncode, output, errors))
        wrong = [outcome for outcome in outcomes if outcome[:2] != (0, "here\n")]
        assert not wrong, f"{name}: {len(wrong)} of {PROCESSES} failed: {wrong[0]}"
        # The log is a pipe that may lag behind.
        simulator.wait_for_log(lambda lines: sum("POST /backend-api/codex/responses" in line for line in lines) >= PROCESSES, since)
        count = self.refreshes(simulator, since)
        assert count == 1, f"{name}: {count} refreshes"

    def expired(self, rounds):
        with self.simulator("expired", {"firstAccessTokenLifetime": 1}) as simulator:
            people = [self.signed_in(simulator, f"expired-{index}") for index in range(rounds)]
            time.sleep(1.1)  # Until the last token has ended: the subject of the test, not a signal.
            for index, environment in enumerate(people):
                self.race(simulator, environment, f"round {index}")
        print(f"        {rounds} rounds of {PROCESSES} processes: one refresh and {PROCESSES} answers in each")

    def late_refusal(self, rounds):
        # Every process has to have asked before the first is refused: what is refused is the old token, not a new one.
        delay = max(3, 3 * self.time_for_all_to_ask())
        for index in range(rounds):
            rules = [
                {"match": {**TURN, "nth": 1}, "effect": {"unauthorized": True, "delayBeforeHead": 1.5 * delay}},
                {"match": {**TURN, "to": PROCESSES}, "effect": {"unauthorized": True, "delayBeforeHead": delay}},
            ]
            with self.simulator(f"late-{index}", {}, rules) as simulator:
                self.race(simulator, self.signed_in(simulator, f"late-{index}"), f"round {index}")
        print(f"        {rounds} rounds of {PROCESSES} processes, one 401 late: one refresh and {PROCESSES} answers in each")

    def time_for_all_to_ask(self):
        """Seconds until the server has seen a request of each of the processes, when nothing is refused."""
        with self.simulator("unhurried", {}) as simulator:
            environment = self.signed_in(simulator, "unhurried")
            begin, since = time.monotonic(), len(simulator.log)
            processes = [self.ask(environment) for _ in range(PROCESSES)]
            simulator.wait_for_log(
                lambda lines: sum("POST /backend-api/codex/responses" in line for line in lines) >= PROCESSES, since, timeout=90)
            seconds = time.monotonic() - begin
            for process in processes:
                process.communicate(timeout=90)
        return seconds

    def killed(self, kills):
        """Under five minutes are left of each first token, so that a process refreshes before it asks. The moments are
        spread over the whole of what one takes that nobody kills."""
        rotated = early = late = 0
        with self.simulator("killed", {"firstAccessTokenLifetime": 60}) as simulator:
            whole = 0
            for index in range(3):
                environment = self.signed_in(simulator, f"spared-{index}")
                begin = time.monotonic()
                assert self.ask(environment).communicate(timeout=90)[0] == "here\n"
                whole = max(whole, time.monotonic() - begin)
            for index in range(kills):
                environment = self.signed_in(simulator, f"killed-{index}")
                since = len(simulator.log)
                victim = self.ask(environment)
                time.sleep(random.uniform(0, whole))  # The random moment.
                victim.send_signal(signal.SIGKILL)
                victim.communicate()
                mine = self.refreshes(simulator, since)
                begin = time.monotonic()
                next_one = self.ask(environment)
                output, errors = next_one.communicate(timeout=90)
                seconds = time.monotonic() - begin
                assert seconds < 20, f"kill {index}: the next process took {seconds:.1f} s"
                if next_one.returncode == 0:
                    assert output == "here\n", output
                    early, late = early + (mine == 0), late + (mine > 0)
                else:
                    assert next_one.returncode == SIGN_IN_NEEDED and "login" in errors, (next_one.returncode, errors)
                    rotated += 1
        print(f"        {kills} kills within {whole * 1000:.0f} ms: {early} before the server had seen the token, {late} after the new one was stored, "
              f"{rotated} in between (the server had changed it already)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--late", type=int, default=50, help="rounds with a 401 that comes late (5 s each)")
    parser.add_argument("--kills", type=int, default=200)
    options = parser.parse_args()
    tally = Tally()
    with SecretService() as service, tempfile.TemporaryDirectory() as folder:
        races = Races(options.program, service, folder)
        tally.check("sixteen processes, one expired token", lambda: races.expired(options.rounds))
        tally.check("sixteen processes, one refusal that comes late", lambda: races.late_refusal(options.late))
        tally.check("a process that is killed in its refresh", lambda: races.killed(options.kills))
    return tally.finish()


sys.exit(main())
