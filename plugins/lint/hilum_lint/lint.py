"""The linter session plugin, with its tool and hooks. Other modules are imported on first use."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import (
    Agent,
    AssistantMessage,
    Block,
    Call,
    ContextRequest,
    Output,
    Tool,
    ToolResult,
    hookimpl,
    tool,
)

from hilum_lint.settings import LintSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_lint.diagnostics import Diagnostic
    from hilum_lint.lint_runner import LintRunner

# Seconds added to the tool's deadline beyond the time for running two checkers in sequence.
SLACK = 15.0
# Maximum number of words in a prompt to try as file names.
MAX_NAMES = 50
MAX_PROMPT_LENGTH = 20_000
_FILE_NAME = r"(?<![\w./~-])[\w./~-]*[\w-]\.\w{1,5}\b"


class Lint:
    """The session plugin, which runs linters.

    Args:
        session: The session.
        nursery: The nursery for the tasks, which end with the session.
        settings: The settings.

    Attributes:
        reported_by: Name of the plugin that adds errors in files to a prompt, using ``errors``;
            empty if this plugin does so.

    Raises:
        SettingsError: A checker that the user defines is invalid.
    """

    def __init__(self, session: Session, nursery: trio.Nursery, settings: LintSettings) -> None:
        self.session = session
        self.nursery = nursery
        self.settings = settings
        self.reported_by = ""
        if settings.checkers:
            # Report a mistake in the user's settings now instead of after the first edit.
            from hilum_lint.checkers import list_checkers

            list_checkers(settings)

    @cached_property
    def runner(self) -> LintRunner:
        """The runner, created on first use."""
        from hilum_lint.lint_runner import LintRunner

        return LintRunner(self.session, self.nursery, self.settings)

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return the tool, with the time limit from this session's settings."""
        return (attrs.evolve(self.read_lints, timeout=2 * self.settings.timeout + SLACK),)

    @tool(risk="read", effect="pure", reads=lambda arguments: arguments["paths"] or ["."])
    async def read_lints(self, call: Call, paths: list[str] | None = None) -> Output:
        """Run the project's own linters and type checkers, after a series of edits.

        Errors come first.

        Args:
            paths: Files or folders; the whole workspace by default, which may take long.
        """
        return await self.runner.read(call, paths or ["."])

    @hookimpl
    def remind(self, agent: Agent, results: Sequence[ToolResult]) -> Awaitable[str | None] | None:
        """Start checking files edited in this round, and report the results of earlier checks."""
        # A call that writes one file reports its diff, and one that writes several their edits.
        has_work = "runner" in vars(self) or any(
            "diff" in result.data or "edits" in result.data for result in results
        )
        # The common case is synchronous, because starting a task in each round would cost more.
        if self.settings.after_edit and has_work:
            return self._remind(agent, results)
        return None

    async def _remind(self, agent: Agent, results: Sequence[ToolResult]) -> str | None:
        await self._import_runner()
        return await self.runner.remind(agent, results)

    @hookimpl
    async def check_answer(self, agent: Agent, message: AssistantMessage) -> str | None:
        """Reject an answer once if the agent has not read new diagnostics about its last edits."""
        if "runner" not in vars(self):
            return None
        return await self.runner.wait_for_note(agent.name)

    @hookimpl
    async def gather_context(self, agent: Agent, request: ContextRequest) -> Sequence[Block] | None:
        """Return new diagnostics of slow checkers, and errors in files that the prompt names."""
        names: list[str] = []
        if self.settings.in_context and not self.reported_by:
            found = re.findall(_FILE_NAME, request.subject[:MAX_PROMPT_LENGTH])
            names = list(dict.fromkeys(found))[:MAX_NAMES]
        if "runner" not in vars(self) and not names:
            return None
        await self._import_runner()
        return await self.runner.context(agent, names)

    async def errors(self, paths: Sequence[str | Path], seconds: float) -> list[Diagnostic]:
        """Return the errors that quick checkers find in the files on disk.

        The list is empty if ``lint.in_context`` is off.

        Args:
            paths: The files; only the first few existing files are checked.
            seconds: Time limit in seconds. Results of checkers that take longer are left out.
        """
        if not self.settings.in_context or not paths:
            return []
        await self._import_runner()
        return await self.runner.errors(paths, seconds)

    async def _import_runner(self) -> None:
        # The import is late, because most sessions need no checker, and in a thread, because it
        # would block the event loop.
        if "runner" not in vars(self):
            await trio.to_thread.run_sync(import_module, "hilum_lint.lint_runner")
