"""Measures chappie, curl and other clients on the same bytes, and writes docs/Performance.md: publish.py CHAPPIE [--page PATH]"""

import argparse
import contextlib
import datetime
import importlib.metadata
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

from bench import LONGER, RUNS, STARTS, Simulator, commands, run, sign_in
from counterparts import Keyring
from test_codex import Codex
from witnesses import Answers, text_events

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS, CURL = 20_000, "`curl -N`"
# {(deltas, at once): (rounds, how many of them, the last ones, the Python packages take part in)}. One of these takes a minute for the
# longer answer.
ROUNDS = {(WORDS, False): (5, 2), (WORDS, True): (5, 2), (LONGER * WORDS, True): (5, 1)}
OURS = {"chappie, server-sent events": ("sse", "--ephemeral"), "chappie, WebSocket": ("websocket", "--ephemeral"),
        "chappie, server-sent events, thread kept": ("sse",), "chappie, WebSocket, thread kept": ("websocket",)}
PACKAGES = {"Python, `openai`": "openai", "Python, `litellm`": "litellm"}


def clients(program, words, at_once, keyring, codex, simulator, stack):
    """{name: (command, environment)} of all clients, which ask one server for one answer."""
    backend = stack.enter_context(Answers(text_events([f"word{number % 500} " for number in range(words)]), at_once=at_once)).origin
    backend += "/backend-api"
    base = backend + "/codex"
    found = {CURL: (["curl", "-sSN", "--fail", "--http1.1", "--data", "{}", base + "/responses"], keyring.environment)}
    for name, (transport, *options) in OURS.items():
        environment = sign_in(program, keyring, f"{name}, {words}, {at_once}", simulator, CHAPPIE_BACKEND=backend)
        found[name] = ([program, "ask", *options, "--transport", transport, "Hello"], environment)
    found["Codex CLI, server-sent events"] = ([
        codex.binary, "exec", "--ephemeral", "--json", "--skip-git-repo-check", "--cd", codex.home,
        "-c", f'model_providers.sse.base_url="{base}"', "Hello"], codex.environment)
    script = str(ROOT / "Scripts/lib/bench_python.py")
    # litellm would fetch a list of prices from the network.
    python = {**keyring.environment, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    return found | {name: ([sys.executable, script, package, base], python) for name, package in PACKAGES.items()}


def interleave(ways, rounds, words=0, python=0):
    """{name: {wall, CPU, memory}}: medians of rounds in each of which each command runs once, those of the Python packages in the last
    `python` ones. GNU time reads the memory in the last round, because wait4 would report at least this process's own."""
    runs, memory = {name: [] for name in ways}, {}
    with tempfile.NamedTemporaryFile("r") as report:
        for number in range(rounds):
            if words:
                print(f"{words:,} deltas: round {number + 1} of {rounds}", file=sys.stderr)
            for name, (command, environment) in ways.items():
                if name in PACKAGES and number < rounds - python:
                    continue
                is_last = number == rounds - 1
                wall, cpu, output = run([*(["/usr/bin/time", "-f", "%M", "-o", report.name] if is_last else []), *command], environment)
                assert len(output) > words, f"{name} printed {len(output)} bytes"
                runs[name].append((wall, cpu))
                if is_last:
                    memory[name] = int(pathlib.Path(report.name).read_text()) / 1024
    return {name: {"wall": statistics.median(wall for wall, _ in some), "CPU": statistics.median(cpu for _, cpu in some),
                   "memory": memory[name]} for name, some in runs.items()}


def answers(program, keyring, rounds, stack):
    """{(deltas, at once): {client: {wall, CPU, memory}}}"""
    home = stack.enter_context(tempfile.TemporaryDirectory(dir=pathlib.Path.home(), prefix=".chappie-codex-"))
    codex = Codex(stack.enter_context(Simulator(program, lenient=True)), home)
    codex.configure("Simulator", "sse")
    simulator = stack.enter_context(Simulator(program))
    return {answer: interleave(clients(program, *answer, keyring, codex, simulator, stack), count, answer[0], python)
            for answer, (count, python) in rounds.items()}


def machine(program):
    """{name: value} of what the figures depend on."""
    said = lambda *command: subprocess.run(command, capture_output=True, text=True, check=True).stdout
    first = lambda pattern, path: re.search(pattern, pathlib.Path(path).read_text(), re.MULTILINE)[1]
    memory = int(first("^MemTotal: *([0-9]+)", "/proc/meminfo"))
    return {
        "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        "commit": said("git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*").strip(),
        "processor": f"{first('^model name.*: (.*)', '/proc/cpuinfo')}, {os.cpu_count()} cores",
        "memory": f"{memory / 2**20:.0f} GiB",
        "system": f"{platform.freedesktop_os_release()['PRETTY_NAME']}, Linux {platform.release()}",
        "load average at the start": f"{os.getloadavg()[0]:.2f}",
        "chappie": said(program, "--version").split()[-1],
        "curl": said("curl", "--version").split()[1],
        "Codex CLI": importlib.metadata.version("openai-codex-cli-bin"),
        "Python": platform.python_version(),
        **{f"`{package}`": importlib.metadata.version(package) for package in PACKAGES.values()},
    }


HEAD = """# Performance

`Scripts/bench --publish` measures the figures of this page and writes it. Do not edit it by hand.

## What was measured

All clients ask one server in Python on the loopback interface, without TLS, and get the same answer. Over WebSocket, the same events are
messages. The server sends each event by itself, as a model writes them, or all at once, so that a client never waits for it. A client
that finds several events in one read needs less CPU for each, and `curl -N` writes after each read. Each client prints the text into a
file. The Codex CLI prints it once, at the end. All others print it as it arrives. With "thread kept", `chappie` also writes
the thread to its encrypted store. The Python packages read a stream of the Responses API.

All clients run interleaved: each runs once in a round, and the next round begins with the first one. Wall clock and CPU (user and
system) are medians over the rounds. CPU is that of the client only. Peak memory is that of the last round.

## Machine

"""
TAIL = """
## How to repeat it

On Debian 12, in a clone of the repository with Swift 6.2 or newer:

```console
$ Scripts/bench --publish
```

It installs what is missing from Debian and PyPI, builds `chappie`, measures for about seven minutes and writes this page. Nothing else
should run on the machine in the meantime.

## What the figures do not include

- **No network and no model.** A person waits for the model. A client's CPU matters for a battery, or for a server with many streams
  ([Operations](Operations.md#clients-threads-and-descriptors) has figures of those).
- **Not only deltas.** Each row is a process from its start to its end. The start of the Python packages is mostly the import of their
  modules, which a program that runs for a long time pays once. The difference between the tables shows the cost of deltas.
- **Wall clock is bounded by the server** if it sends events one by one, and it shares the cores with the client.
- **Clients do different work.** `curl` copies bytes and understands none of them. The Codex CLI is an agent, which loads its configuration
  and its tools. `openai` and `litellm` make an object of each event.
- **One machine.** Compare the ratios. They differ less between machines than seconds do.
"""


def table(heads, rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows)) + "\n"


