"""Conversations that are kept: by ask and chat, in an encrypted store whose key is in the keyring, and what `threads` does."""

import contextlib
import json
import os
import pathlib
import re
import signal
import sqlite3
import stat
import subprocess

import pexpect
import pytest

from conftest import BAD_DATA, UNAVAILABLE, USAGE
from counterparts import PATIENCE
from test_ask import PIXEL
from test_tools import manifest


@pytest.fixture
def person(simulate, signed_in):
    """A user who has signed in at a simulator of their own."""
    person = signed_in(simulate())
    person.folder = pathlib.Path(person.environment["XDG_STATE_HOME"]) / "chappie"
    return person


@pytest.fixture
def phrase_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("phrase") / "phrase"
    path.write_text("correct horse battery\n")
    path.chmod(0o600)
    return str(path)


def ask(person, text, *options, **expected):
    return person.run("ask", "--transport", "sse", *options, text, **expected)


def listed(person, *options):
    return person.run("threads", "list", "--json", *options).events[0]["threads"]


def is_whole(person):
    """Whether `threads verify` prints the folder and finds no damage."""
    folder, *rest = person.run("threads", "verify").output.splitlines()
    return os.path.isdir(folder) and rest == ["Everything is whole."]


def test_a_conversation_goes_on_in_another_process(person):
    ask(person, "reply: first words")
    assert ask(person, "reply: second words", "-c").output == "second words\n"
    threads = listed(person)
    assert len(threads) == 1 and threads[0]["turns"] == 2 and threads[0]["preview"] == "reply: first words"
    shown = person.run("threads", "show").output
    assert [part for part in ("first words", "second words") if part not in shown] == []
    ask(person, "reply: another conversation")
    assert len(listed(person)) == 2
    completed = ask(person, "reply: by its id", "--json", "--thread", threads[0]["id"][-8:]).events[-1]
    assert completed["thread"] == threads[0]["id"] and [thread["turns"] for thread in listed(person)] == [3, 1]
    ask(person, "x", "--thread", "nothing", status=USAGE, says="There is no thread nothing")


def test_a_kept_question_reads_the_sign_in_and_the_key_once_each(person, keyring):
    ask(person, "reply: the key is there")
    assert keyring.reads(lambda: ask(person, "reply: a question")) == 2


def test_nothing_is_kept_where_nothing_is_to_be_kept(person):
    ask(person, "reply: forget this", "--ephemeral")
    person.run("--simulate", "ask", "reply: and this")
    assert listed(person) == []
    ask(person, "again", "-c", status=USAGE, says="There are no threads yet")
    folder, *rest = person.run("threads", "verify").output.splitlines()
    assert not os.path.exists(folder) and rest == ["Everything is whole."]
    assert person.run("threads", "verify", "--json").events == [{"path": folder, "problems": []}]
    assert ask(person, "x", "--ephemeral", "-c", status=None).status == USAGE


def test_no_word_lies_on_disk_in_clear_and_no_other_user_reads_it(person):
    ask(person, "reply: Nachtigallenschwarm")
    person.run("threads", "rename", listed(person)[0]["id"], "Zaunkönigstitel")
    assert person.run("threads", "search", "--json", "nachtigallen").events[0]["hits"]
    files = [path for path in person.folder.rglob("*") if path.is_file()]
    assert len(files) > 1
    for path in files:
        content = path.read_bytes().lower()
        for word in ("nachtigall", "zaunk", "reply"):
            for coding in ("utf-8", "utf-16-le"):
                assert word.encode(coding) not in content, path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for folder in {path.parent for path in files if "threads" in str(path.parent)}:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def test_another_account_has_threads_of_its_own(simulate, signed_in):
    simulator = simulate()
    one = signed_in(simulator)
    ask(one, "reply: of the first")
    two = one.having(CHAPPIE_ACCOUNT=one.account + "-two").sign_in()
    assert listed(two) == [] and len(listed(one)) == 1
    ask(two, "go on", "-c", status=USAGE, says="There are no threads yet")


