"""Calling hooks: a table of implementations, called by the shape their specification declares, each one isolated.

A failure of one implementation never reaches another, nor the caller: it becomes a fault (``report``), its contribution is
left out, and three faults in a row switch the plugin off. What guards fails closed, and stays closed when its plugin goes.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CoroutineType, ModuleType
from typing import Any, ClassVar, Self

import msgspec
import trio

from hilum_hooks.specs import Spec

MAX_FAULTS = 3
# Everything a plugin may throw at us, except what trio and Python use to end a program.
FAULTS = (Exception, SystemExit, GeneratorExit)


class HookError(Exception):
    """An implementation does not fit its specification, or failed where that must stop the caller.

    Args:
        message: What happened, one sentence.
        hint: What to do, may be empty.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())


class Impl(msgspec.Struct, frozen=True, eq=False):
    """One implementation of a hook. ``rank`` orders: tryfirst before plain before trylast, then plugins, then halves."""

    plugin: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    rank: tuple[int, int, int]
    waits: bool = False


class Fault(msgspec.Struct, frozen=True):
    """What went wrong in a plugin."""

    plugin: str
    hook: str
    error: BaseException
    switched_off: bool = False

    def __str__(self) -> str:
        error = single(self.error)
        if isinstance(error, trio.TooSlowError):
            return "it took longer than its deadline"
        return f"{type(error).__name__}: {error}".rstrip(": ")


Observer = Callable[[str, str, str, float, BaseException | None], None]


