"""chappie against curl, and its own costs: bench.py CHAPPIE [--json] [--words N] [--memory PROGRAM] [--tools | --threads | --streams]"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from conftest import User
from counterparts import Authority, Keyring, Simulator, TLSFront
from test_codex import Codex
from test_credentials import KEYCTL, TYPED
from witnesses import Answers, text_events

RUNS, STARTS, TURNS = 9, 60, 40
# A longer answer has so many times the deltas, and costs no more for each.
LONGER = 10
# Turns of the conversation with tools, and those of them that are looked at.
LONG, LOOKED_AT = 200, (1, 20, 200)
STREAMS = (250, 1000, 3000)
# Threads that are listed and searched.
MANY = 10_000
GOALS = {"start-up": 1.2, "CPU": 2.0, "command, ms": 60, "10,000 threads, ms": 100, "Codex CLI": 8.0, "memory": 25.0, "tool round, ms": 1.0, "bytes, late / early": 1.05,
         "memory, late / early": 1.25, "append, late / early": 1.1}
# llm's log becomes slower with each turn: 10,000 of them would take hours.
PROTECTIONS, LLM, LLM_TURNS = ("complete", "none"), "llm==0.36", 400
SEARCHES = {"a rare word": "turn5000", "three words": "word17 word42 word9", "a beginning": "word1", "nothing": "zebra"}


def run(command, environment):
    """Seconds of wall clock and CPU, and what it printed."""
    with tempfile.TemporaryFile() as printed:
        begin = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, f"{command} ended with {process.returncode}"
        printed.seek(0)
        return wall, usage.ru_utime + usage.ru_stime, printed.read()


def measure(command, environment, runs=RUNS):
    """Median seconds of wall clock and CPU, and what the last run printed."""
    done = [run(command, environment) for _ in range(runs)]
    return {"wall": statistics.median(wall for wall, _, _ in done), "CPU": statistics.median(cpu for _, cpu, _ in done)}, done[-1][2]


def peak_memory(command, environment, folder):
    report = os.path.join(folder, "peak")
    subprocess.run(["/usr/bin/time", "-f", "%M", "-o", report, *command], env=environment, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return int(pathlib.Path(report).read_text()) / 1024


def sign_in(program, keyring, account, simulator, **settings):
    """What the program that is measured sees of its environment."""
    environment = {**keyring.environment, **simulator.settings, "CHAPPIE_ACCOUNT": account, **settings}
    subprocess.run([program, "login", "--no-browser"], env=environment, check=True, capture_output=True)
    return environment


def answers(program, words, keyring, stack):
    """{way: {wall, CPU, memory}} of an answer of so many deltas; for the longer one, only as it is without TLS."""
    folder, simulator = stack.enter_context(tempfile.TemporaryDirectory(prefix="chappie-bench-")), stack.enter_context(Simulator(program))
    authority = Authority(folder)
    curl = ["curl", "-sSN", "--fail", "--http1.1", "--cacert", authority.file, "--data", "{}"]
    events, longer = (text_events([f"word{number % 500} " for number in range(count)]) for count in (words, LONGER * words))
    plain, long = (f"{stack.enter_context(Answers(some)).origin}/backend-api" for some in (events, longer))
    secured = f"https://localhost:{stack.enter_context(Answers(events, authority.context())).port}/backend-api"
    rows = {}
    for way, transport, backend in (
        ("curl -N, http", None, plain), ("sse, http", "sse", plain), ("websocket", "websocket", plain),
        ("websocket, deflate", "websocket", simulator.backend), ("curl -N, https", None, secured), ("sse, https", "sse", secured),
        ("websocket, tls", "websocket", secured), ("curl -N, longer", None, long), ("sse, longer", "sse", long),
        ("websocket, longer", "websocket", long), ("sse, kept", "sse", plain), ("websocket, kept", "websocket", plain),
        ("sse, kept, longer", "sse", long), ("websocket, kept, longer", "websocket", long),
    ):
        environment, command = keyring.environment, [*curl, backend + "/codex/responses"]
        if transport:
            environment = sign_in(program, keyring, way, simulator, CHAPPIE_BACKEND=backend, CHAPPIE_CA_FILE=authority.file)
            keeping = [] if "kept" in way else ["--ephemeral"]
            command = [program, "ask", *keeping, "--transport", transport, f"repeat {words} words"]
        rows[way], output = measure(command, environment)
        assert len(output) > words, f"{way} printed {len(output)} bytes"
        rows[way]["memory"] = peak_memory(command, environment, folder)
    home = stack.enter_context(tempfile.TemporaryDirectory(dir=pathlib.Path.home(), prefix=".chappie-codex-"))
    codex = Codex(stack.enter_context(Simulator(program, webSocketDeflate=False, lenient=True)), home)
    os.chdir(codex.home)
    for name, provider, way in (("Simulator", "sse", "Codex CLI, sse"), ("OpenAI", "openai", "Codex CLI, websocket")):
        codex.configure(name, provider)
        rows[way], _ = measure([codex.binary, "exec", "--ephemeral", "--json", "--skip-git-repo-check", f"repeat {words} words"], codex.environment, 3)
    return rows


def commands(program, keyring, stack):
    """{command: median seconds} of a short answer that is kept, and of the threads that such answers left, with the keyring and with
    the encrypted file whose key the kernel keeps; and of 10,000 threads."""
    simulator = stack.enter_context(Simulator(program))
    places = {"keyring": sign_in(program, keyring, "commands", simulator)}
    # A session keyring of this process, as a login has one. Containers often refuse it.
    if ctypes.CDLL(None).syscall(KEYCTL, 1, None) > 0:
        environment = {**keyring.environment, **simulator.settings, "CHAPPIE_ACCOUNT": "file", "CHAPPIE_CREDENTIAL_STORE": "file", "TERM": "xterm"}
        status, shown = User(program, "file", environment).converse("login", "--no-browser", answers=TYPED)
        assert status == 0, shown
        places["encrypted file"] = environment
    else:
        print("the kernel keeps no keys here: the commands are not measured with the encrypted file", file=sys.stderr)
    many = sign_in(program, keyring, "many", simulator)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(thread(number) for number in range(MANY))
        file.flush()
        subprocess.run([program, "threads", "import", file.name], env=many, check=True, capture_output=True)
    listing, search = ["threads", "list"], ["threads", "search"]
    words = {"ask": ["ask", "repeat 3 words"], "threads list": listing, "threads search": [*search, "repeat"]}
    found = {f"{name}, {place}": measure([program, *some], environment, STARTS)[0]["wall"]
             for place, environment in places.items() for name, some in words.items()}
    # A terminal gets 50 of them, a pipe all.
    for name, some in (("threads list --limit 50", [*listing, "--limit", "50"]), ("threads list", listing),
                       ("threads search", [*search, "turn5000"])):
        row, output = measure([program, *some], many)
        assert output, f"{name} printed {len(output)} bytes"
        found[f"{name}, {MANY:,} threads"] = row["wall"]
    return found


def thread(number):
    """A line of `threads import`: a thread with a question of 120 words, and its answer."""
    text = " ".join(f"word{(number * 7919 + place * 104729) % 5000}" for place in range(120)) + f" turn{number}"
    question, answer = ({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
                        for role, kind, text in (("user", "input_text", text), ("assistant", "output_text", "Yes.")))
    bodies = {"turn.started": {"turn": "t", "model": "m", "messages": [question]},
              "turn.finished": {"turn": "t", "model": "m", "from": 1, "items": [answer], "output": [answer], "text": "Yes."}}
    records = [{"position": position, "kind": kind, "date": "2026-11-22T12:00:00.000Z", "body": body}
               for position, (kind, body) in enumerate(bodies.items())]
    return json.dumps({"format": "chappie.thread", "version": 1, "id": f"bench-{number}", "records": records}) + "\n"


def command_goal(name):
    return GOALS["10,000 threads, ms" if name.endswith("threads") else "command, ms"]


def first_deltas(program, keyring, stack):
    """{way: median seconds} from a question to the first delta of its answer, in one running program, through TLS."""
    simulator, found = stack.enter_context(Simulator(program)), {}
    for way, transport, keep_alive in (("websocket, kept", "websocket", 75), ("sse, kept", "sse", 75), ("sse, fresh", "sse", 0)):
        front = stack.enter_context(TLSFront(simulator.port, keep_alive=keep_alive))
        environment = sign_in(program, keyring, way, simulator, **front.settings)
        with subprocess.Popen([program, "chat", "--json", "--transport", transport], env=environment, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as chat:
            times = []
            for _ in range(TURNS):
                begin, first, kind = time.perf_counter(), None, ""
                print("repeat 3 words", file=chat.stdin, flush=True)
                while kind not in ("completed", "error"):
                    kind = json.loads(chat.stdout.readline())["type"]
                    if kind == "text_delta":
                        first = first or time.perf_counter() - begin
                times.append(first)
            chat.stdin.close()
        found[way] = statistics.median(times[1:])
    return found


def long_conversation(program, keyring, stack):
    """{turn: {bytes, wire_bytes, memory, seconds}} of a conversation over one WebSocket whose every turn calls a tool: what the
    simulator received in that turn, whole and as it came, compressed, and how much memory the program holds after it."""
    folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chappie-bench-")))
    manifest = folder / "tools.json"
    schema = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
    tool = {"name": "weather", "command": "true", "inputSchema": schema, "policy": "automatic"}
    manifest.write_text(json.dumps({"tools": [tool]}))
    simulator, found, seen, sockets = stack.enter_context(Simulator(program)), {}, 0, set()
    environment = sign_in(program, keyring, "tools", simulator)
    requests = re.compile(r"POST /backend-api/codex/responses 200 \(websocket (\d+), .* (\d+) bytes(?: as (\d+))?\)")
    with subprocess.Popen([program, "chat", "--json", "--transport", "websocket", "--tools", manifest], env=environment, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as chat:
        for turn in range(1, LONG + 1):
            begin, kind = time.perf_counter(), ""
            print('call weather {"town":"Graz"}', file=chat.stdin, flush=True)
            while kind != "completed":
                kind = json.loads(chat.stdout.readline())["type"]
                assert kind != "error", f"turn {turn} failed"
            seconds = time.perf_counter() - begin
            lines = simulator.wait_for_log(lambda lines: sum(map(bool, map(requests.search, lines))) >= 2, since=seen)
            seen += len(lines)
            if turn in LOOKED_AT:
                sizes = [match.groups() for match in map(requests.search, lines) if match]
                status = pathlib.Path(f"/proc/{chat.pid}/status").read_text()
                found[turn] = {"bytes": sum(int(plain) for _, plain, _ in sizes), "seconds": seconds,
                               "wire_bytes": sum(int(wire or plain) for _, plain, wire in sizes),
                               "memory": int(re.search(r"VmRSS:\s*(\d+)", status)[1]) / 1024}
                sockets |= {socket for socket, *_ in sizes}
                assert len(sizes) == 2 and len(sockets) == 1, (sizes, sockets)
        chat.stdin.close()
    return found


def in_memory(program, name=""):
    """What the program measures whose work is in memory: the codec's rates, and the client's time for a tool call."""
    printed = subprocess.run([program, "1", name], check=True, capture_output=True, text=True).stdout if program else ""
    rows = {row.pop("measure"): row for row in map(json.loads, printed.splitlines())}
    rates = {name: row["gigabytes_per_second"] for name, row in rows.items() if "gigabytes_per_second" in row}
    return rates, {name: row for name, row in rows.items() if name not in rates}


def thread_costs(program):
    """{protection: {step: {…}}} of a thread of 10,000 turns and of 10,000 threads, and the log of llm."""
    rows = {}
    for protection in PROTECTIONS:
        with tempfile.TemporaryDirectory(prefix="chappie-bench-") as folder:
            def step(*words):
                command = [program, "threads", folder, protection, *words]
                return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

            rows[protection] = {name: step(name) for name in ("append", "open", "fill", "list")} | {
                f"search for {name}": step("search", words) for name, words in SEARCHES.items()}
    with tempfile.TemporaryDirectory(prefix="chappie-bench-") as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-warn-conflicts", "--target", folder, LLM]
        print(f"installing {LLM} from PyPI", file=sys.stderr)
        subprocess.run(pip, check=True, stdout=sys.stderr)
        script = pathlib.Path(__file__).with_name("bench_llm.py")
        printed = subprocess.run([sys.executable, script, str(LLM_TURNS)], env={**os.environ, "PYTHONPATH": folder, "LLM_USER_PATH": folder},
                                 check=True, capture_output=True, text=True).stdout
    return rows, json.loads(printed)


def stream_costs(program, bench):
    """[{transport, streams, …}] of a process with so many answers at once, at 4 deltas a second each, without TLS."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    rows = []
    for transport in ("websocket", "sse"):
        for count in STREAMS:
            with Simulator(program, deltasPerSecond=4, pollInterval=0) as simulator:
                command = [bench, "streams", simulator.issuer, str(count), transport]
                printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                rows.append({"transport": transport, **json.loads(printed)})
    return rows


