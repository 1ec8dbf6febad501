"""What the network and the service can do: each case ends in the right text, or in one sentence and the right exit code,
within its deadline."""

import concurrent.futures
import signal
import socket

import pytest

from conftest import BAD_DATA, HUNG_UP, QUESTION, SIGN_IN_NEEDED, TURN, UNAVAILABLE, USAGE, USAGE_LIMIT
from counterparts import PATIENCE, wait_until
from witnesses import Forwarder

# Scenario, exit code, what standard error must say, seconds it may take.
FAILING = [
    ("unauthorized-storm", SIGN_IN_NEEDED, "login", 10), ("usage-limit", USAGE_LIMIT, "reset", 10),
    ("usage-not-included", USAGE_LIMIT, "plan", 10), ("rate-limit", UNAVAILABLE, "429", 20),
    ("server-error-forever", UNAVAILABLE, "500", 60), ("overloaded", UNAVAILABLE, "", 60),
    ("bad-request", UNAVAILABLE, "", 10), ("blocked", UNAVAILABLE, "", 10), ("redirect-elsewhere", UNAVAILABLE, "", 10),
    ("html", BAD_DATA, "", 10), ("not-json", BAD_DATA, "", 10), ("cut-forever", UNAVAILABLE, "", 60),
    ("cut-clean", UNAVAILABLE, "", 60), ("hang-up", UNAVAILABLE, "", 60), ("hang-up-rst", UNAVAILABLE, "", 60),
    ("no-completed", UNAVAILABLE, "", 60), ("failed", UNAVAILABLE, "", 60), ("failed-context-length", UNAVAILABLE, "", 10),
    ("refresh-expired", SIGN_IN_NEEDED, "login", 10), ("refresh-reused", SIGN_IN_NEEDED, "login", 10),
    ("refresh-invalidated", SIGN_IN_NEEDED, "login", 10),
]
# Scenarios that must not be noticed, and how long they may take.
HARMLESS = {
    **dict.fromkeys(["cut", "cut-rst", "server-error-once", "unauthorized-once", "unknown-events", "malformed-event",
                     "no-final-blank-line", "no-created", "incomplete", "crlf", "bom", "comments", "bare-data", "completed-twice",
                     "close-delimited", "short-tokens", "refresh-500"], 10),
    **dict.fromkeys(["slow-head", "slow-body", "rate-limit-retry-after"], 20),
    **dict.fromkeys(["drip", "drip-slow", "giant-event"], 60),
}
# WebSocket first: scenario, exit code, what standard error must say, options. All others must not be noticed.
OVER_WEB_SOCKET = ["--transport", "websocket"]
WEB_SOCKET_FAILING = [
    ("ws-usage-limit", USAGE_LIMIT, "reset", []), ("ws-error-usage-limit", USAGE_LIMIT, "reset", []),
    ("ws-401", SIGN_IN_NEEDED, "login", []), ("ws-426", UNAVAILABLE, "426", OVER_WEB_SOCKET),
    ("ws-cut-forever", UNAVAILABLE, "", OVER_WEB_SOCKET), ("ws-rst", UNAVAILABLE, "", OVER_WEB_SOCKET),
    ("ws-wrong-accept", BAD_DATA, "", OVER_WEB_SOCKET), ("diverge", UNAVAILABLE, "began differently", []),
]
# Deadlines of the program, in seconds, with room for a busy machine.
STALLS = {"stall-before-head": (60, 90), "stall-before-body": (120, 160), "stall": (300, 340), "rate-limit-far-date": (60, 90)}


@pytest.mark.parametrize("scenario, status, says, seconds", FAILING)
def test_a_fault_ends_in_a_sentence(scenario, status, says, seconds, simulate, signed_in, reference):
    outcome = signed_in(simulate(scenario)).ask(status=status, says=says, timeout=seconds + 30)
    assert outcome.seconds <= seconds * PATIENCE, outcome
    assert reference.rstrip().startswith(outcome.output.rstrip()), outcome


