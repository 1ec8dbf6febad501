"""Every use of the program against the service as it is in November 2026 (november.py), which refuses what the real one might."""

import base64
import json
import pathlib
import re
import signal
import sys
import tempfile
import time

import pexpect
import pytest

from conftest import BAD_DATA, SIGN_IN_NEEDED, UNAVAILABLE, USAGE, USAGE_LIMIT
from counterparts import PATIENCE
from november import COMMENTARY, HOLD, LITE_HEADER, November, Refused
from test_ask import PIXEL, write
from test_chat import Terminal
from test_codex import Codex, says
from test_tools import SERVER, manifest

ECHO = 'it got {"a":"b"}'
CALL = 'call up {"a":"b"}'
RESPONSES, MODELS = "POST /backend-api/codex/responses", "GET /backend-api/codex/models"


@pytest.fixture
def november(stack):
    """`november(plan="free")`: a service. What it has refused fails the test, unless that was wanted: `service.refusals.clear()`."""
    services = []

    def start(plan="plus", **settings):
        services.append(stack.enter_context(November(plan, **settings)))
        return services[-1]
    yield start
    assert not [refusal for service in services for refusal in service.refusals]


@pytest.fixture(params=["sse", "websocket"])
def transport(request):
    return request.param


@pytest.fixture
def service(november):
    return november()


@pytest.fixture
def person(service, signed_in):
    return signed_in(service)


def last(service):
    return service.turns[-1]["body"]


def facts(output):
    """What the model has said about the request."""
    return dict(re.findall(r"^(\w+): (.*)$", output, re.MULTILINE))


# Questions.


def test_a_question(person, service, transport):
    outcome = person.ask("reply: good evening", transport=transport)
    assert (outcome.output, outcome.errors) == ("good evening\n", "")
    assert last(service)["model"] == "gpt-6.1-sol" and service.turns[-1]["transport"] == transport


def test_a_model_by_name(person, service, transport):
    for slug in ("gpt-6-luna", "gpt-6-sol", "gpt-5.6-terra"):
        assert facts(person.ask("hello", "-m", slug, transport=transport).output)["Model"] == slug


def test_json_lines(person, transport):
    events = person.ask("reply: an answer in several pieces", "--json", transport=transport).events
    text = "".join(event["text"] for event in events if event["type"] == "text_delta")
    assert text == "an answer in several pieces" and COMMENTARY not in text
    assert events[-1]["type"] == "completed" and COMMENTARY in json.dumps(events)


def test_two_turns_in_two_processes(person, service, transport):
    person.ask("first", "-s", "Be brief.", transport=transport)
    assert facts(person.ask("second", "-c", transport=transport).output)["Turn"] == "2"
    assert facts(person.ask("third", "-c", transport=transport).output)["Turn"] == "3"
    kinds = [item["type"] for item in last(service)["input"]]
    assert kinds.count("reasoning") == 2, kinds
    keys = {turn["body"]["prompt_cache_key"] for turn in service.turns}
    assert len(keys) == 1


def test_a_question_that_is_not_kept(person, service, transport):
    assert person.ask("reply: gone", "--ephemeral", transport=transport).output == "gone\n"


def test_images_and_files(person, service, transport, tmp_path):
    image, notes = write(tmp_path / "pixel.png", PIXEL), write(tmp_path / "notes.txt", "the moon is full\n")
    output = person.ask("What?", "-i", image, "-f", notes, transport=transport).output
    assert facts(output)["Images"] == "1" and "the moon is full" in output
    assert facts(person.ask("And now?", "-c", transport=transport).output)["Images"] == "1"


def test_an_image_that_is_too_large_is_never_sent(person, service, tmp_path):
    # The head of the picture says 8064 by 6048 pixels.
    large = write(tmp_path / "large.png", PIXEL[:16] + bytes.fromhex("00001f80000017a0") + PIXEL[24:])
    person.ask("What?", "-i", large, status=USAGE, says="8064x6048 pixels")
    person.ask("What?", "-i", write(tmp_path / "cut.png", PIXEL[:-6]), status=USAGE, says="is missing")
    assert not service.turns


def test_an_address_of_an_image_is_never_sent(person, service, transport):
    outcome = person.ask("What?", "-i", "https://x.example/a.png", transport=transport, status=USAGE, says="address")
    assert not service.requests, outcome


def test_a_large_question(person, service, transport):
    text = "word " * 20_000
    assert person.ask("reply: " + text, transport=transport).output == text.strip() + "\n"


