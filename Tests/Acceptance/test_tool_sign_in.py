"""Sign-ins at tool servers, with the official package's own server and authorization server, over a real keyring."""

import json
import pathlib
import re
import signal
import ssl
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

import pexpect
import pytest

from conftest import INTERRUPTED, SIGN_IN_NEEDED, UNAVAILABLE, USAGE
from counterparts import PASSWORD, PATIENCE, Counterpart, Proxy, TLSFront, free_port, wait_until
from test_access_token import TOKEN
from test_chat import Terminal

SERVER = pathlib.Path(__file__).parents[2] / "Packages/adapters/ChappieMCP/Tests/Fakes/oauth_server.py"
ADD = 'call add {"first":40,"second":2}'


class Guarded(Counterpart):
    """The server; `manifest` names it `docs`."""

    def __init__(self, *words):
        super().__init__()
        self.start(sys.executable, str(SERVER), str(self.folder), *words, stderr=None)
        wait_until((self.folder / "port").exists, "the server's port", 60)
        options = dict(word.partition("=")[::2] for word in words)
        self.url = f"{options.get('base') or 'http://127.0.0.1:' + self.read('port')}/mcp"
        self.manifest = self.write("tools.json", json.dumps({"mcpServers": {"docs": {"url": self.url, "policy": "automatic"}}}))

    def wants(self, name, text=""):
        self.write(name, text)

    @property
    def log(self):
        return self.read("log").splitlines() if (self.folder / "log").exists() else []

    def count(self, words):
        return sum(line.startswith(words) for line in self.log)


@pytest.fixture
def guarded(stack):
    return lambda *words: stack.enter_context(Guarded(*words))


@pytest.fixture
def person(simulate, signed_in):
    return signed_in(simulate())


def visit(address):
    """(status, last address, page) of a browser that follows the address; None for one that can't be had."""
    with urllib.request.urlopen(address, timeout=30 * PATIENCE) as response:
        return response.status, response.url, response.read().decode()


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def stopped_before_the_callback(page):
    """Where the browser would go after the user's yes."""
    with pytest.raises(urllib.error.HTTPError) as stopped:
        urllib.request.build_opener(NoRedirects).open(page, timeout=30 * PATIENCE)
    return stopped.value.headers["Location"]


def log_in(someone, server, *words, status=0, says=""):
    """Signs in: the test is the browser. Returns the events."""
    process = someone.start("tools", "login", "docs", "--tools", server.manifest, "--json", *words)
    first = process.stdout.readline()
    events = [json.loads(first)] if first else []
    if events and events[0]["type"] == "open_page":
        shown, last, page = visit(events[0]["verification_url"])
        assert shown == 200 and "close this page" in page and "code=" not in last, (last, page)
    output, errors = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode == status and says in errors, (process.returncode, output, errors)
    return events + [json.loads(line) for line in output.splitlines()]


def add(someone, server, *words, **expected):
    """(the outcome of the call, what the command said)."""
    outcome = someone.run("ask", "--json", "--transport", "sse", "--tools", server.manifest, *words, ADD, **expected)
    results = [(event["outcome"], event["output"]) for event in outcome.events if event["type"] == "tool_result"]
    return (results or [None])[0], outcome


