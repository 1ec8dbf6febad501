"""What `chappie ask` takes beside a question, and where it puts the answer; the tables; the reference."""

import base64
import json
import os
import shutil
import signal
import stat
import subprocess

import pytest

from conftest import BAD_DATA, INTERRUPTED, TURN, UNAVAILABLE, USAGE
from counterparts import PATIENCE, is_asleep, wait_until

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture
def ask(user):
    """`ask("-x", "…")`: a question to a simulation; it answers with the text after `reply:`, else with facts about it."""
    made = user()
    ask = lambda *words, **expected: made.run("ask", "--simulate", *words, **expected)
    ask.user = made
    return ask


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_images_and_files_reach_the_model(ask, tmp_path):
    image, notes = write(tmp_path / "pixel.data", PIXEL), write(tmp_path / "notes.txt", "the moon is full\n")
    asked = ask("-i", image, "-i", image, "-f", notes, "What?").output
    assert "Images: 2" in asked and "> the moon is full" in asked and '<document name="notes.txt">' in asked
    assert "Images: 1" in ask("-i", image).output
    ask("-i", "https://x.example/a.png", "What?", status=USAGE, says="no image by its address")
    ask("-i", notes, "What?", status=USAGE, says="notes.txt is not an image")
    ask("-i", str(tmp_path / "none.png"), "What?", status=USAGE, says="There is no file")
    ask("-i", str(tmp_path), "What?", status=USAGE, says="is a folder")


def test_an_answer_goes_into_a_file_in_one_step(ask, tmp_path):
    target = tmp_path / "answer.txt"
    write(target, "old")
    target.chmod(0o640)
    assert ask("-o", str(target), "reply: new").output == ""
    assert target.read_text() == "new\n" and stat.S_IMODE(target.stat().st_mode) == 0o640
    ask("-o", str(tmp_path / "none" / "answer"), "reply: lost", status=USAGE, says="No such file")
    ask("-o", str(tmp_path), "reply: lost", status=USAGE, says="Is a directory")
    assert ask("-o", "-", "reply: shown").output == "shown\n"
    assert os.listdir(tmp_path).count("answer.txt") == 1 and not [name for name in os.listdir(tmp_path) if name.startswith("answer.txt.")]


def test_an_answer_over_its_time_limit_is_an_error(simulate, user):
    someone = user(simulate(approves=True, pollInterval=0, deltasPerSecond=5)).sign_in()
    late = someone.run("ask", "--time-limit", "2", "--json", "repeat 5000 words", status=UNAVAILABLE)
    assert late.events[-1]["error"]["code"] == "time_limit_exceeded" and "within 2 s" in late.events[-1]["error"]["message"]
    for seconds in ("0", "-1", "86401"):
        someone.run("ask", f"--time-limit={seconds}", "hello", status=USAGE)


def test_a_number_of_rounds_that_means_nothing_is_refused(simulate, user):
    someone = user(simulate(approves=True, pollInterval=0)).sign_in()
    for rounds in ("0", "1001"):
        someone.run("ask", f"--rounds={rounds}", "hello", status=USAGE, says="rounds")
    someone.run("ask", "--rounds", "1", "hello")


def test_a_refusal_is_said_and_is_no_answer(ask, tmp_path):
    target = tmp_path / "answer.txt"
    write(target, "old\n")
    for options in ([], ["-o", str(target)]):
        refused = ask(*options, "refuse: I can't help with that.", status=UNAVAILABLE)
        assert "the model refused: I can't help with that." in refused.errors and "The model refused to answer." in refused.errors
        assert refused.output == ""
    assert target.read_text() == "old\n"
    events = ask("--json", "refuse: No.", status=UNAVAILABLE).events
    assert events[-2]["response"]["refusals"] == ["No."] and events[-1]["error"]["code"] == "answer_refused"