def test_a_template(person, service, transport):
    write(pathlib.Path(person.environment["XDG_CONFIG_HOME"]) / "chappie/templates/say.md",
          "---\nmodel: gpt-6-luna\neffort: high\nsystem: Be kind.\n$tone: kind\n---\nIn a $tone tone, for $whom: $input")
    said = facts(person.ask("good evening", "-t", "say", "-p", "whom", "a cat", transport=transport).output)
    assert (said["Model"], said["Effort"]) == ("gpt-6-luna", "high")
    texts = [part["text"] for item in last(service)["input"] if item["type"] == "message" for part in item["content"]]
    assert "Be kind." in texts and "In a kind tone, for a cat: good evening" in texts


SCHEMA = {"type": "object", "properties": {"town": {"type": "string"}, "size": {"type": "integer"}}, "required": ["town", "size"],
          "additionalProperties": False}


def test_a_schema(person, service, transport, tmp_path):
    schema, target = write(tmp_path / "schema.json", json.dumps(SCHEMA)), tmp_path / "town.json"
    assert json.loads(person.ask("Which town?", "--schema", schema, transport=transport).output) == {"town": "Bonn", "size": 7}
    person.ask("Which town?", "--schema", schema, "-o", str(target), transport=transport)
    assert json.loads(target.read_text()) == {"town": "Bonn", "size": 7}
    person.ask('reply: {"town":7}', "--schema", schema, transport=transport, status=BAD_DATA, says="at /")


def test_an_answer_in_a_file(person, transport, tmp_path):
    target = tmp_path / "answer.txt"
    assert person.ask("reply: kept", "-o", str(target), transport=transport).output == ""
    assert target.read_text() == "kept\n"


def test_the_code_alone(person, transport):
    assert person.ask("reply: Here:\n```python\nprint(7)\n```", "-x", transport=transport).output == "print(7)\n"


# Models and plans.


@pytest.mark.parametrize("plan, model", [("plus", "gpt-6.1-sol"), ("free", "gpt-6-luna"), ("go", "gpt-6-luna"), ("enterprise", "gpt-6-astra")])
def test_the_best_model_of_a_plan(plan, model, november, signed_in, transport):
    person = signed_in(november(plan))
    assert facts(person.ask("hello", transport=transport).output)["Model"] == model


def test_a_list_is_asked_for_once(person, service):
    for _ in range(3):
        person.ask("reply: x")
    assert service.count(MODELS) == 1


def test_a_list_that_has_changed_is_fetched_beside_a_turn(person, service):
    person.ask("reply: x")
    service.models = ["gpt-6-sol", "gpt-6-luna"]
    # The best model of the old list is refused, and the new list says what there is.
    person.ask("reply: x", "-m", "gpt-6-luna")
    assert service.count(MODELS) == 2
    assert facts(person.ask("hello").output)["Model"] == "gpt-6-sol"
    assert service.count(MODELS) == 2


def test_without_a_list_there_is_a_last_resort(person, service, transport):
    service.breaks = {MODELS: 500}
    outcome = person.ask("hello", transport=transport)
    assert facts(outcome.output)["Model"].startswith("gpt-6") and outcome.errors, outcome


def test_a_list_that_shows_no_model(person, service):
    service.models = []
    outcome = person.run("models")
    assert not outcome.output and "shows no model" in outcome.errors, outcome
    assert [line.split()[0] for line in person.run("models", "--all").output.splitlines()] == ["gpt-hidden"]


@pytest.mark.parametrize("shape, style", [("account", "error"), ("account", "detail"), ("version", "error"), ("unknown", "error")])
def test_a_refused_model(shape, style, person, service, transport):
    service.refuses, service.frame_style = {"gpt-6-sol": shape}, style
    outcome = person.ask("hello", "-m", "gpt-6-sol", transport=transport, status=USAGE, says="gpt-6-sol")
    asked = [request for request in service.requests if request["body"]["model"] == "gpt-6-sol" and request["kind"] == "turn"]
    assert len(asked) == 1 and "`-m gpt-6.1-sol`" in outcome.errors, outcome


def test_a_retired_model_by_name(person, service, transport):
    outcome = person.ask("hello", "-m", "gpt-5.5", transport=transport, status=USAGE, says="gpt-5.5")
    assert "gpt-6" in outcome.errors, outcome


EFFORTS = [("minimal", "gpt-6.1-sol", "low", True), ("none", "gpt-6.1-sol", "low", True), ("ultra", "gpt-6.1-sol", "max", False),
           ("ultra", "gpt-6-sol", "xhigh", False), ("ultra", "gpt-6-luna", "max", False), ("xhigh", "gpt-6-luna", "xhigh", False),
           ("medium", "gpt-6.1-sol", "medium", False)]