def test_threads_are_named_found_archived_copied_and_deleted(person):
    ask(person, "reply: all about elephants")
    ask(person, "reply: more of them", "-c")
    ask(person, "reply: all about zebras")
    zebras, elephants = listed(person)
    person.run("threads", "rename", elephants["id"], "Big", "animals")
    person.run("threads", "rename", elephants["id"], "x" * 201, status=USAGE, says="201 characters")
    person.run("threads", "archive", zebras["id"][-8:])
    assert [thread["title"] for thread in listed(person)] == ["Big animals"]
    assert len(listed(person, "--all")) == 2
    found = lambda *words: [hit["thread"]["id"] for hit in person.run("threads", "search", "--json", *words).events[0]["hits"]]
    assert found("ZEBR") == [zebras["id"]] and found("animals") == [elephants["id"]] and found("all", "about", "lions") == []
    assert found("zebras", "--since", "1h") == [zebras["id"]] and found("zebras", "--since", "2100-01-01") == []
    assert found("zebras", "--model", "other") == []
    person.run("threads", "search", "zebras", "--since", "soon", status=USAGE, says="soon is not a date")
    person.run("threads", "archive", "--undo", zebras["id"])
    fork = person.run("threads", "fork", elephants["id"], "--at", "1", "--json").events[0]["thread"]
    assert next(thread for thread in listed(person) if thread["id"] == fork)["turns"] == 1
    person.run("threads", "fork", elephants["id"], "--at", "9", status=USAGE, says="the thread has 2")
    person.run("threads", "delete", zebras["id"], status=USAGE, says="--force")
    person.run("threads", "delete", "--force", zebras["id"], fork)
    assert [thread["id"] for thread in listed(person)] == [elephants["id"]]
    usage = person.run("threads", "list", "--usage", "--json").events[0]
    assert usage["threads"] == 1 and 0 < usage["bytes"] < usage["limit"] == 512 << 20


def test_a_thread_is_deleted_by_a_yes_that_follows_the_question(person):
    ask(person, "reply: to stay")
    thread = listed(person)[0]["id"]
    words, question = ["threads", "delete", thread], "Delete for good? [y/N]"
    # The shell takes the first line; the second was typed before the program began.
    child = pexpect.spawn("/bin/sh", ["-c", 'read go; exec "$0" "$@"', person.program, *words], env=person.environment,
                          encoding="utf-8", dimensions=(40, 200), timeout=60 * PATIENCE)
    child.send("go\ny\n")
    child.expect_exact(question)
    child.send("n\n")
    child.expect_exact("Nothing was deleted.")
    child.expect_exact(pexpect.EOF)
    assert [thread["id"] for thread in listed(person)] == [thread]
    assert person.converse(*words, answers=[(question, "y\n")], echoing=[question])[0] == 0 and listed(person) == []


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_an_export_comes_back_whole(form, person, tmp_path):
    ask(person, "reply: to be kept, äöü 🌙")
    thread = listed(person)[0]["id"]
    file = tmp_path / f"thread.{form}"
    person.run("threads", "export", thread, "-o", str(file), says="not encrypted")
    before = person.run("threads", "export", thread).output
    person.run("threads", "delete", "--force", thread)
    assert person.run("threads", "import", "--json", str(file)).events[0] == {"imported": [thread], "updated": [], "present": [], "left_out": {}}
    assert person.run("threads", "import", "--json", str(file)).events[0] == {"imported": [], "updated": [], "present": [thread], "left_out": {}}
    assert person.run("threads", "export", thread).output == before
    assert ask(person, "reply: it goes on", "-c").output == "it goes on\n"
    (tmp_path / "broken.json").write_text(file.read_text()[:-40])
    person.run("threads", "import", str(tmp_path / "broken.json"), status=None, says="broken.json")


