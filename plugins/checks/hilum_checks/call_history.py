"""Remembers which commands of a session have succeeded since the session last wrote a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hilum_checks import command_matcher
from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts
from hilum_checks.model import Commands

if TYPE_CHECKING:
    from hilum import Tool, ToolResult

MAX_REMEMBERED = 200
"""Maximum number of commands to remember."""
# Options with which a program does not do its work.
_IDLE = re.compile(r"--help|-h|--version|-V|--collect-only|--co|--dry-run|-n")


class CallHistory:
    """The commands of all agents of a session that succeeded since the last write."""

    def __init__(self) -> None:
        self._succeeded: list[CommandFacts] = []

    def add(self, tool: Tool, arguments: str, root: Path, result: ToolResult) -> None:
        """Add a call that has ended. Blocks.

        Args:
            tool: The tool.
            arguments: The arguments of the call.
            root: The root of the workspace.
            result: The result of the call.
        """
        if tool.risk not in ("write", "execute"):
            return
        facts = CallFacts.parse(tool, arguments, root)
        # A call that failed may have written a part, so it counts as well.
        if tool.risk == "write" and result.changed:
            self._succeeded.clear()
        if tool.risk != "execute":
            return
        if _writes_files(facts):
            self._succeeded.clear()
        if result.data.get("exit_code") == 0 and _shows_exit_codes(facts):
            self._succeeded += facts.commands
            del self._succeeded[:-MAX_REMEMBERED]

    def has_succeeded(self, commands: Commands) -> bool:
        """Return whether one of the commands has succeeded."""
        return any(
            command_matcher.match_command(commands, command) == "yes"
            for command in self._succeeded
            if not any(_IDLE.fullmatch(word) for word in command.words[1:])
        )


def _writes_files(facts: CallFacts) -> bool:
    """Return whether a command certainly writes files of the workspace."""
    root = str(facts.matcher.root)
    for access in facts.accesses:
        if access.kind not in ("read", "any"):
            folder = (access.cwds[0] if access.cwds else "") or root
            if str(Path(folder, access.path)).startswith(f"{root}/"):
                return True
    return False


def _shows_exit_codes(facts: CallFacts) -> bool:
    """Return whether the exit code of a line is 0 only if all of its commands succeeded."""
    return all(
        re.search(r"[;|&\n]", text.strip().replace("&&", "")) is None
        for text in facts.command_texts
    )
