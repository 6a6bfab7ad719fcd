"""Judges commands by one line of a rule."""

import json
from pathlib import Path

from hilum_checks import compile_lines, judge

from tests.support.obedience.judging import make_tool


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, line: str) -> None:
        self.sentence, self.path, self.line = line, "AGENTS.md", 1
        self.check = compile_lines([line])[0].check
        assert self.check is not None


def judge_command(line: str, command: str, root: Path) -> str:
    """Return `deny` or `ask` if a rule objects to a command, and an empty string if not.

    Args:
        line: The line that enforces the rule, such as `deny read infra/**`.
        command: The command; `{root}` in it stands for the workspace.
        root: The workspace.
    """
    arguments = json.dumps({"command": command.replace("{root}", str(root))})
    found = judge([Ruled(line)], arguments, make_tool("run_terminal_cmd"), root)
    return found.kind if found else ""