def test_the_arguments_of_a_tool_come_while_they_are_written(ask, tmp_path):
    tools = {"tools": [{"name": "up", "command": "cat", "policy": "automatic"},
                       {"name": "free", "command": "cat", "policy": "automatic", "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z ]+"}}]}
    path = write(tmp_path / "tools.json", json.dumps(tools))
    for call, name, arguments in (('call up {"a": "b c"}', "up", '{"a": "b c"}'), ("call free some text", "free", "some text")):
        events = ask("--json", "--tools", path, call).events
        deltas = [event for event in events if event["type"] == "tool_arguments_delta"]
        assert "".join(event["delta"] for event in deltas) == arguments and {event["name"] for event in deltas} == {name}
        result = next(event for event in events if event["type"] == "tool_result")
        assert result["call_id"] == deltas[0]["call_id"] and result["outcome"] == "succeeded"
        assert result["output"].strip().replace(" ", "") == arguments.replace(" ", ""), result


def test_an_answer_that_ended_early_replaces_no_file(simulate, user, tmp_path):
    rule = {"match": TURN, "effect": {"events": {"ending": "incomplete"}}}
    someone, target = user(simulate(approves=True, pollInterval=0, rules=[rule])).sign_in(), tmp_path / "answer.txt"
    write(target, "old\n")
    for options in (["-o", str(target)], ["-x", "-o", str(target)]):
        cut = someone.run("ask", "--transport", "sse", *options, "reply: half", status=UNAVAILABLE, says="incomplete")
        assert target.read_text() == "old\n" and cut.output == "" and "half" in cut.errors
    assert someone.run("ask", "--transport", "sse", "reply: half", status=UNAVAILABLE, says="incomplete").output == "half\n"
    [error] = [json.loads(line) for line in someone.run("ask", "--transport", "sse", "--json", "reply: half", status=UNAVAILABLE).output.splitlines()][-1:]
    assert error["error"]["code"] == "answer_incomplete"


def test_the_first_code_block_alone(ask, tmp_path):
    # The simulator repeats a question's first line in a fenced block.
    assert ask("-x", "print(7)").output == "print(7)\n"
    target = tmp_path / "a.py"
    ask("-x", "-o", str(target), "print(7)")
    assert target.read_text() == "print(7)\n"
    without = ask("-x", "reply: nothing but words")
    assert without.output == "nothing but words\n" and "no code block" in without.errors


def test_an_answer_must_fit_the_schema(ask, tmp_path):
    schema = write(tmp_path / "schema.json", '{"type":"object","properties":{"town":{"type":"string"}},"required":["town"]}')
    target = tmp_path / "town.json"
    ask("--schema", schema, "-o", str(target), 'reply: {"town":"Bonn"}')
    assert target.read_text() == '{"town":"Bonn"}\n'
    unfit = ask("--schema", schema, "-o", str(target), 'reply: {"town":7}', status=BAD_DATA, says="/town")
    assert '{"town":7}' in unfit.errors
    assert target.read_text() == '{"town":"Bonn"}\n'
    ask("--schema", '{"type":"town"}', "x", status=USAGE, says="can't be used")


OPTIONAL = '{"type":"object","properties":{"town":{"type":"string"},"size":{"type":"integer","example":7}},"required":["town"]}'


def test_a_schema_is_sent_in_the_strict_form_and_its_nulls_are_removed(ask, tmp_path, program):
    answer = 'reply: {"town":"Bonn","size":null}'
    assert ask("--schema", OPTIONAL, answer).output == '{"town":"Bonn"}\n'
    target = tmp_path / "town.json"
    ask("--schema", OPTIONAL, "-o", str(target), answer)
    assert target.read_text() == '{"town":"Bonn"}\n'
    ask("--schema", OPTIONAL, 'reply: {"town":null,"size":7}', status=BAD_DATA, says="/town")
    assert ask("--schema", '{"type":"array","items":{"type":"string"}}', 'reply: {"value":["a"]}').output == '["a"]\n'
    # What has no strict form is refused before anything is asked.
    anything = '{"type":"object","properties":{"a":{"type":"object"}}}'
    assert "at /properties/a" in ask("--schema", anything, "x", status=USAGE).errors
    words = [program, "chat", "--simulate", "--ephemeral", "--schema", OPTIONAL]
    chat = subprocess.run(words, input=answer + "\n", capture_output=True, text=True, env={"HOME": str(tmp_path)})
    assert '\n{"town":"Bonn"}\n' in chat.stdout and chat.stdout.count("null") == 1, chat


