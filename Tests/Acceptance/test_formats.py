"""What a released version wrote (Tests/Fixtures), read by this program; and what this program does with the data of a newer one."""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess

import pexpect
import pytest

from conftest import BAD_DATA, ROOT, USAGE, User
from counterparts import PATIENCE, private_file
from test_ask import PIXEL, write
from test_chat import ENDED, chat  # noqa: F401
from test_steering import TAKEN, WORDS
from test_tools import manifest

FIXTURES = ROOT / "Tests/Fixtures"
PASSPHRASE = "correct horse battery staple"
NEWER = "newer version of this program (format 2, this version knows 1)"
FOLDERS = ("config", "data", "state")


def having_home(program, folder, tmp_path):
    """A user of the service itself, whose home is `folder`. No request can leave this machine."""
    homes = {f"XDG_{name.upper()}_HOME": str(folder / name) for name in (*FOLDERS, "cache")}
    phrase = private_file(tmp_path / "passphrase", PASSPHRASE + "\n")
    return User(program, "default", {"HOME": str(folder), **homes, "CHAPPIE_CREDENTIAL_STORE": "file",
                                     "CHAPPIE_PASSPHRASE_FILE": phrase, "ALL_PROXY": "http://127.0.0.1:9"})


@pytest.fixture(params=sorted(path for path in FIXTURES.iterdir() if path.is_dir()) if FIXTURES.exists() else [], ids=lambda path: path.name)
def release(request):
    """The folder of a released version."""
    return request.param


@pytest.fixture
def reader(program, release, tmp_path):
    """A user with a copy of what that version kept. Git does not keep that only the user can open it."""
    folder = tmp_path / "old"
    shutil.copytree(release / "home", folder)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    person = having_home(program, folder, tmp_path)
    person.folder = folder
    return person


@pytest.fixture
def backup(release, tmp_path):
    return shutil.copy(release / "threads.backup", private_file(tmp_path / "threads.backup", ""))


@pytest.fixture
def phrase(tmp_path):
    return "--passphrase-file", private_file(tmp_path / "phrase", PASSPHRASE + "\n")


def database(person):
    [path] = (person.folder / "state").rglob("threads.db")
    return path


def exports(release):
    """Each thread as it was exported: these files state what the others contain."""
    threads = [json.loads(path.read_text()) for path in (release / "exports").glob("*.json")]
    return {thread["id"]: thread for thread in threads}


def records(person, thread):
    return json.loads(person.run("threads", "export", thread).output)["records"]


def named(release, title):
    return next(thread for thread in exports(release).values() if thread["title"] == title)


def contents(folder):
    """The files, without SQLite's index of its log, and without a log that has nothing: a program that ends in an error may leave both."""
    files = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and "cache" not in path.parts}
    return {path: data for path, data in files.items() if not path.name.endswith("-shm") and (data or not path.name.endswith("-wal"))}


# MARK: Reading and continuing

def test_every_thread_is_listed_shown_found_and_exported_as_it_was(reader, release):
    threads = exports(release)
    listed = reader.run("threads", "list", "--all", "--json").events[0]
    assert "problems" not in listed and {thread["id"] for thread in listed["threads"]} == set(threads)
    kinds = {record["kind"] for path in release.rglob("exports/*.json") for record in json.loads(path.read_text())["records"]}
    source = (ROOT / "Packages/application/ChappieRuntime/Sources/ChappieRuntime/ThreadRecord.swift").read_text()
    if release == sorted(FIXTURES.glob("[0-9]*"))[-1]:
        assert [kind for kind in source.split('Kind(rawValue: "')[1:] if kind.split('"')[0] not in kinds] == []
    for thread in listed["threads"]:
        was = threads[thread["id"]]
        assert (thread["title"], thread["model"]) == (was["title"], was["model"])
        assert json.loads(reader.run("threads", "export", thread["id"]).output) == was
        assert reader.run("threads", "show", thread["id"]).output
    [hit] = reader.run("threads", "search", "--json", "nightingale").events[0]["hits"]
    assert hit["thread"]["id"] == named(release, "Birds")["id"]
    assert "Everything is whole." in reader.run("threads", "verify").output
    assert reader.run("config").output.count("gpt-6-sol")


