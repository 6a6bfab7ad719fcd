"""Plugins: found without importing, filtered, loaded one by one, so that what does not load is a
fact and never a stop.

pluggy validates and keeps the modules; the calls are made by ``hilum_hooks``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any, Literal

import hilum_hooks
import msgspec
import trio
from hilum_hooks import ALL_GATES, Fault, Observer, Spec, split_failure

from hilum import hookspecs
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
from hilum.errors import E_PLUGIN, GATE_SHUT, PluginError, UsageError, unknown
from hilum.hookspecs import HOOKS, PROJECT
from hilum.plugin_objects import as_plugin, check_file, is_file, load_file, names_in
from hilum.settings import KernelSettings, PluginSettings, sections_of, use_environment


class Table(hilum_hooks.Table):
    """The hooks of a kernel or of a session.

    Args:
        environ: The environment of the kernel, which its plugins see.
        lacking: Required distributions that are not there.
    """

    error = PluginError
    project = PROJECT

    environ: Mapping[str, str] = os.environ
    lacking: tuple[str, ...] = ()

    def around(self) -> AbstractContextManager[object]:
        """Have an implementation see the kernel's environment."""
        return use_environment(self.environ)

    def copy(self, report: Callable[[Fault], None]) -> Table:
        """Return a table with the same implementations, for more to be added to."""
        table = super().copy(report)
        table.environ = self.environ
        table.lacking = self.lacking
        return table

    def refusal(self, gate: str = "") -> str:
        """Return why no call may run, empty if calls may run: a plugin that guards them is not in
        working order.

        Args:
            gate: The only gate that counts; all by default.
        """
        for name in self.lacking:
            return (
                f"The distribution {name!r} is required and not installed. No call runs until the"
                " user installs it, or changes the setting `required`."
            )
        gates = (gate, ALL_GATES) if gate else tuple(self.closed)
        for plugin, reason in (
            (name, why) for gate in gates for name, why in self.closed.get(gate, {}).items()
        ):
            return (
                f"The plugin {plugin!r} {GATE_SHUT} ({reason}). No call runs until it works again,"
                f" or until the user blocks it by name: plugins.block = [{plugin!r}] in"
                f" settings.toml, or --no-plugin {plugin}."
            )
        return ""