@pytest.mark.parametrize("asked, model, sent, says", EFFORTS)
def test_an_effort(asked, model, sent, says, person, service, transport):
    outcome = person.ask("hello", "--effort", asked, "-m", model, transport=transport)
    assert facts(outcome.output)["Effort"] == sent
    assert not says or asked in outcome.errors and sent in outcome.errors, outcome


def test_fast_and_verbosity(person, service, transport):
    person.ask("hello", "--fast", "--verbosity", "high", transport=transport)
    assert last(service)["reasoning"]["effort"] == "low" and last(service)["text"]["verbosity"] == "high"


# Tools.


def called(outcome):
    return [(event["outcome"], event["output"]) for event in outcome.events if event["type"] == "tool_result"]


def test_a_program_is_called(person, service, transport, tmp_path):
    tools = manifest(tmp_path, policy="automatic")
    outcome = person.ask(CALL, "--tools", tools, transport=transport)
    assert outcome.output == ECHO + "\n"
    # The next turn sends the call and its output again, and is without tools.
    assert facts(person.ask("And now?", "-c", transport=transport).output)["Tools"] == "none"
    assert facts(person.ask("And now?", "-c", "--tools", tools, transport=transport).output)["Tools"] == "up"


def test_several_calls_in_a_round(person, service, transport, tmp_path):
    tools = manifest(tmp_path, policy="automatic")
    outcome = person.ask(f'{CALL}\ncall up {{"a":"c"}}', "--json", "--tools", tools, transport=transport)
    assert sorted(called(outcome)) == [("succeeded", ECHO), ("succeeded", 'it got {"a":"c"}')]
    outputs = [item["output"] for item in last(service)["input"] if item["type"] == "function_call_output"]
    assert outputs == [ECHO, 'it got {"a":"c"}']


def test_a_tool_of_a_server(person, service, transport, tmp_path):
    tools = manifest(tmp_path, mcpServers={"fixture": {"command": sys.executable, "args": [str(SERVER), str(tmp_path)]}})
    outcome = person.ask('call add {"first":40,"second":2}', "--json", "--tools", tools, "--approve-tools", transport=transport)
    assert called(outcome) == [("succeeded", "42")]


def test_an_image_of_a_tool(person, service, transport, tmp_path):
    tools = manifest(tmp_path, mcpServers={"fixture": {"command": sys.executable, "args": [str(SERVER), str(tmp_path)]}})
    person.ask("call picture {}", "--tools", tools, "--approve-tools", transport=transport)
    [output] = [item["output"] for item in last(service)["input"] if item["type"] == "function_call_output"]
    assert [part["type"] for part in output].count("input_image") == 1


def test_a_call_that_is_allowed_later(person, service, transport, tmp_path):
    """The terminal goes while the program asks; another process goes on with the turn."""
    tools, options = manifest(tmp_path), ("--transport", transport, "--tools")
    child = pexpect.spawn(person.program, ["ask", *options, tools, CALL], env=person.environment, timeout=60)
    child.expect_exact("Run it?")
    child.kill(signal.SIGKILL)
    child.expect_exact(pexpect.EOF)
    child.close()
    # The other process is another client: it knows nothing of a turn state.
    for conversation in service.conversations.values():
        conversation.turn_state = None
    outcome = person.run("threads", "resume", *options, tools, "--approve-tools", "--json")
    assert called(outcome) == [("succeeded", ECHO)] and outcome.events[-1]["type"] == "completed"


def test_a_tool_that_is_denied(person, service, transport, tmp_path):
    outcome = person.ask(CALL, "--json", "--tools", manifest(tmp_path), transport=transport)
    assert called(outcome)[0][0] == "denied" and outcome.events[-1]["type"] == "completed"


def test_a_tool_that_takes_free_text(person, service, transport, tmp_path):
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /[a-z ]+/"}
    tools = {"tools": [{"name": "free", "command": "cat", "policy": "automatic", "format": grammar}]}
    path = write(tmp_path / "free.json", json.dumps(tools))
    events = person.ask("write free some text", "--json", "--tools", path, transport=transport).events
    deltas = [event["delta"] for event in events if event["type"] == "tool_arguments_delta"]
    assert "".join(deltas) == "some text" and events[-1]["response"]["text"] == "some text", events
    assert person.ask("reply: and on", "-c", transport=transport).output == "and on\n"
    assert [item["type"] for item in last(service)["input"]].count("custom_tool_call_output") == 1


def test_a_refusal(person, service, transport):
    outcome = person.ask("refuse: Not this.", transport=transport, status=UNAVAILABLE, says="the model refused: Not this.")
    assert outcome.output == ""
    assert facts(person.ask("something else", "-c", transport=transport).output)["Turn"] == "2"


