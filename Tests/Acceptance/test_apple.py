"""The composition of Apple's platforms, run here: URLSession over FoundationNetworking, Network.framework over sockets, the keychain's
calls over a list in memory. It does with a simulator what the documentation's app does."""

import json
import subprocess
import sys

import pytest

from conftest import ROOT
from counterparts import PATIENCE

sys.path.insert(0, str(ROOT / "Scripts/lib"))
import swiftui

REFRESH, CALL = "POST /oauth/token", 'call weather {"name": "Oslo"}'
# A message of a WebSocket has its connection behind the status.
UPGRADED, REFUSED, EVENTS = [f"{line} /backend-api/codex/responses {status}" for line, status in (("GET", 101), ("GET", 426), ("POST", 200))]

pytestmark = pytest.mark.xdist_group("apple")


@pytest.fixture(scope="session")
def documents_run():
    """The program of Tests/SwiftUICheck, which Scripts/check compiles as well."""
    swiftui.build()
    return swiftui.BUILD / "documents-run"


@pytest.fixture
def run(documents_run, tmp_path):
    """`run(simulator, "sign-in", "ask:reply: here")`: what each step says. Programs share the keychain of their access group."""
    def run(simulator, *steps, programs=1):
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "STANDIN_KEYCHAIN": str(tmp_path / "keychain"), **simulator.settings}
        programs = [subprocess.Popen([documents_run, tmp_path / f"threads-{number}", *steps], env=environment, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE) for number in range(programs)]
        outputs = [program.communicate(timeout=120 * PATIENCE) for program in programs]
        assert all(program.returncode == 0 for program in programs), outputs
        said = [json.loads(line) for line in outputs[0][0].splitlines()]
        assert [line["step"] for line in said] == [step.split(":")[0] for step in steps]
        for output, _ in outputs[1:]:
            assert [json.loads(line) | {"state": ""} for line in output.splitlines()] == [line | {"state": ""} for line in said]
        return said
    return run


def test_the_documents_app_signs_in_asks_calls_a_tool_keeps_a_thread_and_signs_out(run, simulate):
    simulator = simulate(pollInterval=0)
    before, signed_in, account, answer, streamed, called, kept, threads, out, refused = run(
        simulator, "status", "sign-in", "status", "ask:reply: here", "stream:reply: in pieces", f"ask:{CALL}", "keep:reply: kept",
        "threads", "sign-out", "ask:reply: gone")
    assert before["state"] == "signedOut" and "signedIn" in signed_in["state"] and account["plan"]
    assert "Preparing sign in|Open ChatGPT sign in" in signed_in["titles"]
    assert "opened http" in signed_in["desk"] and "copied " in signed_in["desk"] and "ChatGPT Linked!" in signed_in["desk"]
    assert [line["answer"] for line in (answer, streamed, kept)] == ["here", "in pieces", "kept"]
    assert "Sunny in Oslo" in called["answer"]
    assert threads["threads"] == "reply: kept"
    assert out["state"] == "signedOut" and refused["error"] == "missingCredential"
    assert UPGRADED in simulator.log and EVENTS not in simulator.log


def test_a_service_without_websockets_answers_by_server_sent_events(run, simulate):
    simulator = simulate(webSocket=False)
    _, answer = run(simulator, "sign-in", "ask:reply: here")
    assert answer.get("answer") == "here", answer
    assert REFUSED in simulator.log and EVENTS in simulator.log


def test_eight_clients_renew_an_expired_token_once(run, simulate):
    simulator = simulate(pollInterval=0, revokesFamilyOnReuse=True, firstAccessTokenLifetime=0)
    _, race = run(simulator, "sign-in", "race:8")
    assert race["answers"].split() == ["here"] * 8
    assert sum(REFRESH in line for line in simulator.log) == 2  # The exchange of the code, and one renewal.


def test_an_app_and_its_extensions_share_a_credential_by_their_access_group_alone(run, simulate, tmp_path):
    """The service ends a sign-in whose refresh token arrives twice."""
    simulator = simulate(pollInterval=0, revokesFamilyOnReuse=True, firstAccessTokenLifetime=0)
    signed_in, = run(simulator, "sign-in")
    assert "signedIn" in signed_in["state"], signed_in
    race, = run(simulator, "race:4", programs=4)
    assert race.get("answers", "").split() == ["here"] * 4, race
    assert sum(REFRESH in line for line in simulator.log) == 2
    out, = run(simulator, "sign-out")
    after, refused = run(simulator, "status", "ask:reply: gone")
    assert out["state"] == after["state"] == "signedOut" and refused["error"] == "missingCredential"
    folders = [path for path in (tmp_path / "home").rglob("*") if path.name in ("locks", "registrations")]
    assert not folders, "a lock or a registration is in a folder of one program"


def test_background_time_ends_with_its_hold_and_begins_again_after_it_has_expired(run, simulate):
    said, = run(simulate(), "background")
    assert said["activities"] == "1 0 1 0 1 0"


def test_a_switch_over_the_state_that_removes_the_button_ends_no_sign_in(run, simulate):
    said, = run(simulate(pollInterval=0), "switch")
    assert said["states"] == "signedOut|signingIn|awaitingDeviceCode|signedIn" and said["link"].startswith("linked")


def test_a_refused_token_is_renewed_and_the_question_asked_again(run, simulate):
    simulator = simulate("unauthorized-once")
    _, answer = run(simulator, "sign-in", "ask:reply: again")
    assert answer.get("answer") == "again", answer


def test_an_answer_that_is_cut_is_asked_for_again(run, simulate):
    simulator = simulate("cut")
    _, answer = run(simulator, "sign-in", "ask:reply: whole")
    assert answer.get("answer") == "whole", answer


@pytest.mark.parametrize("end, state", [("close", "cancelled"), ("cancel", "cancelled"), ("return", "polling")])
def test_the_plans_page_inside_the_app_closes_with_the_sign_in_and_a_user_who_closes_it_cancels(documents_run, simulate, tmp_path, end, state):
    # The exchange waits for longer than the program runs: the stand-in of CryptoKit has no SHA-256, so the code would be refused.
    simulator = simulate(rules=[{"match": {"path": "/api/accounts/oauth/token"}, "effect": {"delayBeforeHead": 600}}])
    done = subprocess.run([documents_run.with_name("page-run"), end], env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **simulator.settings},
                          capture_output=True, text=True, timeout=60 * PATIENCE)
    assert done.returncode == 0, done.stderr
    without_a_window, url, ended = done.stdout.splitlines()
    assert "no window" in without_a_window
    # The issuer's own page, which the system names to the user, and not an address of this machine.
    assert url.startswith(simulator.issuer + "/api/accounts/authorize?")
    assert ended.startswith(state), ended


def test_the_adapter_of_network_framework_passes_its_tests(documents_run):
    """Its program has the contract of WebSockets, TLS and proxies, each against real servers."""
    done = subprocess.run([documents_run.with_name("network-tests"), "--testing-library", "swift-testing"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300 * PATIENCE)
    assert done.returncode == 0 and " passed after " in done.stdout, done.stdout
