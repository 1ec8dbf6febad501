"""README.md and the page on the command line are true: help texts, commands, and options of scripts."""

import os
import re
import shlex
import subprocess

import pytest

from conftest import ROOT
from counterparts import PATIENCE
from printed import blocks


PAGES = ("README.md", "docs/CommandLine.md")


def shown():
    for page in PAGES:
        for info, start, lines in blocks(ROOT / page):
            yield page, info, start, lines


def commands():
    for page, info, start, lines in shown():
        for offset, line in enumerate(lines, 1):
            if info.split()[:1] == ["console"] and line.startswith("$ ") or info.split()[:1] in (["sh"], ["bash"]):
                yield pytest.param(line.removeprefix("$ ").split("  #")[0].strip(), id=f"{page}:{start + offset}")


def output(command, **options):
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120 * PATIENCE, **options)


def test_help_texts_are_those_of_the_program(program):
    """A block fenced as ```text help:ask``` is what `chappie ask --help` prints."""
    texts = [(word[5:], lines) for _, info, _, lines in shown() for word in info.split() if word.startswith("help:")]
    assert texts, "no page shows a --help text"
    for command, lines in texts:
        printed = output([program, *filter(None, command.split(",")), "--help"], env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}).stdout
        assert [line.rstrip() for line in lines] == [line.rstrip() for line in printed.strip().splitlines()]


@pytest.mark.parametrize("line", list(commands()))
def test_a_command_works(line, program, tmp_path):
    """`chappie …` runs against the embedded simulator; a script exists and knows the options that it is given."""
    first, *words = line.split()
    if re.search(r"(?:^|[|;&(]\s*)chappie\s", line):
        # A server runs forever: for it, the options are what can be checked.
        (tmp_path / "chappie").write_text(
            f'#!/usr/bin/env bash\nprogram={shlex.quote(program)}\ncase " $* " in\n*" simulator "*) exec "$program" "$@" --help ;;\n'
            '" -"* | *" --simulate "*) exec "$program" "$@" ;;\n*) exec "$program" "$1" --simulate "${@:2}" ;;\nesac\n')
        (tmp_path / "chappie").chmod(0o755)
        done = output(["bash", "-o", "pipefail", "-c", line], cwd=ROOT, env={**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"})
        assert done.returncode == 0, done
    elif first.removeprefix("./").startswith(("Scripts/", ".ci/")):
        printed = output([ROOT / first, "--help"]).stdout
        assert printed and all(word in printed for word in words if word.startswith("--")), printed


def test_the_first_conversation_is_printed_without_a_terminal(program):
    printed = output([ROOT / "Scripts/try"], env={**os.environ, "TRY_PROGRAM": program}).stdout
    assert "ChatGPT Linked! Return to the app" in printed and "good evening" in printed


def test_a_swift_that_cannot_start_is_reported_with_the_loaders_message(tmp_path):
    """As in a new Debian without the packages that Swift's makers name."""
    (tmp_path / "empty.c").touch()
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    library, link = tmp_path / "libgone.so.1", ["-Wl,--no-as-needed", "-l:libgone.so.1"]
    subprocess.run(["cc", "-shared", "-o", library, tmp_path / "empty.c"], check=True)
    subprocess.run(["cc", tmp_path / "main.c", "-o", tmp_path / "swift", "-L", tmp_path, *link], check=True)
    library.unlink()
    done = output([ROOT / "Scripts/try"], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 69 and "libgone.so.1: cannot open shared object file" in done.stderr, done
    assert re.search(r"apt-get install .*\blibedit2\b.*\blibpython3\.11\b", done.stderr), done.stderr
