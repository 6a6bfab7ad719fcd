"""A number after an option in a rule is the option's, wherever other words stand."""

import json
from pathlib import Path

import pytest
from hilum_checks import compile_lines, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")


class Ruled:
    """A rule as judging sees it."""

    sentence, path, line = "One worker.", "AGENTS.md", 1

    def __init__(self, text: str) -> None:
        self.check = compile_lines([text])[0].check


def judged(text: str, command: str, root: Path) -> str:
    found = judge([Ruled(text)], json.dumps({"command": command}), SHELL, root)
    return found.kind if found else ""


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("uvicorn app.main:app --workers 4", "deny"),
        ("uvicorn --workers 4 app.main:app", "deny"),
        ("uvicorn app.main:app --workers=4", "deny"),
        ("uvicorn app --workers 3", ""),
        ("uvicorn app --workers 44", ""),
        ("uvicorn 4 --workers 3", ""),
        ("uvicorn app -- --workers 4", ""),
        ("uvicorn app --workers 4 --workers 1", "ask"),
        ("uvicorn app --workers $N", "ask"),
        ("uvicorn app --workers=$N", "ask"),
        ("uvicorn app $OPTIONS", "ask"),
    ],
)
def test_a_denied_number(command: str, kind: str, tmp_path: Path) -> None:
    assert judged("deny command uvicorn --workers 4", command, tmp_path) == kind


@pytest.mark.parametrize(
    ("command", "is_allowed"),
    [
        ("uvicorn app.main:app --workers 1", True),
        ("uvicorn --workers 1 app", True),
        ("uvicorn app --workers=1", True),
        ("uvicorn app", False),
        ("uvicorn app --workers", False),
        ("uvicorn app --workers 4", False),
        ("uvicorn app --workers 11", False),
        ("uvicorn 1 --workers x", False),
        ("uvicorn app --workers 1 --workers 4", False),
        ("uvicorn app --workers $N", False),
        ("uvicorn app --workers $N --workers 1", False),
        ("uvicorn app $OPTIONS", False),
    ],
)
def test_a_number_that_is_an_exception(command: str, is_allowed: bool, tmp_path: Path) -> None:
    line = "deny command uvicorn except uvicorn --workers 1"
    assert (judged(line, command, tmp_path) == "") == is_allowed