class Plugin(msgspec.Struct, eq=False):
    """A plugin and how it is doing.

    Attributes:
        name: Its entry-point name, or the name of the object or file it was passed as.
        module: The module or object, ``None`` unless loaded.
        state: ``ready``, ``blocked`` (by a setting), ``failed`` (did not load) or ``off`` (failed
            while running).
        error: Why it is blocked, failed or off.
        seconds: Time its import took.
        point: Its entry point, if it is installed.
        path: Its file, if it is one.
        project: Whether the file is of the project.
        replaces: Names of tools of other plugins that its own take the place of.
        hook: Where it failed.
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
    def origin(self) -> str:
        """Where it comes from, for a sentence about it."""
        if self.point is not None:
            return f"the distribution {self.point.distribution} {self.point.version}"
        if self.path:
            return f"the file {self.path}"
        return f"the {'module' if isinstance(self.module, ModuleType) else 'object'} {self.name}"


class Host:
    """All plugins of a kernel.

    Args:
        report: Called with each fault.
        observers: See ``Table``.
        environ: The environment that plugins see.
    """

    def __init__(
        self,
        report: Callable[[Fault], None],
        observers: list[Observer],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.plugins: dict[str, Plugin] = {}
        self.specs: dict[str, Spec] = dict(HOOKS)
        self.table = Table(report, self.specs, observers, environ=environ)
        self.clashes: list[str] = []
        self._strict = True
        self._manager = hilum_hooks.Manager(PROJECT)
        self._manager.add_hookspecs(hookspecs)

    # --- which plugins there are ------------------------------------------------------------------

    def find(
        self,
        wanted: Sequence[object] | None,
        chosen: PluginSettings,
        without: Sequence[str] = (),
        extra: Sequence[object] = (),
        project_files: Sequence[str] = (),
    ) -> None:
        """Decide which plugins there are, importing nothing.

        Args:
            wanted: Names, files and objects; ``None`` for all that are installed.
            chosen: What the settings allow, block and put first.
            without: Further names to block; unlike those of the settings they must be there.
            extra: Names, files and objects beside ``wanted``.
            project_files: Files of the project, which are trusted.

        Raises:
            UsageError: A name is not installed, a file is not there, or an object cannot be a
                plugin.
        """
        given = [*(wanted or ()), *extra]
        installed = all_entry_points("hilum")
        self._installed = {point.name for points in installed.values() for point in points}
        asked = [*installed] if wanted is None else []
        asked += [thing for thing in given if isinstance(thing, str) and not is_file(thing)]
        # A name in `block` may be of a plugin that has been uninstalled since: nothing to complain
        # of.
        for name in (*asked, *(chosen.allow or ()), *chosen.order):
            if normal(name) not in installed:
                raise unknown("plugin", name, self._installed)
        first = [*map(normal, chosen.order)]
        names = dict.fromkeys(map(normal, asked))
        for name in sorted(
            names, key=lambda name: first.index(name) if name in first else len(first)
        ):
            self._add_installed(installed[name])
        for name, plugin in [*self.plugins.items()]:
            if (
                normal(name) not in first
                and plugin.point
                and plugin.point.distribution.lower() not in STANDARD
            ):
                self.plugins[name] = self.plugins.pop(name)  # behind those of hilum itself
        for thing in given:
            if is_file(thing):
                self._add_file(check_file(thing))  # type: ignore[arg-type]
            elif not isinstance(thing, str):
                name, module = as_plugin(thing)
                self._add_given(Plugin(name, module))
        for path in project_files:
            self._add_file(path, project=True)
        self._block(chosen, without)

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
        """Add a plugin that is no installed one.

        Of several with one name each counts; none takes an installed one's name.
        """
        taken = {normal(name): other for name, other in self.plugins.items()}
        if any(other.point is None and _same(other, plugin) for other in self.plugins.values()):
            return
        other = taken.get(normal(plugin.name))
        if other is not None and (other.point is not None or plugin.project or other.project):
            problem = (
                f"The plugin {other.name!r} of {other.origin} and {plugin.origin} have one name."
            )
            raise UsageError(problem, hint="Rename one of them, or leave one out.")
        name = plugin.name
        number = 1
        while normal(plugin.name) in taken:
            number += 1
            plugin.name = f"{name}-{number}"
        self.plugins[plugin.name] = plugin

    def _block(self, chosen: PluginSettings, without: Sequence[str]) -> None:
        """Block what the settings and the caller leave out.

        Whatever clashes and is not blocked is a mistake.
        """
        there = {normal(name) for name in (*self._installed, *self.plugins)}
        for name in without:
            if normal(name) not in there:
                raise unknown("plugin", name, {*self._installed, *self.plugins})
        blocked = self._blocked = {*map(normal, (*chosen.block, *without))}
        allowed = there if chosen.allow is None else {*map(normal, chosen.allow)}
        for plugin in self.plugins.values():
            name = normal(plugin.name)
            if name in blocked or ((plugin.point or plugin.project) and name not in allowed):
                plugin.state = "blocked"
                plugin.error = "by the settings"
            elif plugin.state == "failed":
                self.clashes.append(plugin.error)

    # --- loading ----------------------------------------------------------------------------------

    def load(self, *, strict: bool = True) -> None:
        """Import and register every plugin: all specifications first, then implementations.

        Args:
            strict: Whether a file that was passed and does not load is an error; else it is a fault
                like any other.

        Raises:
            PluginError: An object that was passed as a plugin does not fit.
            UsageError: A file that was passed does not load, or defines no plugin.
        """
        self._strict = strict
        self._guarding = entry_points(GATES) if self._ready() else {}
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
                self.table.declare(plugin.name, names_in(plugin.module, "gates"))
                plugin.replaces = names_in(plugin.module, "replaces")
                has_hooks = self.table.add(plugin.module, plugin.name, index)
                self._check(plugin, has_hooks)
                self._manager.register(plugin.module, name=plugin.name)

    def _check(self, plugin: Plugin, has_hooks: bool) -> None:
        if not isinstance(plugin.module, ModuleType) and not has_hooks:
            hint = "Mark its methods with @hookimpl; they have the names of hooks."
            raise PluginError(f"{type(plugin.module).__name__} implements no hook.", hint=hint)
        if _is_given_file(plugin) and not has_hooks and not self._adds_specs(plugin.module):
            hint = "Mark its functions with @hookimpl; they have the names of hooks."
            raise PluginError(
                "It defines no plugin: no function in it is marked as a hook.", hint=hint
            )
        if self._in_metadata(plugin) and not self.table.gates.get(plugin.name):
            hint = 'Write in its module: gates = ("…",).'
            raise PluginError(
                f"Its distribution says that it has gates ({GATES}), and it declares none.",
                hint=hint,
            )

    def _in_metadata(self, plugin: Plugin) -> bool:
        return plugin.point is not None and plugin.point.name in self._guarding

    def _guards(self, plugin: Plugin) -> bool:
        """Return whether a plugin that cannot be imported may have gates: by its metadata, or
        because its source names one.
        """
        if self._in_metadata(plugin):
            return True
        gates = [name for name, spec in self.specs.items() if spec.guards]
        files = (
            [plugin.path] if plugin.path else sources(plugin.point.target) if plugin.point else ()
        )
        return any(mentions(read_source(file), gates) for file in files)

    @contextmanager
    def _isolated(self, plugin: Plugin) -> Iterator[None]:
        """Whatever error comes of loading a plugin is written down, its gates are closed, and the
        next one loads.
        """
        try:
            yield
        except BaseException as error:
            failure, rest = split_failure(error)
            if isinstance(
                error, trio.Cancelled
            ):  # nothing here has a checkpoint at which it could be cancelled
                failure = RuntimeError("It raised trio.Cancelled, and nothing had been cancelled.")
                rest = None
            if failure is None or rest is not None:
                raise
            fault = Fault(plugin.name, "load", failure, switched_off=True)
            self.table.forget(plugin.name)
            if (
                plugin.point is None and not plugin.path
            ):  # the caller's own code: an error where it is passed
                hint = failure.hint if isinstance(failure, PluginError) else ""
                text = failure.message if isinstance(failure, PluginError) else str(fault)
                raise PluginError(
                    f"The plugin {plugin.name!r} does not fit: {text}", hint=hint
                ) from failure
            if self._strict and _is_given_file(plugin):
                raise _file_error(plugin.path, failure) from failure
            if not self.table.gates.get(plugin.name) and self._guards(plugin):
                self.table.declare(plugin.name, [ALL_GATES])
            self._mark(plugin, "failed", fault, _reason(fault))
            if plugin.point is not None:
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
            self._manager.add_hookspecs(plugin.module)
            self.specs.update(own)

    @staticmethod
    def _adds_specs(module: ModuleType) -> dict[str, Spec]:
        """Return the hooks that a module itself specifies, by name."""
        return {
            name: value.hilum_spec_info
            for name, value in vars(module).items()
            if hasattr(value, "hilum_spec_info") and value.__module__ == module.__name__
        }

    # --- how they are doing -----------------------------------------------------------------------

    def require(self, required: Iterable[str]) -> None:
        """Have no call run without distributions that must be there.

        Args:
            required: Names of distributions; ``guard`` is short for ``hilum-guard``. Objects and
                files do not count.
        """
        for name in required:
            provided = [
                p
                for p in self.plugins.values()
                if p.point and normal(p.point.distribution) == normal(name)
            ]
            for plugin in provided:
                if plugin.state != "blocked":
                    self.table.declare(plugin.name, [ALL_GATES])
                if plugin.state in ("failed", "off"):
                    self.table.close(plugin.name, plugin.error)
            if not provided and normal(name) not in self._blocked:
                self.table.lacking = (*self.table.lacking, name)

    def fail(self, plugin: str, fault: Fault) -> None:
        """Mark a plugin as off and take its hooks out."""
        self.table.forget(plugin)
        self._mark(self.plugins[plugin], "off", fault, _reason(fault))

    def _mark(
        self, plugin: Plugin, state: Literal["failed", "off"], fault: Fault, reason: str
    ) -> None:
        plugin.state = state
        plugin.error = reason
        plugin.hook = fault.hook
        self.table.close(plugin.name, reason)

    def absent(self) -> set[str]:
        """Return names of plugins that are installed and not loaded: their settings are nobody's to
        check.
        """
        return {*self._installed, *self.plugins} - {plugin.name for plugin in self._ready()}

    def sections(self) -> list[type]:
        """Return the settings sections of the kernel and of the loaded plugins."""
        return [
            KernelSettings,
            *(section for plugin in self._ready() for section in sections_of(plugin.module)),
        ]


def _same(one: Plugin, other: Plugin) -> bool:
    return one.module is other.module and one.path == other.path


def _is_given_file(plugin: Plugin) -> bool:
    """Return whether a plugin is a file that the caller named, as ``--plugin FILE`` does."""
    return bool(plugin.path) and not plugin.project


def _file_error(path: str, failure: BaseException) -> UsageError:
    """Create the error for a file that was passed as a plugin and does not load."""
    error = hilum_hooks.single(failure)
    hint = "Correct the file, or leave it out."
    if isinstance(error, PluginError):
        return UsageError(
            f"The plugin file {path} does not fit: {error.message}",
            code=E_PLUGIN,
            hint=error.hint or hint,
        )
    number = _line_of(error, path)
    where = f"{path}, line {number}," if number else path
    if isinstance(error, SyntaxError):
        text = error.msg
    else:
        text = str(Fault("", "load", error)).partition(": ")[2]
    # The text of an exception may have several lines; what is shown is one sentence.
    said = " ".join(str(text).split())[:300].rstrip(".")
    kind = type(error).__name__
    reason = f"{kind}: {said}" if said else kind
    return UsageError(f"The plugin file {where} does not load: {reason}.", code=E_PLUGIN, hint=hint)


def _line_of(error: BaseException, path: str) -> int:
    """Return the line of a file at which an error was raised, 0 where it is not known."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 0
    number = 0
    frames = error.__traceback__
    while frames is not None:
        if frames.tb_frame.f_code.co_filename == path:
            number = frames.tb_lineno
        frames = frames.tb_next
    return number


def _reason(fault: Fault) -> str:
    """Return what failed; of a syntax error with file and line."""
    error = hilum_hooks.single(fault.error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError: {error.msg}, {error.filename}, line {error.lineno}"
    return str(fault)
