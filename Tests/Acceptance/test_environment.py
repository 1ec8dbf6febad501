"""Surroundings that shut users out: folders and variables that can't be used, files of another user, odd file systems."""

import json
import os
import pathlib
import shlex
import subprocess

import pytest

from conftest import SIGN_IN_NEEDED, UNAVAILABLE, USAGE, Outcome
from counterparts import PATIENCE, private_file

NOT_SET = {f"XDG_{name}_HOME": None for name in ("CONFIG", "DATA", "STATE", "CACHE")}
# A user without an entry in the user database, as in many containers.
NOBODY = 4242


@pytest.fixture
def person(simulate, user, passphrase):
    """A user with an encrypted file and no XDG variables."""
    return user(simulate(), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open"), **NOT_SET)


@pytest.fixture
def root():
    if os.geteuid():
        pytest.skip("only root can become another user or mount a file")


def run(user, *words, prefix=(), status=0, says="", environment=None, **streams):
    """Runs the program behind a prefix such as setpriv; the environment may hold bytes."""
    with subprocess.Popen([*prefix, user.program, *words], env=environment or user.environment, start_new_session=True,
                          **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}) as process:
        output, errors = process.communicate(timeout=60 * PATIENCE)
    outcome = Outcome(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))
    if status in (None, SIGN_IN_NEEDED):
        assert outcome.status == (status or outcome.status) and says in outcome.errors, outcome
        return outcome
    return outcome.expect(status, says)


def as_user(user, *words, **options):
    return run(user, *words, prefix=["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"], **options)


def home_of(user):
    return pathlib.Path(user.environment["HOME"])


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def reachable(tmp_path):
    """Lets another user into the folder of the test."""
    for folder in [tmp_path, *tmp_path.parents][:-2]:
        folder.chmod(folder.stat().st_mode | 0o011)
    return tmp_path


# F36, F48: the folders