def test_the_fast_tier(person, service, transport):
    outcome = person.ask("reply: at once", "--fast-tier", transport=transport)
    assert outcome.output == "at once\n" and "Fast: It is faster." in outcome.errors
    assert last(service)["service_tier"] == "priority"


def test_an_answer_that_is_interrupted(person, service, transport, stack):
    terminal = stack.enter_context(Terminal(person, "chat", "--transport", transport, columns=100))
    terminal.prompts()
    terminal.type("reply: before", "Enter")
    terminal.prompts(2)
    terminal.type(f"reply: as far as this {HOLD} never", "Enter")
    terminal.shows(f"as far as this {HOLD}", 2)
    terminal.type("", "C-c")
    terminal.shows("The partial answer is kept.")
    terminal.prompts(3)
    terminal.type("and now?", "Enter")
    terminal.shows("Turn: 3")
    terminal.prompts(4)
    said = [(item["role"], item["content"][0]["text"]) for item in last(service)["input"] if item["type"] == "message"]
    place = next(number for number, (role, text) in enumerate(said) if role == "assistant" and HOLD in text)
    assert [role for role, _ in said[place:]] == ["assistant", "developer", "user"] and said[-1][1] == "and now?", said
    terminal.type("", "C-d")
    terminal.ends(0)
    exported = person.run("threads", "export").output
    assert '"interrupted"' in exported and f"as far as this {HOLD}" in exported


# What the service says on its way.


def test_a_turn_that_goes_on(person, service, transport):
    assert person.ask("go on 3\nreply: arrived", transport=transport).output == "arrived\n"
    assert len(service.turns) == 4
    assert facts(person.ask("And now?", "-c", transport=transport).output)["Turn"] == "2"


def test_a_turn_that_never_ends_is_bounded(person, service, transport):
    outcome = person.ask("go on 1000", transport=transport, status=None)
    assert outcome.status not in (0, 70) and 1 < len(service.turns) < 40, outcome


@pytest.mark.parametrize("name", ["codex.response.metadata", "response.metadata"])
def test_the_turn_state_has_two_names(name, person, service, transport, tmp_path):
    service.metadata_event = name
    assert person.ask(CALL, "--tools", manifest(tmp_path, policy="automatic"), transport=transport).output == ECHO + "\n"


def test_commentary_is_no_part_of_the_answer(person, service, stack):
    outcome = person.ask("reply: the answer")
    assert COMMENTARY.strip() not in outcome.output + outcome.errors
    exported = person.run("threads", "export").output
    assert COMMENTARY in exported and '"commentary"' in exported, exported
    terminal = stack.enter_context(Terminal(person.having(TERM="xterm", NO_COLOR=None), "ask", "reply: shown below"))
    terminal.ends(0)
    line = next(line for line in terminal.styled.split("\n") if COMMENTARY.strip() in line)
    assert "\x1b[2m" in line, line
    assert "shown below" in terminal.screen


def test_an_answer_without_a_phase(person, transport):
    assert person.ask("plain: as it was", transport=transport).output == "as it was\n"


def test_an_event_that_is_cancelled_ends_nothing(person, transport):
    assert person.ask("cancelled: to the end", transport=transport).output == "to the end\n"


@pytest.mark.parametrize("noise", ["null", "empty", None])
def test_members_that_are_missing_null_or_empty(noise, november, signed_in, transport, tmp_path):
    service = november(noise=noise)
    person = signed_in(service)
    assert person.ask(CALL, "--tools", manifest(tmp_path, policy="automatic"), transport=transport).output == ECHO + "\n"
    assert person.ask("reply: x", "-c", transport=transport).output == "x\n"
    person.run("models")
    person.run("usage")


# Chat.


def chat(person, transport, *lines, **settings):
    outcome = person.run("chat", "--commands", "--transport", transport, input="".join(line + "\n" for line in lines), **settings)
    return outcome.output + outcome.errors


def test_a_chat_over_one_connection(person, service):
    assert facts(chat(person, "websocket", "one", "two", "three"))["Turn"] == "3"
    assert len({turn["connection"] for turn in service.turns}) == 1
    chained = [turn["body"] for turn in service.turns[1:]]
    assert all(body.get("previous_response_id") and len(body["input"]) == 1 for body in chained), chained
    # Whatever is prewarmed carries the fixed beginning alone; the service has looked.
    assert len(service.of("prewarm")) <= 1


def test_a_chat_over_server_sent_events(person, service):
    assert facts(chat(person, "sse", "one", "two", "three"))["Turn"] == "3"


