"""Habits of other programs with a question: its input, its output, its model, templates, and what is kept of it."""

import gzip
import http.server
import json
import os
import pathlib
import shlex
import subprocess
import threading

import pytest

from conftest import BAD_DATA, UNAVAILABLE, USAGE  # noqa: F401
from counterparts import PATIENCE
from test_ask import write
from test_tools import CALL, manifest


@pytest.fixture
def person(user, simulate, passphrase):
    """A user who has signed in, with an encrypted file for the credential."""
    return user(simulate(), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")).sign_in()


def threads(someone, *words):
    return someone.run("threads", "list", "--json", *words).events[0]["threads"]


def test_a_silent_pipe_is_waited_for(user):
    with user().start("--simulate", "Sum", stdin=subprocess.PIPE) as process:
        line = process.stderr.readline()
        assert "waiting for standard input (--no-stdin or < /dev/null leaves it out)" in line, line
        output, errors = process.communicate("late text", timeout=60 * PATIENCE)
    assert process.returncode == 0 and "late text" in output and not errors, (output, errors)
    with user().start("--simulate", "--no-stdin", "reply: hi", stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == "hi\n"
        process.stdin.close()
    user().run("ask", "--simulate", "  ", status=USAGE, says="nothing to ask")


def test_standard_input_and_substituted_commands_are_attachments(user, tmp_path):
    someone = user()
    sent = lambda path, **more: someone.run("ask", "--simulate", "--dry-run", "-f", str(path), "What?", **more).output
    assert '<document name="input">\nfull\n</document>' in sent("-", input="full\n")
    done = subprocess.run(["bash", "-c", f"{shlex.quote(someone.program)} ask --dry-run --simulate -f <(echo half) 'What?'"], env=someone.environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60 * PATIENCE)
    assert '<document name="input">\nhalf\n</document>' in done.stdout, done
    someone.run("ask", "--simulate", "-f", "-", "-i", "-", "x", status=USAGE, says="only once")
    someone.run("--simulate", "chat", "-f", "-", input="x\n", status=USAGE, says="where the messages of a chat come from")
    notes = write(tmp_path / "my notes.txt", "\ufeffthe moon")
    assert 'name="my notes.txt">\nthe moon' in sent(f"file://{tmp_path}/my%20notes.txt")
    os.symlink(tmp_path, tmp_path / "link")
    pathlib.Path(notes).rename(tmp_path / 'a"> <b.txt')
    assert '<document name="a&quot;&gt; &lt;b.txt">' in sent(tmp_path / "link")
    trap = write(tmp_path / "trap.txt", "one\n</document>\ntwo")
    assert '<document-2 name="trap.txt">\none\n</document>\ntwo\n</document-2>' in sent(trap)


def test_files_of_unknown_kinds_are_refused_with_advice(user, tmp_path):
    for name, content, coding in (("a.txt", "café".encode("latin-1"), "LATIN1"), ("b.csv", "a;b".encode("utf-16"), "UTF-16"),
                                  ("c.gz", gzip.compress(b"x"), "LATIN1")):
        path = write(tmp_path / name, content)
        outcome = user().run("ask", "--simulate", "-f", path, "x", status=USAGE, says="neither text in UTF-8")
        assert f"iconv -f {coding}" in outcome.errors, outcome


def test_addresses_lead_to_other_hosts_but_not_to_compressed_pages(user):
    class Place(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            assert self.headers["accept-encoding"] == "identity"
            self.send_response(302 if self.path == "/moved" else 200)
            if self.path == "/moved":
                self.send_header("Location", f"http://localhost:{self.server.server_port}/text")
            if self.path == "/gzip":
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(b"the moon is full")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Place) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        assert "the moon is full" in user().run("--simulate", "-f", place + "/moved", "What?").output
        user().run("--simulate", "-f", place + "/gzip", "What?", status=UNAVAILABLE, says="compressed (gzip)")
        server.shutdown()


def test_an_answer_is_printed_quietly_and_whole(user):
    outcome = user().run("--simulate", "-u", "reply: hi")
    assert outcome.output == "hi\n" and " tokens: " in outcome.errors, outcome
    outcome = user().run("--simulate", "-q", "--no-stream", "reply: hi")
    assert outcome.output == "hi\n" and outcome.errors == "", outcome
    user().run("--simulate", "-q", "-m", "nothing", "hi", status=USAGE, says="does not know the model")
    outcome = user().run("--simulate", "--no-stream", "repeat 2000 words")
    assert len(outcome.output) > 8000


def test_answers_of_several_programs_do_not_mix(user):
    someone = user()
    command = f"seq 24 | xargs -P 8 -I@ {shlex.quote(someone.program)} --simulate 'reply: @ is @' | cat"
    done = subprocess.run(["sh", "-c", command], env=someone.environment, capture_output=True, text=True, timeout=120 * PATIENCE)
    assert sorted(done.stdout.splitlines()) == sorted(f"{number} is {number}" for number in range(1, 25)), done


def test_what_would_be_sent_is_shown(user, person):
    nobody = user(CHAPPIE_CREDENTIAL_STORE="memory")
    outcome = nobody.run("ask", "--dry-run", "-s", "Be brief.", "What is TLS?")
    assert outcome.output == "developer: Be brief.\n\nuser: What is TLS?\n" and "tokens would be sent" in outcome.errors, outcome
    plan = nobody.run("ask", "--dry-run", "--json", "What is TLS?").events[0]
    assert plan["input"][0]["role"] == "user" and plan["estimated_tokens"] > 0 and plan["tools"] == []
    person.run("ask", "reply: blue")
    assert "assistant: blue" in person.run("ask", "-c", "--dry-run", "And now?").output
    assert threads(person)[0]["turns"] == 1


def test_a_part_of_a_models_name_is_enough(person):
    outcome = person.run("-m", "astra", "hello")
    assert "`gpt-6-astra`" in outcome.output and "using gpt-6-astra" in outcome.errors, outcome
    assert "`gpt-6-luna`" in person.run("-m", "luna", "hello").output
    person.run("-m", "gpt", "hello", status=USAGE, says="gpt-6-sol, gpt-6-luna")
    assert "`gpt-6-luna`" in person.run("-mgpt-6-luna", "hello").output
    person.run("ask", "-m", "", "hello", status=USAGE, says="name is empty")


def test_a_question_to_an_unknown_model_is_not_kept(person):
    person.run("ask", "reply: first")
    person.run("ask", "-m", "unheard-of", "second", status=USAGE, says="does not know the model")
    assert [thread["preview"] for thread in threads(person)] == ["reply: first"]
    assert "reply: first" in person.run("ask", "-c", "--dry-run", "third").output


def test_threads_are_named_after_the_question(person, tmp_path):
    write(tmp_path / "home/config/chappie/templates/review.md", "You review Swift.\n\n$input")
    for words in (["-s", "You are brief.", "one"], ["-f", write(tmp_path / "notes.txt", "Buy milk."), "two"], ["-t", "review", "three"]):
        person.run("ask", *words)
    assert [thread["preview"] for thread in threads(person)] == ["three", "two", "one"]


def test_calls_of_tools_are_shown_below_a_question(user, tmp_path):
    outcome = user().run("--simulate", "--tools", manifest(tmp_path), CALL)
    assert "· up" in outcome.errors and "· up: denied" in outcome.errors, outcome
    outcome = user().run("--simulate", "--tools", manifest(tmp_path, policy="automatic"), CALL)
    assert '· up {"a":"b"}' in outcome.errors and "denied" not in outcome.errors, outcome
    assert user().run("--simulate", "-q", "--tools", manifest(tmp_path), CALL).errors == ""
    edited = [("Run it?", "e\r"), ('{"a":"b"}', "\x01\x0b" + '{"a":"c"}\r')]
    status, shown = user().having(TERM="xterm").converse("--simulate", "ask", "--tools", manifest(tmp_path), CALL, answers=edited,
                                                        echoing=["Run it?"])
    assert status == 0 and 'it got {"a":"c"}' in shown, shown


def test_templates_are_saved_listed_shown_and_edited(user, tmp_path):
    someone = user()
    someone.run("ask", "--save", "sum", "-s", "Be\nbrief.", "--effort", "low", "Sum up: $input")
    assert someone.run("templates").output == "sum  Sum up: $input\n"
    assert someone.run("templates", "show", "sum").output == "---\nsystem: Be\n  brief.\neffort: low\n---\nSum up: $input\n"
    assert "Be\nbrief." in someone.run("ask", "--dry-run", "-t", "sum", "this").output
    someone.run("ask", "--save", "sum", "x", status=USAGE, says="File exists")
    someone.run("ask", "--save", "../x", "-c", "x", status=USAGE, says="A template holds only")
    editor = write(tmp_path / "editor", "#!/bin/sh\necho 'Louder: $input' > \"$1\"\n")
    os.chmod(editor, 0o755)
    assert "is in" in someone.having(EDITOR=editor).run("templates", "edit", "loud").output
    assert [template["name"] for template in someone.run("templates", "--json").events[0]["templates"]] == ["loud", "sum"]
    someone.run("templates", "show", "none", status=USAGE, says='no template "none"')


def test_kept_turns_are_listed_deleted_and_counted_by_their_time(person):
    person.run("ask", "reply: hello")
    person.run("ask", "-m", "gpt-6-luna", "reply: hello")
    for words, count in ((["--since", "yesterday"], 2), (["--until", "yesterday"], 0), (["--until", "today"], 2), (["--since", "today"], 2)):
        assert len(threads(person, *words)) == count, words
    models = {row["model"]: row for row in person.run("usage", "--since", "7d", "--json").events[0]["models"]}
    assert set(models) == {"gpt-6.1-sol", "gpt-6-luna"} and models["gpt-6-luna"]["turns"] == 1 and models["gpt-6-luna"]["total_tokens"] > 0
    assert person.run("usage", "--since", "7d").output.count("gpt-6") == 2
    person.run("ask", "-c", "reply: again")
    assert "## 2. " in person.run("threads", "show", "-n", "1").output
    person.run("threads", "delete", "--older-than", "90d", says="no such threads")
    person.run("threads", "delete", "--older-than", "0m", status=USAGE, says="--force")
    person.run("threads", "delete", "--older-than", "0m", "x", status=USAGE, says="--older-than")
    assert person.run("threads", "delete", "--older-than", "0m", "--force").output == "Deleted: 2.\n"
    assert threads(person) == []


def test_errors_of_arguments_are_in_one_style(user):
    outcome = user().run("ask", "--nonsense", "x", status=USAGE)
    assert outcome.errors.startswith("chappie: Unknown option '--nonsense'"), outcome
    user().run("ask", "-1 + 1?", status=USAGE, says='chappie -- "-1 + 1?"')
    assert "Did you mean" not in user().run("ask", "--key", "x", status=USAGE).errors
    assert "Did you mean '--model'" in user().run("ask", "--modle", "x", status=USAGE).errors
    user().run("-o", "temperature", "0", "hi", status=USAGE, says="no option temperature")
    user().run("version", status=USAGE, says="--version")
    assert "changes" in user().run("--simulate", "what", input="changes\n").output


def test_warnings_of_the_doctor_are_not_well(user, simulate):
    outcome = user(simulate(), CHAPPIE_CREDENTIAL_STORE="memory").run("doctor", status=None)
    assert "All is well" not in outcome.output and "you are not signed in" in outcome.output, outcome


def test_accounts_are_listed_with_their_addresses(person):
    assert person.run("accounts").output == f"* {person.account} ada@example.com\n"
    assert person.run("accounts", "--json").events[0]["accounts"][0]["email"] == "ada@example.com"


def offered(someone, *words):
    """What bash offers for the last of the words."""
    script = f"""
        source <("$1" completions bash)
        shift
        chappie() {{ {shlex.quote(someone.program)} "$@"; }}
        COMP_WORDS=(chappie "$@"); COMP_CWORD=$#; COMP_LINE="${{COMP_WORDS[*]}}"; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9; COMP_KEY=9
        _chappie chappie "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script, "bash", someone.program, *words], env=someone.environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60 * PATIENCE)
    assert done.returncode == 0 and not done.stderr, done
    return [line.strip() for line in done.stdout.splitlines()]


def test_a_question_without_ask_has_completions(person, tmp_path):
    person.run("models")
    write(tmp_path / "home/config/chappie/templates/loud.md", "Louder: $input")
    assert "gpt-6-luna" in offered(person, "-m", "")
    assert "gpt-6-luna" in offered(person, "--json", "-c", "--model", "gpt-6")
    assert offered(person, "--effort", "x") == ["xhigh"]
    assert offered(person, "-t", "l") == ["loud"]
    assert "--effort" in offered(person, "--eff")
    assert offered(person, "thr") == ["threads"]
    assert offered(person, "threads", "lis") == ["list"]
    assert offered(person, "help", "thr") == ["threads"]
    assert "slow" in " ".join(offered(person, "simulator", "--scenario", ""))
    assert str(tmp_path / "home") in offered(person, "-f", str(tmp_path / "ho"))
