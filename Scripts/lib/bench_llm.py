"""What llm's log costs as it grows, beside bench's threads: bench_llm.py TURNS. One JSON object: {"early_ms", "late_ms", "version"}."""

import importlib.metadata
import json
import pathlib
import statistics
import sys
import tempfile
import time

import llm
import llm.migrations
import sqlite_utils

SAMPLES = 31


class Echo(llm.Model):
    model_id = "echo"
    can_stream = False

    def execute(self, prompt, stream, response, conversation):
        yield "Yes."


def text(number):
    return " ".join(f"word{(number * 7919 + place * 104729) % 5000}" for place in range(120)) + f" turn{number}"


def main():
    with tempfile.TemporaryDirectory(prefix="chappie-bench-") as folder:
        database = sqlite_utils.Database(pathlib.Path(folder) / "logs.db")
        llm.migrations.migrate(database)
        conversation = Echo().conversation()

        def log(number):
            response = conversation.prompt(text(number))
            response.text()
            begin = time.perf_counter()
            response.log_to_db(database)
            return 1000 * (time.perf_counter() - begin)

        times = [log(number) for number in range(int(sys.argv[1]) + SAMPLES)]
    print(json.dumps({"early_ms": statistics.median(times[10:10 + SAMPLES]), "late_ms": statistics.median(times[-SAMPLES:]),
                      "version": importlib.metadata.version("llm")}))


main()