class Table(msgspec.Struct, eq=False):
    """The hooks of a program, or of a part of it.

    Args:
        report: Called with each fault, after the plugin was switched off if it was the third.
        specs: Specifications by hook name; those that plugins add included.
        observers: Called after each implementation with kind ``hook``, its name, plugin, seconds and error.
        required: Plugins that count as guards, whatever they implement.
        closed: By hook that guards: plugins that implemented it and are gone, with the reason. Those that were required
            stand under the empty name.
    """

    # What implementations that do not fit, and failures in a pipe, are raised as: message and ``hint``.
    error: ClassVar[type[Exception]] = HookError
    project: ClassVar[str]  # as in pluggy's markers

    report: Callable[[Fault], None]
    specs: dict[str, Spec]
    observers: list[Observer]
    required: set[str] = msgspec.field(default_factory=set)
    closed: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    _impls: dict[str, list[Impl]] = msgspec.field(default_factory=dict)
    _faults: Counter[str] = msgspec.field(default_factory=Counter)

    def copy(self, report: Callable[[Fault], None]) -> Self:
        """Give a table with the same implementations, for more to be added to."""
        impls = {name: list(impls) for name, impls in self._impls.items()}
        closed = {name: dict(plugins) for name, plugins in self.closed.items()}
        return type(self)(report, self.specs, self.observers, self.required, closed, impls)

    def add(self, owner: Any, plugin: str, index: int, *, half: bool = False) -> None:
        """Add the implementations of a plugin's module, or of an object that is its half.

        Args:
            owner: The module or object.
            plugin: Name of the plugin.
            index: Its place among the plugins.
            half: Whether the owner is a half: its class is then read once.

        Raises:
            HookError: An implementation names an unknown hook or argument, or is ``async`` where it cannot be; nothing is
                added.
        """
        for hook, impl in list(self._implementations(owner, plugin, index, half)):
            impls = self._impls.setdefault(hook, [])
            impls.append(impl)
            impls.sort(key=lambda impl: impl.rank)

    def _implementations(self, owner: Any, plugin: str, index: int, half: bool) -> Iterator[tuple[str, Impl]]:
        mark = f"{self.project}_impl"
        marked = _marked_in_class(type(owner), mark) if half else _marked(owner, mark)  # type: ignore[arg-type]  # hashable
        for attribute, hook, options, names in marked:
            function, problem, hint = getattr(owner, attribute), "", ""
            waits = inspect.iscoroutinefunction(function)
            if hook not in self.specs:
                if options.get("optionalhook"):  # of a plugin that is not there
                    continue
                problem, hint = f"There is no hook {hook!r}.", "The hook reference lists all."
            elif self.specs[hook].shape == "collect" and waits:
                problem = f"{hook} must be a plain def."
            elif extra := set(names).difference(self.specs[hook].arguments):
                known = ", ".join(sorted(self.specs[hook].arguments)) or "no arguments"
                problem = f"{hook} has no argument {', '.join(sorted(extra))}; it has {known}."
            if problem:
                raise self.error(problem, hint=hint)  # type: ignore[call-arg]
            order = 0 if options.get("tryfirst") else 2 if options.get("trylast") else 1
            yield hook, Impl(plugin, function, names, (order, index, int(half)), waits)

    def remove(self, plugin: str, reason: str) -> None:
        """Take out all of a plugin's implementations. What it guarded stays closed, with the reason."""
        for hook in self.names(plugin):
            if self.specs[hook].guards:
                self.closed.setdefault(hook, {})[plugin] = reason
        if plugin in self.required:
            self.closed.setdefault("", {})[plugin] = reason
        self.forget(plugin)

    def forget(self, plugin: str) -> None:
        """Take out all of a plugin's implementations, as if it had never been there."""
        for hook, impls in self._impls.items():
            self._impls[hook] = [impl for impl in impls if impl.plugin != plugin]

    def names(self, plugin: str) -> list[str]:
        """The hooks a plugin implements."""
        return [hook for hook, impls in self._impls.items() if any(impl.plugin == plugin for impl in impls)]

    def collect(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Ask all; give (plugin, item) for every item of every answer."""
        found: list[tuple[str, Any]] = []
        for impl in self._all(hook):
            with self._guard(hook, impl):
                items = impl.function(*[arguments[name] for name in impl.arguments])
                found += [(impl.plugin, self.specs[hook].checked(item)) for item in items or ()]
        return found

    async def gather(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Ask all at once; give (plugin, answer) in order, without ``None``. A fault's answer is the fault."""
        impls, answers = self._all(hook), {}

        async def ask(impl: Impl) -> None:
            answers[impl] = await self._call(hook, impl, arguments)

        waiting = [impl for impl in impls if impl.waits]
        if len(waiting) > 1:
            async with trio.open_nursery() as nursery:
                for impl in waiting:
                    nursery.start_soon(ask, impl, name=f"hook {hook} of {impl.plugin}")
        for impl in impls:
            if impl not in answers:
                await ask(impl)
        return [(impl.plugin, answers[impl]) for impl in impls if answers[impl] is not None]

    async def first(self, hook: str, **arguments: Any) -> Any:
        """Ask one after another until one answers; a fault is no answer."""
        for impl in self._all(hook):
            value = await self._call(hook, impl, arguments)
            if value is not None and not isinstance(value, Fault):
                return value
        return None

    async def pipe(self, hook: str, over: str, **arguments: Any) -> Any:
        """Hand the argument named ``over`` from one to the next.

        Raises:
            HookError: An implementation failed; what that means is the caller's to say.
        """
        for impl in self._all(hook):
            value = await self._call(hook, impl, arguments)
            if isinstance(value, Fault):
                raise self.error(f"The plugin {impl.plugin} failed: {value}.")
            if value is not None:
                arguments[over] = value
        return arguments[over]

    def _all(self, hook: str) -> list[Impl]:
        return list(self._impls.get(hook, ()))  # a copy: a fault may take a plugin out meanwhile

    async def _call(self, hook: str, impl: Impl, arguments: dict[str, Any]) -> Any:
        with self._guard(hook, impl) as faults:
            value = impl.function(*[arguments[name] for name in impl.arguments])
            if type(value) is CoroutineType:
                with trio.fail_after(self.specs[hook].deadline):
                    value = await value
            return self.specs[hook].checked(value)
        return faults[0]

    @contextmanager
    def _guard(self, hook: str, impl: Impl) -> Iterator[list[Fault]]:
        """Isolate one implementation: what it raises becomes a fault, which is in the list then. Cancellation passes."""
        faults: list[Fault] = []
        began, failure = time.perf_counter(), None
        try:
            yield faults
            del self._faults[impl.plugin]
        except BaseException as error:
            failure = error
            if not isinstance(error, FAULTS) or isinstance(error, self.specs[hook].raises):
                raise
            faults.append(self.fault(impl.plugin, hook, error))
        finally:
            for observe in self.observers:
                observe("hook", hook, impl.plugin, time.perf_counter() - began, failure)

    def fault(self, plugin: str, hook: str, error: BaseException, reason: str = "") -> Fault:
        """Count a fault, report it, and switch the plugin off: at the third in a row, or at once for a reason."""
        self._faults[plugin] += 1
        count = self._faults[plugin]
        fault = Fault(plugin, hook, error, switched_off=bool(reason) or count >= MAX_FAULTS)
        if fault.switched_off:
            self.remove(plugin, f"{reason or f'{count} failures in a row, the last'}: {fault}")
        self.report(fault)
        return fault


def single(error: BaseException) -> BaseException:
    """Give the one exception in a group, or in groups in it; anything else as it is."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _marked(owner: Any, mark: str) -> list[tuple[str, str, dict[str, Any], tuple[str, ...]]]:
    """List (attribute, hook, options, argument names) of what is marked as an implementation."""
    found = []
    # Nothing is looked up that could run code, except in modules, where looking statically is slow and there is nothing to run.
    if isinstance(owner, ModuleType):
        own = dict(vars(owner))
    elif isinstance(owner, type):
        own = {name: value for kind in reversed(owner.__mro__) for name, value in vars(kind).items()}
    else:
        own = {name: inspect.getattr_static(owner, name, None) for name in dir(owner)}
    for attribute, value in own.items():
        options = getattr(value, mark, None)
        if isinstance(options, dict):
            names = [name for name in inspect.signature(getattr(owner, attribute)).parameters if name != "self"]
            found.append((attribute, options.get("specname") or attribute, options, tuple(names)))
    return found


_marked_in_class = functools.cache(_marked)  # the class of a half is read once