def print_stream_costs(rows):
    print(f"{'streams':>20} {'MiB each':>9} {'of it signed in':>16} {'descriptors each':>17} {'CPU a delta, µs':>16} {'threads / at first':>19} {'errors':>7}")
    for row in rows:
        threads = f"{row['threads']} / {row['threads_in_burst']}"
        print(f"{row['streams']:>10,} {row['transport']:9} {row['mebibytes_each']:9.2f} {row['sign_in_mebibytes_each']:16.2f} "
              f"{row['descriptors_each']:17.1f} {row['microseconds_a_delta']:16.0f} {threads:>19} {row['errors']:7}")


def print_thread_costs(rows, llm):
    goal = GOALS["append, late / early"]
    for protection, steps in rows.items():
        append, plain = steps["append"], rows["none"]["append"]
        ratio = append["late_ms"] / append["early_ms"]
        print(f"{protection}: append at turn 10 {append['early_ms']:.2f} ms, at turn 10,000 {append['late_ms']:.2f} ms, ratio {ratio:.2f} "
              f"(goal ≤ {goal}{', CROSSED' if ratio > goal else ''}); CPU {append['early_cpu_ms']:.2f} and {append['late_cpu_ms']:.2f} ms; "
              f"{append['late_ms'] / plain['late_ms']:.2f} × plain, {append['bytes'] / plain['bytes']:.2f} × its bytes")
        print(f"    10,000 threads of two records: written in {steps['fill']['ms'] / 1000:.1f} s, {steps['fill']['bytes'] / 2**20:.0f} MiB")
        names = {"open": "10,000 turns opened", "list": "10,000 threads listed"}
        for name, row in steps.items():
            if "memory" in row:
                print(f"    {names.get(name, name)}: {row['ms']:.1f} ms, {row['memory']:.1f} MB at most ({row['memory_before']:.1f} before), "
                      f"{row['found']} found")
    print(f"llm {llm['version']}: logging turn 10 {llm['early_ms']:.2f} ms, turn {LLM_TURNS} {llm['late_ms']:.2f} ms, "
          f"ratio {llm['late_ms'] / llm['early_ms']:.2f}")


