"""What the manifests and the imports say: tree.py test-targets|measured-tests|layers|manifests|apple|walks|states

test-targets   prints the names of the test targets of the root's manifest and of Apps
measured-tests prints, for each target with suites and tests that carry the tag `.measured`, a pattern that selects them
layers         checks imports against the table in ARCHITECTURE.md and against what each target declares, and that the page's
               beginning has each module; the table's columns `module` and `may import` hold names of modules
manifests      checks that the root manifest and the nested manifests say the same of every target's sources, and that the root
               manifest leaves out what has a root of its own, or with CHAPPIE_CONSUMERS says the same of what it depends on; and
               that no setting about warnings reaches those who depend on a package
apple          checks that each target that an app for Apple's platforms links is compiled in Tests/SwiftUICheck, reached by Tests/Mac
               and named in docs/Platforms.md, and that each platform links the same targets
walks          checks that each file of ARCHITECTURE.md's walks is in the package that the walk names, and that each name of a type
               beside them is declared
states         checks that docs/STATES.md draws the transitions that the machines' tables have
"""

import collections
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import printed
from conditions import APPLE, NOT_APPLES, compiled_for_apple

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
# What every module may import, as the table's introduction says. Full Foundation is never among it.
EVERYWHERE = {"FoundationEssentials", "Swift", "Synchronization", "Dispatch", "HTTPTypes"}
C_LIBRARY = {"Glibc", "Musl", "Darwin", "Bionic", "Android"}
# The products that only Linux has. All others are for Apple's platforms as well.
LINUX_PRODUCTS = {"ChappieHTTP", "ChappieKeychainLinux", "ChappieDesktopLinux", "ChappieProgramTools", "ChappiePostgres",
                  "ChappieThreadsPostgres", "ChappieCredentialsPostgres", "ChappieObservability", "ChappieMarkdown",
                  "ChappieThreadForms", "_ChappieInternals"}
# Apple's platforms by the names that manifests have for them.
PLATFORMS = ["macos", "maccatalyst", "ios", "visionos"]
LINUX = re.compile(r"\b(?:st_[amc]tim|CLOCK_BOOTTIME|O_PATH|O_TMPFILE|accept4|pipe2|dup3|epoll_\w+|eventfd|inotify_\w+|getrandom"
                   r"|memfd_create|prctl|renameat2|signalfd|timerfd_\w+|program_invocation_\w+)\b")
FOUNDATION = "Packages/domain/ChappieCore/Sources/ChappieCore/Support/Foundation.swift"
TOOLCHAIN = EVERYWHERE - {"HTTPTypes"} | C_LIBRARY | {"Testing", "Foundation", "FoundationNetworking"}
# Products that the root names otherwise than the package, and those of packages that the root does not have.
RENAMED = {"ChappieTesting": "ChappieSDKTesting", "ChappieCurl": "", "ChappieProcess": "", "ChappieSQLite": ""}
# Packages over the repository's root: the programs, and what needs the headers of GTK. The root contains the last two only with
# CHAPPIE_CONSUMERS.
PROGRAMS = "Apps"
OWN_ROOTS = ["Packages/faces/ChappieSignInGTK", "Apps/chappie-gtk"]
# The root's product for the programs.
INTERNAL = "_ChappieInternals"
IMPORT = re.compile(r"^\s*(?:@\w+(?:\([^)]*\))?\s+)*(?:public |package |internal |fileprivate |private )?import\s+"
                    r"(?:(?:struct|class|enum|protocol|func|var|let|typealias)\s+)?(\w+)")


def relative(path):
    return os.path.relpath(path, ROOT)


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def manifest(folder, **settings):
    """What `swift package dump-package` says of one manifest; nothing is resolved. Nothing is written into the folder for builds
    either: it has another name, so that SwiftPM does not wait until a build has ended."""
    command = ["swift", "package", "--package-path", folder, "--scratch-path", f"{folder}/.build/manifest", "dump-package"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, **settings})
    if done.returncode != 0:
        sys.exit(f"{relative(folder)}: its manifest doesn't load:\n{done.stderr}")
    return json.loads(done.stdout)


