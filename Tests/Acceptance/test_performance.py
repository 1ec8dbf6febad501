"""docs/Performance.md is a page that `Scripts/bench --publish` writes."""

import re

import pytest

import publish
from conftest import ROOT


def outline(page):
    """The page without its figures, and of its tables the first column."""
    return [line.split(" | ")[0] if line.startswith("|") else re.sub(r"[0-9][0-9,]*", "0", line) for line in page.splitlines()]


@pytest.mark.conformance
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_page_has_the_rows_that_its_writer_measures(program, keyring, stack):
    committed = (ROOT / "docs/Performance.md").read_text(encoding="utf-8")
    found = publish.answers(program, keyring, {(20, False): (1, 1)}, stack)[20, False]
    assert all(value > 0 for row in found.values() for value in row.values()), found
    starts = {name: {"wall": 1} for name in ("curl", "chappie")}
    commands = re.findall(r"^\| `((?:ask|threads)[^`]*)`, ([^|]*) \|", committed, re.MULTILINE)
    assert len(commands) == 9, commands
    rounds = {(20, False): (1, 1), (20, True): (1, 1), (200, True): (1, 1)}
    page = publish.page(publish.machine(program), {answer: found for answer in rounds}, rounds, starts,
                        {", ".join(name): 1 for name in commands})
    assert outline(page) == outline(committed)