def test_a_tool_is_approved_after_the_process_was_killed_and_runs_once(person, tmp_path):
    path = manifest(tmp_path)
    log = tmp_path / "log"
    (tmp_path / "up").write_text(f'#!/bin/sh\necho run >>"{log}"\nprintf "it got %s" "$(cat)"\n')
    child = pexpect.spawn(person.program, ["ask", "--transport", "sse", "--tools", path, 'call up {"a":"b"}'],
                          env=person.environment, encoding="utf-8", dimensions=(40, 200), timeout=60 * PATIENCE)
    child.expect_exact("Run it?")
    os.kill(child.pid, signal.SIGKILL)
    child.expect_exact(pexpect.EOF)
    child.close()
    assert not log.exists()
    resume = ("threads", "resume", "--transport", "sse", "--json", "--tools", path, "--approve-tools")
    events = person.run(*resume).events
    assert [event["output"] for event in events if event["type"] == "tool_result"] == ['it got {"a":"b"}']
    assert events[-1]["type"] == "completed" and log.read_text() == "run\n"
    person.run(*resume, status=USAGE, says="There is no turn to resume")
    assert log.read_text() == "run\n"


def test_a_chat_goes_on_where_it_ended(person):
    lines = lambda *words: "".join(word + "\n" for word in words)
    person.run("chat", "--transport", "sse", input=lines("reply: one", "reply: two", "/clear", "reply: apart"))
    assert [thread["turns"] for thread in listed(person)] == [1, 2]
    thread = listed(person)[1]["id"]
    person.run("chat", "--transport", "sse", "--thread", thread, input=lines("reply: three"))
    shown = person.run("threads", "show", thread).output
    assert all(word in shown for word in ("one", "two", "three")) and "apart" not in shown


def test_a_chat_takes_back_and_asks_again_without_a_copy(person):
    lines = lambda *words: "".join(word + "\n" for word in words)
    chat = lambda *words: person.run("chat", "--transport", "sse", *words[:-1], input=lines(*words[-1]))
    chat(["reply: one", "reply: two", "/undo", *(f"repeat {number} words" for number in range(100, 118))])
    before = person.run("threads", "list", "--usage", "--json").events[0]
    found = lambda *words: person.run("threads", "search", "--json", *words).events[0]["hits"]
    assert found("one") and not found("two")
    # A chat that continues knows the last question, too.
    again = chat("-c", ["/retry"] * 10)
    assert "nothing to ask again" not in again.output + again.errors
    after = person.run("threads", "list", "--usage", "--json").events[0]
    assert (after["threads"], after["records"] - before["records"]) == (1, 30) and after["bytes"] < 2 * before["bytes"], after
    [thread] = listed(person, "--all")
    assert thread["turns"] == 19
    shown = person.run("threads", "show").output
    assert shown.count("repeat 117 words") == 1 and "two" not in shown, shown
    assert is_whole(person)
    undone = chat("-c", ["/undo"])
    assert "Taken back: repeat 117 words" in undone.output + undone.errors


