"""Plugins: they are found without an import, filtered, and then loaded one by one.

A plugin that does not load is reported and never stops the kernel. ``hilum.hooks`` registers
plugins with pluggy and calls them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any, ClassVar, Literal

import msgspec
import trio

from hilum import hooks
from hilum.discovery import (
    GATES,
    STANDARD,
    EntryPoint,
    all_entry_points,
    clash,
    entry_points,
    mentions,
    normal,
    read_source,
    sources,
)
from hilum.errors import E_PLUGIN, GATE_SHUT, PluginError, UsageError, unknown_name_error
from hilum.extras import missing_extras
from hilum.hooks import ALL_GATES, Mistake, Observer, PluginFailure, Spec, split_failure
from hilum.hookspecs import HOOKS, PROJECT
from hilum.plugin_objects import as_plugin, check_file, is_file, load_file, names_in
from hilum.settings import KernelSettings, PluginSettings, load, sections_of, use_environment
from hilum.tools import Tool


class GateTable(hooks.Table):
    """The hooks of a kernel or of a session.

    Attributes:
        environ: The environment of the kernel, which the plugins see.
        lacking: Required distributions that are not installed.
    """

    error: ClassVar[type[Exception]] = PluginError
    project: ClassVar[str] = PROJECT

    environ: Mapping[str, str] = os.environ
    lacking: tuple[str, ...] = ()

    def around(self) -> AbstractContextManager[object]:
        """Return a context in which an implementation sees the kernel's environment."""
        return use_environment(self.environ)

    def copy(self, report: Callable[[PluginFailure], None]) -> GateTable:
        """Return a table with the same implementations, to which more can be added."""
        table = super().copy(report)
        table.environ = self.environ
        table.lacking = self.lacking
        return table

    def refusal(self, gate: str = "") -> str:
        """Return why no call may run; empty if calls may run.

        Calls may not run while a required distribution is missing, or while a plugin that guards
        them does not work.

        Args:
            gate: The only gate to check; all gates by default.
        """
        for name in self.lacking:
            return (
                f"The distribution {name!r} is required and not installed. No call runs until the"
                " user installs it, or changes the setting `required`."
            )
        # A plugin whose gates are not known closes every gate.
        gates = (gate, ALL_GATES) if gate else tuple(self.closed)
        for each in gates:
            for plugin, reason in self.closed.get(each, {}).items():
                return (
                    f"The plugin {plugin!r} {GATE_SHUT} ({reason}). No call runs until it works"
                    " again (`hilum plugins` shows what is wrong), or until the user decides to do"
                    f" without its protection and blocks it by name: plugins.block = [{plugin!r}]"
                    f" in settings.toml, --no-plugin {plugin}, or without=[{plugin!r}] in a"
                    " program."
                )
        return ""


class Plugin(msgspec.Struct, eq=False):
    """A plugin and its state.

    Attributes:
        name: The name of the entry point, or of the object or file that was passed.
        module: The module or object; ``None`` unless loaded.
        state: ``ready``, ``blocked`` (by a setting), ``failed`` (did not load) or ``off`` (failed
            while running).
        error: The reason why the plugin is blocked, failed or off.
        seconds: Seconds that the plugin's import took.
        point: The plugin's entry point, if the plugin is installed.
        path: The plugin's file, if the plugin is a file.
        project: Whether the file belongs to the project.
        replaces: Names of other plugins' tools that the plugin's own tools replace.
        hook: The hook in which the plugin failed.
    """

    name: str
    module: Any = None
    state: Literal["ready", "blocked", "failed", "off"] = "ready"
    error: str = ""
    seconds: float = 0.0
    point: EntryPoint | None = None
    path: str = ""
    project: bool = False
    replaces: tuple[str, ...] = ()
    hook: str = "load"

    @property
    def is_standard(self) -> bool:
        """Whether the plugin comes from a distribution in the standard set."""
        return self.point is not None and self.point.distribution.lower() in STANDARD

    @property
    def origin(self) -> str:
        """The origin of the plugin, as part of a sentence."""
        if self.point is not None:
            return f"the distribution {self.point.distribution} {self.point.version}"
        if self.path:
            return f"the file {self.path}"
        kind = "module" if isinstance(self.module, ModuleType) else "object"
        return f"the {kind} {self.name}"


