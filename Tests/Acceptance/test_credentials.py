"""Where a sign-in is stored, what removes it, and what must not touch it."""

import ctypes
import json
import os
import pathlib
import platform
import subprocess

import pytest

from conftest import INTERRUPTED, QUESTION, SIGN_IN_NEEDED, UNAVAILABLE, USAGE
from counterparts import PATIENCE, Keyring


@pytest.mark.parametrize("scenario, status, says", [
    ("device-off", SIGN_IN_NEEDED, "settings"), ("device-start-500", UNAVAILABLE, ""),
    ("device-start-html", UNAVAILABLE, "sign in to the network")])
def test_a_sign_in_that_cannot_succeed_stores_nothing(scenario, status, says, simulate, user, keyring):
    user = user(simulate(scenario))
    user.run("login", "--no-browser", status=status, says=says)
    assert not keyring.secret(user.account)


def test_signing_out_removes_what_cannot_be_read_and_says_so(simulate, user, passphrase):
    simulator = simulate()
    mine = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("a phrase"))
    other = mine.having(**passphrase("another phrase"))
    for options, first, then in (([], "could not be read", "You were not signed in"),
                                 (["--json"], '"was_signed_in":null', '"was_signed_in":false')):
        mine.sign_in()
        assert first in other.run("logout", *options).output
        assert then in other.run("logout", *options).output
    mine.ask(status=SIGN_IN_NEEDED, says="login")
    assert not any("/oauth/revoke" in line for line in simulator.log), simulator.log


def test_a_sign_in_that_could_not_be_stored_is_not_begun(simulate, user):
    simulator = simulate()
    with Keyring(has_keyring=False) as service:
        empty = user(simulator, DBUS_SESSION_BUS_ADDRESS=service.environment["DBUS_SESSION_BUS_ADDRESS"])
        for store, reason in (("keyring", "default keyring"), ("file", "no passphrase")):
            outcome = empty.having(CHAPPIE_CREDENTIAL_STORE=store).run("login", "--no-browser", status=UNAVAILABLE, says=reason)
            assert outcome.output == "" and not simulator.log, (outcome, simulator.log)
        assert "default keyring" in empty.doctor()[1]["keyring"]["detail"]
        choice = "[y/N]"
        typed = [(choice, "y\n"), ("New passphrase", "a phrase\n"), ("Repeat the passphrase", "a phrase\n")]
        status, text = empty.converse("login", "--no-browser", answers=typed, echoing={choice})
        assert status == 0 and "in the encrypted file" in text, (status, text)


def test_a_passphrase_is_typed_unseen(simulate, user, tmp_path):
    user = user(simulate(), CHAPPIE_CREDENTIAL_STORE="file", TERM="xterm")
    user.run("config", "set", "keep_key", "false")
    new, again, old = "New passphrase", "Repeat the passphrase", "Passphrase for"
    typed = [(new, "a phrase\n"), (again, "another\n"), (new, "a phrase\n"), (again, "a phrase\n")]
    # Long enough for a code to be approved, and for the status line to show what it waits for.
    status, text = user.converse("login", "--no-browser", answers=typed, thinking=2.5)
    assert status == 0 and "The two passphrases differ" in text and "in the encrypted file" in text, (status, text)
    asked = text[:text.rindex(again)]
    assert "enter this code" in text and "enter this code" not in asked and "Waiting" not in asked, f"not asked first: {text}"
    assert "a phrase" not in text and "another" not in text, f"what was typed shows: {text}"
    copy = str(tmp_path / "copy")
    assert user.converse("auth", "export", copy, answers=[(old, "a phrase\n")])[0] == 0
    for words, phrase, wanted, says in (
        (["ask", QUESTION], "a phrase\n", 0, "That is"), (["ask", QUESTION], "wrong\n", UNAVAILABLE, "does not open"),
        (["ask", QUESTION], "\x03", INTERRUPTED, ""), (["login", "--no-browser"], "\x03", INTERRUPTED, ""),
        (["accounts", "remove", user.account], "\x03", INTERRUPTED, ""), (["auth", "import", copy], "\x03", INTERRUPTED, ""),
        (["logout"], "\n", 0, "could not be read"),
    ):
        status, text = user.converse(*words, answers=[(old, phrase)])
        assert status == wanted and says in text and text.count(old) == 1, (words, status, text)
    assert "You were not signed in" in user.converse("logout")[1]


