"""What `chappie doctor` says of a machine that is well, and of others."""

import time

import pytest

from counterparts import Keyring, free_port


def test_a_machine_that_is_well(simulate, signed_in, front):
    simulator = simulate()
    front = front(simulator)
    secured = {"CHAPPIE_BACKEND": front.before("/backend-api"), "CHAPPIE_CA_FILE": front.authority}
    for user in (signed_in(simulator), signed_in(simulator, **secured)):
        status, checks = user.doctor()
        assert status == 0 and {row["status"] for row in checks.values()} <= {"ok", "skip"}, checks
    assert "test authority" in checks["service: TLS"]["detail"], checks


def late(seconds=3600):
    then = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() - seconds))
    return [{"match": {"method": "GET", "path": "/"}, "effect": {"headers": {"date": then}}}]


@pytest.mark.parametrize("check, status, says, code, settings", [
    ("service: TLS", "fail", "certificate", 69, lambda user, front: user.having(CHAPPIE_CA_FILE=None)),
    ("service: proxy", "fail", "proxy", 69, lambda user, front: user.having(HTTPS_PROXY=f"http://127.0.0.1:{free_port()}")),
    ("keyring", "fail", "keyring", 69, lambda user, front: user.having(DBUS_SESSION_BUS_ADDRESS=None, XDG_RUNTIME_DIR="/nowhere")),
    ("WebSocket", "warn", "403", 0, lambda user, front: user),
], ids=lambda value: value if isinstance(value, str) else "")
def test_a_finding(check, status, says, code, settings, simulate, signed_in, front):
    simulator = simulate()
    front = front(simulator, refuses_upgrades=check == "WebSocket")
    user = signed_in(simulator, CHAPPIE_BACKEND=front.before("/backend-api"), CHAPPIE_CA_FILE=front.authority)
    settings(user, front).expect_finding(check, status, says, code)


def test_findings_about_the_service_and_a_locked_keyring(simulate, user, signed_in):
    user(simulate("device-off")).expect_finding("device sign-in", "fail", "Security")
    signed_in(simulate(rules=late())).expect_finding("clock", "fail", "60 minutes ahead")
    with Keyring() as keyring:
        bus = {"DBUS_SESSION_BUS_ADDRESS": keyring.environment["DBUS_SESSION_BUS_ADDRESS"]}
        locked = signed_in(simulate(), **bus)
        keyring.lock()
        locked.expect_finding("keyring", "fail", "Unlock the keyring")
