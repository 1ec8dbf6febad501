"""What the scripts say of code that an app for Apple's platforms links: APIs that need a declared reason, and what only Linux has."""

import plistlib

import pytest

from conftest import ROOT

import privacy
import tree


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
