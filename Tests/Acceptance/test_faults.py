"""What the service can do: a scenario of the simulator ends in the right text, or in one sentence and the right exit code, within its
deadline."""

import concurrent.futures
import json
import shutil
import signal
import socket

import pytest

from conftest import BAD_DATA, HUNG_UP, QUESTION, SIGN_IN_NEEDED, TURN, UNAVAILABLE, USAGE, USAGE_LIMIT
from counterparts import PATIENCE, wait_until
from witnesses import Forwarder

# Exit code, what standard error must say, scenarios.
FAILING = [
    (SIGN_IN_NEEDED, "login", ["unauthorized-storm", "ws-401"]),
    (USAGE_LIMIT, "reset", ["usage-limit", "ws-usage-limit", "ws-error-usage-limit"]),
    (USAGE_LIMIT, "2037", ["rate-limit-far-date"]), (USAGE_LIMIT, "plan", ["usage-not-included"]),
    (UNAVAILABLE, "sign in to the network", ["html"]),
    (BAD_DATA, "", ["not-json", "too-giant-event", "ws-wrong-accept"]),
    (UNAVAILABLE, "429", ["rate-limit"]), (UNAVAILABLE, "500", ["server-error-forever"]), (UNAVAILABLE, "426", ["ws-426"]),
    (UNAVAILABLE, "region", ["pinned-workspace-elsewhere"]),
    (UNAVAILABLE, "", ["overloaded", "bad-request", "blocked", "redirect-elsewhere", "cut-forever", "cut-clean", "hang-up",
                       "hang-up-rst", "failed", "failed-context-length", "ws-cut-forever", "ws-rst"]),
]
ROWS = [(scenario, status, says) for status, says, scenarios in FAILING for scenario in scenarios]
# Deadlines of the program, in seconds, with room for a busy machine: its own, and those of `--timeout 10`.
# A request of which nothing came is sent once more.
STALLS = {"stall-before-head": (600, 680), "stall-before-body": (600, 680), "stall": (300, 340)}
SHORT_STALLS = {**dict.fromkeys(STALLS, (20, 50)), "stall": (10, 40)}
REFUSED_MODELS = ["model-unsupported", "model-newer-version", "model-not-found"]
# A few that must not be noticed. IntegrationTests asks under all of them.
QUIET = ["crlf", "cut", "cut-rst", "drip", "no-completed", "rate-limit-retry-after", "server-error-once", "short-tokens", "unauthorized-once", "ws-401-once",
         "ws-cut", "ws-fragmented-pings", "ws-hang-once", "ws-no-deflate", "ws-previous-not-found"]
# Those that have to do without the other transport, which would help.
WEB_SOCKET_ONLY = {"ws-426", "ws-cut-forever", "ws-rst", "ws-wrong-accept"}


def ask(user, scenario, **expected):
    """Over server-sent events, unless it is a scenario of WebSocket."""
    over_web_socket = scenario.startswith("ws-")
    transport = "websocket" if scenario in WEB_SOCKET_ONLY else "auto" if over_web_socket else "sse"
    return user.ask(QUESTION, *(["--timeout", "5"] if over_web_socket else []), transport=transport, **expected)


@pytest.mark.parametrize("scenario, status, says", ROWS)
def test_a_fault_ends_in_a_sentence(scenario, status, says, simulate, signed_in, reference):
    outcome = ask(signed_in(simulate(scenario)), scenario, status=status, says=says)
    assert reference.rstrip().startswith(outcome.output.rstrip()), outcome


@pytest.mark.parametrize("scenario", QUIET)
def test_a_fault_does_no_harm(scenario, simulate, signed_in, reference):
    assert ask(signed_in(simulate(scenario)), scenario).output == reference


