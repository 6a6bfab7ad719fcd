"""The plugins' halves of a session, and what they give to it: hooks and tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio
from hilum_hooks import FAULTS, Fault, Lifespans

from hilum.events import PluginFault
from hilum.hookspecs import PROJECT
from hilum.plugins import Plugin
from hilum.tools import Tool

if TYPE_CHECKING:
    from hilum.session import Session


class Halves:
    """See the module.

    Args:
        session: The session.
        nursery: Owns the tasks of the halves.

    Attributes:
        hooks: The hooks of the session: those of the kernel's plugins, and those of the halves.
        tools: Its tools by name.
    """

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self._session, self._nursery = session, nursery
        self._lifespans = Lifespans("open_session", session, self.crashed, PROJECT)
        self.half, self.close = self._lifespans.half, self._lifespans.close
        self.hooks = session.kernel.host.table.copy(self.report)
        self.tools: dict[str, Tool] = {}

    async def open(self) -> None:
        """Open the halves in the order of the plugins, and take their tools."""
        for index, plugin in enumerate(self._session.kernel.host.plugins.values()):
            if plugin.state == "ready":
                await self._open(plugin, index)
        self.take_tools()

    async def _open(self, plugin: Plugin, index: int) -> None:
        try:
            if (half := await self._lifespans.open(plugin.name, plugin.module, self._nursery)) is not None:
                self.hooks.add(half, plugin.name, index, half=True)
        except FAULTS as error:
            self.hooks.fault(plugin.name, "open_session", error, "it could not be opened")

    def take_tools(self) -> None:
        """Ask all plugins for their tools; of two with one name the first counts."""
        found: dict[str, Tool] = {}
        for plugin, tool in self.hooks.collect("provide_tools", session=self._session):
            if tool.plugin not in ("", plugin):  # another session has it under another name
                tool = attrs.evolve(tool, signature=tool._signature)
            tool.plugin, first = plugin, found.setdefault(tool.name, tool)
            if first is not tool:
                clash = ValueError(f"the plugin {first.plugin} has a tool {tool.name} already")
                self.hooks.fault(plugin, "provide_tools", clash)
        self.tools = found

    def report(self, fault: Fault) -> None:
        """Write a fault down; when it switched a plugin off, end the plugin's calls and take its tools out."""
        session = self._session
        session.kernel.faults.append(fault)
        event = PluginFault(plugin=fault.plugin, hook=fault.hook, error=str(fault), switched_off=fault.switched_off)
        if session.journal.broken is None:
            session.emit(event)
        if fault.switched_off:
            session.underway.end(fault.plugin)
            self.tools = {name: tool for name, tool in self.tools.items() if tool.plugin != fault.plugin}

    def crashed(self, plugin: str, error: BaseException) -> None:
        """A plugin's lifespan failed: its calls in flight and everything it gave end with it."""
        self.hooks.fault(plugin, "lifespan", error, "it crashed")
