"""docs/HABITS.md is true: each command of ours works, each test is there, each command of a chat is one."""

import http.server
import json
import os
import re
import subprocess
import threading

import pytest

from conftest import ROOT
from counterparts import PATIENCE
from test_ask import PIXEL, write

ACCEPTANCE = ROOT / "Tests/Acceptance"


def rows():
    """(theirs, ours, tested by) of each row of the tables."""
    lines = (ROOT / "docs/HABITS.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.startswith("| ")]
    return [row for row in cells if row[0] not in ("they type", "---")]


def commands(cell):
    return [word.replace("\\|", "|") for word in re.findall("`([^`]+)`", cell)]


def ours():
    return [command for row in rows() for command in commands(row[1]) if not command.startswith("/")]


@pytest.fixture
def page():
    """The address of a page on this machine."""
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"The moon is full.")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_each_command_works(simulate, user, passphrase, tmp_path, page):
    someone = user(simulate(resetCredits=1), CHAPPIE_CREDENTIAL_STORE="file", **passphrase("open")).sign_in()
    folder = tmp_path / "work"
    for name, text in {"notes.txt": "Buy milk.", "photo.png": PIXEL, "src/main.swift": "print(1)"}.items():
        write(folder / name, text)
    write(folder / "dog.json", json.dumps({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False}))
    write(folder / "tools.json", json.dumps({"tools": [{"name": "weather", "description": "The weather.", "command": "cat"}]}))
    write(tmp_path / "home/config/chappie/templates/review.md", "---\nsystem: You review $language.\n$language: Swift\n---\n$input")
    someone.run("ask", "Invent a dog")
    thread = someone.run("threads", "--json").events[0]["threads"][0]["id"]
    program = write(tmp_path / "bin/chappie", f'#!/bin/sh\nexec "{someone.program}" "$@"\n')
    os.chmod(program, 0o755)
    environment = {**someone.environment, "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    assert len(ours()) > 40
    for command in ours():
        line = re.sub(r"\bID\b", thread, command).replace("https://example.com/", page)
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60 * PATIENCE, start_new_session=True)
        assert done.returncode == 0, (command, done)
        assert done.stdout or "-o answer.md" in command, (command, done)
    assert (folder / "answer.md").read_text()


def test_each_command_of_a_chat_is_one(user):
    known = set(re.findall(r"^(/\w+)", user().run("--simulate", "chat", input="/help\n").output, re.MULTILINE))
    named = {command.split()[0] for row in rows() for command in commands(row[1]) if command.startswith("/")}
    assert named and named <= known, named - known


def test_each_test_is_there():
    for *_, tested in rows():
        file, name = tested.split(": ")
        assert f"\ndef test_{name}(" in (ACCEPTANCE / file).read_text(encoding="utf-8"), tested
