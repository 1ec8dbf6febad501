"""The unmodified Codex CLI against `chappie simulator`, in a private home whose configuration names loopback only."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

import pytest

from conftest import ROOT
from counterparts import CLIENT_ID, PATIENCE
from printed import blocks
from test_tools import LISTING, many_tools

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

# `chatgpt_base_url` must be another origin than the model's address: from its own origin the client would take the answer of
# wham/accounts/check as a command to send the turn to the public host instead. The one command that is run is the `echo` below;
# the client's sandbox needs namespaces that containers often withhold.
CONFIGURATION = """
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
    r"(?P<method>POST|PREWARM) /backend-api/codex/responses (?P<status>\d+) \(websocket (?P<connection>\d+), "
    r"(?P<form>whole|incremental), (?P<items>\d+) items?, (?P<size>\d+) bytes(?: as (?P<wire>\d+))?\)")
EITHER = "whole or incremental"
PREWARMED = [("PREWARM", "whole"), ("POST", "incremental")]
# The client sends the input whole again if anything beside it has changed since it prewarmed. A resumed session is still
# asking for the account's settings then, so that either form can come.
RESUMED = [("PREWARM", "whole"), ("POST", EITHER)]


class Codex:
    def __init__(self, simulator, home):
        binary = pytest.importorskip("codex_cli_bin", reason="the Codex CLI is not installed: openai-codex-cli-bin")
        self.binary = os.path.join(os.path.dirname(binary.__file__), "bin", "codex")
        self.simulator, self.home, self.folder = simulator, home, pathlib.Path(home, "codex")
        self.folder.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": home, "CODEX_HOME": str(self.folder), "TERM": "dumb",
            "CODEX_REFRESH_TOKEN_URL_OVERRIDE": simulator.issuer + "/oauth/token",
            "CODEX_REVOKE_TOKEN_URL_OVERRIDE": simulator.issuer + "/oauth/revoke",
        }
        self.configure("OpenAI")
        self.run("login", "--device-auth", "--experimental_issuer", simulator.issuer)
        self.tokens = json.loads((self.folder / "auth.json").read_text())["tokens"]
        assert self.tokens["access_token"] and self.tokens["refresh_token"] and self.tokens["account_id"], "a token is missing"

    def configure(self, name, provider="sse"):
        """The display name "OpenAI" switches on compressed bodies and workspace routing; any other is plain. The provider
        "openai" is the built-in one, which tries WebSocket first, and the only one that says which version it is."""
        (self.folder / "config.toml").write_text(CONFIGURATION.format(port=self.simulator.port, name=name, provider=provider))

    def select(self, model):
        path = self.folder / "config.toml"
        path.write_text(f'model = "{model}"\n' + path.read_text())

    def start(self, *arguments):
        return subprocess.run([self.binary, *arguments], env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=90 * PATIENCE)

    def run(self, *arguments):
        done = self.start(*arguments)
        assert done.returncode == 0, f"codex {arguments[0]} ended with {done.returncode}: {done.stdout[-800:]}{done.stderr[-800:]}"
        return done.stdout

    def turn(self, *arguments):
        """The items of one turn."""
        printed = self.run("exec", *(arguments[:-1] or ("--ephemeral",)), "--json", "--skip-git-repo-check", arguments[-1])
        events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        return [event["item"] for event in events if event.get("type") == "item.completed"]

    def over_web_socket(self, wanted, compresses, *arguments):
        """The items of a turn whose every message came over one WebSocket, as the simulator's log shows, and how many items each of
        those messages had; `wanted` lists method, "incremental", "whole" or EITHER of each."""
        mark, items = len(self.simulator.log), self.turn(*arguments)
        messages = lambda lines: [match.groupdict() for match in map(MESSAGE.fullmatch, lines) if match]
        lines = self.simulator.wait_for_log(lambda lines: len(messages(lines)) >= len(wanted), mark)
        seen = messages(lines)
        assert [message["method"] for message in seen] == [method for method, _ in wanted], lines
        assert all(form in (message["form"], EITHER) for message, (_, form) in zip(seen, wanted)), lines
        assert len({message["connection"] for message in seen}) == 1 == "\n".join(lines).count("/codex/responses 101"), lines
        assert not any(re.match(r"POST /backend-api/codex/responses \d+$", line) for line in lines), lines
        for message in seen:
            size, wire = int(message["size"]), message["wire"]
            assert message["status"] == "200" and (wire is not None) == compresses, lines
            assert not compresses or size <= 10_000 or int(wire) < size / 2, lines
        return items, [int(message["items"]) for message in seen]

    def signs_out(self):
        self.run("logout")
        assert not (self.folder / "auth.json").exists(), "the credential is still there"
        form = {"client_id": CLIENT_ID, "grant_type": "refresh_token", "refresh_token": self.tokens["refresh_token"]}
        assert self.simulator.post("/oauth/token", **form) == 401, "after the log-out, its refresh token is still good"


def says(items, text):
    return any(text in item.get("text", "") for item in items if item.get("type") == "agent_message")


def has_run(items, text):
    return says(items, text) and any(text in item.get("aggregated_output", "") for item in items)


