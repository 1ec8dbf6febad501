"""Checks that every public declaration has a documentation comment: types, functions, properties, initialisers, subscripts,
operators, cases of public enums and requirements of public protocols. SPI counts as public.

What satisfies a protocol may do without: the requirement carries the comment. So may extensions.

And that no sentence says of a module that it is for Linux alone, or that it can't be built on Apple's platforms, if the root
manifest makes ChappieSDK of it there.
"""

import glob
import re

import tree

ATTRIBUTES = r"(?:@\w+(?:\([^)]*\))?\s+)*"
MODIFIERS = r"(?:(?:final|indirect|nonisolated|static|class|mutating|nonmutating|consuming|borrowing|override|required|convenience|lazy|weak|unowned|isolated|sending|package\(set\)|private\(set\)|internal\(set\)|fileprivate\(set\))(?:\(\w+\))?\s+)*"
KIND = r"(?P<kind>struct|class|enum|actor|protocol|typealias|associatedtype|func|var|let|init|subscript|case|macro)\b[?!]?\s*(?P<name>`?[\w]+`?|[^\s\w(]+(?=\s*[(<]))?"
PUBLIC = re.compile(rf"^\s*{ATTRIBUTES}(?:public|open)\s+{MODIFIERS}{KIND}")
MEMBER = re.compile(rf"^\s*{ATTRIBUTES}{MODIFIERS}{KIND}")
SCOPE = re.compile(rf"^(?P<indent>\s*){ATTRIBUTES}(?:public|open)\s+(?P<extension>extension)?{MODIFIERS}(?P<kind>protocol|enum)?")
SKIPPED = re.compile(r"^\s*(@\w+(\([^)]*\))?|#if .*|#else.*|#endif.*)\s*$")
# Requirements of the standard library's and Foundation's own protocols.
WITNESSES = set("""encode hash makeAsyncIterator makeIterator next index formIndex Element AsyncIterator Iterator Failure Index
    RawValue description debugDescription errorDescription recoverySuggestion failureReason hashValue rawValue id customMirror == < init(from init(rawValue
    init(stringLiteral init(arrayLiteral init(dictionaryLiteral init(integerLiteral init(floatLiteral init(booleanLiteral
    init(nilLiteral init(stringInterpolation startIndex endIndex subscript ID Body body Output Input Value""".split())


def documented(lines, index):
    index -= 1
    while index >= 0 and SKIPPED.match(lines[index]):
        index -= 1
    return index >= 0 and (lines[index].lstrip().startswith("///") or lines[index].rstrip().endswith("*/"))


def declarations(lines):
    """(line index, kind, name, whether it is a protocol's requirement) of everything public; bodies of functions left out."""
    inside = None  # (kind, indentation) of the public protocol or enum whose members are public with it
    for index, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if inside and line.strip() == "}" and indent == inside[1]:
            inside = None
        found = PUBLIC.match(line)
        if not found and inside and indent == inside[1] + 4:
            found = MEMBER.match(line)
            if found and (found["kind"] == "case") != (inside[0] == "enum"):
                found = None
        if not found:
            continue
        name = found["name"] or found["kind"]
        if found["kind"] == "init":
            name = "init(" + (re.search(r"\(\s*(\w+)", line) or [None, ""])[1]
        yield index, found["kind"], name, bool(inside and inside[0] == "protocol" and indent > inside[1])
        if found["kind"] in ("protocol", "enum") and not line.rstrip().endswith("}"):
            inside = (found["kind"], indent)

# What such a sentence says.
DENIAL = re.compile(r"\b(?:can't|cannot|can not) (?:yet )?be (?:built|compiled)|\b(?:needs?|wants?|requires?) Linux|\bLinux (?:alone|only)\b *(?:[.,;:)]|$)"
                    r"|\bonly (?:on|for) Linux|\b(?:not|isn't) available on (?:Apple|macOS|iOS)", re.IGNORECASE)


def apples():
    """Returns the modules that ChappieSDKRuntime, and with it ChappieSDK, is made of on Apple's platforms."""
    graph = {target["name"]: tree.dependencies(target) for target in tree.manifest(tree.ROOT)["targets"]}
    found, waiting = set(), ["ChappieSDKRuntime"]
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting += [other for other, condition in graph.get(name, {}).items()
                    if other not in found and "macos" in ((condition or {}).get("platformNames") or ["macos"])]
    return found


def contradictions():
    """Reads the pages and comments of each of these modules, and the rows of tables that begin with one."""
    modules, texts = apples(), []
    for module in modules:
        for path in sorted(glob.glob(f"{tree.ROOT}/Packages/*/*/Sources/{module}/**/*.*", recursive=True)):
            if path.endswith((".md", ".swift")):
                lines = [line.strip() for line in tree.read(path).splitlines()]
                texts.append((path, " ".join(line.lstrip("/ ") for line in lines if path.endswith(".md") or line.startswith("///"))))
    for page in ("docs/Platforms.md", "ARCHITECTURE.md"):
        rows = [line for line in tree.read(f"{tree.ROOT}/{page}").splitlines() if line.startswith("|")]
        texts += [(f"{tree.ROOT}/{page}", row) for row in rows if modules & set(re.findall(r"\w+", row.split("|")[1]))]
    return [f"{tree.relative(path)}: {sentence!r} contradicts Package.swift, which has the module on Apple's platforms"
            for path, text in texts for sentence in re.split(r"(?<=[.!?])\s|\|", text) if DENIAL.search(sentence)]


def main():
    sources = [(path, tree.read(path).splitlines())
               for path in sorted(glob.glob(f"{tree.ROOT}/Packages/*/*/Sources/**/*.swift", recursive=True))
               # Its declarations are Apple's, who documents them.
               if "/FoundationModelsStandIn/" not in path]
    found = [(path, lines, *row) for path, lines in sources for row in declarations(lines)]
    witnessed = WITNESSES | {name for _, _, _, _, name, is_requirement in found if is_requirement}
    wanted = [row for row in found if row[5] or row[4] not in witnessed]
    problems = [f"{tree.relative(path)}:{index + 1}: {kind} {name} has no documentation comment"
                for path, lines, index, kind, name, _ in wanted if not documented(lines, index)]
    problems += contradictions()
    tree.report(problems, f"{len(wanted)} public declarations are documented")


main()
