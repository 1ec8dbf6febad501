"""What the program remembers and what a day with it takes: settings, questions without a command, what goes with a
question, the web, what is read back, completions, and the chat's own commands."""

import contextlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading

import pytest

from conftest import TURN, UNAVAILABLE, USAGE
from test_ask import PIXEL, write
from test_chat import chat  # noqa: F401, a fixture

BLOCKS = "reply: ```sh\necho one\n```\n\n```sh\necho two\n```"


@pytest.fixture
def person(user, simulate, passphrase):
    """A user who has signed in, with an encrypted file for the credential."""
    return lambda **settings: user(simulate(**settings), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")).sign_in()


def file_of(user):
    return pathlib.Path(user.run("config", "path").output.strip())


def test_settings_are_set_listed_and_used(person):
    someone = person()
    rows = lambda *words, of=someone: {row["name"]: row for row in of.run("config", *words, "--json").events[0]["settings"]}
    assert rows()["store"] == {"name": "store", "value": "file", "source": "environment"}
    assert {row["source"] for name, row in rows().items() if name != "store"} == {"default"}
    someone.run("config", "set", "model", "gpt-5.6-sol")
    someone.run("config", "set", "effort", "high")
    assert rows()["model"] == {"name": "model", "value": "gpt-5.6-sol", "source": "file"}
    assert "`gpt-5.6-sol`" in someone.run("ask", "hello").output and "effort: high" in someone.run("ask", "hello").output
    assert "`gpt-6-luna`" in someone.having(CHAPPIE_MODEL="gpt-6-luna").run("ask", "hello").output
    assert "`gpt-6-astra`" in someone.having(CHAPPIE_MODEL="gpt-6-luna").run("ask", "-m", "gpt-6-astra", "hello").output
    # What goes on keeps its model.
    assert "`gpt-6-astra`" in someone.run("ask", "-c", "and now").output
    assert rows("--model", "x", of=someone.having(CHAPPIE_MODEL="y"))["model"]["source"] == "flag"
    assert rows(of=someone.having(CHAPPIE_MODEL="y"))["model"]["source"] == "environment"
    for name, value, says in (("effort", "banana", "xhigh"), ("verbosity", "banana", "low, medium or high"), ("model", "a b", "spaces"),
                              ("model", "", "spaces")):
        someone.run("config", "set", name, value, status=USAGE, says=says)
    assert "without spaces" in someone.run("chat", input="/model a b c\n", status=None).errors
    someone.run("config", "unset", "effort")
    assert "effort" not in json.loads(file_of(someone).read_text())
    assert file_of(someone).stat().st_mode & 0o777 == 0o600


def test_conversations_are_kept_as_the_settings_say(person):
    someone = person()
    threads = lambda: len(someone.run("threads", "--json").events[0]["threads"])
    someone.run("config", "set", "keep_threads", "false")
    someone.run("ask", "reply: not kept")
    assert threads() == 0
    someone.run("ask", "--no-ephemeral", "reply: kept")
    assert threads() == 1
    someone.run("ask", "-c", "reply: kept too")
    assert someone.run("threads", "--json").events[0]["threads"][0]["turns"] == 2
    someone.run("config", "set", "threads-limit", "0", status=USAGE, says="1 to 1048576")


def test_tools_and_a_template_are_there_without_being_named(person, tmp_path):
    someone = person()
    tool = tmp_path / "up"
    tool.write_text('#!/bin/sh\nprintf "it got %s" "$(cat)"\n')
    tool.chmod(0o700)
    manifest = write(tmp_path / "tools.json", json.dumps({"tools": [{"name": "up", "description": "Up.", "command": str(tool), "policy": "automatic"}]}))
    someone.run("config", "set", "tools", manifest)
    assert 'it got {"a":"b"}' in someone.run("ask", 'call up {"a":"b"}').output
    assert "it got" not in someone.run("ask", "--tools", "", 'call up {"a":"b"}').output
    write(file_of(someone).parent / "templates/loud.md", "---\nsystem: Shout.\n---\nLouder: $input")
    someone.run("config", "set", "template", "quiet", status=USAGE, says="There are: loud")
    someone.run("config", "set", "template", "loud")
    assert "> Louder: hello" in someone.run("ask", "hello").output
    assert "> hello" in someone.run("ask", "-t", "", "hello").output and "Louder" not in someone.run("ask", "-c", "more").output
    assert "> Louder: again" in someone.run("ask", "-c", "-t", "loud", "again").output
    assert {(row["name"], row["source"]) for row in someone.run("config", "-t", "x", "--ephemeral", "--no-status-line", "--json").events[0]["settings"]
            if row["source"] == "flag"} == {("template", "flag"), ("keep_threads", "flag"), ("status_line", "flag")}


@pytest.mark.parametrize("text, says", [
    ("{", "line 1: it is not JSON"), ('{\n  "model": "m",\n  "effort": 7\n}', "line 3: effort takes none, minimal"),
    ('{"transport": "carrier pigeon"}', "auto, websocket or sse"), ('{"tools": [1]}', "tools[0]"), ("\0" * 100, "not JSON"),
])
def test_a_broken_file_stops_the_commands_that_use_it_but_those_that_mend_it(text, says, person):
    someone = person()
    path = file_of(someone)
    write(path, text)
    for command in (["ask", "hello"], ["config"], ["config", "set", "model", "m"]):
        outcome = someone.run(*command, status=USAGE, says=says)
        assert str(path) in outcome.errors and "\x1b" not in outcome.errors, outcome
    for command in ("status", "models", "threads", "accounts"):
        assert sum(says.lower() in line.lower() for line in someone.run(command).errors.splitlines()) == 1
    assert path.read_text() == text
    assert file_of(someone) == path
    mended = someone.having(EDITOR="sh -c 'printf \"{\\\"model\\\": \\\"m\\\"}\" > \"$0\"'")
    assert mended.run("config", "edit").output == "The settings are changed.\n"
    assert json.loads(path.read_text()) == {"model": "m"}


def test_what_an_editor_leaves_is_checked_before_it_counts(person):
    someone = person()
    someone.run("config", "set", "model", "m")
    broken = someone.having(EDITOR="sh -c 'echo {x > \"$0\"'")
    broken.run("config", "edit", status=USAGE, says="line 1: it is not JSON")
    someone.having(EDITOR="false").run("config", "edit", status=USAGE, says="ended with status 1")
    # What a person wrote stays in its file.
    outcome = someone.having(EDITOR="sh -c 'echo {} > \"$0\"; exit 1'").run("config", "edit", status=USAGE)
    assert pathlib.Path(re.search(r"Your text is in (\S+)\.", outcome.errors)[1]).read_text() == "{}\n", outcome
    outcome = someone.having(EDITOR="true").run("config", "edit")
    assert "--wait" in outcome.errors and json.loads(pathlib.Path(re.search(r"is in (\S+)\.", outcome.errors)[1]).read_text()), outcome
    someone.having(EDITOR=" ").run("config", "edit", status=USAGE, says="Set EDITOR")
    someone.having(EDITOR="/nonexistent").run("config", "edit", status=USAGE, says="ended with status 127")
    someone.having(EDITOR=None, VISUAL=None).run("config", "edit", status=USAGE, says="Set EDITOR")
    assert someone.having(EDITOR="true").run("config", "edit").output == "Nothing is changed.\n"
    # A file that another command has changed meanwhile keeps that.
    racing = someone.having(EDITOR=f"sh -c 'echo \"{{}}\" > \"$0\"; {someone.program} config set effort low >/dev/null'")
    racing.run("config", "edit", status=USAGE, says="changed by another command")
    kept = json.loads(file_of(someone).read_text())
    assert (kept["model"], kept["effort"]) == ("m", "low"), kept
    someone.run("--simulate", "config", "set", "model", "m", status=USAGE, says="simulation")


def test_a_question_needs_no_command(user):
    someone = user()
    assert someone.run("--simulate", "reply: hello there").output == "hello there\n"
    assert someone.run("--simulate", "-x", "reply: ```\na\n```").output == "a\n"
    assert someone.run("--simulate", "--json", "reply: hello").events[-1]["type"] == "completed"
    assert "> piped" in someone.run("--simulate", "-", input="piped").output
    assert someone.run("--simulate", input="reply: only a pipe").output == "only a pipe\n"
    assert someone.run("--simulate", "Sum up", input="piped").output.count("> Sum up\n>\n> piped") == 1
    assert someone.run().output.startswith("OVERVIEW")
    someone.run("--simulate", input="", status=USAGE, says="nothing to ask")
    for word, meant in (("lgoin", "login"), ("theads", "threads"), ("sttaus", "status")):
        outcome = someone.run(word, status=None)
        assert outcome.status == USAGE and f"Did you mean {meant}?" in outcome.errors, outcome


def test_blocks_folders_addresses_and_images_from_a_pipe(user, tmp_path):
    someone = user()
    ask = lambda *words, **more: someone.run("ask", "--simulate", *words, **more)
    assert ask("-x", BLOCKS).output == "echo one\n" and ask("--last-block", BLOCKS).output == "echo two\n"
    write(tmp_path / "src/b.txt", "second")
    write(tmp_path / "src/a/deep.md", "first")
    write(tmp_path / "src/picture.png", PIXEL)
    write(tmp_path / "src/.git/config", "hidden")
    outcome = ask("-f", str(tmp_path / "src"), "What?")
    assert "2 text files" in outcome.errors and "hidden" not in outcome.output
    assert outcome.output.index('<document name="a/deep.md">') < outcome.output.index('<document name="b.txt">')
    with someone.start("ask", "--simulate", "-i", "-", "What?", stdin=subprocess.PIPE, text=False) as process:
        output, errors = process.communicate(PIXEL, timeout=60)
    assert process.returncode == 0 and b"Images: 1" in output, errors
    assert ask("-x", "--last-block", BLOCKS, status=None).status == USAGE


def test_an_address_is_read_and_bounded(user):
    seen = []

    class Place(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, dict(self.headers)))
            if self.path in ("/moved?key=secret", "/loop"):
                self.send_response(302)
                self.send_header("Location", "/loop" if self.path == "/loop" else "/text")
                return self.end_headers()
            self.send_response(404 if self.path == "/missing" else 200)
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(17 << 4 if self.path == "/large" else 1):
                    self.wfile.write(b"x" * (1 << 16) if self.path == "/large" else b"the moon is full")

        def log_message(self, *_):
            pass

    ask = lambda *words, **more: user().run("ask", "--simulate", *words, **more)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Place) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        for path in ("/text", "/moved"):
            outcome = ask("-f", f"{place}{path}?key=secret", "What?")
            assert "secret" not in outcome.output + outcome.errors
            assert f'<document name="{place}{path}">' in outcome.output and "the moon is full" in outcome.output, outcome
            assert f"{place}{path}: 1 KiB" in outcome.errors
        ask("-f", place + "/missing", "x", status=UNAVAILABLE, says="answers with status 404")
        ask("-f", place + "/loop", "x", status=UNAVAILABLE, says="leads from address to address")
        ask("-f", place + "/large", "x", status=USAGE, says="is larger than 16 MiB")
        server.shutdown()
    assert len([path for path, _ in seen if path == "/loop"]) == 6
    assert not [headers for _, headers in seen if {"authorization", "chatgpt-account-id", "cookie"} & {name.lower() for name in headers}]
    ask("-f", "https://127.0.0.1:1/", "x", status=UNAVAILABLE)
    ask("-f", "https://", "x", status=USAGE, says="not an address")