def test_a_chat_calls_tools(person, service, transport, tmp_path):
    tools = manifest(tmp_path, policy="automatic")
    output = person.run("chat", "--transport", transport, "--tools", tools, input=f"{CALL}\nhow many turns?\n").output
    assert ECHO in output and facts(output)["Turn"] == "2"


def test_a_chat_is_compacted(person, service, transport):
    output = chat(person, transport, "one", "two", "/compact", "three", "four")
    assert "summed up" in output and len(service.of("compaction")) == 1, output
    whole = next(turn["body"] for turn in service.turns[2:])
    assert "compaction" in [item["type"] for item in whole["input"]], whole
    assert service.turns[-1]["headers"]["x-codex-window-id"].endswith(":1") or transport == "websocket"


def test_a_conversation_that_fills_the_window_is_compacted_before_the_next_question(person, service, transport):
    # The window has 272,000.
    service.total_tokens = 250_000
    person.run("ask", "--transport", transport, "one")
    outcome = person.run("ask", "-c", "--transport", transport, "two")
    assert "The conversation was summed up to make room." in outcome.errors and len(service.of("compaction")) == 1
    whole = person.run("chat", "-c", "--transport", transport, input="three\n")
    assert "summed up" in whole.errors and len(service.of("compaction")) == 2
    # A compaction belongs to the window that it ends, and each process goes on counting. A WebSocket keeps the fields of its beginning.
    windows = [request["headers"]["x-codex-window-id"].rsplit(":")[1] for request in service.requests]
    assert windows == ["0", "0", "1", "1", "2"] if transport == "sse" else windows[-1] == "1", windows


def test_a_chat_changes_its_model(person, service, transport):
    output = chat(person, transport, "one", "/model gpt-6-luna", "two", "/model", "/tools", "/transport", "/clear", "three")
    assert "continues with gpt-6-luna" in output
    assert [turn["body"]["model"] for turn in service.turns] == ["gpt-6.1-sol", "gpt-6-luna", "gpt-6-luna"]
    assert facts(output)["Turn"] == "1"


def test_a_chat_shows_usage_and_is_saved(person, service, transport, tmp_path):
    path = tmp_path / "kept.md"
    output = chat(person, transport, "reply: **saved**", "/usage", f"/save {path}", "/help", "/quit")
    assert "Context: " in output and "## gpt-6.1-sol\n\n**saved**" in path.read_text() and COMMENTARY not in path.read_text()


def test_a_chain_that_is_lost_is_sent_again(person, service):
    service.forgets = 1
    assert facts(chat(person, "websocket", "one", "two"))["Turn"] == "2"


def test_where_no_socket_opens_answers_come_otherwise(person, service):
    service.upgrade_status = 426
    assert person.ask("reply: x", transport="auto").output == "x\n" and service.turns[-1]["transport"] == "sse"


# Threads that began with a model that is gone.


# What gpt-5.5 has sealed for itself, and for no later model.
SEALED = "gAAAA" + base64.urlsafe_b64encode(json.dumps(["account", "2911", "x"]).encode()).decode()


def begun_with_gpt_55(folder):
    """The file of a thread of October, with what only gpt-5.5 can read."""
    said = lambda role, text: {"type": "message", "role": role, "content": [
        {"type": "output_text" if role == "assistant" else "input_text", "text": text}]}
    items = [{"type": "reasoning", "id": "rs_old", "summary": [], "encrypted_content": SEALED},
             {"type": "function_call", "id": "fc_old", "name": "up", "call_id": "call_old", "arguments": "{}", "status": "completed"},
             {"type": "function_call_output", "call_id": "call_old", "output": "it is up"}, said("assistant", "An old answer.")]
    records = [("turn.started", {"turn": "t1", "model": "gpt-5.5", "messages": [said("user", "An old question?")]}),
               ("turn.finished", {"turn": "t1", "from": 1, "items": items, "model": "gpt-5.5", "text": "An old answer.", "output": items[-1:]})]
    document = {"format": "chappie.thread", "version": 1, "id": "01999999-aaaa-7bbb-8ccc-dddddddddddd", "records": [
        {"position": place, "kind": kind, "date": f"2026-10-01T12:00:0{place}.000Z", "body": body}
        for place, (kind, body) in enumerate(records)]}
    return write(folder / "old.json", json.dumps(document))


