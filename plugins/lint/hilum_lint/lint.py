"""The half of a session: the tool and the hooks.

What they need is loaded when they have something to do.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import Agent, Block, Call, ContextRequest, Output, Tool, ToolResult, hookimpl, tool

from hilum_lint.settings import LintSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_lint.diagnostics import Diagnostic
    from hilum_lint.looks import Looks

SLACK = 15.0
"""Seconds the kernel waits longer than two checkers may take one after the other."""
NAMES = 50
"""Words of a prompt that are tried as names of files."""


class Lint:
    """See the module.

    Args:
        session: The session.
        nursery: Owns the tasks, and ends with the session.
        settings: The settings.

    Attributes:
        told_by: Name of the plugin that tells the errors of files with a prompt, by ``errors``;
            empty for this one itself.

    Raises:
        SettingsError: A checker of the user's own is not right.
    """

    def __init__(self, session: Session, nursery: trio.Nursery, settings: LintSettings) -> None:
        self.session = session
        self.nursery = nursery
        self.settings = settings
        self.told_by = ""
        if settings.checkers:
            from hilum_lint.checkers import known

            known(settings)

    @cached_property
    def looks(self) -> Looks:
        """What does the work."""
        from hilum_lint.looks import Looks

        return Looks(self.session, self.nursery, self.settings)

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return the tool, with the time limit of this session's settings."""
        return (attrs.evolve(self.read_lints, timeout=2 * self.settings.timeout + SLACK),)

    @tool(risk="read", effect="pure", reads=lambda arguments: arguments["paths"] or ["."])
    async def read_lints(self, call: Call, paths: list[str] | None = None) -> Output:
        """Run the project's own linters and type checkers, after a series of edits.

        Errors come first.

        Args:
            paths: Files or folders; the whole workspace by default, which may take long.
        """
        return await self.looks.read(call, paths or ["."])

    @hookimpl
    def remind(self, agent: Agent, results: Sequence[ToolResult]) -> Awaitable[str | None] | None:
        """Tell of what is new since the files that this round has written were written, or what
        slow checkers found.
        """
        has_work = "looks" in vars(self) or any("diff" in result.data for result in results)
        if self.settings.after_edit and has_work:
            return self.looks.remind(agent, results)
        return None

    @hookimpl
    async def gather_context(self, agent: Agent, request: ContextRequest) -> Sequence[Block] | None:
        """Return what slow checkers found since the last run, and the errors of files that the
        prompt names.
        """
        is_ours = self.settings.in_context and not self.told_by
        if is_ours:
            names = re.findall(r"(?<![\w./~-])[\w./~-]*[\w-]\.\w{1,5}\b", request.text[:20_000])
        else:
            names = []
        has_work = "looks" in vars(self) or names
        if has_work:
            return await self.looks.context(agent, list(dict.fromkeys(names))[:NAMES])
        return None

    async def errors(self, paths: Sequence[str | Path], seconds: float) -> list[Diagnostic]:
        """Return the errors that quick checkers find in files, as these are on disk.

        None where ``lint.in_context`` is off.

        Args:
            paths: The files; the first few that are there are looked at.
            seconds: How long this may take; what was not found by then is left out.
        """
        if not self.settings.in_context or not paths:
            return []
        if "looks" not in vars(self):  # a prompt is on its way: not in the loop's way
            await trio.to_thread.run_sync(import_module, "hilum_lint.looks")
        return await self.looks.errors(paths, seconds)