def print_tool_costs(rounds, turns):
    def verdict(value, goal):
        return f"goal ≤ {goal}" + (", CROSSED" if value > goal else "")

    for name, row in rounds.items():
        if "wall_ms" in row:
            print(f"{name}, answer's end to next request: {row['wall_ms']:.3f} ms, CPU {row['cpu_ms']:.3f} ms "
                  f"({verdict(row['cpu_ms'], GOALS['tool round, ms'])})")
        else:
            print(f"{name} (two requests), CPU: {row['cpu_ms']:.3f} ms; two turns without a call {row['plain_cpu_ms']:.3f} ms, "
                  f"ratio {row['ratio']:.2f}")
    for turn, row in turns.items():
        print(f"turn {turn:3} of a conversation with tools over WebSocket: {row['bytes']:6} bytes sent ({row['wire_bytes']} compressed), "
              f"{row['memory']:.1f} MB held, {row['seconds'] * 1000:.1f} ms with the tool's process")
    for name, member in (("bytes", "bytes"), ("memory", "memory")):
        ratio = turns[LOOKED_AT[-1]][member] / turns[LOOKED_AT[1]][member]
        print(f"{name}, turn {LOOKED_AT[-1]} / turn {LOOKED_AT[1]}: {ratio:.2f} ({verdict(ratio, GOALS[name + ', late / early'])})")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--words", type=int, default=20000)
    parser.add_argument("--memory", help="what measures in memory")
    parser.add_argument("--tools", action="store_true")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--streams", action="store_true")
    options = parser.parse_args()
    if options.threads:
        rows, llm = thread_costs(options.memory)
        return print(json.dumps({"goals": GOALS, "threads": rows, "llm": llm})) if options.json else print_thread_costs(rows, llm)
    if options.streams:
        rows = stream_costs(options.program, options.memory)
        return print(json.dumps({"streams": rows})) if options.json else print_stream_costs(rows)
    if options.tools:
        with contextlib.ExitStack() as stack, Keyring() as keyring:
            turns = long_conversation(options.program, keyring, stack)
        _, rounds = in_memory(options.memory, "tool round")
        if options.json:
            return print(json.dumps({"goals": GOALS, "tool_rounds": rounds, "turns": turns}))
        return print_tool_costs(rounds, turns)
    ours, theirs = (measure([name, "--version"], None, STARTS)[0]["wall"] for name in (options.program, "curl"))
    with contextlib.ExitStack() as stack, Keyring() as keyring:
        waits = commands(options.program, keyring, stack)
        rows = answers(options.program, options.words, keyring, stack)
        first = first_deltas(options.program, keyring, stack)
        turns = long_conversation(options.program, keyring, stack)
    rates, rounds = in_memory(options.memory)
    for way, row in rows.items():
        base = rows["curl -N, " + ("https" if "https" in way or "tls" in way else "longer" if "longer" in way else "http")]
        row |= {"wall_ratio": row["wall"] / base["wall"], "CPU_ratio": row["CPU"] / base["CPU"]}
    if options.json:
        return print(json.dumps({"start_up": {"chappie": ours, "curl": theirs, "ratio": ours / theirs}, "words": options.words, "goals": GOALS,
                                 "commands_s": waits, "answers": rows, "first_delta_s": first, "codec_gb_per_s": rates, "tool_rounds": rounds, "turns": turns}))
    print(f"start-up: chappie {ours * 1000:.1f} ms, curl {theirs * 1000:.1f} ms, ratio {ours / theirs:.2f} (goal ≤ {GOALS['start-up']})")
    for name, seconds in waits.items():
        crossed = ", CROSSED" if seconds * 1000 > command_goal(name) else ""
        print(f"{name}: {seconds * 1000:.1f} ms (goal ≤ {command_goal(name)}{crossed})")
    print()
    print(f"answers of {options.words} deltas, the longer ones of {LONGER * options.words}; medians of {RUNS} (goal: CPU/curl ≤ {GOALS['CPU']})")
    print(f"{'':24} {'wall, s':>10} {'CPU, s':>9} {'peak, MB':>9} {'wall/curl':>11} {'CPU/curl':>10}")
    for way, row in rows.items():
        print(f"{way:24} {row['wall']:10.3f} {row['CPU']:9.3f} {row.get('memory', 0):9.1f} {row['wall_ratio']:11.2f} {row['CPU_ratio']:10.2f}")
    for transport, way in (("sse", "sse, http"), ("websocket", "websocket")):
        print(f"Codex CLI / chappie, {transport}: {rows['Codex CLI, ' + transport]['CPU'] / rows[way]['CPU']:.1f} × the CPU (goal ≥ {GOALS['Codex CLI']})")
    print("\nfirst delta of a turn, through TLS: " + ", ".join(f"{way} {seconds * 1000:.2f} ms" for way, seconds in first.items()))
    for name, rate in rates.items():
        print(f"{name:56} {rate:8.2f} GB/s")
    print()
    print_tool_costs(rounds, turns)


if __name__ == "__main__":
    main()