def test_a_thread_begun_with_gpt_55_goes_on(person, service, transport, tmp_path):
    person.run("threads", "import", begun_with_gpt_55(tmp_path))
    assert "An old answer." in person.run("threads", "show").output
    first = person.ask("And now?", "-c", transport=transport)
    assert facts(first.output)["Turn"] == "2" and facts(first.output)["Model"].startswith("gpt-6"), first
    assert "gpt-5.5" in first.errors and facts(first.output)["Model"] in first.errors, first
    assert "rs_old" not in json.dumps(last(service))
    second = person.ask("And then?", "-c", transport=transport)
    assert facts(second.output)["Turn"] == "3" and "gpt-5.5" not in second.errors, second
    assert "An old answer." in person.run("threads", "show").output


def test_a_chat_goes_on_with_a_thread_begun_with_gpt_55(person, service, transport, tmp_path):
    person.run("threads", "import", begun_with_gpt_55(tmp_path))
    thread = person.run("threads", "list", "--json").events[0]["threads"][0]["id"]
    outcome = person.run("chat", "--transport", transport, "--thread", thread, input="And now?\n")
    assert facts(outcome.output)["Turn"] == "2" and "gpt-5.5" in outcome.output + outcome.errors, outcome


# The other commands.


def test_login_status_and_logout(november, user):
    service = november(pending_polls=1)
    person = user(service).sign_in()
    assert "Plus" in person.run("status").output
    [issued] = service.refresh_tokens
    person.run("logout")
    assert service.revoked == [issued]
    person.ask(status=SIGN_IN_NEEDED, says="login")


def test_models(person, service):
    lines = person.run("models").output.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["gpt-6.1-sol", "gpt-6-astra", "gpt-6-sol", "gpt-6-luna"]
    assert "default" in lines[0] and "gpt-hidden" not in "\n".join(lines)
    listed = person.run("models", "--json").events[0]["models"]
    assert len(listed) == 7 and person.run("models", "--all", "--json").events[0]["models"][0]["slug"] == "gpt-hidden"
    assert "304" in person.run("models", "--verbose").errors


def test_usage(person):
    output = person.run("usage").output
    assert "Plus" in output and "12 %" in output and "Reserve" in output and "gpt-6.1-sol" in output


def test_doctor(person, service):
    status, checks = person.doctor()
    assert status == 0 and {check["status"] for check in checks.values()} <= {"ok", "skip"}, checks


def test_threads(person, service, tmp_path):
    person.ask("reply: all about elephants")
    person.ask("reply: more of them", "-c")
    person.ask("reply: all about zebras", "-m", "gpt-6-luna")
    threads = person.run("threads", "list", "--json").events[0]["threads"]
    assert [(thread["turns"], thread["model"]) for thread in threads] == [(1, "gpt-6-luna"), (2, "gpt-6.1-sol")]
    elephants = threads[1]["id"]
    assert "more of them" in person.run("threads", "show", elephants).output
    assert len(person.run("threads", "search", "--json", "elephants").events[0]["hits"]) == 1
    for form in ("json", "jsonl", "markdown", "html"):
        assert "more of them" in person.run("threads", "export", "--format", form, elephants).output
    person.run("threads", "rename", elephants, "Big animals")
    fork = person.run("threads", "fork", elephants, "--at", "1", "--json").events[0]["thread"]
    assert facts(person.ask("And now?", "--thread", fork).output)["Turn"] == "2"
    person.run("threads", "archive", elephants)
    person.run("threads", "archive", "--undo", elephants)
    person.run("threads", "list", "--usage")
    person.run("threads", "verify")
    person.run("threads", "delete", "--force", fork)
    path = tmp_path / "copy.json"
    person.run("threads", "export", "-o", str(path), elephants)
    other = person.having(CHAPPIE_ACCOUNT=person.account + "-two").sign_in()
    other.run("threads", "import", str(path))
    # In another account nothing goes along that only the first one can read; the service has looked.
    assert facts(other.ask("And now?", "-c").output)["Turn"] == "3"


def test_accounts(person, service):
    person.having(CHAPPIE_ACCOUNT=None).run("login", "--no-browser", "--account", "second")
    names = [account["name"] for account in person.run("accounts", "--json").events[0]["accounts"]]
    assert "second" in names
    free = person.having(CHAPPIE_ACCOUNT=None)
    free.run("accounts", "use", "second")
    assert free.ask("reply: x").output == "x\n"
    free.run("accounts", "remove", "second")
    assert len(service.revoked) == 1


def test_a_sign_in_is_moved(person, service, tmp_path):
    person.run("auth", "export", "--remove", str(tmp_path / "moved"))
    person.ask(status=SIGN_IN_NEEDED)
    person.run("auth", "import", str(tmp_path / "moved"))
    assert person.ask("reply: x").output == "x\n"


# Tokens, and what stands before the service.


