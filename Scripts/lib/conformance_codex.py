"""The unmodified Codex CLI against `chappie simulator`: conformance_codex.py CHAPPIE

Runs in the client's own virtual environment, with a private home whose configuration names loopback only.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import codex_cli_bin
from simulator import Simulator, Tally

BINARY = os.path.join(os.path.dirname(codex_cli_bin.__file__), "bin", "codex")

# `chatgpt_base_url` must be another origin than the model's address: from its own origin the client would take the
# answer of wham/accounts/check as a command to send the turn to the public host instead. The one command that is run is
# the `echo` below; the client's sandbox needs namespaces that containers often withhold.
CONFIGURATION = """
model = "gpt-5.5"
model_provider = "{provider}"
check_for_update_on_startup = false
cli_auth_credentials_store = "file"
sandbox_mode = "danger-full-access"
chatgpt_base_url = "http://localhost:{port}/backend-api/"
openai_base_url = "http://127.0.0.1:{port}/backend-api/codex"
[features]
apps = false
plugins = false
[analytics]
enabled = false
[model_providers.sse]
name = "{name}"
base_url = "http://127.0.0.1:{port}/backend-api/codex"
wire_api = "responses"
requires_openai_auth = true
supports_websockets = false
"""

# What the simulator's log says of a message: POST /backend-api/codex/responses 200 (websocket 3, whole, 4 items, …)
MESSAGE = re.compile(
    r"(POST|PREWARM) /backend-api/codex/responses (\d+) "
    r"\(websocket (\d+), (whole|incremental), (\d+) items?, (\d+) bytes(?: as (\d+))?\)"
)


class Message:
    def __init__(self, match):
        self.method, self.status, self.connection = match[1], int(match[2]), int(match[3])
        self.is_incremental, self.items = match[4] == "incremental", int(match[5])
        self.size, self.wire_size = int(match[6]), int(match[7]) if match[7] else None


class Client:
    def __init__(self, simulator, home):
        self.simulator, self.home = simulator, home
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "CODEX_HOME": os.path.join(home, "codex"),
            "CODEX_REFRESH_TOKEN_URL_OVERRIDE": simulator.issuer + "/oauth/token",
            "CODEX_REVOKE_TOKEN_URL_OVERRIDE": simulator.issuer + "/oauth/revoke",
            "TERM": "dumb",
        }
        os.makedirs(self.environment["CODEX_HOME"])
        self.configure("OpenAI")

    def configure(self, name, provider="sse"):
        """The display name "OpenAI" switches on compressed bodies and workspace routing; any other is plain.

        The provider "openai" is the built-in one, which tries WebSocket first.
        """
        with open(os.path.join(self.environment["CODEX_HOME"], "config.toml"), "w", encoding="utf-8") as stream:
            stream.write(CONFIGURATION.format(port=self.simulator.port, name=name, provider=provider))

    def run(self, *arguments, timeout=90):
        done = subprocess.run(
            [BINARY, *arguments],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f"codex {arguments[0]} ended with {done.returncode}: {done.stdout[-800:]}{done.stderr[-800:]}"
        return done.stdout

    def turn(self, *arguments):
        """The events of one turn."""
        printed = self.run("exec", *(arguments[:-1] or ("--ephemeral",)), "--json", "--skip-git-repo-check", arguments[-1])
        return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]

    def over_websocket(self, wanted, *arguments):
        """A turn whose every message the simulator's log shows to have come over one WebSocket.

        `wanted` lists method, "incremental" or "whole" of each message. Gives the messages and the finished items.
        """
        mark = len(self.simulator.log)
        items = [event["item"] for event in self.turn(*arguments) if event.get("type") == "item.completed"]

        def messages(lines):
            return [Message(match) for match in map(MESSAGE.fullmatch, lines) if match]

        lines = self.simulator.wait_for_log(lambda lines: len(messages(lines)) >= len(wanted), mark)
        seen = messages(lines)
        shapes = [(message.method, "incremental" if message.is_incremental else "whole") for message in seen]
        assert shapes == wanted, lines
        assert {message.status for message in seen} == {200}, lines
        assert len({message.connection for message in seen}) == 1, lines
        assert sum("GET /backend-api/codex/responses 101" in line for line in lines) == 1, lines
        assert not any(re.match(r"POST /backend-api/codex/responses \d+$", line) for line in lines), lines
        assert all((message.wire_size is not None) == self.compresses for message in seen), lines
        if self.compresses:
            assert all(message.wire_size < message.size / 2 for message in seen if message.size > 10_000), lines
        return seen, items

    def credential(self):
        with open(os.path.join(self.environment["CODEX_HOME"], "auth.json"), encoding="utf-8") as stream:
            return json.load(stream)

    # The checks, in order.

    def signs_in(self):
        self.run("login", "--device-auth", "--experimental_issuer", self.simulator.issuer)
        tokens = self.credential()["tokens"]
        assert tokens["access_token"] and tokens["refresh_token"] and tokens["account_id"], "a token is missing"

    def says(self, text, wanted):
        items = [event["item"] for event in self.turn(text) if event.get("type") == "item.completed"]
        self.hold(items, wanted)

    @staticmethod
    def hold(items, wanted):
        answers = [item.get("text", "") for item in items if item.get("type") == "agent_message"]
        assert any(wanted in answer for answer in answers), f"no answer holds {wanted!r}: {items}"

    def answers_compressed(self):
        self.says("good evening from codex", "good evening from codex")

    def answers_plain(self):
        self.configure("Simulator")
        self.says("a plain evening", "a plain evening")
        self.configure("OpenAI")

    def calls_a_tool(self):
        items = [
            event["item"] for event in self.turn("run: echo hello-from-a-tool") if event.get("type") == "item.completed"
        ]
        commands = [item for item in items if item.get("type") == "command_execution"]
        assert commands, f"no command was run: {items}"
        assert "hello-from-a-tool" in commands[0]["aggregated_output"], commands[0]
        answers = [item.get("text", "") for item in items if item.get("type") == "agent_message"]
        assert any("hello-from-a-tool" in answer for answer in answers), f"the result isn't in the answer: {items}"

    # The same over WebSocket.

    PREWARMED = [("PREWARM", "whole"), ("POST", "incremental")]

    def answers_over_websocket(self):
        seen, items = self.over_websocket(self.PREWARMED, "-C", self.home, "a first evening by the fire")
        self.hold(items, "a first evening by the fire")
        # The instructions went ahead, and nothing else.
        assert seen[0].items == 1 and seen[1].items > 1, (seen[0].items, seen[1].items)

    def resumes_over_websocket(self):
        _, items = self.over_websocket(self.PREWARMED, "resume", "--last", "a second evening by the sea")
        self.hold(items, "a second evening by the sea")
        # The simulated model counts the answers it finds in the input.
        self.hold(items, "- Turn: 2")

    def calls_a_tool_over_websocket(self):
        wanted = self.PREWARMED + [("POST", "incremental")]
        seen, items = self.over_websocket(wanted, "--ephemeral", "run: echo hello-from-a-socket")
        commands = [item for item in items if item.get("type") == "command_execution"]
        assert commands and "hello-from-a-socket" in commands[0]["aggregated_output"], items
        self.hold(items, "hello-from-a-socket")
        assert seen[2].items == 1, f"the tool's result came with {seen[2].items} items"

    def signs_out(self):
        token = self.credential()["tokens"]["refresh_token"]
        self.run("logout")
        assert not os.path.exists(os.path.join(self.environment["CODEX_HOME"], "auth.json")), "the credential is still there"
        status, answer = self.simulator.post(
            "/oauth/token",
            {"client_id": "app_EMoamEEZ73f0CkXaXp7hrann", "grant_type": "refresh_token", "refresh_token": token},
        )
        assert status == 401, f"after the log-out, its refresh token still gives {status}: {answer}"


def check_server_sent_events(tally, client):
    tally.check("codex streams a turn, its body compressed", client.answers_compressed)
    tally.check("codex streams a turn, its body plain", client.answers_plain)
    tally.check("codex runs a tool and gets the answer to its result", client.calls_a_tool)


def check_websocket(tally, client, compresses):
    client.configure("OpenAI", provider="openai")
    client.compresses = compresses
    how = "WebSocket, compressed" if compresses else "WebSocket, plain"
    tally.check(f"{how}: codex warms up, and its turn brings only what is new", client.answers_over_websocket)
    tally.check(f"{how}: codex resumes a conversation", client.resumes_over_websocket)
    tally.check(f"{how}: codex runs a tool, and sends back its result alone", client.calls_a_tool_over_websocket)


def main(program):
    tally = Tally()
    # The client refuses to put its helpers below the temporary directory and warns; a home elsewhere is quieter.
    base = os.path.join(os.path.dirname(sys.prefix), "runs")
    os.makedirs(base, exist_ok=True)
    for compresses in [True, False]:
        with tempfile.TemporaryDirectory(dir=base) as home:
            scenario = os.path.join(home, "scenario.json")
            with open(scenario, "w", encoding="utf-8") as stream:
                json.dump({"settings": {"webSocketDeflate": compresses}}, stream)
            with Simulator(program, "--auto-approve", "--verbose", "--scenario", scenario) as simulator:
                client = Client(simulator, home)
                tally.check("codex signs in by device code", client.signs_in)
                if compresses:
                    check_server_sent_events(tally, client)
                check_websocket(tally, client, compresses)
                tally.check("codex logs out, and its token is worth nothing", client.signs_out)
    return tally.finish()


sys.exit(main(sys.argv[1]))