def printed_manifest(text):
    """The same of a manifest that is printed."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/Package.swift", "w", encoding="utf-8") as stream:
            stream.write(text)
        return manifest(folder)


def dependencies(target):
    """What a target may import, without saying where it comes from: name -> the platforms that it is restricted to, or None."""
    parts = [next(iter(dependency.items())) for dependency in target["dependencies"]]
    return {values[0]: values[-1] for kind, values in parts if kind in ("byName", "target", "product")}


def report(problems, fine):
    """Prints what is wrong and leaves with 1, or says what was looked at."""
    print("\n".join(problems) or fine)
    sys.exit(1 if problems else 0)


def imports(text):
    """(line, module) of the imports of a Swift file; Apple's own, behind `canImport`, can't be judged here."""
    for pattern in (r"/\*.*?\*/", r'"""(.*?)"""'):
        text = re.sub(pattern, lambda found: "\n" * found.group().count("\n"), text, flags=re.S)
    elsewhere = APPLE if set(re.findall(r"^\s*#(?:else)?if .*?(?<!!)\bcanImport\((\w+)\b", text, flags=re.M)) & APPLE else set()
    for number, line in enumerate(text.splitlines(), 1):
        found = IMPORT.match(line)
        if found and found[1] not in elsewhere:
            yield number, found[1]


def linux_names(text):
    """(line, name) of what only Linux has in code that Apple's systems compile."""
    for number, line in compiled_for_apple(text):
        imported = IMPORT.match(line)
        yield from ((number, name) for name in LINUX.findall(line))
        if imported and imported[1] in NOT_APPLES:
            yield number, imported[1]


def law():
    """module -> the modules that its row lets it import"""
    table = re.search(r"^\| module \| may import \|.*\n\|[- |]+\n((?:\|.*\n)+)", read(f"{ROOT}/ARCHITECTURE.md"), flags=re.M)
    if not table:
        sys.exit("ARCHITECTURE.md has no table with the columns `module` and `may import`")
    rows = [[cell.strip().replace("`", "") for cell in line.strip("| ").split("|")] for line in table[1].splitlines()]
    return {row[0]: {name.strip() for name in row[1].split(",")} - {""} for row in rows}


def own_targets():
    """The targets of the packages over the root. Their paths are relative to the root, and each internal product is its targets."""
    internal = next(product["targets"] for product in manifest(ROOT)["products"] if product["name"] == INTERNAL)
    found = []
    for folder in [PROGRAMS, *OWN_ROOTS]:
        for target in manifest(f"{ROOT}/{folder}")["targets"]:
            needed = [{"product": [name, *part["product"][1:]]} for part in target["dependencies"] if "product" in part
                      for name in (internal if part["product"][0] == INTERNAL else part["product"][:1])]
            needed += [part for part in target["dependencies"] if "product" not in part]
            found.append({**target, "path": f"{folder}/{target.get('path') or 'Sources/' + target['name']}", "dependencies": needed})
    return found


def reached(graph, names, platform):
    """The targets that these names lead to on a platform, by a manifest's targets."""
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name in graph and name not in found:
            found.add(name)
            waiting += [other for other, condition in dependencies(graph[name]).items()
                        if condition is None or platform in condition["platformNames"]]
    return found


def linked_by_apps():
    """platform -> the targets that an app for it may link"""
    root = manifest(ROOT)
    graph = {target["name"]: target for target in root["targets"]}
    names = [name for product in root["products"] if product["name"] not in LINUX_PRODUCTS for name in product["targets"]]
    return {platform: {name: graph[name] for name in reached(graph, names, platform)} for platform in PLATFORMS}


def apple():
    root, linked = manifest(ROOT), linked_by_apps()
    graph = {target["name"]: target for target in root["targets"]}
    every = {name: target for targets in linked.values() for name, target in targets.items()}
    problems = [f"{name}: {platform} does not link it, unlike other platforms of Apple" for platform in PLATFORMS
                for name in sorted(set(every) - set(linked[platform]))]
    products = {product["name"]: product["targets"] for product in root["products"]}
    problems += [f"Scripts/lib/tree.py: there is no product {name}" for name in sorted(LINUX_PRODUCTS - set(products))]
    problems += [f"{name}: its product does not lead to ChappieCore, which refuses platforms" for name, targets in products.items()
                 if name.startswith("Chappie") and "ChappieCore" not in reached(graph, targets, "ios")]
    compiled = {target["name"] for target in manifest(f"{ROOT}/Tests/SwiftUICheck")["targets"]}
    for name, target in sorted(every.items()):
        if name not in compiled:
            problems.append(f"Tests/SwiftUICheck: does not compile {name}, which an app for Apple's platforms may link")
        elif os.path.realpath(f"{ROOT}/Tests/SwiftUICheck/Sources/{name}") != os.path.realpath(f"{ROOT}/{target['path']}"):
            problems.append(f"Tests/SwiftUICheck/Sources/{name}: is not a link to {target['path']}")
    tested = {name for target in manifest(f"{ROOT}/Tests/Mac")["targets"] for product in dependencies(target) for name in products.get(product, [])}
    problems += [f"Tests/Mac: does not reach {name}" for name in sorted(set(every) - reached(graph, tested, "macos"))]
    named = re.findall(r"\b(?:scheme|target): (\w+)", read(f"{ROOT}/.spi.yml"))
    problems += [f".spi.yml: {name} is no product for Apple's platforms" for name in named if name not in set(products) - LINUX_PRODUCTS]
    page = read(f"{ROOT}/docs/Platforms.md")
    problems += [f"docs/Platforms.md: does not name {name}" for name in sorted(set(every) | set(products) - {INTERNAL})
                 if name.startswith("Chappie") and not re.search(rf"\b{name}\b", page)]
    report(problems, f"{len(every)} targets are compiled as an app for Apple's platforms links them")