def test_the_sign_in_is_read(reader, release, tmp_path):
    status = reader.run("status", "--json").events[0]
    assert status["signed_in"] and status["account"]["email"] == "ada@example.com" and status["store"] == "file"
    reader.run("auth", "export", str(tmp_path / "again"))
    assert json.loads((tmp_path / "again").read_text()) == json.loads((release / "sign-in.json").read_text())
    moved = private_file(tmp_path / "moved", (release / "sign-in.json").read_text())
    assert "ada@example.com" in reader.having(CHAPPIE_ACCOUNT="other").run("auth", "import", moved).output


def test_an_old_store_is_written_to(reader, release):
    birds = named(release, "Birds")
    reader.run("threads", "rename", birds["id"], "More", "birds")
    fork = reader.run("threads", "fork", birds["id"], "--json").events[0]["thread"]
    after = records(reader, birds["id"])
    assert after[:-1] == birds["records"] and after[-1]["kind"] == "thread.renamed"
    assert "nightingale" in reader.run("threads", "show", fork).output
    # Threads that are there already are noticed.
    files = [str(path) for form in ("json", "jsonl") for path in (release / "exports").glob("*." + form)]
    imported = reader.run("threads", "import", "--json", *files).events[0]
    assert not imported["imported"] and not imported["updated"] and set(imported["present"]) == set(exports(release))
    reader.run("threads", "verify", "--new-key")
    assert records(reader, birds["id"]) == after


def test_a_backup_and_exports_are_taken_over_and_continued(backup, phrase, release, simulate, signed_in, passphrase):
    file = dict(CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"))
    person = signed_in(simulate(), **file)
    assert set(person.run("threads", "restore", *phrase, "--json", backup).events[0]["imported"]) == set(exports(release))
    birds = named(release, "Birds")
    outcome = person.run("ask", "--transport", "sse", "--thread", birds["id"], "reply: and it goes on")
    assert outcome.output == "and it goes on\n" and "account" not in outcome.errors
    after = records(person, birds["id"])
    assert after[:len(birds["records"])] == birds["records"] and after[-1]["kind"] == "turn.finished"
    for form in ("json", "jsonl"):
        other = signed_in(simulate(), **file)
        paths = [str(path) for path in (release / "exports").glob("*." + form)]
        assert set(other.run("threads", "import", "--json", *paths).events[0]["imported"]) == set(exports(release))
        assert all(records(other, id) == thread["records"] for id, thread in exports(release).items())


def test_a_wrong_passphrase_is_named_and_changes_nothing(reader, backup, tmp_path):
    before = contents(reader.folder)
    wrong = private_file(tmp_path / "wrong", "wrong\n")
    other = reader.having(CHAPPIE_PASSPHRASE_FILE=wrong)
    other.run("threads", status=69, says="passphrase does not open")
    other.run("status", status=69, says="passphrase does not open")
    reader.run("threads", "restore", "--passphrase-file", wrong, backup, status=69, says="not the passphrase of")
    after = contents(reader.folder)
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} == set()


# MARK: What a newer version wrote

def test_a_newer_store_is_named_and_unchanged(reader, backup, phrase, release):
    birds = named(release, "Birds")
    with sqlite3.connect(database(reader)) as file:
        file.execute("PRAGMA user_version = 2")
    file.close()
    before = database(reader).read_bytes()
    single = next((release / "exports").glob("*.json"))
    for words in (["list"], ["show", birds["id"]], ["rename", birds["id"], "x"], ["delete", "--force", birds["id"]],
                  ["verify", "--repair"], ["verify", "--new-key"], ["restore", *phrase, backup], ["import", str(single)],
                  ["backup", *phrase, backup + "-2"]):
        outcome = reader.run("threads", *words, status=BAD_DATA, says="The threads were written by a " + NEWER)
        assert "Update this program. Nothing was changed." in outcome.errors
    assert database(reader).read_bytes() == before and not list(database(reader).parent.glob("*damaged*"))
    report = reader.run("threads", "list", "--json", status=BAD_DATA)
    assert '"newer_format"' in report.output + report.errors


def test_a_newer_backup_is_named_and_restores_nothing(reader, backup, phrase):
    before = contents(reader.folder)
    for statement in ("UPDATE backup SET version = 2", "UPDATE backup SET version = 1", "PRAGMA user_version = 2"):
        with sqlite3.connect(backup) as file:
            file.execute(statement)
        file.close()
        if "= 2" in statement:
            outcome = reader.run("threads", "restore", *phrase, backup, status=BAD_DATA, says=f"{backup} was written by a {NEWER}")
            assert "Update this program." in outcome.errors
    after = contents(reader.folder)
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} == set()