@pytest.mark.parametrize("transport", ["sse", "websocket"])
def test_an_answer_that_breaks_in_its_middle_starts_again(transport, simulate, signed_in, reference, tmp_path):
    """The repeated answer has other words, as a model's has."""
    target = tmp_path / "answer.txt"
    said = "The connection broke. The answer starts again:"
    user = signed_in(simulate("diverge"))
    outcome = user.ask(transport=transport, says=said)
    again = user.ask(transport=transport).output
    assert outcome.output.endswith("\n" + again) and again != reference, outcome
    assert reference.startswith(outcome.output.removesuffix("\n" + again)), outcome
    assert user.run("threads", "show", user.run("threads", "--json").events[0]["threads"][-1]["id"]).output.count(again.rstrip()) == 1

    quiet = signed_in(simulate("diverge")).ask(QUESTION, "-o", str(target), transport=transport)
    assert quiet.output == "" and said not in quiet.errors and target.read_text() == again, quiet

    events = signed_in(simulate("diverge")).ask(QUESTION, "--json", transport=transport).events
    index = next(index for index, event in enumerate(events) if event["type"] == "restarted")
    text = lambda some: "".join(event["text"] for event in some if event["type"] == "text_delta")
    assert text(events[:index]) == events[index]["discarded"] and text(events[index:]) == again.rstrip("\n")
    assert events[-1]["response"]["text"] == again.rstrip("\n"), events[-1]

    status, shown = signed_in(simulate("diverge")).converse("ask", "--transport", transport, QUESTION)
    assert status == 0 and said in shown, shown


def test_the_part_of_an_answer_that_was_shown_is_kept(simulate, signed_in):
    user = signed_in(simulate("cut-forever"))
    shown = user.ask(status=UNAVAILABLE).output.rstrip()
    kept = user.run("threads", "show").output
    assert shown and QUESTION in kept and shown in kept, kept
    assert "The connection broke before the answer was complete." in kept, kept


def stream(*events):
    """A rule: turns are answered with these events."""
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return {"match": TURN, "effect": {"body": body, "headers": {"content-type": "text/event-stream"}}}


def done(text, **members):
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **members}
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


CREATED = {"type": "response.created", "response": {"id": "resp_1"}}
COMPLETED = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}}


@pytest.mark.parametrize("options", [[], ["-o"]])
@pytest.mark.parametrize("events, text", [
    ([CREATED, COMPLETED], None),
    ([CREATED, done(""), COMPLETED], None),
    ([CREATED, {"type": "response.output_item.done", "item": {"type": "reasoning", "summary": []}}, COMPLETED], None),
    ([CREATED, done("Pong.", phase="commentary"), done("", phase="final_answer"), COMPLETED], "Pong.\n"),
    ([CREATED, done("Pong."), {"type": "response.done", "response": {"id": "resp_1"}}], "Pong.\n"),
    ([CREATED, done("Pong.")], "Pong.\n"),
    ([CREATED, done("Salt.\ue200cite\ue202turn1view0\ue201 Wide."), COMPLETED], "Salt. Wide.\n"),
])
def test_an_answer_is_printed_or_said_to_be_empty(events, text, options, simulate, signed_in, tmp_path):
    target = tmp_path / "answer.txt"
    user = signed_in(simulate(rules=[stream(*events)]))
    words = [*options, str(target)] if options else []
    if text is None:
        user.ask(QUESTION, *words, status=UNAVAILABLE, says="The answer has no text.")
        return
    outcome = user.ask(QUESTION, *words)
    assert (target.read_text() if options else outcome.output) == text, outcome
    assert "\ue200" not in user.ask(QUESTION, "--json").output + user.run("threads", "show").output


@pytest.mark.parametrize("transport", ["sse", "websocket"])
@pytest.mark.parametrize("scenario", REFUSED_MODELS)
def test_a_model_that_is_refused_has_a_replacement_unless_it_was_named(scenario, transport, simulate, signed_in):
    user = signed_in(simulate(scenario))
    answered = user.ask(QUESTION, transport=transport, says="Using gpt-6-astra.")
    assert "Model: `gpt-6-astra`" in answered.output, answered
    # The refusal is remembered.
    again = user.ask(QUESTION, transport=transport)
    assert "Model: `gpt-6-astra`" in again.output and not again.errors, again
    assert user.run("models").output.splitlines()[0].startswith("gpt-6-astra ")
    user.ask(QUESTION, "-m", "gpt-6.1-sol", transport=transport, status=USAGE, says="gpt-6.1-sol")


