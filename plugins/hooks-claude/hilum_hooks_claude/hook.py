"""Hooks as the settings files of Claude Code define them."""

from __future__ import annotations

import hashlib
import re
from itertools import dropwhile
from pathlib import PurePath
from typing import Literal

import attrs

Source = Literal["user", "project", "local"]
PRE_TOOL_USE = "PreToolUse"
POST_TOOL_USE = "PostToolUse"
POST_TOOL_USE_FAILURE = "PostToolUseFailure"
USER_PROMPT_SUBMIT = "UserPromptSubmit"
STOP = "Stop"
SUBAGENT_STOP = "SubagentStop"
SESSION_START = "SessionStart"
SESSION_END = "SessionEnd"
PRE_COMPACT = "PreCompact"
NOTIFICATION = "Notification"
TOOL_EVENTS = frozenset({PRE_TOOL_USE, POST_TOOL_USE, POST_TOOL_USE_FAILURE})
EVENTS = (
    PRE_TOOL_USE,
    POST_TOOL_USE,
    POST_TOOL_USE_FAILURE,
    USER_PROMPT_SUBMIT,
    STOP,
    SUBAGENT_STOP,
    SESSION_START,
    SESSION_END,
    PRE_COMPACT,
    NOTIFICATION,
)
"""The events that hilum supports."""
_MAX_TITLE = 60
_REDIRECTION = re.compile(r"\d*>>?\s*(?:\"[^\"]*\"|'[^']*'|\S+)")
# Programs that run another file, which is the better title.
_RUNNERS = frozenset(
    "bash sh zsh env node python python3 uv uvx run npx bunx bun deno ruby perl tsx".split()
)


@attrs.frozen
class Hook:
    """One command of a settings file.

    Attributes:
        file: The settings file, as it is shown to the user.
        line: The line in the file, starting at 1; 0 if it is unknown.
        source: Whose file it is: ``user``, ``project``, or ``local`` for the file of the project
            that is not shared.
        event: The event at which the command runs.
        matcher: The tools or occasions for which it runs, as in the file.
        command: A command line for a shell, or a program if there are ``arguments``.
        arguments: The program's arguments; ``None`` for a command line.
        condition: A permission rule that a tool call must match; empty if there is none.
        timeout: Seconds that the command may take; 0 if the file does not say it.
        runs_async: Whether nothing waits for the command.
        unsupported: Why hilum does not run the hook; empty if it does.
        approved_as: The identity under which the user approved the hook, if its settings file
            cannot be read.
    """

    file: str
    line: int
    source: Source
    event: str
    matcher: str = ""
    command: str = ""
    arguments: tuple[str, ...] | None = None
    condition: str = ""
    timeout: float = 0.0
    runs_async: bool = False
    unsupported: str = ""
    approved_as: str = ""

    @property
    def identity(self) -> str:
        """A digest of what the hook is; another command is another hook."""
        if self.approved_as:
            return self.approved_as
        arguments = "\0".join(self.arguments) if self.arguments is not None else "-"
        parts = (self.event, self.matcher, self.command, arguments, self.condition)
        return hashlib.sha256("\0\0".join(parts).encode(errors="replace")).hexdigest()[:32]

    @property
    def title(self) -> str:
        """A short name: the file that the command runs, or the beginning of the command."""
        # What a command writes is not what it runs.
        command = _REDIRECTION.sub(" ", self.command)
        for word in command.replace('"', " ").replace("'", " ").split():
            name = PurePath(word).name
            if "/" in word and name and "." in name:
                return name
        words = list(dropwhile(_RUNNERS.__contains__, self.command.split()))
        # Without their program, an option and a pipe say nothing.
        is_complete = bool(words) and words[0][0] not in "-|&;<>"
        text = " ".join(words) if is_complete else self.command
        return text if len(text) <= _MAX_TITLE else f"{text[: _MAX_TITLE - 1]}…"

    @property
    def place(self) -> str:
        """File and line, as messages name them."""
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}"

    @property
    def guards(self) -> bool:
        """Whether the hook decides if a call may run, so that its failure must not let it pass."""
        return self.event == PRE_TOOL_USE and not self.runs_async


@attrs.frozen
class BrokenGuard:
    """A hook that would judge calls and cannot run, because its file has a mistake.

    Attributes:
        file: The settings file, as it is shown to the user.
        place: File and line of the mistake.
        source: Whose file it is.
        matcher: The tools whose calls it would judge; ``None`` if that cannot be read.
        problem: The mistake, as a sentence.
    """

    file: str
    place: str
    source: Source
    matcher: str | None
    problem: str


@attrs.frozen
class Mistake:
    """A part of a settings file that cannot be used.

    Attributes:
        place: File and line.
        problem: A sentence.
    """

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"