def test_a_newer_sign_in_is_named_and_unchanged(reader, release, tmp_path):
    document = json.loads((release / "sign-in.json").read_text())
    newer = private_file(tmp_path / "newer", json.dumps({**document, "version": 2, "tokens": "elsewhere"}))
    credentials = reader.folder / "data/chappie/credentials"
    before = contents(credentials)
    reader.run("auth", "import", newer, status=BAD_DATA, says=NEWER)
    assert contents(credentials) == before
    for path in before:
        if path.suffix not in (".lock", ".note"):
            content = bytearray(path.read_bytes()[:-32])
            assert content[:8] == b"CHAPCRED", path
            content[8] = 2
            path.write_bytes(content + hashlib.sha256(content).digest())
    before = contents(credentials)
    moved = private_file(tmp_path / "moved", json.dumps(document))
    for words in (["status"], ["ask", "x"], ["auth", "export", str(tmp_path / "never")], ["auth", "import", moved], ["threads"]):
        outcome = reader.run(*words, status=BAD_DATA, says=NEWER)
        assert "Update this program. Nothing was changed." in outcome.errors
    assert contents(credentials) == before


def test_a_newer_export_is_named_and_the_rest_is_imported(release, simulate, signed_in, passphrase, tmp_path):
    person = signed_in(simulate(), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"))
    thread = named(release, "Birds")
    newer = write(tmp_path / "newer.json", json.dumps({**thread, "id": "newer", "version": 2}).encode())
    outcome = person.run("threads", "import", newer, status=BAD_DATA, says=f"{newer} can't be imported: The threads were written by a {NEWER}")
    assert "Update this program." in outcome.errors
    both = write(tmp_path / "both.jsonl", (open(newer).read() + "\n" + json.dumps(thread) + "\n").encode())
    outcome = person.run("threads", "import", both, status=BAD_DATA, says=NEWER)
    assert records(person, thread["id"]) == thread["records"]
    person.run("threads", "show", "newer", status=USAGE)


def test_what_a_later_version_added_is_kept(reader, release, tmp_path):
    thread = named(release, "Birds")
    old = [{**record, "body": {**record["body"], "later": {"a": [1, 2.5]}}} for record in thread["records"]]
    later = {"position": len(old), "kind": "thread.coloured", "date": old[-1]["date"], "body": {"colour": "blue"}}
    document = {**thread, "id": "later", "records": [*old, later]}
    reader.run("threads", "import", write(tmp_path / "later.json", json.dumps(document).encode()))
    reader.run("threads", "rename", "later", "Named here")
    assert records(reader, "later")[:-1] == document["records"]
    fork = reader.run("threads", "fork", "later", "--json").events[0]["thread"]
    assert {"thread.coloured"} < {record["kind"] for record in records(reader, fork)}
    assert "nightingale" in reader.run("threads", "show", "later").output
    with sqlite3.connect(database(reader)) as file:
        file.execute("CREATE TABLE later (colour TEXT)")
    file.close()
    reader.run("threads", "archive", "later")
    with sqlite3.connect(database(reader)) as file:
        assert file.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'later'").fetchone() == (1,)
    file.close()
    settings = reader.folder / "config/chappie/settings.json"
    text = json.dumps({**json.loads(settings.read_text()), "colour": "blue"})
    settings.write_text(text)
    assert "there is no setting colour" in reader.run("config").errors
    reader.run("config", "set", "model", "gpt-6-luna", status=USAGE, says="there is no setting colour")
    assert settings.read_text() == text


# MARK: Writing

@pytest.mark.writes
def test_the_fixtures_of_this_version_are_written(request, program, simulate, signed_in, passphrase, chat, built, tmp_path, monkeypatch, phrase):  # noqa: F811
    target = pathlib.Path(request.config.invocation_params.dir, request.config.getoption("--write-fixtures")).absolute()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    someone = signed_in(simulate(), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"))
    ask = lambda *words: someone.run("ask", "--transport", "sse", *words)
    latest = lambda: someone.run("threads", "list", "--json").events[0]["threads"][0]["id"]
    # Names, copies and the archive.
    ask("reply: Many birds sing.")
    birds = latest()
    ask("-c", "--effort", "low", "And the nightingale, äöü 🌙?")
    someone.run("threads", "rename", birds, "Birds")
    someone.run("threads", "fork", birds, "--at", "1")
    someone.run("threads", "archive", latest())
    for undo in ((), ("--undo",)):
        someone.run("threads", "archive", *undo, birds)
    # Tools, also one that waited for its user while the program was killed.
    tools = manifest(tmp_path)
    ask("--tools", tools, "--approve-tools", 'call up {"a":"b"}')
    child = pexpect.spawn(program, ["ask", "-c", "--transport", "sse", "--tools", tools, 'call up {"a":"c"}'],
                          env=someone.environment, encoding="utf-8", dimensions=(40, 200), timeout=60 * PATIENCE)
    child.expect_exact("Run it?")
    os.kill(child.pid, signal.SIGKILL)
    child.expect_exact(pexpect.EOF)
    child.close()
    someone.run("threads", "resume", "--transport", "sse", "--tools", tools, "--approve-tools")
    # Pictures, sources and a compaction.
    ask("-f", write(tmp_path / "pixel.png", PIXEL), "reply: A pixel.")
    ask("--draw", "-c", "draw: A red fox\nreply: Here it is.")
    ask("--web", "search: wrens\nreply: Small birds.")
    someone.run("chat", "--transport", "sse", input="reply: one\nreply: two\n/compact\nreply: three\n")
    # A message during an answer, a turn that is taken back, and two that end early.
    terminal = chat("--transport", "sse", deltasPerSecond=8)
    terminal.paste(f"reply: {WORDS}")
    terminal.type("", "Enter")
    terminal.shows("w5", 2)
    terminal.type("reply: the second answer", "Enter")
    terminal.shows(TAKEN)
    terminal.prompts(2)
    terminal.type("reply: to be taken back", "Enter")
    terminal.prompts(3)
    terminal.type("/undo", "Enter")
    terminal.prompts(4)
    terminal.paste("reply: " + WORDS.replace("w", "x"))
    terminal.type("", "Enter")
    terminal.shows("x5", 2)
    terminal.type("", "C-c")
    terminal.prompts(5)
    terminal.paste("reply: " + WORDS.replace("w", "y"))
    terminal.type("", "Enter")
    terminal.shows("y5", 2)
    os.kill(terminal.process, signal.SIGKILL)
    terminal.shows(f"{ENDED} 137")
    terminal.user.run("ask", "-c", "--transport", "sse", "reply: after it")
    failing = signed_in(simulate("usage-limit"), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"))
    failing.run("ask", "--transport", "sse", "refused", status=None)
    for number, other in enumerate((terminal.user, failing)):
        other.run("threads", "export", "--all", "-o", str(tmp_path / f"part-{number}"))
        someone.run("threads", "import", str(tmp_path / f"part-{number}"))
    someone.run("threads", "backup", *phrase, str(tmp_path / "all.backup"))
    # The same of a user of the service itself, whose tokens nobody has issued and which never end.
    someone.run("auth", "export", str(tmp_path / "sign-in.json"))
    document = json.loads((tmp_path / "sign-in.json").read_text())
    for member in ("issuer", "backend"):
        del document[member]
    document["tokens"] |= {name: lasting(document["tokens"][name]) for name in ("id_token", "access_token")}
    document["tokens"]["refresh_token"] = "rt-of-the-fixtures-which-nobody-issued"
    person = having_home(program, tmp_path / "new", tmp_path)
    person.run("auth", "import", private_file(tmp_path / "edited.json", json.dumps(document)))
    person.run("config", "set", "model", "gpt-6-sol")
    person.run("threads", "restore", *phrase, str(tmp_path / "all.backup"))
    target.mkdir(parents=True)
    person.run("auth", "export", str(target / "sign-in.json"))
    person.run("threads", "backup", *phrase, str(target / "threads.backup"))
    for form in ("json", "jsonl"):
        person.run("threads", "export", "--all", "--format", form, "-o", str(target / "exports"))
    for name in FOLDERS:
        shutil.copytree(tmp_path / "new" / name, target / "home" / name)
    subprocess.run([str(built / "chappiePackageTests.xctest"), "--testing-library", "swift-testing", "--filter", "version.are.written"],
                   env={**os.environ, "CHAPPIE_WRITE_FIXTURES": str(target)}, check=True)
    for path in target.rglob("*.reserve"):
        path.unlink()


def lasting(token):
    """The token with an end in the year 2100, and a signature that says what it is."""
    coded = lambda content: base64.urlsafe_b64encode(content).decode().rstrip("=")
    head, claims, _ = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    claims |= {"iss": "https://auth.openai.com", "exp": 4102444800}
    return ".".join([head, coded(json.dumps(claims).encode()), coded(b"a token of the fixtures")])