@pytest.mark.parametrize("words, says", [
    (["--time-limit", "nan"], "86400"), (["--time-limit", "inf"], "86400"), (["--time-limit", "1e300"], "86400"),
    (["--time-limit", "0"], "86400"), (["--timeout", "nan"], "86400"), (["--rounds", "0"], "1000"),
    (["-m", ""], "name is empty"), (["-m", "a b c"], "without spaces"), (["--effort", "banana"], "xhigh"),
    (["--verbosity", "banana"], "low, medium or high")])
def test_values_that_nothing_takes_are_refused(words, says, ask):
    ask(*words, "x", status=USAGE, says=says)


def test_templates_have_settings_variables_and_defaults(ask, tmp_path):
    folder = tmp_path / "home" / "config" / "chappie" / "templates"
    write(folder / "say.md", "---\nmodel: gpt-6-sol\neffort: low\n$tone: kind\n---\nIn a $tone tone, for $whom: $input")
    asked = ask("-t", "say", "-p", "whom", "a cat", "good evening").output
    assert "> In a kind tone, for a cat: good evening" in asked
    assert "Model: `gpt-6-sol`" in asked and "Reasoning effort: low" in asked
    assert "Model: `gpt-6-luna`" in ask("-m", "gpt-6-luna", "-t", "say", "-p", "whom=x", "-p", "tone", "b", "y").output
    ask("-t", "say", "x", status=USAGE, says="needs a value for $whom")
    ask("-t", "say", "-p", "whom", "x", "-p", "who", "y", "z", status=USAGE, says="has no variable $who")
    ask("-t", "sing", "x", status=USAGE, says="There are: say.")
    ask("-p", "a", "b", "x", status=USAGE, says="--template NAME")


def test_tables_are_plain_in_a_pipe_and_have_bars_on_a_terminal(user):
    user = user()
    assert user.run("models", "--simulate").output.split("\n")[0].split() == ["gpt-6.1-sol", "272k", "low…ultra", "(low)", "text,image", "GPT-6.1-Sol", "(default)"]
    piped = user.run("usage", "--simulate").output
    assert "█" not in piped and piped.split("\n")[1].startswith("5 hours  12 %  in 2 hours 30 minutes, at ")
    status, shown = user.having(NO_COLOR="1").converse("usage", "--simulate")
    assert status == 0 and "5 hours  ██░░░░░░░░░░░░░░░░░░ 12 %  in 2 hours" in shown and "\x1b" not in shown


def test_the_model_list_is_kept_for_its_owner_alone(simulate, signed_in, tmp_path):
    user = signed_in(simulate())
    first = user.run("models", "--json").output
    assert user.run("models", "--json").output == first
    (kept,) = (tmp_path / "home" / "cache" / "chappie").iterdir()
    assert kept.name.startswith("models-") and stat.S_IMODE(kept.stat().st_mode) == 0o600
    log = user.run("models", "--verbose").errors
    assert "304" in log, log
    kept.write_text("damaged")
    assert user.run("models", "--json").output == first


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_a_script_of_the_shell(shell, user, tmp_path):
    script = write(tmp_path / "script", user().run("completions", shell).output)
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done


def test_the_manual_is_a_page_without_faults(user, tmp_path):
    page = write(tmp_path / "chappie.1", user().run("manual").output)
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-man", "-ww", "-z", "-Kutf8", "-Tutf8", page], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done


@pytest.mark.parametrize("option", ["-f", "-o"])
def test_ctrl_c_ends_the_wait_for_the_other_end_of_a_named_pipe(option, user, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with user().start("--simulate", "ask", option, str(tmp_path / "pipe"), "reply: hello") as process:
        wait_until(lambda: is_asleep(process), "it waits")
        process.send_signal(signal.SIGINT)
        assert process.wait(20 * PATIENCE) == INTERRUPTED


def test_a_job_that_a_script_shields_from_ctrl_c_goes_on(user):
    with user().start("--simulate", "ask", "repeat 20000 words", prefix=["env", "--ignore-signal=INT"]) as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        answer = process.communicate(timeout=60 * PATIENCE)[0]
    assert process.returncode == 0 and len(answer) > 80_000, answer[-200:]