class Host:
    """All plugins of a kernel.

    Args:
        report: Called with each failure.
        observers: See ``GateTable``.
        environ: The environment that plugins see.
    """

    def __init__(
        self,
        report: Callable[[PluginFailure], None],
        observers: list[Observer],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.plugins: dict[str, Plugin] = {}
        self.specs: dict[str, Spec] = dict(HOOKS)
        self.table: GateTable = GateTable(report, self.specs, observers)
        self.table.environ = environ
        self.clashes: list[str] = []
        self._strict = True

    # --- finding ----------------------------------------------------------------------------------

    def find(
        self,
        wanted: Sequence[object] | None,
        chosen: PluginSettings,
        without: Sequence[str] = (),
        extra: Sequence[object] = (),
        project_files: Sequence[str] = (),
    ) -> None:
        """Find the plugins and decide which are blocked, without importing any.

        Args:
            wanted: Names, files and objects; ``None`` for all installed plugins.
            chosen: The plugins that the settings allow, block or put first.
            without: Further names to block. Unlike the names in the settings, these must exist.
            extra: Names, files and objects in addition to ``wanted``.
            project_files: Plugin files of the project, which the user trusts.

        Raises:
            UsageError: A name is not installed, a file does not exist, or an object cannot be a
                plugin.
        """
        given = [*(wanted or ()), *extra]
        names = [thing for thing in given if isinstance(thing, str) and not is_file(thing)]
        self._find_installed(names, chosen, all_installed=wanted is None)
        for thing in given:
            if is_file(thing):
                self._add_file(check_file(thing))  # type: ignore[arg-type]
            elif not isinstance(thing, str):
                name, module = as_plugin(thing)
                self._add_given(Plugin(name, module))
        for path in project_files:
            self._add_file(path, project=True)
        self._block(chosen, without)

    def _find_installed(
        self, names: list[str], chosen: PluginSettings, *, all_installed: bool
    ) -> None:
        """Add installed plugins in the order of the settings.

        Args:
            names: The names that the caller passed.
            chosen: The plugins that the settings allow, block or put first.
            all_installed: Whether all installed plugins are added.

        Raises:
            UsageError: A name is not installed.
        """
        installed = all_entry_points("hilum")
        self._installed = {point.name for points in installed.values() for point in points}
        if all_installed:
            names = [*installed, *names]
        # Names in `block` are not checked, because a blocked plugin may have been uninstalled.
        for name in (*names, *(chosen.allow or ()), *chosen.order):
            if normal(name) not in installed:
                raise unknown_name_error("plugin", name, self._installed)
        wanted = dict.fromkeys(map(normal, names))
        first = [normal(name) for name in chosen.order]
        for name in dict.fromkeys((*first, *wanted)):
            if name in wanted:
                self._add_installed(installed[name])
        self._move_foreign_back(first)

    def _move_foreign_back(self, first: Sequence[str]) -> None:
        """Move other authors' plugins behind hilum's own, unless the settings order them."""
        for name, plugin in [*self.plugins.items()]:
            if plugin.point is None or normal(name) in first:
                continue
            if plugin.point.distribution.lower() not in STANDARD:
                self.plugins[name] = self.plugins.pop(name)

    def _add_installed(self, points: list[EntryPoint]) -> None:
        plugin = Plugin(points[0].name, point=points[0])
        if len(points) > 1:
            plugin.state = "failed"
            plugin.error = clash("plugin", points)
        self.plugins[plugin.name] = plugin

    def _add_file(self, path: str, project: bool = False) -> None:
        name = os.path.basename(path).removesuffix(".py")
        self._add_given(Plugin(name, path=path, project=project))

    def _add_given(self, plugin: Plugin) -> None:
        """Add a plugin that is not installed.

        If several objects have the same name, all are added under numbered names. No object may
        have the name of an installed plugin.
        """
        if any(other.point is None and _same(other, plugin) for other in self.plugins.values()):
            return
        taken = {normal(name): other for name, other in self.plugins.items()}
        other = taken.get(normal(plugin.name))
        if other is not None and (other.point is not None or plugin.project or other.project):
            problem = (
                f"The plugin {other.name!r} of {other.origin} and {plugin.origin} have the same"
                " name."
            )
            raise UsageError(problem, hint="Rename one of them, or leave one out.")
        name = plugin.name
        number = 1
        while normal(plugin.name) in taken:
            number += 1
            plugin.name = f"{name}-{number}"
        self.plugins[plugin.name] = plugin

    def _block(self, chosen: PluginSettings, without: Sequence[str]) -> None:
        """Block the plugins that the settings and the caller leave out.

        It is a mistake if two distributions claim one name, unless the name is blocked.
        """
        names = {*self._installed, *self.plugins}
        known = {*map(normal, names)}
        for name in without:
            if normal(name) not in known:
                raise unknown_name_error("plugin", name, names)
        # Blocking takes precedence over allowing, no matter which sources of settings do so.
        self._blocked = {*map(normal, (*chosen.block, *without))}
        allowed = known if chosen.allow is None else {*map(normal, chosen.allow)}
        for plugin in self.plugins.values():
            name = normal(plugin.name)
            # An object that the caller passes is a plugin even if the settings do not allow its
            # name.
            is_filtered = plugin.point is not None or plugin.project
            if name in self._blocked or (is_filtered and name not in allowed):
                plugin.state = "blocked"
                plugin.error = "by the settings"
            elif plugin.state == "failed":
                self.clashes.append(plugin.error)

    # --- loading ----------------------------------------------------------------------------------

    def load(self, *, strict: bool = True) -> None:
        """Import and register every plugin: all specifications first, then implementations.

        Args:
            strict: Whether a passed file that does not load is an error, and not just reported like
                any other failure.

        Raises:
            PluginError: An object that was passed as a plugin has mistakes.
            UsageError: A file that was passed does not load, or defines no plugin.
        """
        self._strict = strict
        self._guarding = entry_points(GATES) if self._ready() else {}
        # All modules are imported before any is registered, because a plugin may implement a hook
        # that a later plugin specifies.
        for plugin in self._ready():
            with self._isolated(plugin):
                began = time.perf_counter()
                if plugin.point is not None:
                    plugin.module = plugin.point.load()
                elif plugin.path:
                    plugin.module = load_file(plugin.path)
                plugin.seconds = time.perf_counter() - began
                self._add_specs(plugin)
        for index, plugin in enumerate(self._ready()):
            with self._isolated(plugin):
                mistakes = self._read_declarations(plugin)
                has_hooks = self.table.add(plugin.module, plugin.name, index, mistakes=mistakes)
                self._check(plugin, has_hooks)

    def _read_declarations(self, plugin: Plugin) -> list[Mistake]:
        """Read ``gates`` and ``replaces`` of a plugin, and return the mistakes in them.

        The declarations are read first, so that the gates are known even if the registration then
        fails.
        """
        mistakes = []
        try:
            self.table.declare(plugin.name, names_in(plugin.module, "gates"))
        except PluginError as error:
            mistakes.append(Mistake(error.message, error.hint))
        try:
            plugin.replaces = names_in(plugin.module, "replaces")
        except PluginError as error:
            mistakes.append(Mistake(error.message, error.hint))
        return mistakes

    def _check(self, plugin: Plugin, has_hooks: bool) -> None:
        if not isinstance(plugin.module, ModuleType) and not has_hooks:
            hint = "Add @hookimpl to the methods that are named like hooks."
            raise PluginError(f"{type(plugin.module).__name__} implements no hook.", hint=hint)
        if plugin.path and not has_hooks and not self._adds_specs(plugin.module):
            raise PluginError(
                "It defines no plugin: no function in it is marked as a hook.",
                hint=_missing_hooks(plugin),
            )
        if self._in_metadata(plugin) and not self.table.gates.get(plugin.name):
            hint = 'Write in its module: gates = ("…",).'
            raise PluginError(
                f"Its distribution says that it has gates ({GATES}), but its module declares none.",
                hint=hint,
            )

    def _in_metadata(self, plugin: Plugin) -> bool:
        return plugin.point is not None and plugin.point.name in self._guarding

    def _guards(self, plugin: Plugin) -> bool:
        """Return whether a plugin that cannot be imported may have gates.

        A plugin may have gates if its metadata declares gates, or if its source mentions the name
        of a gate. Without an import, nothing more certain is known, and no gate must be overlooked.
        """
        if self._in_metadata(plugin):
            return True
        if plugin.path:
            files: Iterable[str] = [plugin.path]
        else:
            files = sources(plugin.point.target) if plugin.point else ()
        gates = [name for name, spec in self.specs.items() if spec.guards]
        return any(mentions(read_source(file), gates) for file in files)

    @contextmanager
    def _isolated(self, plugin: Plugin) -> Iterator[None]:
        """Report an error that was raised while a plugin was loaded, and close the plugin's gates.

        Raises:
            PluginError: The plugin is an object that the caller passed.
            UsageError: The plugin is a file that the caller passed, and loading is strict.
        """
        try:
            yield
        except BaseException as error:
            failure, rest = split_failure(error)
            if isinstance(error, trio.Cancelled):
                # Nothing here has a checkpoint at which it could be cancelled.
                failure = RuntimeError(
                    "The plugin raised trio.Cancelled although nothing was cancelled."
                )
                rest = None
            if failure is None or rest is not None:
                raise
            self._fail_to_load(plugin, failure)

    def _fail_to_load(self, plugin: Plugin, failure: BaseException) -> None:
        fault = PluginFailure(plugin.name, "load", failure, switched_off=True)
        self.table.forget(plugin.name)
        if plugin.point is None and not plugin.path:
            # The object is the caller's own code, so the caller gets the error.
            if isinstance(failure, PluginError):
                text = failure.message
                hint = failure.hint
            else:
                text = str(fault)
                hint = ""
            raise PluginError(
                f"The plugin {plugin.name!r} does not fit: {text}", hint=hint
            ) from failure
        if self._strict and _is_given_file(plugin):
            raise _file_error(plugin.path, failure) from failure
        if not self.table.gates.get(plugin.name) and self._guards(plugin):
            self.table.declare(plugin.name, [ALL_GATES])
        self._mark(plugin, "failed", fault, _reason(fault))
        if plugin.point is not None:
            # A later kernel in this process must import the module again and not find a
            # half-imported one.
            sys.modules.pop(plugin.point.target.partition(":")[0], None)
        self.table.report(fault)

    def _ready(self) -> list[Plugin]:
        return [plugin for plugin in self.plugins.values() if plugin.state == "ready"]

    def _add_specs(self, plugin: Plugin) -> None:
        if not isinstance(plugin.module, ModuleType):
            return
        own = self._adds_specs(plugin.module)
        clash = own.keys() & self.specs.keys()
        if clash:
            raise PluginError(f"The hook {min(clash)!r} exists already.")
        if own:
            self.specs.update(own)
            self.table.registry.specify(own)

    @staticmethod
    def _adds_specs(module: ModuleType) -> dict[str, Spec]:
        """Return the hooks that the module itself specifies, by name."""
        found = {}
        for name, value in vars(module).items():
            # A package that loads its modules late would search for one with this name.
            if isinstance(value, ModuleType):
                continue
            # A specification that a module only imports belongs to another plugin.
            if hasattr(value, "hilum_spec_info") and value.__module__ == module.__name__:
                found[name] = value.hilum_spec_info
        return found

    # --- states -----------------------------------------------------------------------------------

    def require(self, required: Iterable[str]) -> None:
        """Refuse all calls while a required distribution is missing.

        Args:
            required: Names of distributions; ``guard`` is short for ``hilum-guard``. Objects and
                files do not count.
        """
        for name in required:
            provided = [
                plugin
                for plugin in self.plugins.values()
                if plugin.point and normal(plugin.point.distribution) == normal(name)
            ]
            for plugin in provided:
                # A plugin that the user blocks by name was deliberately left out, so it closes no
                # gate.
                if plugin.state != "blocked":
                    self.table.declare(plugin.name, [ALL_GATES])
                # When the plugin failed, these gates were not declared yet, so they were not
                # closed.
                if plugin.state in ("failed", "off"):
                    self.table.close(plugin.name, plugin.error)
            if not provided and normal(name) not in self._blocked:
                self.table.lacking = (*self.table.lacking, name)

    def fail(self, plugin: str, fault: PluginFailure) -> None:
        """Mark a plugin as off and remove its hooks."""
        self.table.forget(plugin)
        self._mark(self.plugins[plugin], "off", fault, _reason(fault))

    def _mark(
        self, plugin: Plugin, state: Literal["failed", "off"], fault: PluginFailure, reason: str
    ) -> None:
        plugin.state = state
        plugin.error = reason
        plugin.hook = fault.hook
        self.table.close(plugin.name, reason)

    def absent(self) -> set[str]:
        """Return the names of settings sections that cannot be checked.

        The sections belong to plugins that are not loaded and to optional packages that are
        missing.
        """
        absent = {*self._installed, *self.plugins}
        for extra in missing_extras():
            absent.update(extra.sections)
        return absent - {plugin.name for plugin in self._ready()}

    def sections(self) -> list[type]:
        """Return the settings sections of the kernel and of the loaded plugins."""
        found: list[type] = [KernelSettings]
        for plugin in self._ready():
            found += sections_of(plugin.module)
        return found


def rehearse_loading(environ: Mapping[str, str]) -> None:
    """Find, import and register the installed plugins as a kernel does, without a kernel.

    A process that is going to open a kernel may thereby do in advance what needs no settings.

    Args:
        environ: The environment that the plugins see.
    """
    host = Host(lambda _: None, [], environ)
    host.find(None, KernelSettings().plugins)
    with use_environment(environ):
        host.load()
    load(host.sections(), environ=environ, known=host.absent(), strict=False)


def _same(one: Plugin, other: Plugin) -> bool:
    return one.module is other.module and one.path == other.path


def _missing_hooks(plugin: Plugin) -> str:
    """Return the hint for a file without hooks."""
    tools = [name for name, value in vars(plugin.module).items() if isinstance(value, Tool)]
    if tools:
        hint = f"Return the tool {tools[0]} from a function provide_tools marked with @hookimpl."
    else:
        hint = "Add @hookimpl to the functions that are named like hooks."
    if plugin.project:
        hint += " If it only helps other files, begin its name with _."
    return hint


def _is_given_file(plugin: Plugin) -> bool:
    """Return whether a plugin is a file that the caller named, as ``--plugin FILE`` does."""
    return bool(plugin.path) and not plugin.project


def _file_error(path: str, failure: BaseException) -> UsageError:
    """Create the error for a file that was passed as a plugin and does not load."""
    error = hooks.unwrap_group(failure)
    hint = "Correct the file, or remove it."
    if isinstance(error, PluginError):
        message = f"The plugin file {path} does not fit: {error.message}"
        return UsageError(message, code=E_PLUGIN, hint=error.hint or hint)
    number = _line_of(error, path)
    where = f"{path}, line {number}," if number else path
    if isinstance(error, SyntaxError):
        text = error.msg
    else:
        text = hooks.describe_error(error).partition(": ")[2]
    # The text of an exception may have several lines, but the message must be one sentence.
    text = " ".join(str(text).split())[:300].rstrip(".")
    kind = type(error).__name__
    reason = f"{kind}: {text}" if text else kind
    return UsageError(f"The plugin file {where} does not load: {reason}.", code=E_PLUGIN, hint=hint)


def _line_of(error: BaseException, path: str) -> int:
    """Return the line of a file at which an error was raised; 0 if it is not known."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 0
    number = 0
    frames = error.__traceback__
    while frames is not None:
        if frames.tb_frame.f_code.co_filename == path:
            number = frames.tb_lineno
        frames = frames.tb_next
    return number


def _reason(fault: PluginFailure) -> str:
    """Return the text of a failure; for a syntax error, include the file and line."""
    error = hooks.unwrap_group(fault.error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError: {error.msg}, {error.filename}, line {error.lineno}"
    return str(fault)