def test_short_schemas(user):
    ask = lambda *words, **more: user().run("ask", "--simulate", *words, **more)
    assert ask("--schema", "name, age int: in years", 'reply: {"name":"a","age":3}').output == '{"name":"a","age":3}\n'
    ask("--schema", "name, age int", 'reply: {"name":"a"}', status=65, says="age")
    ask("--schema", "name, age number", "x", status=USAGE, says="age number")
    ask("--schema", "name", "x", status=USAGE, says="can't be read")
    assert ask("--schema", "tags str[]", 'reply: {"tags":["a"]}').output == '{"tags":["a"]}\n'
    ask("--schema", "tags str[]", 'reply: {"tags":[1]}', status=65, says="/tags/0")
    assert ask("--schema-multi", "name, age int", 'reply: {"items":[{"name":"a","age":3}]}').output == '{"items":[{"name":"a","age":3}]}\n'
    ask("--schema-multi", "name, age int", 'reply: {"items":[{"name":"a"}]}', status=65, says="age")
    ask("--schema-multi", "a, b", "--schema", "a, b", "x", status=USAGE, says="--schema-multi")


def test_the_web_is_searched_where_the_model_offers_it(person, tmp_path):
    someone = person()
    # The pages that a search in the simulator finds for these words.
    first, second = (f"https://example.com/swift-news/{number}" for number in (1, 2))
    question = f"search: swift news\nreply: Swift is out ([News]({second})), they say ([News]({second}), [Blog]({first}))."
    sources = f"\n\nSources:\n1. swift news, page 2: {second}\n2. swift news, page 1: {first}\n"
    for transport in ("sse", "websocket"):
        outcome = someone.ask(question, "--web", transport=transport)
        assert outcome.output.endswith(f"they say ([News]({second}), [Blog]({first}))." + sources), outcome
    assert "Sources" not in someone.ask(question).output
    # The model may do without the search; the user learns it.
    from_memory = someone.ask("reply: Swift is old", "--web")
    assert from_memory.output == "Swift is old\n" and "Nothing was searched on the web for this answer." in from_memory.errors
    assert "searched" not in outcome.errors + someone.ask("hi").errors
    events = someone.ask(question, "--web", "--json").events
    assert events[-1]["sources"] == [{"url": second, "title": "swift news, page 2"}, {"url": first, "title": "swift news, page 1"}]
    target = tmp_path / "answer.md"
    someone.ask(question, "--web", "-o", str(target))
    assert target.read_text().endswith(sources)
    # Kept, shown and exported.
    shown = someone.run("threads", "show").output
    assert "swift news" in shown and second in shown, shown
    page = someone.run("threads", "export", "--format", "html").output
    assert "swift news" in page and second in page
    # The conversation goes on with what was found in it.
    assert "Turn: 2" in someone.run("ask", "-c", "and now?").output