def test_a_token_is_renewed(november, signed_in, transport):
    service = november(lifetime=60)
    person = signed_in(service)
    service.lifetime = 864_000
    assert person.ask("reply: x", transport=transport).output == "x\n"
    assert service.count("POST /oauth/token") == 2
    assert person.ask("reply: y", transport=transport).output == "y\n" and service.count("POST /oauth/token") == 2


@pytest.mark.parametrize("form", ["number", "text"])
def test_no_token_is_renewed_before_its_time(form, november, signed_in):
    later = time.time() + 200
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(later))
    service = november(lifetime=240, earliest_refresh=int(later) if form == "number" else text)
    person = signed_in(service)
    assert person.ask("reply: x").output == "x\n" and service.count("POST /oauth/token") == 1


def test_tokens_that_could_not_be_stored_are_stored_before_the_program_ends(november, signed_in, passphrase):
    service = november(lifetime=60)
    person = signed_in(service, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("a phrase"))
    folder = pathlib.Path(person.environment["XDG_DATA_HOME"]) / "chappie/credentials"
    service.lifetime, exchange = 864_000, service.exchange

    def spoiling(*request):
        folder.chmod(0o777)  # The program refuses a folder that others may change.
        return exchange(*request)

    service.exchange = spoiling
    with person.start("ask", "--ephemeral", "--transport", "sse", "reply: x") as process:
        assert any("until the renewed sign-in is stored" in line for line in process.stderr), "it ended at once"
        folder.chmod(0o700)
        output, errors = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode and "other users" in errors, (process.returncode, output, errors)
    assert person.ask("reply: y").output == "y\n" and service.count("POST /oauth/token") == 2


def test_a_page_in_the_place_of_an_answer(person, service, transport):
    person.ask("reply: x")
    service.blocks = {RESPONSES, "UPGRADE /backend-api/codex/responses"}
    outcome = person.ask("reply: x", transport=transport, status=UNAVAILABLE)
    assert "network" in outcome.errors.lower() and "<" not in outcome.errors and "gpt-6" not in outcome.errors, outcome
    service.blocks = set()
    assert person.ask("reply: x", transport=transport).output == "x\n"


def test_a_page_in_the_place_of_tokens(november, signed_in):
    service = november(lifetime=60)
    person = signed_in(service)
    service.blocks = {"POST /oauth/token"}
    # The old token is good for a minute more.
    assert person.ask("reply: x").output == "x\n"
    service.blocks = set()
    assert person.ask("reply: y").output == "y\n"


def test_a_page_in_the_place_of_lists(person, service):
    service.blocks = {MODELS, "GET /backend-api/wham/usage"}
    for command in ("models", "usage"):
        outcome = person.run(command, status=UNAVAILABLE)
        assert "network" in outcome.errors.lower() and "<" not in outcome.errors, outcome


def test_a_usage_limit(person, service, transport):
    service.usage_limit = True
    person.ask("reply: x", transport=transport, status=USAGE_LIMIT)


# The service itself.


def message(role, **part):
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": "words", **part}]}


def right_request():
    """(header fields, body) of the smallest request that is as it should be."""
    thread = "01a20589-a390-7e22-822c-fea0c388ee5e"
    tool = {"type": "function", "name": "up", "description": "", "strict": False, "parameters": {}}
    space = {"type": "namespace", "name": "functions", "description": "", "tools": [tool]}
    fields = {"version": "0.163.0", "originator": "chappie", "user-agent": "chappie/1", "chatgpt-account-id": "account", "thread-id": thread,
              "session-id": thread, "x-client-request-id": thread, "x-codex-window-id": thread + ":0", "accept": "text/event-stream",
              "x-codex-routing-hint": "model=gpt-6-sol", LITE_HEADER: "true", "authorization": "Bearer good"}
    items = [{"type": "additional_tools", "role": "developer", "tools": [space]}, message("developer"), message("user")]
    return fields, {"model": "gpt-6-sol", "stream": True, "input": items, "tool_choice": "auto", "parallel_tool_calls": False,
                    "reasoning": {"effort": "low", "context": "all_turns"}, "store": False, "include": ["reasoning.encrypted_content"],
                    "prompt_cache_key": thread, "text": {"verbosity": "low"}}


