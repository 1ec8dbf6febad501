"""The public surface of the libraries in a build: symbol graphs are read and probes type-checked; nothing is linked or run."""

import json
import plistlib
import re
import subprocess

import pytest

from conftest import ROOT
from tree import manifest

pytestmark = pytest.mark.packages
REEXPORTED = ["ChappieCore", "ChappieJSONSchema", "ChappieAuth", "ChappieClient"]
LIBRARIES = REEXPORTED + ["ChappieSDK", "ChappieCurl", "ChappieHTTP", "ChappieURLSession", "ChappieWebSocket",
                          "ChappieCrypto", "ChappieKeychainLinux", "ChappieKeychainApple", "ChappieDesktopLinux",
                          "ChappieLoopback", "ChappieSignInUI"]
# Warns where a secret is put into text.
# `stream(…).text` exists for streams of our own events alone.
ALLOWED = {"DefaultStringInterpolation.appendInterpolation(_:)", "AsyncSequence.text"}
TYPES = {"swift.struct", "swift.class", "swift.enum", "swift.protocol", "swift.actor", "swift.typealias", "swift.macro"}


@pytest.fixture(scope="module")
def search():
    """The compiler's options to find the modules of the debug build, which has all of them."""
    build = ROOT / ".build/debug"
    options = ["-I", str(build / "Modules")]
    for pattern in ("Packages/*/*/Sources/C*", ".build/checkouts/*/Sources/*"):
        for folder in sorted(ROOT.glob(f"{pattern}/include")):
            maps = (folder / "module.modulemap", build / f"{folder.parent.name}.build/module.modulemap")
            for found in [path for path in maps if path.exists()][:1]:
                options += ["-Xcc", f"-fmodule-map-file={found}", "-Xcc", f"-I{folder}"]
    return options


@pytest.fixture(scope="module")
def symbols(search, tmp_path_factory):
    """(module, name of the extended module or None, dotted name, symbol) of everything public, not what is synthesized."""
    folder, found = tmp_path_factory.mktemp("symbols"), []
    triple = json.loads(subprocess.run(["swiftc", "-print-target-info"], capture_output=True, text=True, check=True).stdout)
    for module in LIBRARIES:
        subprocess.run(["swift-symbolgraph-extract", "-module-name", module, "-minimum-access-level", "public", "-skip-synthesized-members",
                        "-target", triple["target"]["triple"], "-output-dir", folder, *search],
                       check=True, capture_output=True)
        for path in sorted(folder.glob(f"{module}[.@]*symbols.json")):
            extended = path.name.removesuffix(".symbols.json").partition("@")[2]
            found += [(module, None if extended in LIBRARIES else extended or None, ".".join(symbol["pathComponents"]), symbol)
                      for symbol in json.loads(path.read_text())["symbols"]]
    return found


@pytest.fixture
def errors(search, tmp_path):
    def check(program):
        (tmp_path / "probe.swift").write_text(program)
        command = ["swiftc", "-typecheck", "-swift-version", "6", *search, tmp_path / "probe.swift"]
        return subprocess.run(command, capture_output=True, text=True).stderr
    return check


def test_only_spi_adds_members_to_types_of_others(symbols):
    assert not [(module, name, extended) for module, extended, name, symbol in symbols if extended and name not in ALLOWED]


def test_no_public_declaration_mentions_a_type_of_c(symbols):
    assert not [(module, name, part["spelling"]) for module, _, name, symbol in symbols
                for part in symbol.get("declarationFragments", []) if part.get("preciseIdentifier", "").startswith("c:")]


def test_every_name_that_the_sdk_brings_begins_with_chappie_and_every_such_name_of_the_domain_comes(symbols, errors):
    names = {name for module, extended, name, symbol in symbols
             if module in REEXPORTED and not extended and "." not in name and symbol["kind"]["identifier"] in TYPES}
    said = errors("import ChappieSDK\n" + "".join(f"func probe(_: {name}.Type) {{}}\n" for name in sorted(names)))
    hidden = set(re.findall(r"cannot find (?:type )?'(\w+)' in scope", said))
    assert hidden and len(names) > 50, f"the probe says nothing: {said}"
    assert {name for name in names if name.startswith("Chappie")} == names - hidden


def test_the_testing_product_comes_in_one_import(errors):
    assert "error:" not in errors("import ChappieSDKTesting\nlet seed: SeededAuth? = nil\nlet simulator: Simulator? = nil\n")


def test_the_privacy_manifest_declares_what_an_account_is_known_by_for_the_apps_own_work_and_no_tracking():
    """The bundle of it is made on Apple platforms alone: a resource on Linux would link all of Foundation."""
    privacy = plistlib.loads((ROOT / "Packages/facade/ChappieSDK/Sources/ChappieSDK/PrivacyInfo.xcprivacy").read_bytes(), fmt=plistlib.FMT_XML)
    for_the_app = {"NSPrivacyCollectedDataTypeLinked": True, "NSPrivacyCollectedDataTypeTracking": False,
                   "NSPrivacyCollectedDataTypePurposes": ["NSPrivacyCollectedDataTypePurposeAppFunctionality"]}
    collected = ["NSPrivacyCollectedDataTypeUserID", "NSPrivacyCollectedDataTypeEmailAddress"]
    # The modules that call what needs a reason have manifests of their own: Scripts/lib/privacy.py.
    assert privacy == {
        "NSPrivacyTracking": False, "NSPrivacyTrackingDomains": [], "NSPrivacyAccessedAPITypes": [],
        "NSPrivacyCollectedDataTypes": [{"NSPrivacyCollectedDataType": kind, **for_the_app} for kind in collected]}
    for folder in (ROOT, ROOT / "Packages/facade/ChappieSDK"):
        target = next(target for target in manifest(folder)["targets"] if target["name"] == "ChappieSDK")
        assert (target["resources"], target["exclude"]) == ([], ["PrivacyInfo.xcprivacy"])