def test_answers_are_read_back(person):
    someone = person()
    for number in range(3):
        someone.run("ask", *(["-c"] if number else []), f"{BLOCKS}\n\nanswer {number}")
    assert someone.run("threads", "show", "-r").output.endswith("answer 2\n")
    assert someone.run("threads", "show", "-x").output == "echo one\n"
    assert someone.run("threads", "show", "--last-block").output == "echo two\n"
    last = someone.run("threads", "show", "-n", "2").output
    assert last.count("answer 0") == 1 and "answer 1" in last and "answer 2" in last and "## 2." in last and "## 3." in last and "## 1." not in last
    assert [turn for turn in range(3) if f"answer {turn}" in someone.run("threads", "show", "-n", "9").output] == [0, 1, 2]
    assert someone.run("threads", "show", "-r", "-x", status=None).status == USAGE
    someone.run("ask", "-m", "gpt-6-luna", "reply: other")
    listed = lambda *words: [thread["model"] for thread in someone.run("threads", "list", "--json", *words).events[0]["threads"]]
    assert len(listed()) == 2 and listed("--model", "gpt-6-luna") == ["gpt-6-luna"] and listed("--since", "1h") == listed()
    assert listed("--since", "2999-01-01") == []
    someone.run("threads", "list", "--since", "soon", status=USAGE, says="not a date")
    assert os.path.isdir(someone.run("threads", "verify").output.splitlines()[0])
    someone.run("threads", "show", "-x", status=UNAVAILABLE, says="no code block")