def test_a_damaged_thread_is_named_and_what_is_whole_is_saved(person, tmp_path):
    ask(person, "reply: the whole one")
    ask(person, "reply: the damaged one")
    assert person.run("threads", "verify", "--new-key").output.splitlines()[1:] == ["The threads have a new key.", "Everything is whole."]
    assert is_whole(person)
    whole, damaged = sorted(listed(person), key=lambda thread: thread["preview"], reverse=True)
    database = next(person.folder.rglob("*.db")) if list(person.folder.rglob("*.db")) else next(
        path for path in person.folder.rglob("*") if path.is_file() and path.read_bytes()[:6] == b"SQLite")
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        number = connection.execute("SELECT number FROM threads WHERE id = ?", [damaged["id"]]).fetchone()[0]
        connection.execute("UPDATE records SET body = zeroblob(80) WHERE id = ?", [number << 32 | 1])
    outcome = person.run("threads", "verify", status=None)
    assert outcome.status == BAD_DATA and damaged["id"] in outcome.output and whole["id"] not in outcome.output
    person.run("threads", "show", damaged["id"], status=BAD_DATA, says="is damaged")
    assert "the whole one" in person.run("threads", "show", whole["id"]).output
    person.run("threads", "export", "--all", status=BAD_DATA, says=damaged["id"])
    repaired = person.run("threads", "verify", "--repair", "--json").events[0]
    assert repaired["problems"] == [] and [problem for problem in repaired["lost"] if damaged["id"] in problem], repaired
    assert os.path.isfile(repaired["damaged_file"]) and os.path.isdir(repaired["path"])
    assert "the whole one" in person.run("threads", "show", whole["id"]).output
    assert "reply: the damaged one" in person.run("threads", "show", damaged["id"]).output
    assert is_whole(person)


def database_of(person):
    return next(path for path in person.folder.rglob("*.db"))


def test_what_leaves_the_sealed_store_is_for_its_user_alone(person, tmp_path):
    ask(person, "reply: private")
    [thread] = listed(person)
    file, folder = tmp_path / "export.json", tmp_path / "saved"
    file.write_text("an older file")
    file.chmod(0o644)
    folder.mkdir(mode=0o755)
    person.run("threads", "export", "-o", str(file))
    person.run("threads", "export", "--all", "-o", str(folder))
    for path in (file, folder / f"{thread['id']}.json"):
        assert json.loads(path.read_text())["id"] == thread["id"] and stat.S_IMODE(path.stat().st_mode) == 0o600, path
    answer = tmp_path / "answer.txt"
    answer.write_text("old")
    answer.chmod(0o640)
    ask(person, "reply: plain", "-o", str(answer))
    assert answer.read_text() == "plain\n" and stat.S_IMODE(answer.stat().st_mode) == 0o640


def test_threads_are_written_through_links_pipes_and_devices(person, tmp_path, phrase_file):
    ask(person, "reply: private")
    [thread] = listed(person)
    target, link, pipe, folder = (tmp_path / name for name in ("target", "link", "pipe", "folder"))
    folder.mkdir()
    os.mkfifo(pipe)
    save = lambda path: person.run("chat", "--commands", "--transport", "sse", "-c", input=f"/save {path}\n")
    export = lambda path: person.run("threads", "export", "-o", str(path))
    for write in (export, save):
        for path, linked in ((link, target), (folder / f"{thread['id']}.json", tmp_path / "other")):
            path.symlink_to(linked)
            write(path)
            assert path.is_symlink() and "private" in linked.read_text() and stat.S_IMODE(linked.stat().st_mode) == 0o600
            path.unlink()
            linked.unlink()
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
            write(pipe)
            assert "private" in reader.communicate(timeout=60)[0] and stat.S_ISFIFO(pipe.stat().st_mode)
        write("/dev/null")
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    (folder / f"{thread['id']}.json").symlink_to(target)
    person.run("threads", "export", "--all", "-o", str(folder))
    assert "private" in target.read_text() and os.listdir(folder) == [f"{thread['id']}.json"]
    backup = ("threads", "backup", "--passphrase-file", phrase_file)
    with contextlib.chdir(folder):
        person.run(*backup, "-", status=USAGE, says="not written to standard output")
        assert not os.path.exists("-")
    target.write_text("saved before")
    person.run("chat", "--commands", "--transport", "sse", "-c", input=f"/save {target}\n", status=USAGE, says="exists already")
    assert target.read_text() == "saved before"


