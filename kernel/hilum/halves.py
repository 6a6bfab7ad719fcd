"""The plugins' instances of a session, and what they contribute to it: hooks and tools."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import attrs
from hilum_hooks import Fault, Lifespans, split_failure

from hilum.arguments import TOOL_NAME
from hilum.errors import PluginError, StoreError
from hilum.events import PluginFault
from hilum.hookspecs import HOOKS, PROJECT
from hilum.plugins import Plugin
from hilum.settings import use_environment
from hilum.tools import Tool

if TYPE_CHECKING:
    from hilum.session import Session


class Halves:
    """See the module.

    Args:
        session: The session.

    Attributes:
        hooks: The hooks of the session: those of the kernel's plugins, and those of the instances.
        tools: Its tools by name.
        withdrawn: Names of tools that a plugin took with it when it was switched off, with the
            reason in a sentence.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lifespans = Lifespans(
            "open_session", session, self.crashed, PROJECT, HOOKS["open_session"].deadline
        )
        self.half = self._lifespans.half
        self.hooks = session.kernel.host.table.copy(self.report)
        self.tools: dict[str, Tool] = {}
        self._clashes: set[tuple[str, str]] = set()
        self._crashed: set[str] = set()
        self.withdrawn: dict[str, str] = {}

    async def open(self) -> None:
        """Open the instances, first those of plugins with gates, and take their tools.

        Until a plugin that has declared gates has them all in place, no call and no process runs.
        """
        plugins = self._session.kernel.host.plugins
        for plugin in plugins.values():
            if plugin.state in ("failed", "off"):
                event = PluginFault(
                    plugin=plugin.name, hook=plugin.hook, error=plugin.error, switched_off=True
                )
                self._session.emit(event)
        ready = [
            (index, plugin)
            for index, plugin in enumerate(plugins.values())
            if plugin.state == "ready"
        ]
        for _, plugin in ready:
            if self.hooks.missing(plugin.name):
                self.hooks.close(plugin.name, "it has not opened yet")
        for index, plugin in sorted(ready, key=lambda pair: not self.hooks.gates.get(pair[1].name)):
            await self._open(plugin, index)
        self.take_tools()

    async def _open(self, plugin: Plugin, index: int) -> None:
        if plugin.name in self._crashed:  # its kernel instance did, while others opened
            return
        try:
            with use_environment(self._session.kernel.environ):
                half = await self._lifespans.open(plugin.name, plugin.module)
            if plugin.name in self._crashed:
                return
            if half is not None:
                self.hooks.add(half, plugin.name, index, half=True)
            missing = self.hooks.missing(plugin.name)
            if missing:
                raise PluginError(
                    f"It declares the gate {missing[0]}, and neither its module nor its instance"
                    " has it."
                )
        except BaseException as error:
            failure, rest = split_failure(error)
            if failure is None or rest is not None:
                raise
            self.hooks.fault(plugin.name, "open_session", failure, "it could not be opened")
        else:
            self.hooks.reopen(plugin.name)

    async def close(self) -> None:
        """Close the instances in reverse order."""
        await self._lifespans.close()

    def take_tools(self) -> None:
        """Ask all plugins for their tools.

        Of two with one name the one stays that is there, or that declares to replace it.
        """
        found: dict[str, Tool] = {}
        for plugin, tool in self.hooks.collect("provide_tools", session=self._session):
            if not TOOL_NAME.fullmatch(str(tool.name)):  # a provider would refuse the whole request
                wrong = ValueError(
                    f"the tool name {tool.name!r} is not of 1 to 64 letters, digits, _ and -"
                )
                self.hooks.report(Fault(plugin, "provide_tools", wrong))  # its other tools stay
                continue
            if tool.plugin not in ("", plugin):  # another session has it under another name
                tool = attrs.evolve(tool, signature=tool._signature)
            tool.plugin = plugin
            other = found.get(tool.name)
            if other is None:
                found[tool.name] = tool
            elif other is not tool:
                keep, leave = self._choose(other, tool)
                found[tool.name] = keep
                self._clash(keep, leave)
        for each in self._session.kernel.host.plugins.values():
            for name in each.replaces:
                # The original does not come back when its replacement fails.
                if each.state != "blocked" and name in found and found[name].plugin != each.name:
                    del found[name]
        self.tools = found

    def _choose(self, one: Tool, two: Tool) -> tuple[Tool, Tool]:
        """Return which of two tools with one name stays, and which is left out."""
        plugins = self._session.kernel.host.plugins
        held = self.tools.get(one.name)
        if (
            one.name in plugins[two.plugin].replaces
            and one.name not in plugins[one.plugin].replaces
        ):
            return two, one
        if (
            held is not None
            and held.plugin == two.plugin
            and one.name not in plugins[one.plugin].replaces
        ):
            return two, one
        return one, two

    def _clash(self, keep: Tool, leave: Tool) -> None:
        """Report that a tool is left out, once.

        It is no failure that would count towards switching its plugin off.
        """
        plugins = self._session.kernel.host.plugins
        if keep.name in plugins[keep.plugin].replaces and keep.plugin != leave.plugin:
            return
        if (leave.plugin, leave.name) in self._clashes:
            return
        self._clashes.add((leave.plugin, leave.name))
        hint = (
            f'To replace it, declare in the module of {leave.plugin}: replaces = ("{leave.name}",).'
        )
        problem = (
            f"The plugin {keep.plugin} has a tool {keep.name} already, so that of {leave.plugin} is"
            " left out."
        )
        self.report(Fault(leave.plugin, "provide_tools", PluginError(problem, hint=hint)))

    def report(self, fault: Fault) -> None:
        """Write a fault down.

        When it switched a plugin off, end the plugin's calls and take its tools out.
        """
        session = self._session
        session.kernel.keep_fault(fault)
        event = PluginFault(
            plugin=fault.plugin, hook=fault.hook, error=str(fault), switched_off=fault.switched_off
        )
        if session.journal.broken is None and not session.journal.closed:
            with suppress(StoreError):  # the session learns of it at its own next event
                session.emit(event)
        if fault.switched_off:
            session.underway.end(fault.plugin)
            for name, tool in self.tools.items():
                if tool.plugin == fault.plugin:
                    self.withdrawn[name] = (
                        f"The plugin {fault.plugin} of the tool {name} is off: {fault}."
                    )
            self.tools = {
                name: tool for name, tool in self.tools.items() if tool.plugin != fault.plugin
            }

    def crashed(self, plugin: str, error: BaseException) -> None:
        """A plugin's lifespan failed: its calls in flight and everything it contributed end with
        it.
        """
        self._crashed.add(plugin)
        self.hooks.fault(plugin, "lifespan", error, "it crashed")