def complete(someone, *words):
    """What the program offers a shell for the last of the words."""
    return someone.run("---completion", *words, status=None).output.split("\n")


def test_completions_know_settings_models_templates_and_threads(signed_in, simulate):
    someone = signed_in(simulate())
    someone.run("ask", "reply: hello")
    someone.run("models")
    write(file_of(someone).parent / "templates/loud.md", "Louder: $input")
    ask = complete(someone, "ask", "--", "--model", "2", "0", "chappie", "ask", "--model", "")
    assert "gpt-6-luna" in ask, ask
    assert "loud" in complete(someone, "ask", "--", "--template", "2", "0", "chappie", "ask", "--template", "")
    thread = someone.run("threads", "--json").events[0]["threads"][0]["id"]
    assert thread[-8:] in complete(someone, "ask", "--", "--thread", "2", "0", "chappie", "ask", "--thread", "")
    values = complete(someone, "config", "set", "--", "positional@1", "3", "0", "chappie", "config", "set", "transport", "")
    assert "websocket" in values, values


def test_what_goes_with_a_message_in_a_chat(chat, tmp_path):
    terminal = chat(columns=100)
    notes, picture = write(tmp_path / "some notes.txt", "the moon is full\n"), write(tmp_path / "p.png", PIXEL)
    terminal.type(f"/file {notes}", "Enter")
    assert "One attachment goes with the next message." in terminal.prompts(2)
    terminal.type(f"'{picture}'", "Enter")
    terminal.shows("Attach p.png? [y/N]")
    terminal.type("y", "Enter")
    assert "2 attachments go with the next message." in terminal.prompts(3)
    terminal.type("/system Be brief.", "Enter")
    terminal.prompts(4)
    terminal.type("What?", "Enter")
    screen = terminal.prompts(5)
    assert "the moon is full" in screen and "Images: 1" in screen, screen
    terminal.type("again", "Enter")
    assert terminal.prompts(6).count("Images: 1") == 1
    terminal.type("/file /nonexistent", "Enter")
    assert "can't be read" in terminal.prompts(7)
    terminal.type("/web perhaps", "Enter")
    assert "Write /web on or /web off" in terminal.prompts(8)
    terminal.type("/help", "Enter")
    screen = terminal.prompts(9)
    assert "/paste" in screen and max(map(len, screen.split("\n"))) <= 100, screen
    terminal.type("/quit", "Enter")
    terminal.ends(0)