@pytest.fixture
def codex(simulate, request):
    def start(**settings):
        # The client refuses to put its helpers below the temporary directory, and warns.
        home = tempfile.TemporaryDirectory(dir=pathlib.Path.home(), prefix=".chappie-codex-", ignore_cleanup_errors=True)
        request.addfinalizer(home.cleanup)
        return Codex(simulate(**settings), home.name)
    return start


# The client is not told a model: its default is the first of the list.
DEFAULT_MODEL = "Model: `gpt-6.1-sol`"


def test_codex_over_server_sent_events(codex):
    codex = codex(webSocket=False)
    codex.configure("OpenAI", provider="openai")
    items = codex.turn("good evening from codex")
    assert says(items, "good evening from codex") and says(items, DEFAULT_MODEL), items
    mark = len(codex.simulator.log)
    assert has_run(codex.turn("run: echo hello-from-a-tool"), "hello-from-a-tool")
    posts = [line for line in codex.simulator.log[mark:] if line.startswith("POST /backend-api/codex/responses")]
    assert posts == ["POST /backend-api/codex/responses 200"] * 2, codex.simulator.log[mark:]
    codex.signs_out()


def test_codex_signs_in_with_a_browser(codex, ports):
    """`codex login` names the public issuer, whatever its options say; the same sign-in of `codex app-server` takes another one.
    The test is the browser: it follows the page's redirect to the client's own listener, and that one's to its last page."""
    codex = codex()
    codex.run("logout")
    environment = codex.environment | {"CODEX_APP_SERVER_LOGIN_ISSUER": codex.simulator.issuer, "BROWSER": "true"}
    with subprocess.Popen([codex.binary, "app-server"], env=environment, cwd=codex.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as process:
        def send(**message):
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()

        def answer(**members):
            for line in process.stdout:
                message = json.loads(line)
                if members.items() <= message.items():
                    return message
            raise AssertionError(f"codex ended before {members}")

        try:
            send(id=1, method="initialize", params={"clientInfo": {"name": "test", "title": "Test", "version": "1"}})
            answer(id=1)
            send(method="initialized")
            send(id=2, method="account/login/start", params={"type": "chatgpt"})
            page = answer(id=2)["result"]["authUrl"]
            assert page.startswith(codex.simulator.issuer + "/oauth/authorize?"), page
            with urllib.request.urlopen(page, timeout=60 * PATIENCE) as last:
                assert last.status == 200, last.url
            ended = answer(method="account/login/completed")["params"]
            assert ended["success"], ended
        finally:
            process.kill()
    tokens = json.loads((codex.folder / "auth.json").read_text())["tokens"]
    assert tokens["access_token"] and tokens["refresh_token"] and tokens["account_id"], tokens
    assert "POST /oauth/token 200" in codex.simulator.log, codex.simulator.log
    codex.configure("OpenAI", provider="openai")
    assert says(codex.turn("good evening"), "good evening")


def test_a_provider_that_names_no_version_needs_a_lenient_simulator(codex):
    codex = codex(lenient=True)
    assert says(codex.turn("good evening from codex"), "good evening from codex")
    codex.configure("Simulator")
    assert says(codex.turn("a plain evening"), "a plain evening")


def test_codex_over_server_sent_events_as_of_september(codex):
    codex = codex(asOf="2026-09")
    codex.select("gpt-5.5")
    assert says(codex.turn("good evening from codex"), "Model: `gpt-5.5`")
    assert has_run(codex.turn("run: echo hello-from-a-tool"), "hello-from-a-tool")


@pytest.mark.parametrize("transport", [True, False], ids=["websocket", "sse"])
def test_codex_shows_what_it_is_told_of_a_model_that_is_gone(transport, codex):
    codex = codex(webSocket=transport)
    codex.configure("OpenAI", provider="openai")
    codex.select("gpt-5.5")
    done = codex.start("exec", "--json", "--skip-git-repo-check", "good evening")
    assert done.returncode != 0 and "is not supported when using Codex with a ChatGPT account" in done.stdout, done


@pytest.mark.parametrize("compresses", [True, False], ids=["compressed", "plain"])
def test_codex_over_web_socket(compresses, codex, user):
    codex = codex(webSocketDeflate=compresses)
    codex.configure("OpenAI", provider="openai")
    items, counts = codex.over_web_socket(PREWARMED, compresses, "-C", codex.home, "a first evening by the fire")
    # The tools and the instructions went ahead, and nothing else.
    assert says(items, "a first evening by the fire") and says(items, DEFAULT_MODEL), items
    assert counts[0] == 2 < counts[1], (items, counts)
    # The simulated model counts the answers that it finds in the input.
    items, _ = codex.over_web_socket(RESUMED, compresses, "resume", "--last", "a second evening by the sea")
    assert says(items, "a second evening by the sea") and says(items, "- Turn: 2"), items
    with_tool = PREWARMED + [("POST", "incremental")]
    items, counts = codex.over_web_socket(with_tool, compresses, "--ephemeral", "run: echo hello-from-a-socket")
    assert has_run(items, "hello-from-a-socket") and counts[2] == 1, (items, counts)
    # And what it has kept of that can be taken over.
    someone = user(codex.simulator)
    [thread] = someone.run("threads", "import", "--json", str(codex.folder / "sessions")).events[0]["imported"]
    [kept] = someone.run("threads", "list", "--json").events[0]["threads"]
    assert (kept["id"], kept["turns"], kept["preview"]) == (thread, 2, "a first evening by the fire"), kept
    assert "a second evening by the sea" in someone.run("threads", "show").output
    codex.signs_out()


@pytest.mark.parametrize("transport", [True, False], ids=["websocket", "sse"])
@pytest.mark.parametrize("model", ["gpt-6.1-sol", "gpt-5.5"])
def test_codex_searches_and_makes_pictures(model, transport, codex):
    """gpt-6.1-sol calls them from a program, in code mode; gpt-5.5 calls the tools of the namespaces."""
    codex = codex(webSocket=transport, **({"asOf": "2026-09"} if model == "gpt-5.5" else {}))
    codex.configure("OpenAI", provider="openai")
    codex.select(model)
    asked = lambda path: codex.simulator.log.count(f"POST /backend-api/codex/{path} 200")
    web = ("--ephemeral", "-c", 'web_search="live"', "--enable", "standalone_web_search")
    items = codex.turn(*web, 'call web.run {"search_query": [{"q": "swift 6.4"}], "open": [{"ref_id": "https://example.com/a"}]}')
    assert says(items, "https://example.com/swift-6-4/1") and says(items, "L1: This page is made up."), items
    assert asked("alpha/search") == 1, codex.simulator.log
    items = codex.turn("--ephemeral", 'call image_gen.imagegen {"prompt": "a red fox"}')
    assert asked("images/generations") == 1, (items, codex.simulator.log)
    [picture] = codex.folder.glob("generated_images/**/*.png")
    # The simulator's pictures are 48 pixels wide, and 32 high. Those of edits are 32 pixels wide.
    assert picture.read_bytes()[16:24] == bytes([0, 0, 0, 48, 0, 0, 0, 32]), items
    edit = {"prompt": "add a hat", "referenced_image_paths": [str(picture)]}
    codex.turn("--ephemeral", f"call image_gen.imagegen {json.dumps(edit)}")
    assert asked("images/edits") == 1, codex.simulator.log
    sockets = any(MESSAGE.fullmatch(line) for line in codex.simulator.log)
    assert sockets == transport, codex.simulator.log


@pytest.mark.parametrize("transport", [True, False], ids=["websocket", "sse"])
def test_codex_searches_for_a_tool(transport, codex):
    """The CLI defers the tools of its servers, and searches them for the model."""
    codex = codex(webSocket=transport, asOf="2026-09")
    codex.configure("OpenAI", provider="openai")
    codex.select("gpt-5.5")
    with open(codex.folder / "config.toml", "a") as configuration:
        arguments = json.dumps(["-c", LISTING, json.dumps(many_tools(120))])
        configuration.write(f"\n[mcp_servers.many]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n")
    items = codex.turn("find: thing 107 of the mail\ncall tool_107 {}")
    [call] = [item for item in items if item["type"] == "mcp_tool_call"]
    assert (call["server"], call["tool"], call["status"]) == ("many", "tool_107", "completed"), call
    assert says(items, "ran tool_107"), items


@pytest.mark.parametrize("model, question", [
    ("gpt-6.1-sol", 'call exec const r = await tools.mcp__chappie__{name}({arguments}); text(r);'),
    ("gpt-5.5", "call {name} {arguments}"),
], ids=["code mode", "plain"])
def test_codex_calls_the_tools_of_this_program(model, question, codex, user, passphrase):
    codex = codex(webSocket=False, **({"asOf": "2026-09"} if model == "gpt-5.5" else {}))
    codex.configure("OpenAI", provider="openai")
    someone = user(codex.simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")).sign_in()
    someone.run("ask", "reply: an elephant in the garden")
    # As docs/ToolServers.md prints it, with this machine's path, and the variables of a user with an encrypted file.
    [printed] = [lines for info, _, lines in blocks(ROOT / "docs/ToolServers.md") if info == "toml"]
    assert printed[1] == 'command = "chappie"', printed
    variables = {name: value for name, value in someone.environment.items() if name not in codex.environment}
    codex.environment |= variables
    path = codex.folder / "config.toml"
    path.write_text("\n".join([path.read_text(), printed[0], f"command = {json.dumps(str(someone.program))}", *printed[2:],
                               f"env_vars = {json.dumps(list(variables))}\n"]))
    codex.select(model)
    for name, arguments, expected in [("search_threads", {"words": "elephant"}, "an elephant in the garden"),
                                      ("ask", {"question": "reply: a second elephant"}, "a second elephant")]:
        items = codex.turn(question.format(name=name, arguments=json.dumps(arguments)))
        [call] = [item for item in items if item["type"] == "mcp_tool_call"]
        assert (call["server"], call["tool"], call["arguments"], call["status"]) == ("chappie", name, arguments, "completed"), call
        assert expected in json.dumps(call["result"]) and says(items, expected), items