@pytest.mark.parametrize("scenario, seconds", HARMLESS.items())
def test_a_fault_does_no_harm(scenario, seconds, simulate, signed_in, reference):
    outcome = signed_in(simulate(scenario)).ask(timeout=seconds + 30)
    assert outcome.output == reference and outcome.seconds <= seconds * PATIENCE, outcome


@pytest.mark.parametrize("scenario, status, says, options", WEB_SOCKET_FAILING)
def test_a_fault_of_web_socket_ends_in_a_sentence(scenario, status, says, options, simulate, signed_in, reference):
    outcome = signed_in(simulate(scenario)).run("--timeout", "5", "ask", *options, QUESTION, status=status, says=says)
    assert reference.rstrip().startswith(outcome.output.rstrip()), outcome


def test_a_fault_of_web_socket_does_no_harm(quiet_scenario, simulate, signed_in, reference):
    outcome = signed_in(simulate(quiet_scenario)).run("--timeout", "5", "ask", QUESTION)
    assert outcome.output == reference and outcome.seconds <= 25 * PATIENCE, outcome


@pytest.mark.stalls
def test_silence_ends_at_its_deadline(simulate, signed_in):
    """All at once: nothing happens meanwhile."""
    def stall(scenario, least, most, user):
        outcome = user.ask(status=UNAVAILABLE, timeout=most + 30)
        assert least - 2 <= outcome.seconds <= most * PATIENCE, f"{scenario}: {outcome}"

    cases = [(scenario, *times, signed_in(simulate(scenario))) for scenario, times in STALLS.items()]
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        for done in [pool.submit(stall, *case) for case in cases]:
            done.result()


@pytest.mark.slow
def test_an_answer_is_cut_at_every_97th_byte(simulate, signed_in, reference):
    """By FIN and by RST in turn, until a cut comes after the end."""
    effects = [{"cut": {"afterBytes": 97 * index, "with": ("fin", "rst")[index % 2]}} for index in range(400)]
    user = signed_in(simulate(rules=[{"match": {**TURN, "nth": index + 1}, "effect": effect} for index, effect in enumerate(effects)]))
    whole = early = 0
    while whole < 3:
        outcome = user.ask(status=None)
        place = f"cut after {97 * (whole + early)} bytes: {outcome}"
        if outcome.status == 0:
            whole += 1
            assert outcome.output == reference, place
        else:
            early += 1
            assert whole == 0 and reference.startswith(outcome.expect(UNAVAILABLE).output.rstrip()), place
    assert early > 10


def test_a_conversation_uses_one_web_socket(simulate, signed_in):
    simulator = simulate()
    user = signed_in(simulator)
    user.run("chat", input="one\ntwo\nthree\nfour\n")
    assert sum(" 101" in line for line in simulator.log) == 1, simulator.log
    user.run("ask", "--json", QUESTION)
    assert user.run("status", "--json").events[0]["last_answer"]["transport"] == {"kind": "websocket", "reconnects": 0, "fell_back": False}
    assert "websocket, 0 reconnects" in user.run("status", "--verbose").output


def test_an_address_that_answers_otherwise_is_named(simulate, signed_in):
    simulator = simulate()
    signed_in(simulator, CHAPPIE_BACKEND=f"https://127.0.0.1:{simulator.port}/backend-api").ask(status=UNAVAILABLE, says="127.0.0.1")
    user = signed_in(simulator)
    simulator.close()
    user.ask(status=UNAVAILABLE, says="127.0.0.1")


@pytest.mark.parametrize("name, value, says", [
    ("CHAPPIE_CA_FILE", "missing.pem", "missing.pem"), ("CHAPPIE_CA_FILE", "garbage.pem", "garbage.pem"),
    ("CHAPPIE_BACKEND", "not an address", "CHAPPIE_BACKEND"), ("CHAPPIE_ISSUER", "ftp://localhost", "CHAPPIE_ISSUER"),
    ("CHAPPIE_CREDENTIAL_STORE", "drawer", "CHAPPIE_CREDENTIAL_STORE"),
    ("CHAPPIE_BACKEND", "http://example.org/backend-api", "example.org"),
])
def test_a_setting_that_cannot_be_used_is_named(name, value, says, simulate, signed_in, tmp_path):
    (tmp_path / "garbage.pem").write_text("not a certificate\n")
    user = signed_in(simulate()).having(**{name: str(tmp_path / value) if value.endswith(".pem") else value})
    user.ask(status=USAGE, says=says)
    user.run("login", "--no-browser", status=USAGE, says=says)


