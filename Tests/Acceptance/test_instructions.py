"""Scripts/check says when start-up or decoding has become slower, in instructions: Scripts/lib/instructions.py."""

import json
import subprocess
import sys

import pytest

from conftest import ROOT

import instructions

HERE = {"compiler": "Swift version 6", "architecture": "x86_64"}


@pytest.fixture(scope="module")
def spent(program):
    return instructions.start_up(program)


@pytest.fixture
def judged(program, spent):
    """`judged(per cent)`: what is said of a start-up that took so many per cent fewer instructions before, counted anew."""
    def judged(growth, here=HERE):
        before = {**HERE, "instructions": {"start-up": round(spent / (1 + growth / 100))}}
        lines, has_grown = instructions.judge(program, before, here, {"start-up": instructions.start_up})
        assert len(lines) == 1
        return lines[0], has_grown
    return judged


@pytest.mark.parametrize("growth", [-9, 0, 9])
def test_a_count_within_ten_per_cent_passes(growth, judged):
    line, has_grown = judged(growth)
    assert line.startswith("measured: start-up: ") and not has_grown


def test_eleven_per_cent_more_fail_and_the_line_says_what_to_do(judged, spent):
    line, has_grown = judged(11)
    assert has_grown
    assert line.startswith("start-up: ") and "(+11.0 %)" in line and f"{round(spent / 1.11):,} instructions before" in line
    assert "Scripts/bench --compare REV" in line and "--update" in line


def test_eleven_per_cent_less_pass_with_a_note(judged):
    line, has_grown = judged(-11)
    assert not has_grown
    assert line.startswith("note: start-up: ") and "(-11.0 %)" in line and "--update" in line


@pytest.mark.parametrize("other", [{"compiler": "Swift version 7"}, {"architecture": "aarch64"}])
def test_another_compiler_or_processor_is_not_compared(other, judged):
    line, has_grown = judged(50, {**HERE, **other})
    assert not has_grown
    assert line.startswith("skipped: ") and next(iter(other.values())) in line and "--update" in line


def test_the_script_fails_when_the_program_does(tmp_path):
    program = tmp_path / "chappie"
    program.symlink_to("/bin/false")
    ended = subprocess.run([sys.executable, ROOT / "Scripts/lib/instructions.py", program, "--update"], capture_output=True, text=True)
    assert ended.returncode == 1 and "chappie --version ended with 1 under valgrind" in ended.stderr


def test_every_figure_has_a_baseline():
    assert json.loads(instructions.BASELINE.read_text())["instructions"].keys() == instructions.FIGURES.keys()
