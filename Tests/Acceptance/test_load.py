"""A thousand idle WebSockets and a hundred busy ones in one process."""

import json
import subprocess

import pytest

from conftest import ROOT
from counterparts import PATIENCE

IDLE, ACTIVE = 1000, 100


@pytest.mark.slow
def test_a_thousand_web_sockets_need_no_more_threads_than_one(simulate, tmp_path):
    simulator, token = simulate(), tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(simulator.sign_in()["access_token"])
    client = ROOT / ".build/debug/load"
    done = subprocess.run([client, simulator.backend + "/codex/responses", token, str(IDLE), str(ACTIVE)],
                          capture_output=True, text=True, timeout=300 * PATIENCE)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    threads = report["threads"]
    assert threads["one"] >= threads["idle"] and threads["one"] >= threads["active"] and report["lost"] == 0, report
