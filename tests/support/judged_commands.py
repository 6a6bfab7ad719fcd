"""Judges commands by one line of a rule."""

import json
from pathlib import Path
from typing import Any

from hilum_checks import compile_lines, compile_rule, judge

from tests.support.obedience.judging import make_tool


class Ruled:
    """A rule as judging sees it.

    Args:
        sentence: Its sentence, which is also the line that enforces it if no check is given.
        check: Its check.
    """

    def __init__(self, sentence: str, check: Any = None) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = check or compile_lines([sentence])[0].check
        assert self.check is not None


def judge_command(line: str, command: str, root: Path) -> str:
    """Return `deny` or `ask` if a rule objects to a command, and an empty string if not.

    Args:
        line: The line that enforces the rule, such as `deny read infra/**`.
        command: The command; `{root}` in it stands for the workspace.
        root: The workspace.
    """
    return _judge(Ruled(line), command, root)


def judge_sentence(sentence: str, command: str, root: Path) -> str:
    """Return the same for a rule that a plain form enforces."""
    return _judge(Ruled(sentence, compile_rule(sentence, hard=True).check), command, root)


def _judge(rule: Ruled, command: str, root: Path) -> str:
    arguments = json.dumps({"command": command.replace("{root}", str(root))})
    found = judge([rule], arguments, make_tool("run_terminal_cmd"), root)
    return found.kind if found else ""