KEYCTL, ADD_KEY = {"x86_64": (250, 248), "aarch64": (219, 217)}[platform.machine()]
TYPED = [("New passphrase", "a phrase\n"), ("Repeat the passphrase", "a phrase\n")]
ASKED = [("Passphrase for", "a phrase\n")]


@pytest.fixture
def session():
    """A session keyring of its own for everything that the test starts, as a login has one."""
    assert ctypes.CDLL(None).syscall(KEYCTL, 1, None) > 0, "the kernel has no keyrings here"


def test_the_kernel_keeps_the_key_of_the_encrypted_file(session, simulate, user, passphrase):
    mine = user(simulate(), CHAPPIE_CREDENTIAL_STORE="file", TERM="xterm")
    assert mine.converse("login", "--no-browser", answers=TYPED)[0] == 0
    for words in (["ask", QUESTION], ["status"], ["ask", "-c", QUESTION]):
        status, text = mine.converse(*words)
        assert status == 0 and "Passphrase" not in text, (words, text)
    # A passphrase that is given is checked.
    mine.having(**passphrase("wrong")).run("status", status=UNAVAILABLE, says="does not open")
    assert mine.run("lock").output == "The key of the encrypted file is no longer kept.\n"
    assert mine.run("lock", "--json").events == [{"locked": True, "was_kept": False}]
    for _ in range(2):
        mine.run("config", "set", "keep_key", "false")
        assert mine.converse("status", answers=ASKED)[0] == 0
    mine.run("config", "unset", "keep_key")
    assert mine.converse("status", answers=ASKED)[0] == 0
    assert mine.converse("logout")[0] == 0
    assert mine.run("lock").output == "No key was kept.\n"


def test_a_key_belongs_to_the_passphrase_file_that_it_was_made_from(session, simulate, user, passphrase):
    phrase = passphrase("a phrase")
    mine = user(simulate(), CHAPPIE_CREDENTIAL_STORE="file", **phrase).sign_in()
    mine.run("status")
    assert "was_kept\":true" in mine.run("lock", "--json").output
    mine.run("status")
    pathlib.Path(phrase["CHAPPIE_PASSPHRASE_FILE"]).write_text("wrong\n")
    mine.run("status", status=UNAVAILABLE, says="does not open")
    pathlib.Path(phrase["CHAPPIE_PASSPHRASE_FILE"]).write_text("a phrase\n")
    mine.run("status")


REFUSING = """#!/usr/bin/env python3
import ctypes, os, struct, sys
# Loads the number of the system call; keyctl and add_key fail with EPERM, as in a container.
steps = [(0x20, 0, 0, 0), (0x15, 1, 0, {keyctl}), (0x15, 0, 1, {add_key}), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
os.execv("{program}", ["{program}"] + sys.argv[1:])
"""


def test_where_the_kernel_refuses_to_keep_a_key_the_passphrase_is_asked_for(simulate, user, program, tmp_path):
    mine = user(simulate(), CHAPPIE_CREDENTIAL_STORE="file", TERM="xterm")
    script = tmp_path / "refusing"
    script.write_text(REFUSING.format(keyctl=KEYCTL, add_key=ADD_KEY, program=program))
    script.chmod(0o700)
    mine.program = str(script)
    assert mine.converse("login", "--no-browser", answers=TYPED)[0] == 0
    for _ in range(2):
        assert mine.converse("status", answers=ASKED)[0] == 0
    assert mine.run("lock").output == "No key was kept.\n"


