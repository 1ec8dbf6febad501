"""A thousand idle WebSockets and a hundred busy ones in one process: load.py CHAPPIE LOAD"""

import json
import os
import subprocess
import sys
import tempfile

from simulator import Simulator, Tally

IDLE, ACTIVE = 1000, 100


def load(program, client):
    with Simulator(program, "--auto-approve") as simulator, tempfile.TemporaryDirectory() as folder:
        token = os.path.join(folder, "token")
        with open(token, "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(simulator.sign_in()["access_token"])
        done = subprocess.run(
            [client, simulator.backend + "/codex/responses", token, str(IDLE), str(ACTIVE)],
            capture_output=True, text=True, timeout=300,
        )
        assert done.returncode == 0, done.stderr.strip()
        report = json.loads(done.stdout)
        threads = report["threads"]
        assert threads["one"] >= threads["idle"] and threads["one"] >= threads["active"], f"threads grew: {threads}"
        print(f"        {IDLE} idle and {ACTIVE} busy WebSockets in one process: {threads['active']} threads throughout, "
              f"{report['bytes_per_idle_connection']} bytes for each idle one, {report['messages']} messages, "
              f"{report['lost']} lost, in {report['seconds']:.1f} s")


tally = Tally()
tally.check("a thousand WebSockets in one process", lambda: load(sys.argv[1], sys.argv[2]))
sys.exit(tally.finish())
