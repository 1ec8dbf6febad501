"""What the documents print, as sources that compile: printed.py FOLDER

Writes Tests/Consumer into the folder, with the Swift blocks of the landing pages, and the programs of the guides. A file that has
not changed keeps its date, so that it is not compiled again.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The documents whose programs are compiled.
GUIDES = ("README.md", "docs/Guide.md", "docs/Threads.md", "docs/GTK.md")
# The way in which README.md points a program at a simulator. The port is an argument here.
SIMULATOR = """let configuration = ChappieConfiguration(endpoints: .simulator(port: Int(CommandLine.arguments[1]) ?? 0))
"""
SIGN_IN = """let session = await Chappie.loadedAuthSession(configuration: configuration, store: .memory)
_ = try await session.signIn { code in print(code.instructions) }
"""


def blocks(document):
    """(info string, first line number, lines) of every fenced block."""
    info, start, lines = None, 0, []
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("```"):
            lines += [line] if info is not None else []
        elif info is None:
            info, start, lines = line[3:].strip(), number, []
        else:
            yield info, start, lines
            info = None


def shown():
    return [block for page in GUIDES for block in blocks(ROOT / page)]


def programs(*imports):
    """The Swift programs that are printed, and have these imports, or none but the SDK's."""
    found = ["\n".join(lines) + "\n" for info, _, lines in shown() if info.split()[:1] == ["swift"]]
    return [text for text in found if {"SwiftUI", "CGtk4"} & set(re.findall(r"^import (\w+)", text, re.MULTILINE)) == set(imports)]


def manifests():
    """The manifests that are printed: the one for the programs above, and the one for GTK."""
    return ["\n".join(lines) + "\n" for info, _, lines in shown() if info.split() == ["text", "Package.swift"]]


def at_a_simulator(program):
    """A program of the guides that asks the simulator, as README.md describes."""
    if ".simulator(port: 8080)" in program:
        return program.replace(".simulator(port: 8080)", ".simulator(port: Int(CommandLine.arguments[1]) ?? 0)")
    begin = SIMULATOR if "loadedAuthSession" in program else SIMULATOR + SIGN_IN
    program = re.sub(r"(\A(?:import \w+\n)+\n)", lambda imports: imports[1] + begin, program)
    program = program.replace("loadedAuthSession()", "loadedAuthSession(configuration: configuration, store: .memory)")
    return re.sub(r"Chappie\.client\(([^)]*)\)",
                  lambda call: "Chappie.client(" + ", ".join(filter(None, ["configuration: configuration", call[1], "store: .memory"])) + ")",
                  program)


def readme_programs():
    """name -> text of the programs of the guides: the first one as it is printed, and each at a simulator."""
    texts = programs()
    return {"readme-printed": texts[0], **{f"readme-{number}": at_a_simulator(text) for number, text in enumerate(texts)}}


def consumer():
    """path -> text of Tests/Consumer's sources, with the blocks of the landing pages."""
    folder = ROOT / "Tests/Consumer"
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.glob("[ST]*/**/*.swift")}
    shown = ["ChappieAuth", "ChappieCore", "ChappieCredentialsPostgres", "ChappieCrypto", "ChappieDesktopLinux", "ChappieFiles", "ChappieHTTP", "ChappieKeychainLinux",
             "ChappieLoopback", "ChappieMCP", "ChappieMarkdown", "ChappieProgramTools", "ChappieSDKRuntime", "ChappieSignInUI",
             "ChappieThreadForms", "ChappieThreadsPostgres", "ChappieWebSocket"]
    for page in [*sorted(ROOT.glob("Packages/*/*/Sources/*/*.docc/*.md")), ROOT / "docs/Operations.md"]:
        if page.stem == "ChappieObservability":
            continue  # Without its trait the module is empty. Tests/Observability compiles its calls.
        is_for_tests = page.is_relative_to(ROOT / "Packages/testing")
        target = "Tests/SDKConsumerTests" if is_for_tests else "Sources/sdk-consumer"
        modules = ["Foundation", "ChappieSDK", *(["ChappieSDKTesting", "Testing"] if is_for_tests else shown)]
        for info, start, lines in blocks(page):
            # A block with imports is a program.
            if info == "swift" and not lines[0].startswith("import "):
                text = [*(f"import {module}" for module in modules), "", f"@MainActor func {page.stem}{start}() async throws {{",
                        *("    " + line if line else "" for line in lines), "}", ""]
                found[f"{target}/{page.stem}{start}.swift"] = "\n".join(text)
    return found


def mains(texts):
    """path -> text of programs with one file each."""
    return {f"Sources/{name}/main.swift": text for name, text in texts.items()}


def write(folder, files):
    """Leaves these Swift files in the folder, and no others."""
    folder = pathlib.Path(folder)
    for path in folder.glob("*/*/*.swift"):
        if str(path.relative_to(folder)) not in files:
            path.unlink()
    for name, text in files.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


if __name__ == "__main__":
    [window] = programs("CGtk4")
    write(sys.argv[1], {**consumer(), **mains({**readme_programs(), "readme-gtk": window})})
