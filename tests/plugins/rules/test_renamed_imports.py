"""Deletions by functions that code imports under another name."""

import json
from pathlib import Path

import pytest
from hilum_checks import compile_rule, judge
from hilum_checks.renamed_imports import spell_imports

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
SENTENCES = ("Ask before deleting files.", "Never delete anything in `data/`.")


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "workspace"
    (root / "data").mkdir(parents=True)
    (root / "data/x").write_text("x\n")
    return root


def is_refused(root: Path, sentence: str, program: str, code: str) -> bool:
    option = "- <<'E'\n" if program == "python3" else "<<'E'\n"
    arguments = json.dumps({"command": f"{program} {option}{code}\nE"})
    return judge([Ruled(sentence)], arguments, SHELL, root) is not None


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("python3", "from shutil import rmtree as r\nr('data')"),
        ("python3", "from os import (path, remove as rm)\nrm('data/x')"),
        ("python3", "from os import remove\nremove('data/x')"),
        ("python3", "import os as o\no.remove('data/x')"),
        ("python3", "import sys, os as o\no.unlink('data/x')"),
        ("python3", "import os\nr = os.remove\nr('data/x')"),
        ("python3", "from pathlib import Path as P\nP('data/x').unlink()"),
        ("node", "const {rmSync: r} = require('fs'); r('data')"),
        ("node", "const {readFileSync, rmSync: r} = require('node:fs'); r('data')"),
        ("node", "import {unlinkSync as u} from 'fs'; u('data/x')"),
        ("node", "const f = require('fs'); f.rmSync('data')"),
        ("node", "const r = require('fs').rmSync; r('data')"),
    ],
)
def test_a_deletion_under_another_name_is_found(
    sentence: str, program: str, code: str, root: Path
) -> None:
    assert is_refused(root, sentence, program, code)


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("python3", "from shutil import which as r\nprint(r('data'))"),
        ("python3", "import os as o\nprint(o.listdir('data'))"),
        ("python3", "import os as o\no.remove('/tmp/absent')"),
        ("python3", "from os.path import join as r\nprint(r('data', 'x'))"),
        ("python3", "l = ['data']\nl.remove('data')"),
        ("python3", "from pathlib import Path as P\nprint(P('data/x').read_text())"),
        ("node", "const {readFileSync: r} = require('fs'); r('data/x')"),
        ("node", "const {join: r} = require('path'); r('data')"),
    ],
)
def test_other_functions_under_another_name_are_allowed(
    sentence: str, program: str, code: str, root: Path
) -> None:
    assert not is_refused(root, sentence, program, code)


def test_code_without_such_imports_stays_as_it_is() -> None:
    text = "import json as o\no.remove(r('a'))"
    assert spell_imports(text) == text
