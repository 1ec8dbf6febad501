"""One single-use refresh token and many processes: the simulator ends the whole sign-in when a refresh token comes twice."""

import random
import time

import pytest

from conftest import SIGN_IN_NEEDED, TURN
from counterparts import PATIENCE

PROCESSES = 16
SETTINGS = {"pollInterval": 0, "revokesFamilyOnReuse": True}

pytestmark = pytest.mark.slow


def start(user):
    return user.start("ask", "--transport", "sse", "reply: here")


def race(simulator, user, refreshes=1):
    """All of them ask at once: there must be exactly one refresh, and an answer for each. How long it took until all had asked."""
    have_all_asked = lambda lines: sum("POST /backend-api/codex/responses" in line for line in lines) >= PROCESSES
    since, begin = len(simulator.log), time.monotonic()
    processes = [start(user) for _ in range(PROCESSES)]
    simulator.wait_for_log(have_all_asked, since, timeout=90)
    took = time.monotonic() - begin
    for process in processes:
        output, errors = process.communicate(timeout=90 * PATIENCE)
        assert (process.returncode, output) == (0, "here\n"), errors
    assert sum("POST /oauth/token" in line for line in simulator.log[since:]) == refreshes
    return took


def test_sixteen_processes_renew_an_expired_token_once(simulate, signed_in, full):
    simulator = simulate(**SETTINGS, firstAccessTokenLifetime=0)
    users = [signed_in(simulator) for _ in range(50 if full else 5)]
    for user in users:
        race(simulator, user)


@pytest.mark.parametrize("store", ["keyring", "file"])
def test_processes_with_folders_of_their_own_and_one_credential_renew_it_once(store, simulate, signed_in, passphrase, tmp_path, full):
    """As in two containers that share the folder of credentials, or a sandbox beside a terminal with one keyring."""
    simulator = simulate(**SETTINGS, firstAccessTokenLifetime=0)
    for _ in range(100 if full else 3):
        settings = passphrase("a phrase") if store == "file" else {}
        user = signed_in(simulator, CHAPPIE_CREDENTIAL_STORE=store, **settings)
        since = len(simulator.log)
        processes = [user.having(XDG_STATE_HOME=str(tmp_path / f"state-{number}")).start(
            "ask", "--ephemeral", "--transport", "sse", "reply: here") for number in range(4)]
        for process in processes:
            output, errors = process.communicate(timeout=90 * PATIENCE)
            assert (process.returncode, output) == (0, "here\n"), errors
        assert sum("POST /oauth/token" in line for line in simulator.log[since:]) == 1


def test_sixteen_processes_renew_once_when_one_refusal_comes_late(simulate, signed_in, full):
    # Each process has to have asked before the first is refused: what is refused is the old token, not a new one.
    simulator = simulate(**SETTINGS)
    delay = max(3, 3 * race(simulator, signed_in(simulator), refreshes=0))
    refusal = lambda delay, **match: {"match": {**TURN, "over": "http", **match},
                                      "effect": {"unauthorized": True, "delayBeforeHead": delay}}
    for _ in range(50 if full else 1):
        simulator = simulate(**SETTINGS, rules=[refusal(1.5 * delay, nth=1), refusal(delay, to=PROCESSES)])
        race(simulator, signed_in(simulator))
        simulator.close()


def test_the_next_process_goes_on_after_one_that_was_killed(simulate, signed_in, full):
    """Under five minutes are left of each first token, so that a process renews before it asks. The moments are spread over the
    whole of what one takes that is not killed. Where the server had changed the token already, a new sign-in is needed."""
    simulator = simulate(**SETTINGS, firstAccessTokenLifetime=60)
    whole = max(signed_in(simulator).ask("reply: here").seconds for _ in range(3))
    for kill in range(200 if full else 8):
        user = signed_in(simulator)
        with start(user) as victim:
            time.sleep(random.uniform(0, whole))  # The random moment.
            victim.kill()
        following = user.ask("reply: here", status=None)
        assert following.seconds < 20 * PATIENCE, f"kill {kill}: {following}"
        if following.status == 0:
            assert following.output == "here\n", following
        else:
            following.expect(SIGN_IN_NEEDED, "login")
