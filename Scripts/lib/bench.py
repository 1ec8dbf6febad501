"""chappie against curl: bench.py CHAPPIE [--json] [--words N] [--codec PROGRAM]"""

import argparse
import contextlib
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from secret_service import SecretService
from simulator import Simulator
from tls_front import TLSFront

RUNS = 15
TURNS = 40
GOALS = {"start-up": 1.5, "CPU": 2.0, "memory": 25.0}
MODEL = "gpt-5.5"


def hyperfine(commands, environment, *options):
    """What hyperfine measured of each command: its results as objects."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run(
            ["hyperfine", "--shell=none", "--export-json", report.name, *options, *map(shlex.join, commands)],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
        )
        return json.load(report)["results"]


def start_up(program, environment):
    """Median seconds of `--version`: (chappie, curl)"""
    commands = [[program, "--version"], ["curl", "--version"]]
    return [result["median"] for result in hyperfine(commands, environment, "--warmup=5", "--runs=100")]


def peak_memory(command, environment, folder):
    """(MB, bytes printed) of one run under GNU time."""
    measured, printed = os.path.join(folder, "measured"), os.path.join(folder, "printed")
    with open(printed, "wb") as stream:
        subprocess.run(
            ["/usr/bin/time", "-f", "%M", "-o", measured, *command],
            env=environment, stdin=subprocess.DEVNULL, stdout=stream, check=True, timeout=120,
        )
    with open(measured, encoding="ascii") as stream:
        return int(stream.read()) / 1024, os.path.getsize(printed)


class Bench:
    """The ways an answer can come, each with its simulator and a person who is signed in there."""

    def __init__(self, program, stack):
        self.program, self.stack = program, stack
        self.service = stack.enter_context(SecretService())
        self.folder = stack.enter_context(tempfile.TemporaryDirectory())

    def simulator(self, account, *options):
        simulator = self.stack.enter_context(Simulator(self.program, "--auto-approve", *options))
        environment = {
            **self.service.environment, "CHAPPIE_ACCOUNT": account,
            "CHAPPIE_ISSUER": simulator.issuer, "CHAPPIE_BACKEND": simulator.backend,
        }
        subprocess.run([self.program, "login", "--no-browser"], env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        return simulator, environment

    def secured(self, simulator, environment, **options):
        """The same through TLS."""
        front = self.stack.enter_context(TLSFront(simulator.port, **options))
        return front, {**environment, "CHAPPIE_BACKEND": f"https://localhost:{front.port}/backend-api", "CHAPPIE_CA_FILE": front.authority}

    def curl_settings(self, simulator, words):
        """The request as a file: arguments are for everybody to see, and it holds a token."""
        path = os.path.join(self.folder, "curl")
        body = {
            "model": MODEL, "stream": True, "store": False,
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"repeat {words} words"}]}],
        }
        with open(path, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(f'header = "authorization: Bearer {simulator.sign_in()["access_token"]}"\n')
            file.write('header = "content-type: application/json"\n')
            file.write(f"data = {json.dumps(json.dumps(body))}\n")
        return path

    def measure(self, command, environment, words):
        result = hyperfine([command], environment, "--warmup=2", f"--runs={RUNS}")[0]
        peaks = [peak_memory(command, environment, self.folder) for _ in range(3)]
        assert min(count for _, count in peaks) > words, f"{command[0]} printed {peaks}"
        return {"wall": result["median"], "CPU": result["user"] + result["system"], "memory": statistics.median(peak for peak, _ in peaks)}

    def answers(self, words):
        """{way: {wall, CPU, memory}} of an answer of so many deltas."""
        simulator, environment = self.simulator("bench")
        _, plain = self.simulator("plain", "--scenario", "ws-no-deflate")
        front, secured = self.secured(simulator, environment)
        plain_simulator, plain_environment = self.simulator("plain-tls", "--scenario", "ws-no-deflate")
        _, plain_secured = self.secured(plain_simulator, plain_environment)
        settings = self.curl_settings(simulator, words)
        curl = ["curl", "-sSN", "--fail", "-K", settings]
        ask = lambda transport: [self.program, "ask", "--transport", transport, f"repeat {words} words"]
        ways = {
            "curl -N, http": ([*curl, simulator.backend + "/codex/responses"], environment),
            "sse, http": (ask("sse"), environment),
            "ws": (ask("websocket"), plain),
            "ws, deflate": (ask("websocket"), environment),
            "curl -N, https": ([*curl, "--http1.1", "--cacert", front.authority, secured["CHAPPIE_BACKEND"] + "/codex/responses"], environment),
            "sse, https": (ask("sse"), secured),
            "wss": (ask("websocket"), plain_secured),
            "wss, deflate": (ask("websocket"), secured),
        }
        return {way: self.measure(command, env, words) for way, (command, env) in ways.items()}

    def first_deltas(self):
        """{way: median seconds} from a question to the first delta of its answer, in one running program, through TLS."""
        simulator, environment = self.simulator("first")
        _, kept = self.secured(simulator, environment)
        _, closed = self.secured(simulator, environment, keep_alive=0)
        return {
            "websocket, kept": self.first_delta("websocket", kept),
            "sse, connection kept": self.first_delta("sse", kept),
            "sse, fresh": self.first_delta("sse", closed),
        }

    def first_delta(self, transport, environment):
        chat = subprocess.Popen(
            [self.program, "chat", "--json", "--transport", transport],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        times = []
        for _ in range(TURNS):
            begin = time.perf_counter()
            chat.stdin.write("repeat 3 words\n")
            chat.stdin.flush()
            first = None
            for line in chat.stdout:
                kind = json.loads(line)["type"]
                if kind == "text_delta" and first is None:
                    first = time.perf_counter() - begin
                if kind in ("completed", "error"):
                    break
            assert kind == "completed", line
            times.append(first)
        chat.stdin.close()
        chat.wait(timeout=20)
        chat.stdout.close()
        return statistics.median(times[1:])


def codec(program):
    """[(measure, GB/s)] of masking and frames, in memory."""
    printed = subprocess.run([program], check=True, capture_output=True, text=True, timeout=300).stdout
    return [(row["measure"], row["gigabytes_per_second"]) for row in map(json.loads, printed.splitlines())]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--words", type=int, default=20000)
    parser.add_argument("--codec")
    options = parser.parse_args()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CHAPPIE_")}
    ours, theirs = start_up(options.program, kept)
    with contextlib.ExitStack() as stack:
        bench = Bench(options.program, stack)
        answers = bench.answers(options.words)
        first = bench.first_deltas()
    rates = codec(options.codec) if options.codec else []
    report = {
        "start_up_s": {"chappie": ours, "curl": theirs, "ratio": ours / theirs, "goal_ratio": GOALS["start-up"]},
        "words": options.words, "answers": answers, "goal_cpu_ratio": GOALS["CPU"], "goal_peak_memory_mb": GOALS["memory"],
        "first_delta_s": first, "codec_gb_per_s": dict(rates),
    }
    if options.json:
        print(json.dumps(report))
        return
    print(f"start-up: chappie {ours * 1000:.1f} ms, curl {theirs * 1000:.1f} ms, ratio {ours / theirs:.2f} (goal ≤ {GOALS['start-up']})")
    print(f"\n{options.words} deltas          wall, s     CPU, s   peak, MB   wall/curl  CPU/curl  (goals: CPU ≤ {GOALS['CPU']}, {GOALS['memory']:.0f} MB)")
    for way, row in answers.items():
        base = answers["curl -N, https" if "https" in way or "wss" in way else "curl -N, http"]
        print(f"{way:20} {row['wall']:10.4f} {row['CPU']:10.4f} {row['memory']:10.1f} {row['wall'] / base['wall']:10.2f} {row['CPU'] / base['CPU']:10.2f}")
    print("\nfirst delta of a turn, through TLS:")
    base = first["sse, fresh"]
    for way, seconds in first.items():
        print(f"{way:24} {seconds * 1000:8.2f} ms  {seconds / base:6.2f} of a fresh request")
    if rates:
        print("\nin memory:")
        for measure, rate in rates:
            print(f"{measure:56} {rate:8.2f} GB/s")


if __name__ == "__main__":
    sys.exit(main())