def ask_twice(terminal):
    for number, line in enumerate(("first question", "second question")):
        terminal.type(line, "Enter")
        terminal.shows(f"Turn: {number + 1}")
        terminal.prompts(number + 2)


def test_the_effort_is_chosen_in_a_chat(user):
    outcome = user().run("--simulate", "chat", "-m", "gpt-6.1-sol", input="/effort\n/effort High\n/effort\nfirst question\n")
    assert "the model's own\n" in outcome.output and "\nhigh\n" in outcome.output and "Reasoning effort: high" in outcome.output, outcome


def test_turns_are_taken_back_asked_again_copied_and_edited(chat, tmp_path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "reply: edited" > "$1"\n')
    editor.chmod(0o700)
    terminal = chat(columns=100, environment={"EDITOR": str(editor)})
    ask_twice(terminal)
    terminal.type("/undo", "Enter")
    assert "Taken back: second question" in terminal.prompts(4)
    terminal.type("third question", "Enter")
    assert terminal.prompts(5).count("Turn: 2") == 2
    terminal.type("/retry", "Enter")
    screen = terminal.prompts(6)
    assert screen.count("Turn: 2") == 3 and screen.count("│ third question") == 2, screen
    terminal.type("/edit", "Enter")
    assert "\nedited\n" in terminal.prompts(7)
    terminal.type("/undo", "Enter")
    assert "Taken back: reply: edited" in terminal.prompts(8)
    terminal.type("/undo", "Enter")
    terminal.prompts(9)
    terminal.type("/undo", "Enter")
    terminal.prompts(10)
    terminal.type("/undo", "Enter")
    assert "There is nothing to take back." in terminal.prompts(11)
    terminal.type("anew", "Enter")
    assert terminal.prompts(12).count("Turn: 1") == 2
    terminal.type("", "C-d")
    terminal.ends(0)
    # What was taken back is not listed, found or shown, and nothing was copied.
    [thread] = terminal.user.run("threads", "list", "--all", "--json").events[0]["threads"]
    assert thread["turns"] == 1 and not thread["is_archived"], thread
    assert terminal.user.run("threads", "search", "--json", "edited").events[0]["hits"] == []
    shown = terminal.user.run("threads", "show").output
    assert "anew" in shown and "question" not in shown, shown


def test_a_retry_that_fails_leaves_the_earlier_answer(chat):
    terminal = chat("--transport", "sse", columns=100, rules=[{"match": {**TURN, "from": 3, "to": 3}, "effect": {"status": 400}}])
    ask_twice(terminal)
    terminal.type("/retry", "Enter")
    assert "chappie: " in terminal.prompts(4)
    terminal.type("third question", "Enter")
    assert "Turn: 3" in terminal.prompts(5)
    terminal.type("/undo", "Enter")
    assert "Taken back: third question" in terminal.prompts(6)
    terminal.type("", "C-d")
    terminal.ends(0)


def test_what_was_said_before_ctrl_c_stays_and_can_be_taken_back(chat):
    terminal = chat(columns=100, deltasPerSecond=200)
    for line, shown in (("first question", "Turn: 1"), ("second question", "Turn: 2")):
        terminal.type(line, "Enter")
        terminal.shows(shown)
    terminal.prompts(3)
    terminal.type("repeat 5000 words", "Enter")
    terminal.shows("word after word")
    terminal.type("", "C-c")
    terminal.shows("Stopped")
    terminal.prompts(4)
    terminal.type("/undo", "Enter")
    assert "Taken back: repeat 5000 words" in terminal.prompts(5)
    terminal.type("another", "Enter")
    terminal.shows("Turn: 3")
    terminal.prompts(6)
    terminal.type("", "C-d")
    terminal.ends(0)


def test_a_thread_keeps_an_interrupted_answer_as_that(chat):
    terminal = chat(columns=100, deltasPerSecond=200)
    terminal.type("repeat 5000 words", "Enter")
    terminal.shows("word after word")
    terminal.type("", "C-c")
    terminal.shows("The partial answer is kept.")
    terminal.prompts(2)
    terminal.type("", "C-d")
    terminal.ends(0)
    person = terminal.user
    thread = person.run("threads", "list", "--json").events[0]["threads"][0]["id"]
    shown = person.run("threads", "show", thread).output
    assert "word after word" in shown and "The answer was interrupted." in shown, shown
    assert '"interrupted"' in person.run("threads", "export", thread).output
    # Nothing waits to be resumed; the next question goes on from there.
    assert "Turn: 2" in person.run("ask", "-c", "and now?").output


def test_an_opened_conversation_keeps_its_model(chat):
    terminal = chat(columns=100)
    someone = terminal.user
    terminal.type("", "C-d")
    terminal.ends(0)
    someone.run("config", "set", "model", "gpt-6-luna")
    someone.run("ask", "-m", "gpt-6-astra", "reply: an elephant")
    thread = someone.run("threads", "--json").events[0]["threads"][0]["id"][-8:]
    terminal = chat(columns=100, again=terminal)
    terminal.type("who?", "Enter")
    assert "Model: gpt-6-luna" in terminal.prompts(2)
    terminal.type(f"/open {thread}", "Enter")
    terminal.prompts(3)
    terminal.type("and now?", "Enter")
    assert "Model: gpt-6-astra" in terminal.prompts(4)
    terminal.type("/clear", "Enter")
    terminal.prompts(5)
    terminal.type("and anew?", "Enter")
    assert terminal.prompts(6).count("Model: gpt-6-luna") == 2, terminal.screen
    terminal.type("", "C-d")
    terminal.ends(0)


def test_kept_conversations_are_opened_in_a_chat(chat):
    terminal = chat(columns=100)
    terminal.user.run("ask", "reply: an elephant")
    thread = terminal.user.run("threads", "--json").events[0]["threads"][0]["id"][-8:]
    terminal.type("/threads", "Enter")
    assert thread in terminal.prompts(2)
    terminal.type("/threads elephant", "Enter")
    assert terminal.prompts(3).count(thread) == 2
    terminal.type(f"/open {thread}", "Enter")
    opened = terminal.prompts(4)
    assert "Continuing" in opened and "You: reply: an elephant\n\nan elephant\n" in "\n".join(line.rstrip() for line in opened.split("\n"))
    terminal.type("what was it?", "Enter")
    assert "Turn: 2" in terminal.prompts(5)
    terminal.type("/open zzzzzzzz", "Enter")
    assert "There is no thread zzzzzzzz." in terminal.prompts(6)
    terminal.type("/quit", "Enter")
    terminal.ends(0)


@pytest.mark.parametrize("columns, rows", [(80, 24), (120, 40)])
def test_a_chat_searches_the_web(columns, rows, chat):
    terminal = chat("--web", columns=columns, rows=rows)
    terminal.paste("search: swift\nreply: It is out ([Swift](https://example.com/swift/1)).")
    terminal.shows("It is out")
    terminal.type("", "Enter")
    screen = terminal.prompts(2)
    assert "· Searches the web: swift" in screen and "\nSources:\n1. swift, page 1: https://example.com/swift/1\n" in screen, screen
    terminal.type("/web off", "Enter")
    assert "The model does not search the web." in terminal.prompts(3)
    terminal.type("/quit", "Enter")
    terminal.ends(0)
