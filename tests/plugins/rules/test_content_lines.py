"""`^` and `$` in an expression for content mean the beginning and end of each line."""

import json
from pathlib import Path

import pytest
from hilum_checks import compile_lines, judge

from tests.support.obedience.judging import make_tool

WRITE = make_tool("write_file")


class Ruled:
    """A rule as judging sees it."""

    sentence, path, line = "No requests.", "AGENTS.md", 1

    def __init__(self, text: str) -> None:
        compiled, mistakes = compile_lines([text])
        assert not mistakes
        self.check = compiled.check


@pytest.mark.parametrize(
    ("line", "text", "refused"),
    [
        ("deny content /^import requests/ in *.py", "import os\nimport requests\n", True),
        ("deny content /^IMPORT requests$/i in *.py", "import os\nimport requests\n", True),
        ("deny content /^import requests$/ in *.py", "import requests.auth\n", False),
        ("deny content /^import requests/ in *.py", "x = 1  # import requests\n", False),
        ("deny content /[^a]b/ in *.py", "ab\n", False),
        ("require content /^# Copyright/ in *.py", "#!/usr/bin/env python\n# Copyright\n", False),
        ("require content /^# Copyright/ in *.py", "x = 1  # Copyright\n", True),
    ],
)
def test_lines(line: str, text: str, refused: bool, tmp_path: Path) -> None:
    arguments = json.dumps({"path": "a.py", "content": text})
    found = judge([Ruled(line)], arguments, WRITE, tmp_path)
    assert (found is not None) == refused