@pytest.mark.parametrize("era", [[], ["stateless"]], ids=["handshake", "stateless"])
def test_a_sign_in_is_made_used_kept_and_deleted(era, person, guarded, keyring):
    server = guarded(*era)
    without, outcome = add(person, server)
    command = f"chappie tools login docs --tools {server.manifest}"
    notices = [event for event in outcome.events if event["type"] == "notice"]
    assert without != ("succeeded", "42") and command in json.dumps(notices) + outcome.errors and not server.log, outcome
    page, done = log_in(person, server)
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(page["verification_url"]).query)
    assert query["resource"] == [server.url] and query["code_challenge_method"] == ["S256"], query
    assert done == {"type": "signed_in", "server": "docs", "scopes": ["read", "offline_access"]}
    assert add(person, server)[0] == ("succeeded", "42")
    assert add(person, server, "--verbose")[0] == ("succeeded", "42") and server.count("renewed") == 0
    listed = person.run("tools", "list", "--tools", server.manifest, "--json").events[0]
    assert listed == {"tools": [], "servers": [{"name": "docs", "url": server.url, "signed_in": True}]}
    secret = json.loads(keyring.call("secret-tool", "lookup", "account", person.account, "service", "com.chappie.tools").stdout)
    assert secret["server"] == server.url and secret["access_token"].startswith("access-")
    out = person.run("tools", "logout", "docs", "--tools", server.manifest, "--json").events[0]
    assert out == {"signed_out": True, "server": "docs", "revoked": True, "was_signed_in": True} and server.count("revoked") == 1
    assert not keyring.call("secret-tool", "lookup", "account", person.account, "service", "com.chappie.tools").stdout
    assert add(person, server)[0] != ("succeeded", "42")
    assert person.run("status", "--json").events[0]["signed_in"] is True


def test_resources_and_prompts_of_a_server_without_a_sign_in_name_the_command_and_end_no_chat(person, guarded, stack):
    server = guarded()
    command = f"chappie tools login docs --tools {server.manifest}"
    person.run("ask", "--tools", server.manifest, "-f", "docs:notes://a", "what is this?", status=SIGN_IN_NEEDED, says=command)
    holder = person.having(CHAPPIE_ACCESS_TOKEN=TOKEN)
    outcome = holder.run("ask", "--tools", server.manifest, "-f", "docs:notes://a", "what is this?", status=SIGN_IN_NEEDED, says=command)
    assert "CHAPPIE_ACCESS_TOKEN" not in outcome.errors, outcome
    chat = stack.enter_context(Terminal(person, "chat", "--tools", server.manifest, columns=200))
    for count, line in enumerate(("/resource docs:notes://a", "/prompt docs:greet", "/resource"), 1):
        chat.prompts(count)
        chat.type(line, "Enter")
        chat.shows(command, count)
    chat.prompts(4)
    chat.type("reply: still here", "Enter")
    chat.shows("still here", 2)


def test_all_of_it_goes_through_the_proxy_and_the_trust_of_the_one_network_policy(person, guarded, stack):
    port = free_port()
    front, proxy = stack.enter_context(TLSFront(port)), stack.enter_context(Proxy())
    server = guarded(f"port={port}", f"base=https://localhost:{front.port}")
    log_in(person, server, status=UNAVAILABLE, says="can't be used")
    assert not server.log
    authority = front.settings["CHAPPIE_CA_FILE"]
    trusting = person.having(CHAPPIE_CA_FILE=authority, HTTPS_PROXY=proxy.url("http", PASSWORD))
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority)))
    process = trusting.start("tools", "login", "docs", "--tools", server.manifest, "--json")
    with opener.open(json.loads(process.stdout.readline())["verification_url"], timeout=30 * PATIENCE) as response:
        assert response.url.endswith("/auth/done")
    assert process.wait(60 * PATIENCE) == 0
    server.wants("forget")
    assert add(trusting, server)[0] == ("succeeded", "42") and server.count("renewed") == 1
    assert proxy.connected and set(proxy.connected) == {f"localhost:{front.port}"}, proxy.connected