@pytest.mark.stalls
def test_silence_ends_at_its_deadline(simulate, signed_in, full):
    """All at once: nothing happens meanwhile."""
    def stall(scenario, least, most, user):
        outcome = user.ask(QUESTION, *([] if full else ["--timeout", "10"]), status=UNAVAILABLE, timeout=most + 30)
        assert least - 2 <= outcome.seconds <= most * PATIENCE, f"{scenario}: {outcome}"

    deadlines = STALLS if full else SHORT_STALLS
    cases = [(scenario, *times, signed_in(simulate(scenario))) for scenario, times in deadlines.items()]
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        for done in [pool.submit(stall, *case) for case in cases]:
            done.result()


def test_what_is_missing_is_said(user, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        user().run("simulator", "--port", port, status=UNAVAILABLE, says=port)
        user(CHAPPIE_BACKEND="http://example.org/backend-api").ask(status=USAGE, says="example.org")
    user(DBUS_SESSION_BUS_ADDRESS=None, XDG_RUNTIME_DIR=str(tmp_path)).ask(status=UNAVAILABLE, says="keyring")
    user().ask(status=SIGN_IN_NEEDED, says="login")
    user().run("ask", status=USAGE)


def test_a_simulator_that_is_not_beside_the_program_is_named(program, user, tmp_path):
    alone = user()
    alone.program = shutil.copy(program, tmp_path / "chappie")
    alone.run("simulator", status=UNAVAILABLE, says=f"{tmp_path}/chappie-simulator")
    failure = json.loads(alone.run("simulator", "--json", status=UNAVAILABLE).output)["error"]
    assert failure["code"] == "simulator_missing" and "README.md" in failure["suggestion"], failure


def test_escape_sequences_are_data_in_a_pipe_and_shown_in_a_terminal(simulate, signed_in):
    clear, clipboard = "\x1b[2J", "\x1b]52;c;YQ==\x07"
    models = [{"slug": "gpt-6.1-sol", "use_responses_lite": True, "display_name": clear + clipboard}]
    user = signed_in(simulate(rules=[{"match": {"path": "/backend-api/codex/models"}, "effect": {"body": {"models": models}}}]))
    for words in (["ask", "--transport", "sse", "reply: " + clear + clipboard], ["models"]):
        assert clear + clipboard in user.run(*words).output, words
        status, text = user.converse(*words)
        assert status == 0 and "\N{REPLACEMENT CHARACTER}[2J" in text, (words, status, text)
        assert clear not in text and clipboard not in text, f"{words} obeys a server: {text!r}"
    failing = simulate(rules=[{"match": TURN, "effect": {"status": 400, "body": {"error": {"message": clear}}}}])
    assert "\x1b" not in signed_in(failing).ask(status=UNAVAILABLE, says="\N{REPLACEMENT CHARACTER}[2J").errors


def test_what_the_service_answers_is_stored_when_the_terminal_is_closed(simulate, signed_in, stack):
    slow = {"match": {"path": "/oauth/token", "bodyContains": '"refresh_token"'}, "effect": {"delayBeforeHead": 2}}
    simulator = simulate(rules=[slow], firstAccessTokenLifetime=60)
    witness = stack.enter_context(Forwarder(simulator.port))
    user = signed_in(simulator, CHAPPIE_ISSUER=witness.origin)
    renewals = lambda: sum(bytes(heard).count(b'"grant_type":"refresh_token"') for heard in witness.heard)
    with user.start("ask", QUESTION, prefix=["env", "--default-signal=HUP"]) as process:
        wait_until(lambda: renewals() > 0, "a renewal")
        # The system tells of it, and so does the shell.
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        errors = process.communicate(timeout=60 * PATIENCE)[1]
    assert process.returncode == HUNG_UP, errors
    user.ask()
    assert renewals() == 1, "renewed again"
    with user.start("ask", "repeat 50000 words", prefix=["env", "--ignore-signal=HUP"]) as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGHUP)
        output, errors = process.communicate(timeout=120 * PATIENCE)
    assert process.returncode == 0 and len(output) > 100_000, (process.returncode, errors)
