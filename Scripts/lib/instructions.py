"""instructions.py CHAPPIE [--update]

Counts the instructions of start-up and of decoding a delta, and fails if one has grown by more than 10 % since instructions.json
was written. That file holds for one compiler and one kind of processor. With others nothing is counted, and a line says so.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "Tests/Acceptance"))
from witnesses import Answers, text_events  # noqa: E402

BASELINE = pathlib.Path(__file__).with_suffix(".json")
UPDATE = "python3 Scripts/lib/instructions.py .build/release/chappie --update"
# Per cent. Five runs differed by 2 % at most, with these numbers of deltas.
TOLERANCE, FEW, MANY = 10, 500, 5000


def machine():
    """What a count depends on apart from the code."""
    compiler = subprocess.run(["swift", "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    return {"compiler": re.sub(r"^.*?(Swift version)", r"\1", compiler), "architecture": platform.machine()}


def count(program, words, **settings):
    """Returns how many instructions a command takes."""
    with tempfile.TemporaryDirectory(prefix="chappie-instructions-") as folder:
        report = pathlib.Path(folder, "report")
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8", "SWIFT_DETERMINISTIC_HASHING": "1", **settings}
        tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={report}"]
        ended = subprocess.run([*tool, program, *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
        if ended.returncode:
            sys.exit(f"chappie {' '.join(words)} ended with {ended.returncode} under valgrind:\n{ended.stderr}")
        return int(re.search(r"^summary: (\d+)", report.read_text(), re.MULTILINE)[1])


def start_up(program):
    return count(program, ["--version"])


def a_delta(program, transport):
    """Returns the cost of one more delta. All of an answer is sent at once, so that the reads don't depend on the time."""
    spent = []
    for deltas in (FEW, MANY):
        with Answers(text_events([f"word{number % 500} " for number in range(deltas)]), at_once=True) as answers:
            # Under valgrind, on a busy machine, the program's usual deadlines are short.
            words = ["--timeout", "600", "ask", "--ephemeral", "--transport", transport, "hello"]
            spent.append(count(program, words, CHAPPIE_ACCESS_TOKEN="at-somebody", CHAPPIE_ISSUER=answers.origin,
                               CHAPPIE_BACKEND=f"{answers.origin}/backend-api"))
    return round((spent[1] - spent[0]) / (MANY - FEW))


FIGURES = {"start-up": start_up, "a delta over server-sent events": lambda program: a_delta(program, "sse"),
           "a delta over WebSocket": lambda program: a_delta(program, "websocket")}


def judge(program, before, here, figures):
    """Returns the lines to print, and whether a figure has grown too much."""
    written_on = {name: before[name] for name in here}
    if written_on != here:
        said = " on ".join(here.values()), " on ".join(written_on.values())
        return [f"skipped: instructions are not compared, because this is {said[0]}, and instructions.json is of {said[1]}. "
                f"To write it for this one: {UPDATE}"], False
    lines, has_grown = [], False
    for name, figure in figures.items():
        was, now = before["instructions"][name], figure(program)
        if now > was * (1 + TOLERANCE / 100):
            # Work beside this one can only add to a count.
            now = min(now, figure(program))
        change = f"{name}: {was:,} instructions before, {now:,} now ({100 * (now / was - 1):+.1f} %)"
        if now > was * (1 + TOLERANCE / 100):
            has_grown = True
            lines.append(f"{change}. At most {TOLERANCE} % more are allowed. `Scripts/bench --compare REV` shows the change since "
                         f"another revision. If the growth is intended, write the new figures: {UPDATE}")
        elif now < was * (1 - TOLERANCE / 100):
            lines.append(f"note: {change}. Keep the gain with the new figures: {UPDATE}")
        else:
            lines.append(f"measured: {change}")
    return lines, has_grown


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--update", action="store_true", help="write the counts of this program into instructions.json")
    options = parser.parse_args()
    if options.update:
        counted = {name: figure(options.program) for name, figure in FIGURES.items()}
        BASELINE.write_text(json.dumps({**machine(), "instructions": counted}, indent=2) + "\n")
        return print(f"{BASELINE.relative_to(ROOT)}: {counted}")
    lines, has_grown = judge(options.program, json.loads(BASELINE.read_text()), machine(), FIGURES)
    print(*lines, sep="\n")
    return has_grown


if __name__ == "__main__":
    sys.exit(main())
