"""compare.py CHAPPIE COMMIT [--before CHAPPIE] [--json]

Measures CHAPPIE against the program of another commit, in turn, so that other load on the machine meets both. The other program is
built as that commit builds it, in a work tree of git that goes away, and kept in .build/compare/COMMIT.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import bench
import instructions
from counterparts import Keyring, Simulator
from witnesses import Answers, text_events

ROOT = pathlib.Path(__file__).parents[2]
WORDS, RUNS, STARTS, PEAKS = 20_000, 9, 30, 3


def progress(text):
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def checked_out(root, commit):
    """A work tree of that commit in a temporary folder."""
    def git(*words):
        subprocess.run(["git", "-C", root, "worktree", *words], check=True, stdout=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="chappie-compare-") as folder:
        tree = pathlib.Path(folder, "tree")
        try:
            git("add", "--quiet", "--detach", tree, commit)
            yield tree
        finally:
            # A second Ctrl-C must not leave the tree behind.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if tree.exists():
                git("remove", "--force", tree)
            signal.signal(signal.SIGINT, signal.default_int_handler)


def program_of(commit, root=ROOT):
    """Returns the release program of a commit, and builds it if it is not there yet."""
    kept = root / ".build/compare" / commit / "chappie"
    if not kept.exists():
        progress(f"Building the program of {commit[:12]}; this takes some minutes, and is kept in .build/compare.")
        with checked_out(root, commit) as tree:
            build = ["bash", "-c", ". Scripts/lib/common.sh && build_chappie release chappie"]
            if subprocess.run(build, cwd=tree, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode:
                sys.exit(f"bench: the program of {commit[:12]} could not be built. Fix what the compiler names, or compare with another revision.")
            kept.parent.mkdir(parents=True, exist_ok=True)
            unfinished = kept.with_name("chappie.new")
            shutil.copy2(tree / ".build/release/chappie", unfinished)
            unfinished.rename(kept)
    return str(kept)


def interleaved(sides, measure, runs):
    """[before, after]: the medians of what `measure(side)` returns, a dictionary. The order changes with each run, A B B A."""
    found = [[], []]
    for number in range(runs):
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            found[index].append(measure(sides[index]))
    return [{name: statistics.median(row[name] for row in rows) for name in rows[0]} for rows in found]


def measures(before, after, words=WORDS, runs=RUNS, starts=STARTS, peaks=PEAKS):
    """{measure: [before, after]}"""
    programs, rows = (before, after), {}

    def add(title, pair, names):
        rows.update({f"{title}{name}": [side[key] * factor for side in pair] for key, (name, factor) in names.items()})

    progress("Measuring start-up …")
    add("start-up, instructions", [{"count": instructions.start_up(program)} for program in programs], {"count": ("", 1)})
    add("start-up, ", interleaved(programs, lambda program: bench.measure([program, "--version"], None, 1)[0], starts), {"wall": ("ms", 1000)})
    with contextlib.ExitStack() as stack:
        keyring, simulator = stack.enter_context(Keyring()), stack.enter_context(Simulator(after))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="chappie-compare-"))
        backend = stack.enter_context(Answers(text_events([f"word{number % 500} " for number in range(words)])))

        def signed_in(**settings):
            """[(program, its environment)]. Each has its own files: an older program may refuse those of a newer one."""
            sides = []
            for program in programs:
                home = tempfile.mkdtemp(dir=folder)
                homes = {f"XDG_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
                sides.append((program, bench.sign_in(program, keyring, home, simulator, **homes, **settings)))
            return sides

        sides = signed_in(CHAPPIE_BACKEND=f"{backend.origin}/backend-api")
        for transport in ("sse", "websocket"):
            progress(f"Measuring an answer of {words:,} deltas over {transport} …")
            command = ["ask", "--ephemeral", "--transport", transport, f"repeat {words} words"]
            add(f"answer over {transport}, ", interleaved(sides, lambda side: bench.measure([side[0], *command], side[1], 1)[0], runs),
                {"wall": ("ms", 1000), "CPU": ("CPU ms", 1000)})
            add(f"answer over {transport}, ", interleaved(sides, lambda side: {
                "peak": bench.peak_memory([side[0], *command], side[1], folder)}, peaks), {"peak": ("peak MiB", 1)})
        progress("Measuring commands with the keyring …")
        sides = signed_in()
        for title, command in (("ask", ["ask", "repeat 3 words"]), ("threads list", ["threads", "list"])):
            add(f"{title}, ", interleaved(sides, lambda side: bench.measure([side[0], *command], side[1], 1)[0], starts),
                {"wall": ("ms", 1000), "CPU": ("CPU ms", 1000)})
    return rows


def change(before, after):
    return 100 * (after / before - 1)


def table(rows, names):
    """Returns the lines of a table: measure, before, after, change."""
    def figure(value):
        return f"{value:,.0f}" if value >= 10_000 else f"{value:,.1f}"
    yield f"{'measure':34} {names[0]:>14} {names[1]:>14} {'change':>9}"
    for name, (before, after) in rows.items():
        yield f"{name:34} {figure(before):>14} {figure(after):>14} {change(before, after):+7.1f} %"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("commit")
    parser.add_argument("--before", type=os.path.abspath, help="this program instead of the one that is built of the commit")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # SystemExit leaves the blocks that remove the work tree and end the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = measures(options.before or program_of(options.commit), options.program)
    if options.json:
        return print(json.dumps({"before": options.commit, "after": options.program, "measures": {
            name: {"before": before, "after": after, "change_percent": change(before, after)} for name, (before, after) in rows.items()}}))
    print(*table(rows, (options.commit[:12], "after")), sep="\n")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
