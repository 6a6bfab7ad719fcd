"""Plugins: found without importing, filtered, loaded one by one, so that what does not load is a fact and never a stop.

pluggy validates and keeps the modules; the calls are made by ``hilum_hooks``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Literal

import hilum_hooks
import msgspec
from hilum_hooks import FAULTS, Fault, Observer, Spec

from hilum import hookspecs
from hilum.discovery import EntryPoint, entry_points, normal
from hilum.errors import PluginError, unknown
from hilum.hookspecs import HOOKS, PROJECT
from hilum.settings import KernelSettings, PluginSettings, sections_of


class Table(hilum_hooks.Table):
    """The hooks of a kernel or of a session."""

    error, project = PluginError, PROJECT

    def refusal(self) -> str:
        """Why no call may run, empty if calls may run: a plugin that guards them is gone."""
        for plugin, reason in ((name, why) for gone in self.closed.values() for name, why in gone.items()):
            off = f"The plugin {plugin} guards tool calls and is off ({reason}). No call runs until it works again or"
            return f"{off} the user takes it out by name: plugins.block = [{plugin!r}]."
        return ""


class Plugin(msgspec.Struct, eq=False):
    """A plugin and how it is doing.

    Attributes:
        name: Its entry-point name, or the name of the object it was passed as.
        module: The module or object, ``None`` unless loaded.
        state: ``ready``, ``blocked`` (by a setting), ``failed`` (did not load) or ``off`` (failed while running).
        error: Why it failed or is off.
        seconds: Time its import took.
    """

    name: str
    module: Any = None
    state: Literal["ready", "blocked", "failed", "off"] = "ready"
    error: str = ""
    seconds: float = 0.0
    point: EntryPoint | None = None


class Host:
    """All plugins of a kernel.

    Args:
        report: Called with each fault.
        observers: See ``Table``.
    """

    def __init__(self, report: Callable[[Fault], None], observers: list[Observer]) -> None:
        self.plugins: dict[str, Plugin] = {}
        self.specs: dict[str, Spec] = dict(HOOKS)
        self.table = Table(report, self.specs, observers)
        self._manager = hilum_hooks.Manager(PROJECT)
        self._manager.add_hookspecs(hookspecs)

    def find(self, wanted: Sequence[object] | None, chosen: PluginSettings, without: Sequence[str] = ()) -> None:
        """Decide which plugins there are, importing nothing.

        Args:
            wanted: Names and objects; ``None`` for all that are installed.
            chosen: What the settings allow, block and put first.
            without: Further names to block; unlike those of the settings they must be installed.

        Raises:
            UsageError: A name is not installed.
        """
        installed = self._installed = entry_points("hilum")
        names = {normal(name): name for name in installed}
        asked = list(installed) if wanted is None else [name for name in wanted if isinstance(name, str)]
        # A name in `block` may be of a plugin that has been uninstalled since: nothing to complain of.
        for name in (*asked, *(chosen.allow or ()), *chosen.order, *without):
            if normal(name) not in names:
                raise unknown("plugin", name, installed)
        first = [*map(normal, chosen.order)]
        for name in sorted(map(normal, asked), key=lambda name: first.index(name) if name in first else len(first)):
            self.plugins[names[name]] = Plugin(names[name], point=installed[names[name]])
        for thing in wanted or ():
            if not isinstance(thing, str):
                name = getattr(thing, "__name__", type(thing).__name__).rpartition(".")[2]
                self.plugins[name] = Plugin(name, thing)
        blocked = {*map(normal, (*chosen.block, *without))}
        allowed = names.keys() if chosen.allow is None else {*map(normal, chosen.allow)}
        for plugin in self.plugins.values():
            if normal(plugin.name) in blocked or (plugin.point and normal(plugin.name) not in allowed):
                plugin.state, plugin.error = "blocked", "by the settings"

    def load(self) -> None:
        """Import and register every plugin: all specifications first, then implementations."""
        for plugin in self._ready():
            with self._isolated(plugin):
                began = time.perf_counter()
                if plugin.point is not None:
                    plugin.module = plugin.point.load()
                plugin.seconds = time.perf_counter() - began
                self._add_specs(plugin)
        for index, plugin in enumerate(self._ready()):
            with self._isolated(plugin):
                self.table.add(plugin.module, plugin.name, index)
                self._manager.register(plugin.module, name=plugin.name)

    @contextmanager
    def _isolated(self, plugin: Plugin) -> Iterator[None]:
        """Whatever error comes of loading a plugin is written down, and the next one loads."""
        try:
            yield
        except FAULTS as error:
            fault = Fault(plugin.name, "load", error)
            plugin.state, plugin.error = "failed", str(fault)
            self.table.forget(plugin.name)
            self.table.report(fault)
            if plugin.point is not None:
                sys.modules.pop(plugin.point.target.partition(":")[0], None)

    def _ready(self) -> list[Plugin]:
        return [plugin for plugin in self.plugins.values() if plugin.state == "ready"]

    def _add_specs(self, plugin: Plugin) -> None:
        if not isinstance(plugin.module, ModuleType):
            return
        own = {
            name: value.hilum_spec_info
            for name, value in vars(plugin.module).items()
            if hasattr(value, "hilum_spec_info") and value.__module__ == plugin.module.__name__
        }
        if clash := own.keys() & self.specs.keys():
            raise PluginError(f"The hook {min(clash)!r} exists already.")
        if own:
            self._manager.add_hookspecs(plugin.module)
            self.specs.update(own)

    def require(self, required: Iterable[str]) -> None:
        """Close the gate for plugins that must be there and are not."""
        self.table.required.update(required)
        for name in self.table.required:
            plugin = self.plugins.get(name)
            if plugin is None or plugin.state in ("failed", "off"):
                reason = (plugin.error if plugin else "") or "required, and not installed"
                self.table.closed.setdefault("", {})[name] = reason

    def fail(self, plugin: str, error: str) -> None:
        """Mark a plugin as off and take its hooks out."""
        self.table.remove(plugin, error)
        self.plugins[plugin].state, self.plugins[plugin].error = "off", error

    def absent(self) -> set[str]:
        """Names of plugins that are installed and not loaded: their settings are nobody's to check."""
        return {*self._installed, *self.plugins} - {plugin.name for plugin in self._ready()}

    def sections(self) -> list[type]:
        """The settings sections of the kernel and of the loaded plugins."""
        return [KernelSettings, *(section for plugin in self._ready() for section in sections_of(plugin.module))]