def layers():
    problems, looked_at, rows = [], 0, law()
    # A program that tests start imports what it declares, as tests do.
    targets = [target for target in manifest(ROOT)["targets"] if target["type"] != "test" and "Tests/" not in target["path"]]
    targets += [target for target in own_targets() if target["type"] != "test"]
    picture = read(f"{ROOT}/ARCHITECTURE.md").partition("\n## ")[0]
    problems += [f"ARCHITECTURE.md: its beginning lacks {name}" for name in rows if not re.search(rf"(?<![\w-]){name}(?![\w-])", picture)]
    here = {relative(path) for upper in ("Packages/*/*", "Apps/*") for path in glob.glob(f"{ROOT}/{upper}/Sources/*")}
    here -= {os.path.normpath(target["path"]) for target in targets}
    problems += [f"{path}: no manifest that is checked has a target here" for path in sorted(here)]
    problems += [f"ARCHITECTURE.md: its table has a row for {name}, which no manifest that is checked knows"
                 for name in sorted(set(rows) - {target["name"] for target in targets})]
    apples = {name for linked in linked_by_apps().values() for name in linked}
    graph = {target["name"]: set(dependencies(target)) for target in targets}
    linked, waiting = set(), ["chappie"]
    while waiting:
        found = graph.get(waiting.pop(), set()) - linked
        linked |= found
        waiting += found
    problems += [f"Apps/Package.swift: chappie links {name}; only chappie-simulator may" for name in sorted(linked) if name.startswith("NIO")]
    for target in targets:
        name, declared = target["name"], set(dependencies(target))
        if name not in rows:
            problems.append(f"{name}: has no row in ARCHITECTURE.md's table; a new module needs one, and a reason")
            continue
        allowed = rows[name] | EVERYWHERE
        if not re.match(r"Packages/(domain|application)/", target["path"]):
            allowed = allowed | C_LIBRARY
        problems += [f"Package.swift: the table doesn't let {name} depend on {other}" for other in sorted(declared - allowed)]
        for path in sorted(glob.glob(f"{ROOT}/{target['path']}/**/*.swift", recursive=True)):
            looked_at += 1
            if name in apples and relative(path) != FOUNDATION:
                problems += [f"{relative(path)}:{line}: only Linux has {word}" for line, word in linux_names(read(path))]
            for line, imported in imports(read(path)):
                place = f"{relative(path)}:{line}"
                if relative(path) == FOUNDATION:
                    continue
                if name in apples and imported in ("Foundation", "FoundationEssentials") and "Foundation" not in rows[name]:
                    problems.append(f"{place}: imports {imported}; `import ChappieCore` brings it ({FOUNDATION})")
                elif imported == "Foundation" and imported not in rows[name]:
                    problems.append(f"{place}: imports Foundation; libraries import FoundationEssentials")
                elif imported not in allowed:
                    problems.append(f"{place}: the table doesn't let {name} import {imported}")
                elif imported not in declared and imported not in TOOLCHAIN:
                    problems.append(f"{place}: {name} imports {imported} without declaring it")
    report(problems, f"{looked_at} files obey the table")


