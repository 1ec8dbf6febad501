"""Checks imports against the table in ARCHITECTURE.md and against what each target declares.

The table's columns `module` and `may import` are the law; both its columns hold names of modules.
"""

import os
import sys

import tree

# What every module may import, as the table's introduction says. Full Foundation is never among it.
EVERYWHERE = {"FoundationEssentials", "Swift", "Synchronization", "Dispatch", "HTTPTypes"}
EVERYWHERE |= {"Glibc", "Musl", "Darwin", "Bionic", "Android"}


def cells(line):
    return [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]


def law():
    """module -> the modules that its row lets it import"""
    rows, header = {}, None
    for line in tree.read(os.path.join(tree.ROOT, "ARCHITECTURE.md")).splitlines():
        if not line.startswith("|"):
            header = None
            continue
        row = cells(line)
        if header is None:
            header = row
        elif "module" in header and "may import" in header and not set(row[0]) <= set("-: "):
            fields = dict(zip(header, row))
            rows[fields["module"]] = {name.strip() for name in fields["may import"].split(",")} - {""}
    if not rows:
        sys.exit("ARCHITECTURE.md has no table with the columns `module` and `may import`")
    return rows


def main():
    problems, looked_at = [], 0
    rows = law()
    targets = [target for target in tree.manifest(tree.ROOT)["targets"] if target["type"] != "test"]
    ours = {target["name"] for target in targets}
    paths = {os.path.normpath(os.path.join(tree.ROOT, target["path"])) for target in targets}
    for folder in tree.source_folders():
        if folder not in paths:
            problems.append(f"{tree.relative(folder)}: the root manifest has no target with this path")
    for name in sorted(set(rows) - ours):
        problems.append(f"ARCHITECTURE.md: its table has a row for {name}, which the root manifest doesn't know")
    for target in targets:
        name = target["name"]
        if name not in rows:
            problems.append(f"{name}: has no row in ARCHITECTURE.md's table; a new module needs one, and a reason")
            continue
        allowed = rows[name] | EVERYWHERE
        declared = tree.dependency_names(target)
        for dependency in sorted(declared - allowed):
            problems.append(f"Package.swift: the table doesn't let {name} depend on {dependency}")
        for path in tree.files(".swift", under=os.path.join(tree.ROOT, target["path"])):
            looked_at += 1
            text = tree.read(path)
            for line, imported in tree.imports(text):
                place = f"{tree.relative(path)}:{line}"
                if imported in tree.conditional_imports(text):
                    continue  # Another platform's own; it can't be seen from here.
                if imported == "Foundation":
                    problems.append(f"{place}: imports Foundation; libraries import FoundationEssentials")
                elif imported not in allowed:
                    problems.append(f"{place}: the table doesn't let {name} import {imported}")
                elif imported not in declared and (imported not in EVERYWHERE or imported == "HTTPTypes"):
                    problems.append(f"{place}: {name} imports {imported} without declaring it")
    tree.report(problems, f"{looked_at} files obey the table")


main()
