"""The composition of Apple's platforms, run here: URLSession over FoundationNetworking, the keychain's calls over a list in memory. It does with a simulator what the documentation's app does."""

import json
import plistlib
import subprocess
import sys

import pytest

from conftest import ROOT
from counterparts import PATIENCE

sys.path.insert(0, str(ROOT / "Scripts/lib"))
import privacy
import swiftui
import tree

REFRESH, CALL = "POST /oauth/token", 'call weather {"name": "Oslo"}'

pytestmark = pytest.mark.xdist_group("apple")


@pytest.fixture(scope="session")
def documents_run():
    """The program of Tests/SwiftUICheck, which Scripts/check compiles as well."""
    swiftui.build()
    return swiftui.BUILD / "documents-run"


@pytest.fixture
def run(documents_run, tmp_path):
    """`run(simulator, "sign-in", "ask:reply: here")`: what each step says."""
    def run(simulator, *steps):
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), **simulator.settings}
        done = subprocess.run([documents_run, tmp_path / "threads", *steps], env=environment, capture_output=True, text=True,
                              timeout=120 * PATIENCE)
        assert done.returncode == 0, done.stderr
        said = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line["step"] for line in said] == [step.split(":")[0] for step in steps]
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
    # Without a WebSocket of its own, all of it came as server-sent events.
    assert not any("GET /backend-api/codex/responses" in line for line in simulator.log)


def test_eight_clients_renew_an_expired_token_once(run, simulate):
    simulator = simulate(pollInterval=0, revokesFamilyOnReuse=True, firstAccessTokenLifetime=0)
    _, race = run(simulator, "sign-in", "race:8")
    assert race["answers"].split() == ["here"] * 8
    assert sum(REFRESH in line for line in simulator.log) == 2  # The exchange of the code, and one renewal.


def test_a_refused_token_is_renewed_and_the_question_asked_again(run, simulate):
    simulator = simulate("unauthorized-once")
    _, answer = run(simulator, "sign-in", "ask:reply: again")
    assert answer.get("answer") == "again", answer


def test_an_answer_that_is_cut_is_asked_for_again(run, simulate):
    simulator = simulate("cut")
    _, answer = run(simulator, "sign-in", "ask:reply: whole")
    assert answer.get("answer") == "whole", answer


@pytest.fixture
def module(tmp_path):
    """`module(code, declared)`: what Scripts/lib/privacy.py says of a module with this code and this manifest."""
    def module(code, declared=None, name="Code.swift"):
        (tmp_path / name).write_text(code)
        if declared is not None:
            accessed = [{"NSPrivacyAccessedAPIType": f"NSPrivacyAccessedAPICategory{category}", "NSPrivacyAccessedAPITypeReasons": reasons}
                        for category, reasons in declared.items()]
            (tmp_path / "PrivacyInfo.xcprivacy").write_bytes(plistlib.dumps({
                "NSPrivacyTracking": False, "NSPrivacyTrackingDomains": [], "NSPrivacyCollectedDataTypes": [],
                "NSPrivacyAccessedAPITypes": accessed}))
        return "\n".join(privacy.differences("Module", str(tmp_path), privacy.categories()))
    return module


@pytest.mark.parametrize("code, category", [
    ("guard fstat(number, &status) == 0 else { return }", "FileTimestamp"),
    ("let values = try url.resourceValues(forKeys: [.contentModificationDateKey])", "FileTimestamp"),
    ("statfs(path, &found)", "DiskSpace"),
    ("let time = ProcessInfo.processInfo.systemUptime", "SystemBootTime"),
    ("UserDefaults.standard.set(true, forKey: key)", "UserDefaults"),
    ("@AppStorage(key) var isAllowed = false", "UserDefaults"),
    ("UITextInputMode.activeInputModes", "ActiveKeyboards"),
    ("#if os(Linux)\n#elseif os(iOS)\nstatfs(path, &found)\n#endif", "DiskSpace"),
])
def test_an_api_without_a_declared_reason_is_found(module, code, category):
    assert f"needs a reason for {category}" in module(code)
    assert f"needs a reason for {category}" in module(code, {})
    reason = next(iter(privacy.categories()[category]["reasons"]))
    assert module(code, {category: [reason]}) == ""


@pytest.mark.parametrize("code", [
    "var status = stat()", "// fstat(number, &status)", "try status(of: file)", "#if os(Linux)\nstatfs(path, &found)\n#endif",
    "#if canImport(Security)\n#else\nstatfs(path, &found)\n#endif", "#if canImport(Glibc) || canImport(Musl)\nlstat(path, &found)\n#endif",
])
def test_what_apples_systems_do_not_compile_and_what_only_looks_alike_needs_no_reason(module, code):
    assert module(code) == ""


def test_a_c_file_is_searched_as_well(module):
    assert "needs a reason for DiskSpace" in module("#ifdef __APPLE__\nint f(void) { return statfs(p, &s); }\n#endif", name="shim.c")
    assert module("#ifdef __linux__\nint f(void) { return statfs(p, &s); }\n#endif", name="shim.c") == ""


def test_a_manifest_that_declares_too_much_or_what_apple_does_not_know_is_found(module):
    assert "declares UserDefaults, which Module does not use" in module("", {"UserDefaults": ["CA92.1"]})
    assert "no reason CA92.1 for DiskSpace" in module("statfs(path, &found)", {"DiskSpace": ["CA92.1"]})
    assert "gives no reason for DiskSpace" in module("statfs(path, &found)", {"DiskSpace": []})
    assert "no category" in module("", {"Clock": ["CA92.1"]})


@pytest.mark.parametrize("text, found", [
    ("import Glibc\n", ["Glibc"]), ("public import FoundationEssentials\n", ["FoundationEssentials"]),
    ("#if canImport(Glibc)\n    import Glibc\n#else\n    import Darwin\n#endif\n", []), ("#if !canImport(Security)\nimport Glibc\n#endif", []),
    ("pipe2(&ends, 0)", ["pipe2"]), ("#if os(Linux)\npipe2(&ends, 0)\n#else\npipe2(&ends, 0)\n#endif", ["pipe2"]),
])
def test_what_only_linux_has_is_found_in_code_that_apples_systems_compile(text, found):
    assert [name for _, name in tree.linux_names(text)] == found


def test_one_place_refuses_the_platforms_that_are_not_supported():
    errors = [path for path in ROOT.glob("Packages/*/*/Sources/**/*.swift") if "#error(" in path.read_text()]
    assert [path.name for path in errors] == ["Foundation.swift"] and "/ChappieCore/" in str(errors[0])
