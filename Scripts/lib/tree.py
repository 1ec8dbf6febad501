"""The source tree as the checks see it: Swift files, manifests, the law of imports."""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def relative(path):
    return os.path.relpath(path, ROOT)


def files(*endings, under=ROOT):
    """Files below a folder, build products and dot folders left out."""
    for folder, folders, names in os.walk(under):
        folders[:] = sorted(name for name in folders if not name.startswith(".") or name == ".ci")
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.join(folder, name)


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def manifest(folder):
    """What `swift package dump-package` says of one manifest; nothing is resolved."""
    command = ["swift", "package", "--package-path", folder, "dump-package"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{relative(folder) or '.'}: its manifest doesn't load:\n{done.stderr}")
    return json.loads(done.stdout)


def packages():
    """Folders of the nested packages."""
    folder = os.path.join(ROOT, "Packages")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if os.path.exists(os.path.join(folder, name, "Package.swift"))]


def source_folders():
    """Folders of all modules: Packages/*/Sources/* and Apps/*/Sources/*."""
    for upper in ("Packages", "Apps"):
        for name in sorted(os.listdir(os.path.join(ROOT, upper))):
            sources = os.path.join(ROOT, upper, name, "Sources")
            for module in sorted(os.listdir(sources)) if os.path.isdir(sources) else []:
                yield os.path.join(sources, module)


def dependency_names(target):
    """Names of what a target may import, without saying where each comes from."""
    names = set()
    for dependency in target["dependencies"]:
        kind, parts = next(iter(dependency.items()))
        if kind in ("byName", "target", "product"):
            names.add(parts[0])
    return names


def imports(text):
    """(line, module) for every import of a Swift file, comments and strings left out."""
    plain = re.sub(r'/\*.*?\*/', lambda found: "\n" * found.group().count("\n"), text, flags=re.S)
    plain = re.sub(r'"""(.*?)"""', lambda found: "\n" * found.group().count("\n"), plain, flags=re.S)
    pattern = re.compile(
        r"^\s*(?:@\w+(?:\([^)]*\))?\s+)*(?:public |package |internal |fileprivate |private )?import\s+"
        r"(?:(?:struct|class|enum|protocol|func|var|let|typealias)\s+)?(\w+)"
    )
    for number, line in enumerate(plain.splitlines(), 1):
        found = pattern.match(line)
        if found:
            yield number, found.group(1)


def conditional_imports(text):
    """Modules that a file imports only where they exist: `#if canImport(Combine)`. Foundation exists everywhere."""
    return set(re.findall(r"^\s*#if canImport\((\w+)\)\s*\n\s*(?:public |internal )?import \1$", text, flags=re.M)) - {"Foundation"}


def report(problems, fine):
    """Prints what is wrong and leaves with 1, or says what was looked at and leaves with 0."""
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(fine)
