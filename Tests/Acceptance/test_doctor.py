"""What `chappie doctor` says of a machine that is well, and of others."""

import datetime
import re
import subprocess
import sys
import time

import pytest

from conftest import ROOT
from counterparts import Keyring, free_port


def test_a_machine_that_is_well(simulate, signed_in, front):
    simulator = simulate()
    for user in (signed_in(simulator), signed_in(simulator, **front(simulator).settings)):
        status, checks = user.doctor()
        assert status == 0 and {row["status"] for row in checks.values()} <= {"ok", "skip"}, checks
        # An empty request is refused, so nothing is searched and no picture is made.
        assert all("status 400" in checks[name]["detail"] for name in ("search", "pictures")), checks
    assert "test authority" in checks["service: TLS"]["detail"], checks


SEARCH = {"path": "/backend-api/codex/alpha/search"}
PICTURES = {"path": "/backend-api/codex/images/generations"}
PAGE = {"body": "<!DOCTYPE html><title>Just a moment...</title>", "headers": {"content-type": "text/html"}}
# Check, its status, what it says, and what is wrong: settings of the simulator, of the server before it, and of the user.
FINDINGS = [
    ("service: TLS", "fail", "certificate", {}, {}, lambda: {"CHAPPIE_CA_FILE": None}),
    ("service: proxy", "fail", "proxy", {}, {}, lambda: {"HTTPS_PROXY": f"http://127.0.0.1:{free_port()}"}),
    ("keyring", "fail", "keyring", {}, {}, lambda: {"DBUS_SESSION_BUS_ADDRESS": None, "XDG_RUNTIME_DIR": "/nowhere"}),
    ("WebSocket", "warn", "403", {}, {"refuses_upgrades": True}, dict),
    ("device sign-in", "fail", "Security", {"scenario": "device-off"}, {}, dict),
    ("search", "warn", "404", {"rules": [{"match": SEARCH, "effect": {"status": 404}}]}, {}, dict),
    ("search", "warn", "web page", {"rules": [{"match": SEARCH, "effect": {"status": 403, **PAGE}}]}, {}, dict),
    ("search", "warn", "429", {"rules": [{"match": SEARCH, "effect": {"status": 429}}]}, {}, dict),
    ("pictures", "warn", "500", {"rules": [{"match": PICTURES, "effect": {"status": 500}}]}, {}, dict),
]


@pytest.mark.parametrize("check, status, says, service, server, settings", FINDINGS, ids=[f"{row[0]} {row[2]}" for row in FINDINGS])
def test_a_finding(check, status, says, service, server, settings, simulate, user, front):
    simulator = simulate(**service)
    user = user(simulator, **front(simulator, **server).settings)
    if "scenario" not in service:
        user.sign_in()
    ended, checks = user.having(**settings()).doctor()
    assert ended == (69 if status == "fail" else 0) and checks[check]["status"] == status and says in str(checks[check]), checks


def test_a_locked_keyring_and_a_server_that_is_late(simulate, signed_in):
    late = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() - 3600))
    simulator = simulate(rules=[{"match": {"method": "GET", "path": "/"}, "effect": {"headers": {"date": late}}}])
    with Keyring() as keyring:
        user = signed_in(simulator, DBUS_SESSION_BUS_ADDRESS=keyring.environment["DBUS_SESSION_BUS_ADDRESS"])
        keyring.lock()
        _, checks = user.doctor()
    assert "Unlock the keyring" in checks["keyring"]["remedy"] and re.search("6[0-5] minutes ahead", checks["clock"]["detail"]), checks


def test_an_old_look_at_the_outside_is_a_note_of_the_check(user):
    shown = user().run("doctor", "--json", "--simulate").events[0]["checks"]
    looked_at = next(re.search(r"last checked on (\S+)", check["detail"])[1] for check in shown if check["name"] == "knowledge")
    note = lambda days: subprocess.run(
        [sys.executable, ROOT / "Scripts/lib/outside.py", str(datetime.date.fromisoformat(looked_at) + datetime.timedelta(days))],
        check=True, capture_output=True, text=True).stdout
    assert note(60) == "" and "61 days ago" in note(61) and note(61).count("https://") >= 3, note(61)