def test_what_is_missing_is_said(user, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        user().run("simulator", "--port", port, status=UNAVAILABLE, says=port)
    user().having(DBUS_SESSION_BUS_ADDRESS=None, XDG_RUNTIME_DIR=str(tmp_path)).ask(status=UNAVAILABLE, says="keyring")
    user().ask(status=SIGN_IN_NEEDED, says="login")
    user().run("ask", status=USAGE)


def test_escape_sequences_are_data_in_a_pipe_and_shown_in_a_terminal(simulate, signed_in):
    clear, clipboard = "\x1b[2J", "\x1b]52;c;YQ==\x07"
    sequences = clear + clipboard
    models = {"match": {"method": "GET", "path": "/backend-api/codex/models"},
              "effect": {"body": {"models": [{"slug": "m", "display_name": sequences}]}}}
    usage = {"match": {"method": "GET", "path": "/backend-api/wham/usage"}, "effect": {"body": {"plan_type": sequences}}}
    user = signed_in(simulate(rules=[models, usage]))
    for words in (["ask", "--transport", "sse", "reply: " + sequences], ["models"], ["usage"]):
        assert sequences in user.run(*words).output, words
        status, text = user.converse(*words)
        assert status == 0 and "\N{REPLACEMENT CHARACTER}[2J" in text, (words, status, text)
        assert clear not in text and clipboard not in text, f"{words} obeys a server: {text!r}"
    failing = simulate(rules=[{"match": TURN, "effect": {"status": 400, "body": {"error": {"message": sequences}}}}])
    assert "\x1b" not in signed_in(failing).ask(status=UNAVAILABLE, says="\N{REPLACEMENT CHARACTER}[2J").errors


def test_numbers_that_no_integer_and_no_calendar_holds(simulate, signed_in):
    window = {"used_percent": 1e300, "limit_window_seconds": 18000, "reset_at": 1e300}
    limited = {"plan_type": "plus", "rate_limit": {"primary_window": window}}
    user = signed_in(simulate(rules=[
        {"match": TURN, "effect": {"headers": {"x-codex-primary-used-percent": "1e19", "x-codex-primary-reset-at": "1e300"}}},
        {"match": {"method": "GET", "path": "/backend-api/wham/usage"}, "effect": {"body": limited}}]))
    user.ask(says="1000000 % of the short-term")
    assert "1000000 % of 5 h" in user.run("usage").output
    user.expect_finding("limits", "fail", "1000000 %")
    limit = {"type": "usage_limit_reached", "message": "Enough.", "resets_at": 1e300, "resets_in_seconds": 1e300}
    failing = simulate(rules=[{"match": TURN, "effect": {"status": 429, "body": {"error": limit}}}])
    signed_in(failing).ask(status=USAGE_LIMIT, says="Enough.")


def test_what_the_service_answers_is_stored_when_the_terminal_is_closed(simulate, signed_in, stack):
    slow = {"match": {"path": "/oauth/token", "bodyContains": '"refresh_token"'}, "effect": {"delayBeforeHead": 2}}
    simulator = simulate(rules=[slow], firstAccessTokenLifetime=60)
    witness = stack.enter_context(Forwarder(simulator.port))
    user = signed_in(simulator, CHAPPIE_ISSUER=f"http://127.0.0.1:{witness.port}")
    renewals = lambda: sum(bytes(heard).count(b'"grant_type":"refresh_token"') for heard in witness.heard)
    with user.start("ask", QUESTION, prefix=["env", "--default-signal=HUP"]) as process:
        wait_until(lambda: renewals() > 0, "a renewal")
        # The system tells of it, and so does the shell.
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == HUNG_UP, errors
    user.ask()
    assert renewals() == 1, "renewed again"
    with user.start("ask", "repeat 50000 words", prefix=["env", "--ignore-signal=HUP"]) as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGHUP)
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0 and len(output) > 100_000, (process.returncode, errors)