def facts(package, folder):
    """What a nested manifest and the root's have to say alike, in a form that doesn't tell which of them says it."""
    found = {key: json.dumps(package[key]) for key in ("platforms", "swiftLanguageVersions", "cLanguageStandard", "cxxLanguageStandard")}
    for remote in [remote for dependency in package["dependencies"] for remote in dependency.get("sourceControl", [])]:
        requirement = json.dumps([remote["requirement"], remote.get("traits")], sort_keys=True)
        found[f"the dependency {remote['location']['remote'][0]}"] = requirement
    for product in package["products"]:
        name = RENAMED.get(product["name"], product["name"])
        if "library" in product["type"] and name.startswith("Chappie"):
            found[f"the product {name}"] = "a library"
    for target in package["targets"]:
        path = os.path.normpath(os.path.join(folder, target.get("path") or f"Sources/{target['name']}"))
        lists = {key: sorted(json.dumps(value, sort_keys=True) for value in target.get(key) or [])
                 for key in ("settings", "exclude", "resources", "pluginUsages")}
        found[f"the target {target['name']}"] = f"{target['type']} in {relative(path)} with {sorted(dependencies(target).items(), key=str)}, {lists}"
    return found


def consumers():
    """Each target that takes the packages depends, in the manifest that its users see, on what it has at the root, where it is
    compiled."""
    at_the_root = {target["name"]: set(dependencies(target)) for target in manifest(ROOT, CHAPPIE_CONSUMERS="consumers")["targets"]}
    outside = [(target["name"], target) for folder in [*OWN_ROOTS, "Examples"] for target in manifest(f"{ROOT}/{folder}")["targets"]]
    form = read(f"{ROOT}/Tests/Consumer/Package.swift.in").replace("@URL@", "https://example.com/chappie").replace("@IDENTITY@", "chappie")
    # This one is compiled from outside alone.
    outside += [(target["name"], target) for target in printed_manifest(form)["targets"] if target["name"] != "core-consumer"]
    [hello], [window] = [printed_manifest(text)["targets"] for text in printed.manifests()]
    outside += [*((name, hello) for name in printed.readme_programs()), ("readme-gtk", window)]
    return [f"{name}: depends on {sorted(dependencies(target))} for its users, at the root on {sorted(at_the_root.get(name, []))}"
            for name, target in outside if at_the_root.get(name) != set(dependencies(target))]


def warnings_of_others():
    """Finds settings that nobody can depend on. Xcode and the engine swiftbuild compile dependencies with -suppress-warnings, which
    the compiler refuses together with a setting about warnings. SwiftPM refuses a dependency with unsafe flags."""
    paths = [f"{ROOT}/Package.swift", *glob.glob(f"{ROOT}/Packages/*/*/Package.swift"), *glob.glob(f"{ROOT}/Apps/**/Package.swift", recursive=True)]
    return [f"{relative(path)}:{number}: whoever depends on the package gets this setting: ask for CHAPPIE_STRICT in the same line"
            for path in sorted(paths) for number, line in enumerate(read(path).splitlines(), 1)
            if re.search(r"\.(treat(All)?Warnings?|unsafeFlags)\b", line) and "CHAPPIE_STRICT" not in line]


def manifests():
    problems, known, root = consumers() + warnings_of_others(), set(), manifest(ROOT)
    ours = facts(root, ROOT)
    folders = [os.path.dirname(path) for path in sorted(glob.glob(f"{ROOT}/Packages/*/*/Package.swift"))]
    folders = [folder for folder in folders if relative(folder) not in OWN_ROOTS]
    everywhere = next(target["settings"] for target in root["targets"] if target["name"] == "ChappieCore")
    for target in own_targets():
        if target["name"] in {target["name"] for target in root["targets"]}:
            problems.append(f"{target['name']}: has a root of its own, and is in the root manifest as well")
        if not re.match(r"C[A-Z]", target["name"]) and target["settings"] != everywhere:
            problems.append(f"{target['name']}: its compiler settings are not those of the root's targets")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        nested = zip(folders, pool.map(manifest, folders))
    for folder, package in nested:
        name = os.path.basename(folder)
        known |= {target["name"] for target in package["targets"]}
        if package["name"] != name:
            problems.append(f"{name}: its manifest calls it {package['name']}")
        problems += [f"{name}: {target['name']} belongs into the root manifest; a nested one proves sources"
                     for target in package["targets"] if target["type"] == "test"]
        problems += [f"{name}: {what} is\n    {value}, at the root\n    {ours.get(what)}"
                     for what, value in facts(package, folder).items() if ours.get(what) != value]
    problems += [f"{target['name']}: only the root manifest knows it" for target in root["targets"]
                 if re.match(r"Packages/.*/Sources/", target.get("path") or "") and target["name"] not in known]
    report(problems, f"{len(known)} targets are the same in both manifests")


