"""The session plugin: its tools and hooks. Other modules are imported on first use."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio
from hilum import Agent, Call, Output, Tool, ToolCall, Verdict, hookimpl, tool
from hilum.hooks import hook_deadline

from hilum_lsp.settings import MAX_TIMEOUT, LspSettings

if TYPE_CHECKING:
    from hilum import Session, WarmFinding

    from hilum_lsp.navigation import Navigator
    from hilum_lsp.renames import Renames
    from hilum_lsp.server_pool import ServerPool

# Seconds that a tool may take beyond the time limit of its server: a server that is not running is
# started first.
SLACK = 40.0
# Seconds that the gate may take; a call that takes longer is denied.
GATE_TIMEOUT = MAX_TIMEOUT + SLACK


def _reads_everything(arguments: Mapping[str, Any]) -> list[str]:
    """Return what a call reads: a server reads the whole project."""
    return ["."]


class LanguageServers:
    """The session plugin, which owns the language servers.

    It provides the service ``hilum.WarmCheckers``.

    Args:
        session: The session.
        nursery: The nursery for the tasks, which end with the session.
        settings: The settings.
    """

    def __init__(self, session: Session, nursery: trio.Nursery, settings: LspSettings) -> None:
        self.session = session
        self.nursery = nursery
        self.settings = settings

    @cached_property
    def pool(self) -> ServerPool:
        """The servers, which are created on first use."""
        from hilum_lsp.server_pool import ServerPool

        return ServerPool(self.session, self.nursery, self.settings)

    @cached_property
    def navigator(self) -> Navigator:
        """The code behind the tools that only read."""
        from hilum_lsp.navigation import Navigator

        return Navigator(self.session, self.pool, self.settings)

    @cached_property
    def renames(self) -> Renames:
        """The code behind ``rename_symbol``."""
        from hilum_lsp.renames import Renames

        return Renames(self.session, self.navigator)

    async def _import_modules(self) -> None:
        # The import is late, because most sessions need no server, and in a thread, because it
        # would block the event loop.
        if "renames" not in vars(self):
            await trio.to_thread.run_sync(import_module, "hilum_lsp.renames")

    # --- diagnostics, for hilum-lint --------------------------------------------------------------

    def is_warm(self, checker: str, program: str, folder: Path) -> bool:
        """Return whether a running server has the diagnostics of a checker."""
        if "pool" not in vars(self):
            return False
        server = self.pool.find_checker(checker, program, folder)
        return server is not None and server.is_quick

    async def warm_up(self, checker: str, program: str, folder: Path) -> None:
        """Start the server that has the diagnostics of a checker, without waiting for it."""
        if not self.settings.enabled:
            return
        await trio.to_thread.run_sync(import_module, "hilum_lsp.server_pool")
        self.pool.start_checker(checker, program, folder)

    async def wait_warm(
        self, checker: str, program: str, folder: Path, seconds: float
    ) -> bool | None:
        """Return whether the server of a checker is ready in time; ``None`` if it has none."""
        if "pool" not in vars(self):
            return None
        server = self.pool.find_checker(checker, program, folder)
        return None if server is None else await server.becomes_quick(seconds)

    async def find_diagnostics(
        self, checker: str, program: str, folder: Path, path: Path, text: str, seconds: float
    ) -> Sequence[WarmFinding] | None:
        """Return the diagnostics of a text; ``None`` if no server has them in time."""
        server = self.pool.find_checker(checker, program, folder)
        if server is None:
            return None
        return await server.diagnose(path, text, seconds)

    # --- tools ------------------------------------------------------------------------------------

    @hookimpl
    def provide_tools(self) -> Sequence[Tool]:
        """Return the tools, which are deferred until a server runs."""
        tools = (self.find_definition, self.find_references, self.list_symbols, self.rename_symbol)
        timeout = self.settings.timeout + SLACK
        return tuple(
            attrs.evolve(each, deferred=self._is_deferred, timeout=timeout) for each in tools
        )

    def _is_deferred(self, agent: Agent) -> bool:
        return "pool" not in vars(self) or not self.pool.running()

    @tool(risk="read", effect="pure", reads=_reads_everything)
    async def find_definition(self, call: Call, name: str, path: str, line: int = 0) -> Output:
        """Find where a name in a file is defined, as the language's own tools see it.

        Args:
            name: The name as it is written in the file, or Class.method.
            path: A file in which the name occurs.
            line: The line on which it occurs, if it means different things in the file.
        """
        await self._import_modules()
        return await self.navigator.find_definition(name, path, line)

    @tool(risk="read", effect="pure", reads=_reads_everything)
    async def find_references(self, call: Call, name: str, path: str, line: int = 0) -> Output:
        """Find every use of a name in the project, and no other name that is spelled the same.

        Args:
            name: The name as it is written in the file, or Class.method.
            path: A file in which the name occurs.
            line: The line on which it occurs, if it means different things in the file.
        """
        await self._import_modules()
        return await self.navigator.find_references(name, path, line)

    @tool(risk="read", effect="pure", reads=_reads_everything)
    async def list_symbols(self, call: Call, path: str = "", query: str = "") -> Output:
        """List the classes, functions and variables of a file, or those of the project by name.

        Args:
            path: The file; empty for the whole project.
            query: A part of the names; necessary without a path.
        """
        await self._import_modules()
        return await self.navigator.list_symbols(path, query)

    @tool(
        risk="write",
        effect="once",
        writes="files",
        reads=_reads_everything,
        precheck=lambda call: _precheck(call),
    )
    async def rename_symbol(
        self,
        call: Call,
        name: str,
        new_name: str,
        path: str,
        line: int = 0,
        files: list[str] | None = None,
        preview: str = "",
    ) -> Output:
        """Rename a class, function, variable or module member everywhere in the project at once.

        Args:
            name: The name as it is written in the file, or Class.method.
            new_name: The new name.
            path: A file in which the name occurs.
            line: The line on which it occurs, if it means different things in the file.
            files: Leave this out; hilum adds the files that change.
            preview: Leave this out; hilum adds the changes.
        """
        await self._import_modules()
        return await self.renames.apply(call)

    @hookimpl(tryfirst=True)
    @hook_deadline(GATE_TIMEOUT)
    def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Awaitable[Verdict] | None:
        """Add the files and the changes of a rename to its call.

        The other gates then judge these files, and the user sees the changes.
        """
        if call.name != "rename_symbol" or tool.plugin != "lsp":
            return None
        return self._complete_rename(call, tool)

    async def _complete_rename(self, call: ToolCall, tool: Tool) -> Verdict:
        await self._import_modules()
        return await self.renames.complete(call, tool)


def _precheck(call: Call) -> None:
    """Raise the error of a rename that cannot be made, before the user is asked to approve it."""
    plugin = call.session.plugin(LanguageServers)
    if plugin is not None:
        plugin.renames.check(call)