def test_no_command_writes_or_imports_the_files_of_the_store(person, tmp_path, phrase_file):
    ask(person, "reply: kept")
    database = database_of(person)
    link, folder = tmp_path / "link", tmp_path / "folder"
    link.symlink_to(database)
    folder.symlink_to(database.parent)
    for path in (database, link, folder / "threads.db", folder / "new", database.parent / ".." / database.parent.name / "new"):
        for words in (["export", "-o"], ["export", "--all", "-o"], ["backup", "--passphrase-file", phrase_file], ["import"]):
            person.run("threads", *words, str(path), status=USAGE, says="the folder of the kept threads")
        person.run("ask", "-o", str(path), "x", status=USAGE, says="the folder of the kept threads")
        person.run("chat", "--commands", "-c", input=f"/save {path}\n", status=USAGE)
    assert not (database.parent / "new").exists() and "kept" in person.run("threads", "show").output and is_whole(person)


def test_drafts_of_killed_exports_are_removed(person, tmp_path):
    ask(person, "reply: private")
    [thread] = listed(person)
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "export.json"
    names = [f"{name}.0123456789abcdef.draft" for name in ("export.json", f"{thread['id']}.json")]
    for name in [*names, "export.json.mine.draft"]:
        (folder / name).write_text("half")
    person.run("threads", "export", "-o", str(file))
    assert sorted(os.listdir(folder)) == sorted(["export.json", "export.json.mine.draft", names[1]])
    person.run("threads", "export", "--all", "-o", str(folder))
    assert sorted(os.listdir(folder)) == sorted(["export.json", "export.json.mine.draft", f"{thread['id']}.json"])
    # A directory where a file should be makes an export fail.
    (folder / "taken").mkdir()
    person.run("threads", "export", "-o", str(folder / "taken"), status=USAGE, says="can't be written")
    assert not [name for name in os.listdir(folder) if name.endswith(".draft") and "mine" not in name]


def test_one_damaged_row_costs_one_thread(person, tmp_path):
    for word in ("first", "second", "third"):
        ask(person, f"reply: the {word} one")
    first, damaged, third = sorted(listed(person), key=lambda thread: thread["preview"])
    with contextlib.closing(sqlite3.connect(database_of(person))) as connection, connection:
        connection.execute("UPDATE threads SET summary = zeroblob(80) WHERE id = ?", [damaged["id"]])
    outcome = person.run("threads", "list", "--json", status=None)
    assert outcome.status == BAD_DATA and [thread["id"] for thread in outcome.events[0]["threads"]] == [third["id"], first["id"]]
    assert len(outcome.events[0]["problems"]) == 1 and damaged["id"] in outcome.events[0]["problems"][0]
    person.run("threads", "list", status=BAD_DATA, says=damaged["id"])
    for name in (first["id"], first["id"][-8:]):
        assert "the first one" in person.run("threads", "show", name).output
        assert json.loads(person.run("threads", "export", name).output)["id"] == first["id"]
    assert ask(person, "reply: it goes on", "--thread", first["id"]).output == "it goes on\n"
    person.run("threads", "show", damaged["id"], status=BAD_DATA, says="is damaged")
    # It may have been the last one.
    ask(person, "x", "-c", status=BAD_DATA, says="is damaged")
    found = person.run("threads", "search", "--json", "first", status=None)
    assert found.status == 0 and [hit["thread"]["id"] for hit in found.events[0]["hits"]] == [first["id"]]
    found = person.run("threads", "search", "--json", "one", status=None)
    assert found.status == BAD_DATA and len(found.events[0]["problems"]) == 1
    assert {hit["thread"]["id"] for hit in found.events[0]["hits"]} == {first["id"], third["id"]}
    person.run("threads", "delete", "--force", damaged["id"][-8:])
    person.run("threads", "verify", "--repair")
    assert [thread["id"] for thread in listed(person)] == [first["id"], third["id"]]
    assert is_whole(person)