IMAGE = "data:image/png;base64," + base64.b64encode(PIXEL).decode()
WRONG = [
    *[(name, "header") for name in ("version", "originator", "user-agent", "chatgpt-account-id", "thread-id", "session-id", LITE_HEADER,
                                    "x-client-request-id", "x-codex-window-id", "accept", "x-codex-routing-hint")],
    *[(f"without {name}", lambda _, body, name=name: body.pop(name)) for name in (
        "stream", "tool_choice", "parallel_tool_calls", "reasoning", "store", "include", "prompt_cache_key")],
    *[(f"with {name}", lambda _, body, name=name: body.update({name: 1})) for name in (
        "tools", "instructions", "temperature", "max_output_tokens", "previous_response_id", "generate", "type")],
    ("an old version", lambda fields, _: fields.update(version="0.128.0")),
    ("a session that is no UUIDv7", lambda fields, _: fields.update({"session-id": "6e1f0d3c-5c1b-4a55-9f0e-0c6f5a3c1d2e"})),
    ("another client's name", lambda fields, _: fields.update(originator="codex_cli_rs")),
    ("another hint", lambda fields, _: fields.update({"x-codex-routing-hint": "model=gpt-6-luna"})),
    ("ultra", lambda _, body: body["reasoning"].update(effort="ultra")),
    ("minimal", lambda _, body: body["reasoning"].update(effort="minimal")),
    ("no effort", lambda _, body: body["reasoning"].pop("effort")),
    ("a summary", lambda _, body: body["reasoning"].update(summary="auto")),
    ("no context", lambda _, body: body["reasoning"].pop("context")),
    ("parallel calls", lambda _, body: body.update(parallel_tool_calls=True)),
    ("no additional_tools", lambda _, body: body["input"].pop(0)),
    ("no instructions", lambda _, body: body["input"].pop(1)),
    ("additional_tools twice", lambda _, body: body["input"].append(body["input"][0])),
    ("a flat tool", lambda _, body: body["input"][0].update(tools=body["input"][0]["tools"][0]["tools"])),
    ("a description", lambda _, body: body["input"][0]["tools"][0].update(description="x")),
    ("an empty namespace", lambda _, body: body["input"][0]["tools"][0].update(tools=[])),
    ("a system message", lambda _, body: body["input"].append(message("system"))),
    ("an unknown item", lambda _, body: body["input"].append({"type": "thought"})),
    ("an unknown member", lambda _, body: body["input"][2].update(colour="red")),
    ("a phase", lambda _, body: body["input"].append({**message("assistant", type="output_text"), "phase": "final_answer"})),
    ("a detail", lambda _, body: body["input"][2]["content"].append({"type": "input_image", "image_url": IMAGE, "detail": "high"})),
    ("an address", lambda _, body: body["input"][2]["content"].append({"type": "input_image", "image_url": "https://x.example/a.png"})),
    ("another family's reasoning", lambda _, body: body["input"].insert(2, {"type": "reasoning", "summary": [], "encrypted_content": SEALED})),
    ("a call without a namespace", lambda _, body: body["input"].extend(
        [{"type": "function_call", "name": "up", "call_id": "c", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": ""}])),
    ("an output without a call", lambda _, body: body["input"].append({"type": "function_call_output", "call_id": "c", "output": ""})),
    ("a turn state of nobody's", lambda fields, _: fields.update({"x-codex-turn-state": "x"})),
]


@pytest.mark.parametrize("change", [None, *WRONG], ids=lambda change: change[0] if change else "nothing")
def test_the_service_refuses(change):
    with November() as service:
        service.accounts["good"] = ("account", "plus", time.time() + 100)
        fields, body = right_request()
        if change is None:
            _, events = service.receive(json.dumps(body), fields)
            assert [event["type"] for event in events][-1] == "response.completed"
            return
        name, alter = change
        fields.pop(name) if alter == "header" else alter(fields, body)
        with pytest.raises(Refused) as refused:
            service.receive(json.dumps(body), fields)
        assert refused.value.reason and refused.value.status in (400, 404)
        print(refused.value.reason)


@pytest.mark.conformance
@pytest.mark.slow
def test_the_real_client_is_refused_nothing(november, transport):
    """Codex CLI 0.163.0 with its default model. Over WebSocket it looks for the turn state in one of the two events alone."""
    service = november(is_ours=False, metadata_event="response.metadata", upgrade_status=101 if transport == "websocket" else 426)
    service.port = service.server.server_port
    with tempfile.TemporaryDirectory(dir=pathlib.Path.home(), prefix=".chappie-codex-", ignore_cleanup_errors=True) as home:
        codex = Codex(service, home)
        codex.configure("OpenAI", provider="openai")
        settings = codex.folder / "config.toml"
        settings.write_text(re.sub("^model = .*\n", "", settings.read_text(), flags=re.MULTILINE))
        assert says(codex.turn("-C", home, "go on 2\nreply: one"), "one")
        assert says(codex.turn("-C", home, "resume", "--last", "reply: two"), "two")
    assert last(service)["model"] == "gpt-6.1-sol" and {turn["transport"] for turn in service.turns} == {transport}