@pytest.mark.parametrize("variable", [*NOT_SET])
@pytest.mark.parametrize("value", ["relative", "~/.state"])
def test_a_relative_folder_counts_for_nothing(variable, value, person, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    someone = person.having(**{variable: value}).sign_in()
    someone.run("config", "set", "verbosity", "low")
    assert someone.run("ask", "reply: unique").errors == ""
    assert person.run("ask", "-c", "reply: again").output == "again\n"
    assert len(person.run("threads", "--json").events[0]["threads"]) == 1
    assert json.loads((home_of(person) / ".config/chappie/settings.json").read_text()) == {"verbosity": "low"}
    assert names(tmp_path / "here") == set()


def test_a_user_whom_nobody_knows_is_told_to_set_home(root, person, reachable):
    lost = person.having(HOME=None, CHAPPIE_PASSPHRASE_FILE=None)
    for words, status in ((["config", "path"], USAGE), (["config", "set", "effort", "low"], USAGE), (["status"], UNAVAILABLE),
                          (["login", "--no-browser"], UNAVAILABLE), (["threads"], USAGE), (["ask", "-t", "name", "hello"], USAGE)):
        outcome = as_user(lost, *words, status=status, says="Set HOME.")
        assert "keyring" not in outcome.errors and "disk" not in outcome.errors, outcome
    outcome = as_user(lost, "doctor", "--json", status=None)
    rows = {row["name"]: row for row in outcome.events[0]["checks"]}
    assert rows["store"]["status"] == "fail" and rows["store"]["remedy"] == "Set HOME." and rows["folders"]["remedy"] == "Set HOME."
    assert rows["service: TCP"]["status"] == "ok" and outcome.status == UNAVAILABLE, rows


def test_what_can_not_be_kept_is_said_in_one_line(root, person, reachable):
    """There is a place for the credential, and none for conversations."""
    data = reachable / "data"
    data.mkdir()
    phrase = private_file(reachable / "phrase", "open\n")
    for path in (data, phrase):
        os.chown(path, NOBODY, NOBODY)
    lost = person.having(HOME=None, XDG_DATA_HOME=str(data), CHAPPIE_PASSPHRASE_FILE=phrase)
    as_user(lost, "login", "--no-browser", says="does not list this account")
    for words in (["ask", "reply: here"], ["chat"]):
        outcome = as_user(lost, *words)
        assert [line for line in outcome.errors.splitlines() if "not kept" in line and "Set HOME." in line], outcome
    assert as_user(lost, "ask", "--ephemeral", "reply: here").errors == ""


def test_home_comes_from_the_user_database(root, person, tmp_path):
    """A container's passwd names a home that is not in the environment."""
    passwd = tmp_path / "passwd"
    home = tmp_path / "of the database"
    home.mkdir()
    passwd.write_text(f"root:x:0:0::{home}:/bin/sh\n")
    nss = tmp_path / "nsswitch.conf"
    nss.write_text("passwd: files\n")
    mount = f"mount --bind {shlex.quote(str(passwd))} /etc/passwd && exec \"$@\""
    outcome = run(person.having(HOME=None), "config", "path", prefix=["unshare", "--mount", "sh", "-c", mount, "sh"])
    assert outcome.output == f"{home}/.config/chappie/settings.json\n"


# F41: bytes


def test_bytes_that_are_not_utf_8_are_never_repaired(person, tmp_path):
    odd = os.fsencode(tmp_path) + b"/h\xff\xe9 x"
    os.mkdir(odd)
    before = set(os.listdir(os.fsencode(tmp_path)))
    bytes_of = lambda **changed: {os.fsencode(key): value if isinstance(value, bytes) else os.fsencode(value)
                                  for key, value in {**person.environment, **changed}.items()}
    for words, status in ((["login", "--no-browser"], UNAVAILABLE), (["config", "set", "effort", "low"], USAGE), (["threads"], USAGE)):
        run(person, *words, environment=bytes_of(HOME=odd), status=status)
    run(person, "config", "path", environment=bytes_of(HOME=odd), status=USAGE, says="HOME is not UTF-8")
    run(person, "config", "path", environment=bytes_of(XDG_CONFIG_HOME=odd), status=USAGE, says="XDG_CONFIG_HOME is not UTF-8")
    run(person, "status", environment=bytes_of(CHAPPIE_PASSPHRASE_FILE=odd), status=SIGN_IN_NEEDED)
    run(person, "models", environment=bytes_of(CHAPPIE_CA_FILE=odd), status=USAGE, says="CHAPPIE_CA_FILE is not UTF-8")
    run(person, "config", "edit", environment=bytes_of(EDITOR=odd), status=USAGE, says="EDITOR is not UTF-8")
    run(person, "ask", b"gr\xfc\xdfe", status=USAGE, says="Argument 2 is not UTF-8")
    assert set(os.listdir(os.fsencode(tmp_path))) == before and os.listdir(odd) == []


def test_a_working_folder_that_is_not_utf_8_has_tools(person, tmp_path):
    odd = os.fsencode(tmp_path) + b"/cw\xff"
    os.mkdir(odd)
    with open(odd + b"/t.sh", "w") as tool:
        tool.write("#!/bin/sh\necho here\n")
    os.chmod(odd + b"/t.sh", 0o755)
    with open(odd + b"/t.json", "w") as manifest:
        json.dump({"tools": [{"name": "t", "description": "T.", "command": "./t.sh", "policy": "automatic"}]}, manifest)
    person.sign_in()
    assert "here" in run(person, "ask", "--tools", "t.json", "call t {}", cwd=odd).output
    run(person, "config", "set", "tools", "t.json", cwd=odd, status=USAGE, says="not UTF-8")


# F37, F16 (c): root in another user's home


def test_root_makes_nothing_in_another_users_home(root, person):
    home = home_of(person)
    os.chown(home, NOBODY, NOBODY)
    before = names(home)
    for words, status in ((["config", "set", "effort", "low"], USAGE), (["login", "--no-browser"], UNAVAILABLE)):
        outcome = person.run(*words, status=status, says=f"{home} belongs to user {NOBODY}")
        assert "sudo -H" in outcome.errors, outcome
    for words in (["status"], ["ask", "hello"], ["threads"], ["accounts"], ["models"], ["logout"], ["doctor"]):
        person.run(*words, status=None)
    with_token = person.having(CHAPPIE_ACCESS_TOKEN="x", CHAPPIE_CREDENTIAL_STORE=None)
    with_token.run("ask", "hello", status=None)
    assert names(home) == before


def test_files_that_root_left_are_named_with_chown(root, person, reachable):
    home = home_of(person)
    mine = person.having(CHAPPIE_PASSPHRASE_FILE=None)
    os.chown(home, NOBODY, NOBODY)
    as_user(mine, "config", "set", "effort", "low")
    settings = home / ".config/chappie/settings.json"
    os.chown(settings, 0, 0)
    settings.chmod(0o600)
    for words, status in ((["status"], SIGN_IN_NEEDED), (["threads"], 0), (["ask", "hi"], USAGE), (["config", "set", "effort", "high"], USAGE)):
        as_user(mine, *words, status=status, says=f"sudo chown -R {NOBODY}:{NOBODY} {settings}")
    subprocess.run(["rm", "-rf", home / ".config", home / ".local"], check=True)
    (home / ".local").mkdir(0o700)
    phrase = private_file(reachable / "phrase", "open\n")
    os.chown(phrase, NOBODY, NOBODY)
    mine = mine.having(CHAPPIE_PASSPHRASE_FILE=phrase)
    as_user(mine, "login", "--no-browser", status=UNAVAILABLE, says=f"sudo chown -R {NOBODY}:{NOBODY} {home}/.local")
    (home / ".config").mkdir(0o700)
    as_user(mine, "config", "set", "effort", "low", status=USAGE, says=f"sudo chown -R {NOBODY}:{NOBODY} {home}/.config")


# F42: secrets of containers


@pytest.mark.parametrize("mode", [0o440, 0o444, 0o644])
def test_a_secret_of_a_container_is_a_passphrase_file(mode, root, person, reachable):
    secret = pathlib.Path(private_file(reachable / "secret", "open\n"))
    os.chown(secret, 0, NOBODY)
    secret.chmod(mode)
    mine = person.having(CHAPPIE_PASSPHRASE_FILE=str(secret))
    os.chown(home_of(person), NOBODY, NOBODY)
    as_user(mine, "login", "--no-browser")
    assert as_user(mine, "ask", "reply: here").output == "here\n"


def test_a_passphrase_may_come_through_a_pipe(person):
    words = [person.program, "login", "--no-browser"]
    command = f"CHAPPIE_PASSPHRASE_FILE=<(printf open) exec {shlex.join(words)}"
    subprocess.run(["bash", "-c", command], env=person.environment, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert "Signed in" in person.having(CHAPPIE_PASSPHRASE_FILE="/dev/stdin").run("status", input="open\n").output
    assert "Signed in" in person.run("status").output


# F43: the settings


@pytest.mark.parametrize("text", [
    '{"effort":"low","from_a_newer_version":true}', "", "\ufeff{}", '{"model":null}', None,
], ids=["unknown", "empty", "mark", "null", "link"])
def test_settings_that_can_not_be_used_cost_a_line(text, person):
    person.sign_in()
    path = home_of(person) / ".config/chappie/settings.json"
    path.parent.mkdir(parents=True)
    if text is None:
        path.symlink_to("nowhere.json")
    else:
        path.write_text(text, encoding="utf-8")
    for words in (["status"], ["doctor"], ["threads"], ["threads", "verify"], ["accounts"], ["ask", "hello"], ["models"], ["usage"], ["config"],
                  ["tools"], ["logout"], ["login", "--no-browser"]):
        outcome = person.run(*words)
        assert [line for line in outcome.errors.splitlines() if str(path) in line], outcome
        assert outcome.errors.count(str(path)) == 1, outcome


def test_unset_removes_any_member(person):
    path = home_of(person) / ".config/chappie/settings.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"effort":"low","from_a_newer_version":true}')
    person.run("config", "set", "effort", "high", status=USAGE, says="chappie config unset from_a_newer_version")
    person.run("config", "unset", "from_a_newer_version")
    person.run("config", "set", "effort", "high")
    assert json.loads(path.read_text()) == {"effort": "high"}
    person.run("config", "unset", "from_a_newer_version", status=USAGE, says="There is no setting")


@pytest.mark.parametrize("name, value", [("CHAPPIE_THREADS_LIMIT", "512M"), ("CHAPPIE_MINIMUM_TLS", "1.1"), ("CHAPPIE_CA_FILE", "/nonexistent")])
def test_a_variable_that_can_not_be_used_stops_only_what_uses_it(name, value, person):
    person.sign_in()
    broken = person.having(**{name: value})
    broken.run("ask", "hello", status=USAGE, says=name)
    for words in (["status"], ["threads"], ["accounts"], ["logout"]):
        broken.run(*words)
    assert person.run("status", status=None).status == SIGN_IN_NEEDED


def test_the_programs_own_notes_are_in_a_file_of_their_own(person):
    person.sign_in()
    assert not (home_of(person) / ".config").exists()
    notes = home_of(person) / ".local/state/chappie/notes.json"
    assert person.account in notes.read_text() and notes.stat().st_mode & 0o777 == 0o600
    notes.write_text("{")
    for words in (["status"], ["ask", "hello"], ["accounts"]):
        assert str(notes) in person.run(*words).errors
    person.run("logout", says=str(notes))


# F40: the editor's folder


@pytest.mark.parametrize("folders", [
    {"XDG_RUNTIME_DIR": "/run/user/4242"}, {"XDG_RUNTIME_DIR": "relative", "TMPDIR": "/nonexistent"}, {"XDG_RUNTIME_DIR": None, "TMPDIR": "/dev/null"},
])
def test_a_runtime_folder_that_is_gone_is_passed_over(folders, person):
    assert person.having(EDITOR="true", **folders).run("config", "edit").output == "Nothing is changed.\n"


# F45: files that are mount points


def test_a_file_that_is_a_mount_point_is_written_in_place(root, person, tmp_path):
    person.sign_in()
    person.run("config", "set", "effort", "low")
    settings = home_of(person) / ".config/chappie/settings.json"
    answer = tmp_path / "answer"
    mounted = [private_file(tmp_path / name, "{}" + " " * 200) for name in ("settings", "a0")]
    answer.touch()
    mount = " && ".join(f"mount --bind {shlex.quote(source)} {shlex.quote(str(target))}"
                        for source, target in zip(mounted, (settings, answer)))
    inside = ["unshare", "--mount", "sh", "-c", f'{mount} && "$0" config set verbosity low >&2 && exec "$@"', person.program]
    run(person, "ask", "-o", str(answer), "reply: here", prefix=inside)
    assert json.loads(pathlib.Path(mounted[0]).read_text()) == {"verbosity": "low"}
    assert pathlib.Path(mounted[1]).read_text() == "here\n"
    assert json.loads(settings.read_text()) == {"effort": "low"} and answer.read_text() == ""
    assert names(tmp_path) & {"answer.draft"} == set() and not list(settings.parent.glob("*.draft"))


def test_an_answer_whose_file_fails_at_the_end_goes_to_standard_output(person, tmp_path):
    person.sign_in()
    folder = tmp_path / "gone"
    folder.mkdir()
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\nrm -rf {shlex.quote(str(folder))}\necho done\n")
    tool.chmod(0o700)
    manifest = tmp_path / "tools.json"
    manifest.write_text(json.dumps({"tools": [{"name": "t", "description": "T.", "command": str(tool), "policy": "automatic"}]}))
    outcome = person.run("ask", "--tools", str(manifest), "-o", str(folder / "a"), "call t {}", status=UNAVAILABLE,
                         says="The answer is on standard output; `chappie threads show` has it, too.")
    assert "done" in outcome.output
    assert "done" in person.run("threads", "show").output


def test_one_command_closes_a_restored_home(root, person):
    person.sign_in()
    credentials = home_of(person) / ".local/share/chappie/credentials"
    subprocess.run(["chmod", "-R", "go+rX", credentials], check=True)
    outcome = person.run("status", status=UNAVAILABLE, says=f"chmod -R go-rwx {credentials}")
    subprocess.run(["chmod", "-R", "go-rwx", credentials], check=True)
    assert "Signed in" in person.run("status").output, outcome


# F16: file systems that lack something, which strace plays


@pytest.mark.traces
@pytest.mark.parametrize("failure", ["ENOLCK", "EOPNOTSUPP", "EBADF"])
def test_a_file_system_without_locks_holds_credentials(failure, person):
    """Only a renewal needs a lock."""
    without = ["strace", "-f", "-qq", "-e", "trace=flock", "-e", f"inject=flock:error={failure}", "-o", "/dev/null"]
    assert "Signed in" in run(person, "login", "--no-browser", prefix=without).output
    assert "Signed in" in run(person, "status", prefix=without).output


@pytest.mark.traces
def test_a_file_system_that_keeps_its_permissions_holds_credentials(person):
    keeping = ["strace", "-f", "-qq", "-e", "trace=fchmod", "-e", "inject=fchmod:error=EPERM", "-o", "/dev/null"]
    assert "Signed in" in run(person, "login", "--no-browser", prefix=keeping).output
    assert person.run("ask", "reply: here").output == "here\n"
