"""Compares what an app for Apple's platforms links with the privacy manifests: privacy.py

App Store Connect rejects an app with an API that needs a reason and with no manifest that declares one. Each module has its own
manifest, because an app may link only some of them. What needs a reason is in required-reasons.json, Apple's list.
"""

import glob
import json
import os
import plistlib
import re

import tree
from conditions import compiled_for_apple

LIST = os.path.join(os.path.dirname(__file__), "required-reasons.json")
PREFIX, NAME = "NSPrivacyAccessedAPICategory", "PrivacyInfo.xcprivacy"


def categories():
    with open(LIST, encoding="utf-8") as stream:
        return json.load(stream)["categories"]


def found(symbol, line):
    """Whether a line of code has the symbol. A C function has arguments: `stat()` is an empty value of the type."""
    return re.search(rf"(?<!\w){re.escape(symbol)}" + (r"(?!\s*\))" if symbol.endswith("(") else r"\b"), line)


def hits(folder, known):
    """category -> the first place of each symbol in the Swift and C files of a module, as far as Apple's systems compile them"""
    places = {}
    for path in sorted(path for ending in ("swift", "c", "h") for path in glob.glob(f"{folder}/**/*.{ending}", recursive=True)):
        for number, line in compiled_for_apple(tree.read(path)):
            for category, entry in known.items():
                for symbol in filter(lambda symbol: found(symbol, line), entry["symbols"]):
                    places.setdefault(category, {}).setdefault(symbol, f"{tree.relative(path)}:{number}")
    return places


def declared(path, known):
    """category -> reasons of a manifest, and the problems with it"""
    with open(path, "rb") as stream:
        manifest = plistlib.load(stream, fmt=plistlib.FMT_XML)
    missing = {"NSPrivacyTracking", "NSPrivacyTrackingDomains", "NSPrivacyCollectedDataTypes", "NSPrivacyAccessedAPITypes"} - set(manifest)
    problems = [f"{tree.relative(path)}: lacks {key}" for key in sorted(missing)]
    reasons = {}
    for entry in manifest.get("NSPrivacyAccessedAPITypes", []):
        category = entry["NSPrivacyAccessedAPIType"].removeprefix(PREFIX)
        reasons[category] = entry["NSPrivacyAccessedAPITypeReasons"]
        if category not in known:
            problems.append(f"{tree.relative(path)}: Apple has no category {entry['NSPrivacyAccessedAPIType']}")
            continue
        problems += [f"{tree.relative(path)}: Apple has no reason {reason} for {category}"
                     for reason in reasons[category] if reason not in known[category]["reasons"]]
        problems += [f"{tree.relative(path)}: gives no reason for {category}"] * (not reasons[category])
    return reasons, problems


def differences(name, folder, known):
    """The problems of one module."""
    path = f"{folder}/{NAME}"
    reasons, problems = declared(path, known) if os.path.exists(path) else ({}, [])
    used = hits(folder, known)
    # The getattrlist functions are in two categories, of which one reason is enough.
    for category, places in used.items():
        problems += [f"{place}: {symbol.rstrip('(')} needs a reason for {category} in {tree.relative(path)}"
                     for symbol, place in places.items()
                     if not any(symbol in known[other]["symbols"] for other in reasons if other in known)]
    problems += [f"{tree.relative(path)}: declares {category}, which {name} does not use" for category in reasons
                 if category in known and category not in used]
    return problems


def copied(text):
    """The targets that have a privacy manifest as a resource in a manifest that is read on a Mac."""
    targets = tree.printed_manifest(text.replace("#if os(macOS)", "#if os(Linux)"))["targets"]
    return {target["name"] for target in targets
            if target["resources"] == [{"path": NAME, "rule": {"copy": {}}}] and NAME not in target.get("exclude", [])}


def main():
    known = categories()
    targets = {name: target for linked in tree.linked_by_apps().values() for name, target in linked.items()}
    have = {name for name, target in targets.items() if os.path.exists(f"{tree.ROOT}/{target['path']}/{NAME}")}
    problems = []
    for name, target in sorted(targets.items()):
        problems += differences(name, f"{tree.ROOT}/{target['path']}", known)
    problems += [f"Package.swift: {name} has {NAME} as a resource and not as a file, or the reverse"
                 for name in sorted(copied(tree.read(f"{tree.ROOT}/Package.swift")) ^ have)]
    for name in sorted(have):
        path = f"{tree.ROOT}/{'/'.join(targets[name]['path'].split('/')[:3])}/Package.swift"
        if name not in copied(tree.read(path)):
            problems.append(f"{tree.relative(path)}: {NAME} is no resource of {name} on a Mac")
    tree.report(problems, f"{len(targets)} modules declare what they use")


if __name__ == "__main__":
    main()