def walks():
    """A walk's line is `Package  File.swift  words`; a line without a package continues with that of the line above."""
    page = read(f"{ROOT}/ARCHITECTURE.md")
    files = collections.defaultdict(list)
    for path in glob.glob(f"{ROOT}/**/Sources/**/*.swift", recursive=True):
        if "/.build" not in path:
            files[os.path.basename(path)].append(path)
    declared = set(re.findall(r"\b(?:struct|class|enum|actor|protocol)\s+`?(\w+)",
                              "\n".join(read(path) for paths in files.values() for path in paths)))
    problems, count = [], 0
    for walk in re.findall(r"^```\n(.*?)^```", page, flags=re.M | re.S):
        package = None
        for line in walk.splitlines():
            found = re.match(r"(?:[→←] ?)?([\w/-]+)?\s+([\w+]+\.swift)\b", line)
            if not found:
                continue
            package, name = found[1] or package, found[2]
            count += 1
            if package is None or not any(f"/{package.removeprefix('Apps/')}/Sources/" in path for path in files.get(name, [])):
                problems.append(f"ARCHITECTURE.md: the walk's {name} is not in {package}")
    for name in sorted(set(re.findall(r"\b[\w+]+\.swift\b", page)) - set(files)):
        problems.append(f"ARCHITECTURE.md: there is no {name}")
    text = re.sub(r"^```.*?^```", "", page.partition("\n## Walks\n")[2].partition("\n## ")[0], flags=re.M | re.S)
    for name in sorted(set(re.findall(r"`([A-Z]\w+)`", text)) - declared - {os.path.basename(path) for path in glob.glob(f"{ROOT}/Packages/*/*")}):
        problems.append(f"ARCHITECTURE.md: nothing is called {name}")
    report(problems, f"{count} steps of walks are where the page says")


def states():
    """A drawing's lines are `a --> b: words`. A machine's table is `next`; a turn's is what its records do to its status."""
    page, problems, count = read(f"{ROOT}/docs/STATES.md"), [], 0
    for name, drawing in re.findall(r"^## (\w+)\n.*?^```mermaid\n(.*?)^```", page, flags=re.M | re.S):
        drawn = re.findall(r"^ +(\w+) --> (\w+)(?:: (.*))?$", drawing, flags=re.M)
        [source] = [path for path in glob.glob(f"{ROOT}/Packages/*/*/Sources/**/*.swift", recursive=True)
                    if re.search(rf"^(?:public )?struct {name}\b", read(path), flags=re.M)]
        text = read(source)
        table = re.search(r"static let next = \[\n(.*?)^    \]", text, flags=re.M | re.S)
        if table:
            meant = {(old, new) for old, names in re.findall(r'"(\w+)": \[(.*?)\]', table[1]) for new in re.findall(r"\w+", names)}
            found = {(old, new) for old, new, _ in drawn}
        else:
            body = text.partition("mutating func add(_ record")[2].partition("\n    }\n")[0]
            meant = {(kind, new) for kind, rest in re.findall(r"case \.(\w+):(.*?)(?=\n        case |\n        default)", body, flags=re.S)
                     for new in re.findall(r"(?:status = |end\(|status, .*? = \()\.(\w+)", rest)}
            found = {(kind, new) for _, new, kind in drawn}
        count += len(drawn)
        problems += [f"docs/STATES.md: {name} has no transition {old} to {new}" for old, new in sorted(found - meant)]
        problems += [f"docs/STATES.md: the drawing of {name} lacks {old} to {new}" for old, new in sorted(meant - found)]
    if not count:
        problems.append("docs/STATES.md: there is no drawing")
    report(problems, f"{count} transitions are drawn as the machines have them")


def tests():
    """test target -> the names of its suites and tests with the tag `.measured`"""
    pattern = re.compile(r"\.tags\([^)]*\.measured\b.*?\b(?:struct|enum|func) (\w+)", re.S)
    return {target["name"]: [name for path in sorted(glob.glob(f"{ROOT}/{target['path']}/**/*.swift", recursive=True)) for name in pattern.findall(read(path))]
            for target in [*manifest(ROOT)["targets"], *own_targets()] if target["type"] == "test"}


def measured_tests():
    for target, names in tests().items():
        if names:
            print(rf"^{target}\..*[./]({'|'.join(names)})[/(]")


if __name__ == "__main__":
    {"test-targets": lambda: print(*tests(), sep="\n"),
     "measured-tests": measured_tests, "layers": layers, "manifests": manifests, "apple": apple, "walks": walks, "states": states}[sys.argv[1]]()