def page(facts, found, rounds, starts, waits):
    """The text of docs/Performance.md."""
    parts = [HEAD, table(("of", "value"), facts.items())]
    for (words, at_once), rows in found.items():
        base, (count, python) = rows[CURL], rounds[words, at_once]
        parts += [f"\n## An answer of {words:,} deltas, sent {'at once' if at_once else 'one by one'}\n\nMedians of {count} rounds. The ratios "
                  f"are to {CURL}. The Python packages took part in {python} of the rounds.\n\n", table(
            ("client", "wall clock, s", "ratio", "CPU, s", "ratio", "peak memory, MiB", "ratio"),
            [(name, f"{row['wall']:.3f}", f"{row['wall'] / base['wall']:.2f}", f"{row['CPU']:.3f}", f"{row['CPU'] / base['CPU']:.2f}",
              f"{row['memory']:.1f}", f"{row['memory'] / base['memory']:.2f}") for name, row in rows.items()])]
    parts += [f"\n## Start-up\n\nMedians of {STARTS} rounds.\n\n", table(
        ("command", "wall clock, ms", "ratio"),
        [(f"`{name} --version`", f"{row['wall'] * 1000:.1f}", f"{row['wall'] / starts['curl']['wall']:.2f}") for name, row in starts.items()])]
    parts += [f"\n## Commands\n\nMedians of {STARTS} runs, and of {RUNS} with 10,000 threads, which the keyring's user has. The service of `ask` is "
              "the simulator, and its answer has\nthree words. The kernel keeps the key of the encrypted file.\n\n", table(
                  ("command", "wall clock, ms"), [(f"`{name.split(', ')[0]}`, {name.split(', ', 1)[1]}", f"{seconds * 1000:.1f}")
                                                  for name, seconds in waits.items()])]
    return "".join([*parts, TAIL])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/Performance.md")
    options = parser.parse_args()
    facts = machine(options.program)
    starts = interleave({"curl": (["curl", "--version"], None), "chappie": ([options.program, "--version"], None)}, STARTS)
    with contextlib.ExitStack() as stack, Keyring() as keyring:
        waits = commands(options.program, keyring, stack)
        found = answers(options.program, keyring, ROUNDS, stack)
    options.page.write_text(page(facts, found, ROUNDS, starts, waits), encoding="utf-8")


if __name__ == "__main__":
    main()
