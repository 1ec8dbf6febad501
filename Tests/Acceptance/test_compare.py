"""`Scripts/bench --compare REV`: the change between two revisions."""

import os
import signal
import subprocess
import sys

import pytest

from conftest import ROOT, USAGE

import compare


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit, whose program is a script that waits if a file `wait` is beside the repository."""
    library = tmp_path / "repository/Scripts/lib/common.sh"
    library.parent.mkdir(parents=True)
    library.write_text(f"build_chappie() {{ echo building; [ ! -e {tmp_path}/wait ] || exec sleep 600; \n"
                       "mkdir -p .build/release; printf '#!/bin/sh\\necho built as $1\\n' >.build/release/chappie; chmod +x .build/release/chappie; }\n")
    environment = {**os.environ, **{f"GIT_{who}_{what}": "someone@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Begin"]):
        subprocess.run(["git", *words], cwd=tmp_path / "repository", env=environment, check=True)
    return tmp_path / "repository"


def work_trees(repository):
    return subprocess.run(["git", "worktree", "list"], cwd=repository, check=True, capture_output=True, text=True).stdout.splitlines()


def head(repository):
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True).stdout.strip()


def test_the_program_of_a_commit_is_built_once_and_kept(repository, capfd):
    for _ in range(2):
        program = compare.program_of(head(repository), repository)
        assert subprocess.run([program, "1"], check=True, capture_output=True, text=True).stdout == "built as 1\n"
    assert capfd.readouterr().err.count("building\n") == 1
    assert len(work_trees(repository)) == 1


def test_an_unknown_revision_is_named_before_anything_is_built():
    ended = subprocess.run([ROOT / "Scripts/bench", "--compare", "no-such-revision"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == USAGE
    assert ended.stderr.startswith("bench: git knows no revision no-such-revision."), ended


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_work_tree_goes_away_with_a_build_that_is_ended(number, repository, tmp_path):
    (tmp_path / "wait").touch()
    commit = head(repository)
    code = f"import compare, pathlib, sys; compare.program_of = lambda commit, work=compare.program_of: work(commit, pathlib.Path({str(repository)!r}))\n" \
           f"sys.argv = ['compare.py', '/bin/true', {commit!r}]\ntry: compare.main()\nexcept KeyboardInterrupt: sys.exit(130)"
    path = f"{ROOT / 'Scripts/lib'}:{ROOT / 'Tests/Acceptance'}"
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE,
                          text=True, start_new_session=True) as process:
        while process.stderr.readline() != "building\n":
            assert process.poll() is None
        assert len(work_trees(repository)) == 2
        # A terminal sends it to all of them.
        os.killpg(process.pid, number)
        process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert len(work_trees(repository)) == 1 and not list(tmp_path.glob("chappie-compare-*"))


def test_every_measure_has_a_figure_of_both_programs(program):
    rows = compare.measures(program, program, words=200, runs=1, starts=1, peaks=1)
    assert len(rows) == 12 and all(before > 0 and after > 0 for before, after in rows.values()), rows
    first, *lines = compare.table(rows, ("before", "after"))
    assert first.split() == ["measure", "before", "after", "change"] and len(lines) == len(rows)
    before, after = rows["start-up, instructions"]
    assert abs(compare.change(before, after)) < 1


def test_the_change_is_in_per_cent_of_before():
    _, line = compare.table({"ask, ms": [80.0, 60.0]}, ("before", "after"))
    assert line.split() == ["ask,", "ms", "80.0", "60.0", "-25.0", "%"]
