"""Checks that public API is documented: every public type, function, subscript and protocol requirement.

A stored property or an initialiser of a documented type may speak for itself. So may what satisfies a protocol: the
requirement carries the comment.
"""

import os
import re

import tree

TYPE = re.compile(r"^\s*(?:@\w+(?:\([^)]*\))?\s+)*public\s+(?:(?:final|indirect|nonisolated)\s+)*(struct|class|enum|actor|protocol|typealias)\s+(`?\w+`?)")
FUNCTION = re.compile(
    r"^\s*(?:@\w+(?:\([^)]*\))?\s+)*public\s+(?:(?:static|class|final|mutating|consuming|borrowing|nonisolated|override)\s+)*(func|subscript)\s*(`?[\w]*`?)"
)
REQUIREMENT = re.compile(r"^\s+(?:(?:static|mutating|nonisolated)\s+)*(func|var)\s+(`?\w+`?)")
ATTRIBUTE = re.compile(r"^\s*(@\w+(\([^)]*\))?|#if .*|#else.*|#endif.*)\s*$")
# Requirements of the standard library's own protocols.
WITNESSES = {"encode", "hash", "makeAsyncIterator", "makeIterator", "next", "index", "formIndex"}
WITNESSES |= {"Element", "AsyncIterator", "Iterator", "Failure", "Index", "RawValue"}


def documented(lines, index):
    index -= 1
    while index >= 0 and ATTRIBUTE.match(lines[index]):
        index -= 1
    return index >= 0 and (lines[index].lstrip().startswith("///") or lines[index].rstrip().endswith("*/"))


def main():
    problems, declarations = [], 0
    sources = []
    for folder in tree.packages():
        for path in tree.files(".swift", under=os.path.join(folder, "Sources")):
            sources.append((path, tree.read(path).splitlines()))
    requirements = set(WITNESSES)
    for _, lines in sources:
        depth = None
        for line in lines:
            found = TYPE.match(line)
            if found and found.group(1) == "protocol":
                depth = len(line) - len(line.lstrip())
            elif depth is not None and line.strip() == "}" and len(line) - len(line.lstrip()) == depth:
                depth = None
            elif depth is not None:
                found = REQUIREMENT.match(line)
                if found:
                    requirements.add(found.group(2))
    for path, lines in sources:
        protocol = None
        for index, line in enumerate(lines):
            name = None
            found = TYPE.match(line)
            if found:
                if found.group(1) != "typealias" or found.group(2) not in requirements:
                    name = f"{found.group(1)} {found.group(2)}"
                if found.group(1) == "protocol" and not line.rstrip().endswith("}"):
                    protocol = len(line) - len(line.lstrip())
            elif protocol is not None and line.strip() == "}" and len(line) - len(line.lstrip()) == protocol:
                protocol = None
            elif protocol is not None and REQUIREMENT.match(line):
                name = "requirement " + REQUIREMENT.match(line).group(2)
            else:
                found = FUNCTION.match(line)
                if found and found.group(2) not in requirements and found.group(2):
                    name = f"{found.group(1)} {found.group(2)}"
                elif found and found.group(1) == "subscript":
                    name = "subscript"
            if name:
                declarations += 1
                if not documented(lines, index):
                    problems.append(f"{tree.relative(path)}:{index + 1}: {name} has no documentation comment")
    tree.report(problems, f"{declarations} public declarations are documented")


main()