def test_removing_an_account_says_what_it_did(simulate, signed_in, passphrase):
    simulator = simulate(pollInterval=0, rules=[{"match": {"path": "/oauth/revoke", "to": 1}, "effect": {"status": 500}}])
    user = signed_in(simulator)
    user.run("accounts", "remove", user.account + "x", status=USAGE, says="has signed in here")
    refused = user.run("accounts", "remove", user.account)
    assert refused.output == f"Removed {user.account}.\n" and "revoking it at the service failed" in refused.errors, refused
    user.sign_in()
    elsewhere = user.having(CHAPPIE_CREDENTIAL_STORE="file", **passphrase("a phrase"))
    outcome = elsewhere.run("accounts", "remove", user.account)
    assert "no sign-in" in outcome.errors and "encrypted file" in outcome.errors, outcome
    user.ask()
    assert user.run("accounts", "remove", user.account, "--json").events == [{"removed": user.account, "revoked": True}]
    user.ask(status=SIGN_IN_NEEDED)


def test_imports_that_would_be_lost_or_that_others_could_have_read_are_refused(simulate, signed_in, tmp_path):
    user, path = signed_in(simulate()), str(tmp_path / "export")
    user.run("auth", "export", "--remove", path)
    importer = user.having(CHAPPIE_ACCOUNT=user.account + "-importer")
    importer.having(CHAPPIE_CREDENTIAL_STORE="memory").run("auth", "import", path, status=USAGE, says="lost")
    importer.run("auth", "import", "--simulate", path, status=USAGE, says="lost")
    os.chmod(path, 0o640)
    importer.run("auth", "import", path, status=USAGE, says="chmod 600")
    os.chmod(path, 0o600)
    importer.run("auth", "import", path)
    importer.ask()


def test_a_simulation_leaves_the_accounts_as_they_are(simulate, signed_in, tmp_path):
    user = signed_in(simulate())
    for word in ("use", "remove"):
        user.run("--simulate", "accounts", word, user.account, status=USAGE, says="simulation")
    assert user.run("accounts", "--json").events == [{"accounts": [{"name": user.account, "email": "ada@example.com", "is_current": True, "route": "device"}]}]
    notes = json.loads((tmp_path / "home/state/chappie/notes.json").read_text())
    # The names are kept for each service; the top level is the default one's.
    assert "accounts" not in notes and [issuer["accounts"] for issuer in notes["issuers"].values()] == [[user.account]], notes


# The folder as the program finds it: read-only, or on a disk without room for another file.
FOLDERS = {"read-only": """mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@" """,
           "full": """cp -a "$0" "$0.aside" && mount -t tmpfs -o size=64k,mode=700 none "$0" && cp -a "$0.aside"/* "$0" || exit 1
                      head -c 64k /dev/zero >"$0/filler"
                      exec "$@" """}


@pytest.mark.parametrize("lifetime", [60, 0])
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_refresh_token_is_not_used_up_where_its_successor_can_not_be_saved(folder, lifetime, simulate, user, passphrase):
    """A token that still holds is used until it ends. The next program, which can write, goes on from there."""
    own = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("this system lets no one have mounts of their own")
    simulator = simulate(pollInterval=0, revokesFamilyOnReuse=True, firstAccessTokenLifetime=lifetime)
    mine = user(simulator, CHAPPIE_CREDENTIAL_STORE="file", **passphrase("a phrase")).sign_in()
    credentials = str(pathlib.Path(mine.environment["XDG_DATA_HOME"]) / "chappie/credentials")
    since = len(simulator.log)
    with mine.start("ask", "--ephemeral", "--transport", "sse", "reply: here",
                    prefix=[*own, "sh", "-c", FOLDERS[folder], credentials]) as process:
        output, errors = process.communicate(timeout=60 * PATIENCE)
    assert not any("POST /oauth/token" in line for line in simulator.log[since:]), (errors, simulator.log)
    reason = {"read-only": "Read-only file system", "full": "No space left"}[folder]
    assert (process.returncode, output) == (0, "here\n") if lifetime else reason in errors, (process.returncode, output, errors)
    assert mine.run("ask", "--ephemeral", "--transport", "sse", "reply: here").output == "here\n"