def test_tables_and_indices_of_other_tools_are_no_damage_and_triggers_are(person):
    ask(person, "reply: kept")
    with contextlib.closing(sqlite3.connect(database_of(person))) as connection, connection:
        connection.execute("ANALYZE")
        connection.execute("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
        connection.execute("CREATE TABLE _litestream_lock (id INTEGER)")
        connection.execute("CREATE INDEX mine ON records (date)")
    assert ask(person, "reply: goes on", "-c").output == "goes on\n" and listed(person)[0]["turns"] == 2
    assert is_whole(person)
    for made in ("TRIGGER bad AFTER INSERT ON records BEGIN DELETE FROM threads; END", "VIEW bad AS SELECT * FROM threads"):
        with contextlib.closing(sqlite3.connect(database_of(person))) as connection, connection:
            connection.execute("CREATE " + made)
        person.run("threads", "list", status=BAD_DATA, says="another form")
        with contextlib.closing(sqlite3.connect(database_of(person))) as connection, connection:
            connection.execute(f"DROP {made.split()[0]} bad")
    assert len(listed(person)) == 1


def test_a_date_that_is_yet_to_come_does_not_make_a_thread_the_last_one(person, tmp_path):
    ask(person, "reply: of an hour to come")
    [thread] = listed(person)
    file = tmp_path / "thread.jsonl"
    person.run("threads", "export", "-o", str(file))
    year = thread["updated_at"][:4]
    file.write_text(file.read_text().replace(f"{year}-", "2199-"))
    person.run("threads", "delete", "--force", thread["id"])
    person.run("threads", "import", str(file))
    ask(person, "reply: of today")
    assert [found["preview"] for found in listed(person)] == ["reply: of today", "reply: of an hour to come"]
    assert ask(person, "reply: goes on", "-c").output == "goes on\n" and listed(person)[0]["turns"] == 2
    # From its next turn on, the thread is where it belongs.
    ask(person, "reply: again", "--thread", thread["id"])
    assert listed(person)[0]["id"] == thread["id"] and not listed(person)[0]["updated_at"].startswith("2199")


def test_ordinary_words_that_look_like_secrets_are_listed_and_found_as_they_are(person):
    words = "reply: what does rt_sigaction do in /usr/lib/python3/dist-packages/x.py"
    ask(person, words)
    assert words in person.run("threads", "list").output
    found = person.run("threads", "search", "sigaction").output
    assert "rt_sigaction do in /usr/lib/python3/dist-packages/x.py" in found and "redacted" not in found


def picture(folder, size):
    """An image of so many bytes."""
    path = folder / "picture.png"
    path.write_bytes(PIXEL + bytes(size))
    return str(path)


def test_what_is_beyond_the_limit_is_answered_and_not_kept(person, tmp_path):
    ask(person, "reply: kept")
    [kept] = listed(person)
    person = person.having(CHAPPIE_THREADS_LIMIT="1")
    assert person.run("threads", "list", "--usage", "--json").events[0]["limit"] == 1 << 20
    big = picture(tmp_path, 1 << 20)
    for options in ([], ["-c"]):
        outcome = ask(person, "reply: answered", "-i", big, *options, says="raise the limit (CHAPPIE_THREADS_LIMIT)")
        assert outcome.output == "answered\n" and outcome.errors.count("this conversation is not kept") == 1
    events = ask(person, "reply: answered", "-i", big, "--json").events
    assert [event["kind"] for event in events if event["type"] == "notice"] == ["not_kept"]
    assert events[-1]["type"] == "completed" and "thread" not in events[-1]
    lines = f"repeat 2 words {'of these ' * 150_000}\nreply: second\n/clear\nreply: third\n"
    chat = person.run("chat", "--transport", "sse", input=lines)
    assert chat.output.count("second") == chat.output.count("third") == 2, chat.output[-500:]
    assert chat.errors.count("this conversation is not kept") == 1
    # Only the conversation that was begun after the one beyond the limit.
    assert [thread["preview"] for thread in listed(person)] == ["reply: third", kept["preview"]]
    assert ask(person, "reply: goes on", "-c").output == "goes on\n"


def test_a_chat_that_could_not_be_kept_is_kept_from_the_next_turn_on(person):
    ask(person, "reply: earlier")
    with person.start("chat", "--transport", "sse", stdin=subprocess.PIPE) as process:
        with contextlib.closing(sqlite3.connect(database_of(person), isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            process.stdin.write("reply: one\n")
            process.stdin.flush()
            assert "this conversation is not kept" in process.stderr.readline()
            connection.execute("ROLLBACK")
        output, errors = process.communicate("reply: two\nreply: three\n", timeout=60 * PATIENCE)
    assert process.returncode == 0 and errors == "chappie: this conversation is kept again, from its beginning.\n", errors
    assert [thread["turns"] for thread in listed(person)] == [3, 1] and "reply: one" in person.run("threads", "show").output
    assert is_whole(person)


# The folder of the threads on a disk without any room, or with room for the files that SQLite needs to begin with.
def test_a_backup_is_restored_by_another_user_and_everything_is_exported(simulate, signed_in, tmp_path):
    first, second = signed_in(simulate()), signed_in(simulate())
    ask(first, "reply: the nightingale")
    ask(first, "reply: the wren")
    phrase, file = tmp_path / "phrase", tmp_path / "all.backup"
    phrase.write_text("correct horse\n")
    phrase.chmod(0o600)
    first.run("threads", "backup", str(file), status=USAGE, says="--passphrase-file")
    told = first.run("threads", "backup", "--json", "--passphrase-file", str(phrase), str(file)).events
    assert told == [{"file": str(file)}]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and b"nightingale" not in file.read_bytes()
    restored = second.run("threads", "restore", "--json", "--passphrase-file", str(phrase), str(file)).events[0]
    assert (len(restored["imported"]), restored["updated"], restored["present"], restored["problems"]) == (2, [], [], [])
    assert sorted(thread["preview"] for thread in listed(second)) == ["reply: the nightingale", "reply: the wren"]
    again = second.run("threads", "restore", "--passphrase-file", str(phrase), str(file))
    assert again.output == "Restored: 0. Already present: 2.\n"
    phrase.write_text("battery staple\n")
    wrong = second.run("threads", "restore", "--passphrase-file", str(phrase), str(file), status=UNAVAILABLE, says="not the passphrase")
    assert "keyring" not in wrong.errors, wrong
    cut = tmp_path / "cut.backup"
    cut.write_bytes(file.read_bytes()[:5000])
    phrase.write_text("correct horse\n")
    broken = second.run("threads", "restore", "--passphrase-file", str(phrase), str(cut), status=BAD_DATA, says="cut.backup")
    assert "stored threads are damaged" not in broken.errors and is_whole(second), broken
    phrase.write_text("short\n")
    first.run("threads", "backup", "--passphrase-file", str(phrase), str(file), status=USAGE, says="fewer than 8 bytes")
    phrase.write_text("correct horse\n")

    second.run("threads", "export", "--all", "-o", str(tmp_path / "out"), says="2 threads are in")
    files = sorted((tmp_path / "out").iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600] * 2 and files[0].suffix == ".json"
    assert sorted(json.loads(line)["id"] for line in second.run("threads", "export", "--all").output.splitlines()) == \
        [path.stem for path in files]


def test_a_damaged_record_costs_no_other_thread_and_no_backup(person, simulate, signed_in, tmp_path):
    second = signed_in(simulate())
    for word in ("nightingale", "wren", "owl"):
        ask(person, f"reply: the {word}")
    phrase, file = tmp_path / "phrase", tmp_path / "all.backup"
    phrase.write_text("correct horse\n")
    phrase.chmod(0o600)
    person.run("threads", "backup", "--passphrase-file", str(phrase), str(file))
    older = file.read_bytes()
    damaged = next(thread["id"] for thread in listed(person) if "wren" in thread["preview"])
    with contextlib.closing(sqlite3.connect(database_of(person))) as connection, connection:
        [number] = connection.execute("SELECT number FROM threads WHERE id = ?", [damaged]).fetchone()
        connection.execute("UPDATE records SET date = date + 1 WHERE id = ?", [number << 32])
    # What can be read of the damaged thread is exported, too.
    exported = person.run("threads", "export", "--all", status=BAD_DATA, says=f"thread {damaged} is damaged")
    assert len(exported.output.splitlines()) == 3
    person.run("threads", "export", "--all", "-o", str(tmp_path / "out"), status=BAD_DATA, says="3 threads are in")
    assert len(list((tmp_path / "out").iterdir())) == 3
    person.run("threads", "backup", "--passphrase-file", str(phrase), str(file), status=BAD_DATA, says=damaged)
    assert file.read_bytes() == older
    restored = second.run("threads", "restore", "--json", "--passphrase-file", str(phrase), str(file)).events[0]
    assert len(restored["imported"]) == 3 and restored["problems"] == []
    assert sorted(thread["preview"] for thread in listed(second)) == [
        "reply: the nightingale", "reply: the owl", "reply: the wren"]


FULL = """cp -a "$0" "$0.aside" && mount -t tmpfs -o size=1m,mode=700 none "$0" && cp -a "$0.aside"/. "$0" || exit 1
          head -c 1m /dev/zero >"$0/filler" 2>/dev/null
          truncate -s "-$1" "$0/filler"
          shift
          exec "$@" """


@pytest.mark.parametrize("room", ["0", "96k"])
def test_with_a_full_disk_questions_are_answered_and_not_kept(room, simulate, user, passphrase, tmp_path):
    own = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("this system lets no one have mounts of their own")
    person = user(simulate(pollInterval=0), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("a phrase")).sign_in()
    ask(person, "reply: kept")
    [folder] = pathlib.Path(person.environment["XDG_STATE_HOME"]).glob("chappie/threads/com.chappie.cli/*")
    big = picture(tmp_path, 300_000)
    with person.start("ask", "--transport", "sse", "-i", big, "reply: answered",
                      prefix=[*own, "sh", "-c", FULL, str(folder), room]) as process:
        output, errors = process.communicate(timeout=60 * PATIENCE)
    assert (process.returncode, output) == (0, "answered\n"), errors
    assert errors.count("this conversation is not kept") == 1, errors
    assert [thread["preview"] for thread in listed(person)] == ["reply: kept"]


def test_with_a_full_disk_threads_are_read(simulate, user, passphrase, tmp_path):
    own = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("this system lets no one have mounts of their own")
    person = user(simulate(pollInterval=0), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("a phrase")).sign_in()
    ask(person, "reply: kept")
    [folder] = pathlib.Path(person.environment["XDG_STATE_HOME"]).glob("chappie/threads/com.chappie.cli/*")
    for command in (["list"], ["show"], ["export"], ["search", "kept"], ["verify"],
                    ["export", "-o", str(tmp_path / "out.json")]):
        with person.start("threads", *command, prefix=[*own, "sh", "-c", FULL, str(folder), "0"]) as process:
            output, errors = process.communicate(timeout=60 * PATIENCE)
        assert process.returncode == 0, (command, errors)
        assert "kept" in output + errors or command[0] == "verify" or "-o" in command, (command, output)
    assert "kept" in (tmp_path / "out.json").read_text()


def test_what_cannot_be_kept_is_answered_all_the_same(person):
    ask(person, "reply: kept")
    for path in person.folder.glob("threads/com.chappie.cli/*/*"):
        if path.is_file() and not path.name.startswith("CACHEDIR"):
            path.write_bytes(b"this is no database" * 100)
    assert ask(person, "reply: answered", says="this conversation is not kept").output == "answered\n"
    ask(person, "x", "-c", status=BAD_DATA, says="damaged")
