"""The plugin instances of a session, and the hooks and tools that they contribute."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from hilum.arguments import TOOL_NAME
from hilum.errors import PluginError, StoreError
from hilum.events import HookCalled, PluginFault
from hilum.hooks import Lifespans, PluginFailure, split_failure
from hilum.hookspecs import HOOKS, PROJECT
from hilum.messages import ToolCall
from hilum.plugins import GateTable, Plugin
from hilum.settings import use_environment
from hilum.slow_hooks import hold_slow_hook
from hilum.tools import Tool

if TYPE_CHECKING:
    from hilum.agents import Agent
    from hilum.session import Session

T = TypeVar("T")


class PluginInstances:
    """The instances of a session's plugins, with their hooks and tools.

    Args:
        session: The session.

    Attributes:
        hooks: The hooks of the session: those of the kernel's plugins, and those of the instances.
        tools: The session's tools by name.
        withdrawn: Names of tools that were removed because their plugins were switched off, each
            with a sentence about the reason.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lifespans = Lifespans(
            "open_session", session, self.crashed, PROJECT, HOOKS["open_session"].deadline
        )
        self.hooks: GateTable = session.kernel.host.table.copy(self.report)
        if session.options.slow_hook:
            self.hooks.slow_after = session.options.slow_hook
            self.hooks.report_slow = self._write_slow_call
        self.tools: dict[str, Tool] = {}
        self._clashes: set[tuple[str, str]] = set()
        self._crashed: set[str] = set()
        self.withdrawn: dict[str, str] = {}

    def plugin(self, kind: type[T]) -> T | None:
        """Return the plugin instance of a type; ``None`` if there is no such instance."""
        return self._lifespans.plugin(kind)

    async def open(self) -> None:
        """Open the instances, those of plugins with gates first, and collect the plugins' tools.

        No call and no process runs until all gates that a plugin has declared are in place.
        """
        plugins = self._session.kernel.host.plugins
        for plugin in plugins.values():
            if plugin.state in ("failed", "off"):
                event = PluginFault(
                    plugin=plugin.name, hook=plugin.hook, error=plugin.error, switched_off=True
                )
                self._session.emit(event)
        places = {name: index for index, name in enumerate(plugins)}
        ready = [plugin for plugin in plugins.values() if plugin.state == "ready"]
        for plugin in ready:
            if self.hooks.missing(plugin.name):
                self.hooks.close(plugin.name, "it has not opened yet")
        # Sorting is stable: plugins with gates come first, because False sorts before True.
        for plugin in sorted(ready, key=lambda plugin: not self.hooks.gates.get(plugin.name)):
            await self._open(plugin, places[plugin.name])
        self.take_tools()

    async def _open(self, plugin: Plugin, index: int) -> None:
        if plugin.name in self._crashed:  # its kernel instance crashed meanwhile
            return
        try:
            with use_environment(self._session.kernel.environ):
                instance = await self._lifespans.open(
                    plugin.name, plugin.module, preferred=plugin.is_standard
                )
            # The plugin's kernel instance may have crashed while its session instance opened.
            if plugin.name in self._crashed:
                return
            if instance is not None:
                self.hooks.add(instance, plugin.name, index, instance=True)
            missing = self.hooks.missing(plugin.name)
            if missing:
                raise PluginError(
                    f"It declares the gate {missing[0]}, but neither its module nor its instance"
                    " has it."
                )
        except BaseException as error:
            failure, rest = split_failure(error)
            if failure is None or rest is not None:
                raise
            self.hooks.record_failure(
                plugin.name, "open_session", failure, "it could not be opened"
            )
        else:
            self.hooks.reopen(plugin.name)

    async def close(self) -> None:
        """Close the instances in reverse order."""
        await self._lifespans.close()

    def take_tools(self) -> None:
        """Collect the tools of all plugins.

        If two tools have the same name, the existing tool is kept, unless the plugin of the new
        tool declares that it replaces the existing one.
        """
        found: dict[str, Tool] = {}
        for plugin, tool in self.hooks.collect("provide_tools", session=self._session):
            if not TOOL_NAME.fullmatch(str(tool.name)):
                # A provider would reject every request that contains an invalid name. The plugin's
                # other tools are kept.
                wrong = ValueError(
                    f"the tool name {tool.name!r} must consist of 1 to 64 letters, digits, _ or -"
                )
                self.hooks.report(PluginFailure(plugin, "provide_tools", wrong))
                continue
            if tool.plugin not in ("", plugin):  # the object has another plugin's name
                tool = attrs.evolve(tool, signature=tool._signature)
            tool.plugin = plugin
            other = found.setdefault(tool.name, tool)
            if other is not tool:
                keep, leave = self._choose(other, tool)
                found[tool.name] = keep
                self._clash(keep, leave)
        self._remove_replaced(found)
        self.tools = found

    def _remove_replaced(self, tools: dict[str, Tool]) -> None:
        """Remove tools that another plugin replaces, even if that plugin has failed.

        A tool may be replaced because the replacing plugin guards its own tool with a gate, so the
        original must not come back.
        """
        for plugin in self._session.kernel.host.plugins.values():
            if plugin.state == "blocked":
                continue
            for name in plugin.replaces:
                if name in tools and tools[name].plugin != plugin.name:
                    del tools[name]

    def _choose(self, one: Tool, two: Tool) -> tuple[Tool, Tool]:
        """Return which of two tools with the same name is kept, and which is left out."""
        plugins = self._session.kernel.host.plugins
        if one.name in plugins[one.plugin].replaces:
            return one, two
        current = self.tools.get(one.name)
        is_current = current is not None and current.plugin == two.plugin
        if is_current or one.name in plugins[two.plugin].replaces:
            return two, one
        return one, two

    def _clash(self, keep: Tool, leave: Tool) -> None:
        """Report, only once, that a tool is left out.

        The report is not one of the failures after which the plugin is switched off.
        """
        plugins = self._session.kernel.host.plugins
        if keep.name in plugins[keep.plugin].replaces and keep.plugin != leave.plugin:
            return
        if (leave.plugin, leave.name) in self._clashes:
            return
        self._clashes.add((leave.plugin, leave.name))
        hint = (
            f"To replace it, add this to the module of {leave.plugin}:"
            f' replaces = ("{leave.name}",).'
        )
        problem = (
            f"The plugin {keep.plugin} already has a tool {keep.name}; that of {leave.plugin} is"
            " left out."
        )
        self.report(PluginFailure(leave.plugin, "provide_tools", PluginError(problem, hint=hint)))

    def report(self, fault: PluginFailure) -> None:
        """Write a failure to the log.

        If the failure switched the plugin off, end the plugin's calls and remove its tools.
        """
        session = self._session
        session.kernel.keep_fault(fault)
        event = PluginFault(
            plugin=fault.plugin, hook=fault.hook, error=str(fault), switched_off=fault.switched_off
        )
        # A plugin can also fail when the log is already closed, because the session is closing.
        if session.journal.broken is None and not session.journal.closed:
            with suppress(StoreError):  # the session will fail at its next event
                session.emit(event)
        if not fault.switched_off:
            return
        session._calls_in_flight.end(fault.plugin)
        kept = {}
        for name, tool in self.tools.items():
            if tool.plugin == fault.plugin:
                why = f"The plugin {fault.plugin}, which provides the tool {name}, is off: {fault}."
                self.withdrawn[name] = why
            else:
                kept[name] = tool
        self.tools = kept

    def _write_slow_call(
        self,
        hook: str,
        plugin: str,
        seconds: float,
        arguments: dict[str, Any],
        error: BaseException | None,
    ) -> None:
        """Write a slow call of a hook to the log."""
        agent = arguments.get("agent")
        call = arguments.get("call")
        event = HookCalled(
            plugin=plugin,
            hook=hook,
            seconds=round(seconds, 6),
            call=call.id if isinstance(call, ToolCall) else "",
            error=type(error).__name__ if error is not None else "",
        )
        if agent is None and hold_slow_hook(event):
            return
        self.write_slow_hook(event, agent, agent.starting if agent is not None else "")

    def write_slow_hook(self, event: HookCalled, agent: Agent | None = None, run: str = "") -> None:
        """Write the event of a slow hook to the log.

        Args:
            event: The event.
            agent: The agent that the hook was called for; ``None`` if there is none.
            run: The id of the run that the hook was called for, if it is not the agent's current run.
        """
        session = self._session
        # A hook may also end when the log is already closed, because the session is closing.
        if session.journal.broken is None and not session.journal.closed:
            with suppress(StoreError):  # the session will fail at its next event
                session.emit(event, agent, run)

    def crashed(self, plugin: str, error: BaseException) -> None:
        """End a plugin's contributions and its calls in flight, because its lifespan failed."""
        self._crashed.add(plugin)
        self.hooks.record_failure(plugin, "lifespan", error, "it crashed")
