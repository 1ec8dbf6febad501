"""Keeps README.md true.

readme.py help CHAPPIE    every block fenced as ```text help:ask``` is what `chappie ask --help` prints
readme.py run CHAPPIE     every command line in a console, sh or bash block works: `chappie …` runs against the embedded
                          simulator, a script of the repository exists and knows the options it is given
readme.py swift FOLDER    writes every ```swift``` block as a file that a package can compile, one function each
"""

import os
import re
import shlex
import stat
import subprocess
import sys
import tempfile

import tree

COMMAND = re.compile(r"(?:^|[|;&(]\s*)chappie\s")


def blocks():
    """(info string, first line number, lines) of every fenced block."""
    info, start, lines = None, 0, []
    for number, line in enumerate(tree.read(os.path.join(tree.ROOT, "README.md")).splitlines(), 1):
        if line.startswith("```"):
            if info is None:
                info, start, lines = line[3:].strip(), number, []
            else:
                yield info, start, lines
                info = None
        elif info is not None:
            lines.append(line)
    if info is not None:
        sys.exit(f"README.md:{start}: this block has no end")


def output(command, **options):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, **options)


def help_blocks(program):
    problems, compared = [], 0
    for info, start, lines in blocks():
        for word in info.split():
            if word.startswith("help:"):
                compared += 1
                printed = output([program, *word[5:].split(","), "--help"] if word[5:] else [program, "--help"], env=plain())
                if [line.rstrip() for line in printed.stdout.strip().splitlines()] != [line.rstrip() for line in lines]:
                    problems.append(f"README.md:{start}: isn't what `chappie {word[5:]} --help` prints now:\n{printed.stdout}")
    if not compared:
        problems.append("README.md shows no --help text: a block fenced as ```text help: is compared with it")
    tree.report(problems, f"{compared} help texts are true")


def plain():
    """Help wraps at the width of a terminal; without one it is 80 columns."""
    return {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}


def commands():
    for info, start, lines in blocks():
        language = info.split()[0] if info else ""
        if language not in ("console", "sh", "bash"):
            continue
        for offset, line in enumerate(lines, 1):
            if language == "console" and not line.startswith("$ "):
                continue
            line = line.removeprefix("$ ").split("  #")[0].strip()
            if line and not line.startswith("#"):
                yield start + offset, line


def run_commands(program):
    problems, tried = [], 0
    with tempfile.TemporaryDirectory() as folder:
        wrapper = os.path.join(folder, "chappie")
        with open(wrapper, "w", encoding="utf-8") as stream:
            # A server runs for ever: for it, the options are what can be checked.
            stream.write(
                f"#!/usr/bin/env bash\nprogram={shlex.quote(program)}\n"
                'case " $* " in\n'
                '*" simulator "*) exec "$program" "$@" --help ;;\n'
                '" -"* | *" --simulate "*) exec "$program" "$@" ;;\n'
                '*) exec "$program" "$1" --simulate "${@:2}" ;;\nesac\n'
            )
        os.chmod(wrapper, 0o755)
        environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"]}
        for number, line in commands():
            first = line.split()[0]
            if COMMAND.search(line):
                tried += 1
                done = output(["bash", "-o", "pipefail", "-c", line], cwd=tree.ROOT, env=environment)
                if done.returncode != 0:
                    problems.append(f"README.md:{number}: `{line}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
            elif first.removeprefix("./").startswith(("Scripts/", ".ci/")):
                tried += 1
                problems += script_problems(number, line)
    tree.report(problems, f"{tried} commands work")


def script_problems(number, line):
    words = line.split()
    path = os.path.join(tree.ROOT, words[0])
    if not os.path.isfile(path) or not os.stat(path).st_mode & stat.S_IXUSR:
        return [f"README.md:{number}: there is no script {words[0]}"]
    printed = output([path, "--help"]).stdout
    return [f"README.md:{number}: {words[0]} knows no {word}" for word in words[1:] if word.startswith("--") and word not in printed]


def swift_blocks(folder):
    written = 0
    for info, start, lines in blocks():
        if info.split()[:1] != ["swift"] or "package" in info.split():
            continue
        written += 1
        imported = [line for line in lines if line.startswith("import ")]
        body = [line for line in lines if line not in imported]
        with open(os.path.join(folder, f"Readme{start}.swift"), "w", encoding="utf-8") as stream:
            stream.write("\n".join(imported) + f"\n\n@MainActor func readme{start}() async throws {{\n")
            stream.write("\n".join("    " + line for line in body) + "\n}\n")
    print(f"{written} blocks written")


action = {"help": help_blocks, "run": run_commands, "swift": swift_blocks}.get(sys.argv[1] if len(sys.argv) == 3 else "")
if action is None:
    sys.exit(__doc__)
action(sys.argv[2])