def test_an_encrypted_file_keeps_a_sign_in_as_well(simulate, signed_in, guarded, passphrase, tmp_path):
    someone, server = signed_in(simulate(), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")), guarded()
    files = lambda: set((tmp_path / "home").rglob("*.credential"))
    add(someone, server)  # The key of kept conversations is there from now on.
    before = files()
    log_in(someone, server)
    assert add(someone, server)[0] == ("succeeded", "42") and len(files() - before) == 1
    someone.run("tools", "logout", "docs", "--tools", server.manifest)
    assert files() == before and someone.run("status", "--json").events[0]["signed_in"] is True


def test_no_token_or_code_is_in_what_it_says_or_leaves(person, guarded, keyring, tmp_path):
    server = guarded()
    log_in(person, server)
    _, outcome = add(person, server, "--verbose")
    secret = json.loads(keyring.call("secret-tool", "lookup", "account", person.account, "service", "com.chappie.tools").stdout)
    words = [secret[name] for name in ("access_token", "refresh_token", "client_secret")]
    files = [path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert files and not any(word.encode() in text for word in words for text in [*files, outcome.output.encode(), outcome.errors.encode()])


def test_an_ended_token_is_renewed_once_by_processes_at_once(person, guarded):
    server = guarded()
    server.wants("lifetime", "0")
    log_in(person, server)
    server.wants("lifetime", "3600")
    server.wants("slow")
    results = []
    threads = [threading.Thread(target=lambda: results.append(add(person, server)[0])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [("succeeded", "42")] * 3 and server.count("renewed") == 1 and server.count("reused") == 0, (results, server.log)
    assert add(person, server)[0] == ("succeeded", "42") and server.count("renewed") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_renewal_under_way_is_kept_by_a_command_that_is_interrupted(number, person, guarded):
    server = guarded()
    server.wants("lifetime", "0")
    log_in(person, server)
    server.wants("lifetime", "3600")
    server.wants("slow")
    process = person.start("ask", "--transport", "sse", "--tools", server.manifest, ADD)
    wait_until(lambda: server.count("asked"), "the renewal has begun", 60)
    process.send_signal(number)
    assert process.wait(60 * PATIENCE) == 128 + number and server.count("renewed") == 1
    assert add(person, server)[0] == ("succeeded", "42") and server.count("renewed") == 1 and server.count("reused") == 0


def test_a_token_that_the_server_refuses_early_is_renewed_and_the_call_made_again(person, guarded):
    server = guarded()
    log_in(person, server)
    server.wants("forget")
    assert add(person, server)[0] == ("succeeded", "42") and server.count("renewed") == 1


def test_a_refresh_token_that_was_revoked_is_a_sentence_and_asked_for_once(person, guarded):
    server = guarded()
    server.wants("lifetime", "0")
    log_in(person, server)
    server.wants("refuse")
    result, outcome = add(person, server)
    said = outcome.output + outcome.errors
    assert result != ("succeeded", "42") and "its sign-in has ended or was revoked; run `chappie tools login docs" in said, outcome
    again = add(person, server)[1]
    assert "it requires you to sign in; run `chappie tools login docs" in again.output + again.errors, again


def test_more_permissions_are_asked_for_by_a_sentence_and_given_by_a_sign_in(person, guarded):
    server = guarded()
    log_in(person, server)
    server.wants("downgrade")
    _, outcome = add(person, server)
    assert "it requires more permissions than its sign-in has" in outcome.output + outcome.errors, outcome
    (server.folder / "downgrade").unlink()
    assert log_in(person, server, "--scope", "write")[-1]["scopes"] == ["write", "read", "offline_access"]


def test_a_no_in_the_browser_and_a_server_without_sign_in_are_sentences(person, guarded, tmp_path):
    server = guarded()
    server.wants("deny")
    error = log_in(person, server, status=SIGN_IN_NEEDED, says="the sign-in was not allowed in the browser")[-1]
    assert error["error"]["code"] == "tool_sign_in_needed"
    person.run("tools", "login", "other", "--tools", server.manifest, status=USAGE, says='No manifest has a tool server "other"')
    person.run("tools", "login", "docs", status=USAGE, says="Name the manifest")
    person.run("tools", "login", "docs", "--tools", server.manifest, "--simulate", status=USAGE, says="simulation")
    person.having(CHAPPIE_CREDENTIAL_STORE="memory").run(
        "tools", "login", "docs", "--tools", server.manifest, status=USAGE, says="in memory is lost")
    program = server.write("program.json", json.dumps({"mcpServers": {"docs": {"command": "true"}}}))
    person.run("tools", "login", "docs", "--tools", program, status=USAGE, says="it is a program")
    gone = server.write("gone.json", json.dumps({"mcpServers": {"docs": {"url": "http://127.0.0.1:9/mcp"}}}))
    person.run("tools", "login", "docs", "--tools", gone, status=UNAVAILABLE, says="127.0.0.1:9 can't be used")


def test_a_store_that_can_not_keep_a_sign_in_is_said_before_a_page_is_shown(person, guarded):
    server, without = guarded(), person.having(DBUS_SESSION_BUS_ADDRESS="unix:path=/nonexistent")
    refused = without.run("tools", "login", "docs", "--tools", server.manifest, "--json", status=UNAVAILABLE, says="No keyring")
    assert [event["type"] for event in refused.events] == ["error"] and "CHAPPIE_CREDENTIAL_STORE=file" in refused.errors
    assert not server.log and "sign-in unknown: No keyring" in without.run("tools", "--tools", server.manifest).output


def test_ctrl_c_ends_a_sign_in_and_frees_the_port(person, guarded):
    server = guarded()
    process = person.start("tools", "login", "docs", "--tools", server.manifest, "--json")
    page = json.loads(process.stdout.readline())["verification_url"]
    process.send_signal(signal.SIGINT)
    assert process.wait(30 * PATIENCE) == INTERRUPTED
    with pytest.raises(urllib.error.URLError):
        visit(page)


def test_the_settings_name_the_manifest_and_accounts_have_sign_ins_of_their_own(person, guarded):
    server = guarded()
    person.run("config", "set", "tools", server.manifest)
    outcome = person.run("ask", "reply: hello", "--transport", "sse")
    assert "run `chappie tools login docs`" in outcome.errors and outcome.output == "hello\n", outcome
    log_in(person, server)
    assert person.run("tools").output == f"docs  {server.url}  signed in\n"
    words = "---completion", "tools", "login", "--", "positional@0", "3", "0", "chappie", "tools", "login", ""
    assert "docs" in person.run(*words, status=None).output.split("\n")
    assert person.run("tools", "--account", "second").output == f"docs  {server.url}  not signed in\n"


def test_on_a_terminal_the_address_of_a_browser_elsewhere_is_pasted(person, guarded):
    server = guarded()
    child = pexpect.spawn(person.program, ["tools", "login", "docs", "--tools", server.manifest, "--no-browser"], env=person.environment,
                          encoding="utf-8", dimensions=(40, 1000), timeout=60 * PATIENCE)
    child.expect(r"(http://127\.0\.0\.1:\d+/authorize\?[^\s\x1b]+)")
    page = child.match[1]
    callback = stopped_before_the_callback(page)
    child.expect_exact("Address: ")
    child.send("http://127.0.0.1:1/callback?code=x&state=y\r")
    child.expect_exact("This is not the address of the page")
    child.expect_exact("Address: ")
    child.send(callback + "\r")
    child.expect_exact("Signed in at docs.")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0 and add(person, server)[0] == ("succeeded", "42")


def test_a_browser_that_opens_here_is_led_there_without_the_page_in_its_arguments(person, guarded, tmp_path):
    server, folder = guarded(), tmp_path / "desktop"
    folder.mkdir()
    (folder / "xdg-open").write_text(f'#!/bin/sh\nprintf "%s" "$1" >{folder}/new && mv {folder}/new {folder}/opened\n')
    (folder / "xdg-open").chmod(0o755)
    someone = person.having(PATH=f"{folder}:{person.environment['PATH']}", DISPLAY=":77")
    process = someone.start("tools", "login", "docs", "--tools", server.manifest)
    wait_until((folder / "opened").exists, "the browser opens", 60)
    address = (folder / "opened").read_text()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/auth/start/[\w-]+", address), address
    status, last, page = visit(address)
    output, errors = process.communicate(timeout=60 * PATIENCE)
    assert status == 200 and last.endswith("/auth/done") and process.returncode == 0, (page, output, errors)
    assert output.endswith("Signed in at docs. Its permissions: read, offline_access.\n"), output
    with pytest.raises(urllib.error.URLError):
        visit(address)


def test_an_access_token_in_the_environment_leaves_the_sign_in_at_a_server_usable(person, guarded):
    server = guarded()
    log_in(person, server)
    free = person.having(CHAPPIE_ACCESS_TOKEN="at-none-that-counts")
    assert free.run("tools", "list", "--tools", server.manifest, "--json").events[0]["servers"][0]["signed_in"] is True
