"""Calling hooks: a table of implementations, called by the shape their specification declares, each one isolated.

A failure of one implementation never reaches another, nor the caller: it becomes a fault (``report``), its contribution is
left out, and three faults in a row switch the plugin off. Gates fail closed, and stay closed when their plugin goes.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from types import CoroutineType
from typing import Any

import attrs
import trio

from hilum.errors import PluginError
from hilum.hookspecs import HOOKS, Spec, Verdict, deny

GATES = frozenset({"on_tool_call", "wrap_process", "check_result", "check_answer"})
MAX_FAULTS = 3
# Everything a plugin may throw at us, except what trio and Python use to end a program.
FAULTS = (Exception, SystemExit, GeneratorExit)


@attrs.frozen
class Impl:
    """One implementation of a hook. ``rank`` orders: tryfirst before plain before trylast, then plugins, then halves."""

    plugin: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    rank: tuple[int, int, int]


@attrs.frozen
class Fault:
    """What went wrong in a plugin."""

    plugin: str
    hook: str
    error: BaseException
    switched_off: bool = False

    def __str__(self) -> str:
        error = self.error
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, trio.TooSlowError):
            return "it took longer than its deadline"
        return f"{type(error).__name__}: {error}".rstrip(": ")


Observer = Callable[[str, str, str, float, BaseException | None], None]


class Table:
    """The hooks of a kernel or of a session.

    ``closed`` holds plugins that guard tool calls and are gone, with the reason; ``unchecked`` those that check answers.

    Args:
        report: Called with each fault, before the plugin is switched off.
        specs: Specifications by hook name; those that plugins add included.
        observers: Called after each implementation with kind ``hook``, its name, plugin, seconds and error.
    """

    def __init__(self, report: Callable[[Fault], None], specs: dict[str, Spec], observers: list[Observer]) -> None:
        self.report = report
        self.specs = specs
        self.observers = observers
        self.closed: dict[str, str] = {}
        self.unchecked: dict[str, str] = {}
        self.required: set[str] = set()
        self._impls: dict[str, list[Impl]] = {}
        self._faults: dict[str, int] = {}

    def copy(self, report: Callable[[Fault], None]) -> Table:
        """Give a table with the same implementations, for a session to add its halves to."""
        table = Table(report, self.specs, self.observers)
        table._impls = {name: list(impls) for name, impls in self._impls.items()}
        table.closed, table.unchecked, table.required = dict(self.closed), dict(self.unchecked), self.required
        return table

    def add(self, hook: str, impl: Impl) -> None:
        """Add an implementation in its place."""
        impls = self._impls.setdefault(hook, [])
        impls.append(impl)
        impls.sort(key=lambda impl: impl.rank)

    def remove(self, plugin: str, reason: str) -> None:
        """Take out all of a plugin's implementations. If it guards or is required, its gate stays closed, with the reason."""
        gone = self.names(plugin)
        if plugin in self.required or not GATES.isdisjoint(gone):
            self.closed[plugin] = reason
        if "check_answer" in gone:
            self.unchecked[plugin] = reason
        for hook, impls in self._impls.items():
            self._impls[hook] = [impl for impl in impls if impl.plugin != plugin]

    def names(self, plugin: str) -> list[str]:
        """The hooks a plugin implements."""
        return [hook for hook, impls in self._impls.items() if any(impl.plugin == plugin for impl in impls)]

    def refusal(self) -> str:
        """Why no call may run, empty if calls may run: a plugin that guards them is gone."""
        for plugin, reason in self.closed.items():
            return (
                f"The plugin {plugin} guards tool calls and is off ({reason}). No call runs until it works again "
                f"or the user takes it out by name: plugins.block = [{plugin!r}]."
            )
        return ""

    def collect(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Ask all; give (plugin, item) for every item of every answer."""
        found: list[tuple[str, Any]] = []
        for impl in list(self._impls.get(hook, ())):
            with self._guard(hook, impl):
                items = impl.function(*[arguments[name] for name in impl.arguments])
                found += [(impl.plugin, self._fitting(hook, item)) for item in items or ()]
        return found

    async def gather(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Ask all at once; give (plugin, answer) in order, without ``None``. A fault's answer is the fault."""
        impls = list(self._impls.get(hook, ()))
        answers: list[Any] = [None] * len(impls)
        waiting: list[tuple[int, Impl, CoroutineType[Any, Any, Any]]] = []
        for index, impl in enumerate(impls):
            guard = self._guard(hook, impl)
            with guard:
                value = impl.function(*[arguments[name] for name in impl.arguments])
                if type(value) is CoroutineType:
                    guard.begun = True
                    waiting.append((index, impl, value))
                else:
                    answers[index] = self._fitting(hook, value)
            answers[index] = guard.fault or answers[index]

        async def wait(index: int, impl: Impl, coroutine: CoroutineType[Any, Any, Any]) -> None:
            guard = self._guard(hook, impl)
            with guard, trio.fail_after(self.specs[hook].deadline):
                answers[index] = self._fitting(hook, await coroutine)
            answers[index] = guard.fault or answers[index]

        if len(waiting) == 1:
            await wait(*waiting[0])
        elif waiting:
            async with trio.open_nursery() as nursery:
                for job in waiting:
                    nursery.start_soon(wait, *job, name=f"hook {hook} of {job[1].plugin}")
        return [(impl.plugin, value) for impl, value in zip(impls, answers, strict=True) if value is not None]

    async def _call(self, hook: str, impl: Impl, arguments: dict[str, Any]) -> Any:
        guard = self._guard(hook, impl)
        value = None
        with guard:
            value = impl.function(*[arguments[name] for name in impl.arguments])
            if type(value) is CoroutineType:
                with trio.fail_after(self.specs[hook].deadline):
                    value = await value
            self._fitting(hook, value)
        return guard.fault or value

    def _fitting(self, hook: str, value: Any) -> Any:
        if not self.specs[hook].fits(value):
            raise TypeError(f"it gave {value!r:.80}")
        return value

    async def first(self, hook: str, **arguments: Any) -> Any:
        """Ask one after another until one answers; a fault is no answer."""
        for impl in list(self._impls.get(hook, ())):
            value = await self._call(hook, impl, arguments)
            if value is not None and not isinstance(value, Fault):
                return value
        return None

    async def pipe(self, hook: str, over: str, **arguments: Any) -> Any:
        """Hand the argument named ``over`` from one to the next.

        Raises:
            PluginError: An implementation failed; what that means is the caller's to say (denied, withheld).
        """
        for impl in list(self._impls.get(hook, ())):
            value = await self._call(hook, impl, arguments)
            if isinstance(value, Fault):
                raise PluginError(f"The plugin {impl.plugin} failed: {value}.", plugin=impl.plugin, hook=hook)
            if value is not None:
                arguments[over] = value
        return arguments[over]

    async def judge(self, hook: str, **arguments: Any) -> Verdict | None:
        """Ask all about a tool call; the strictest verdict wins, a fault or nonsense denies."""
        if reason := self.refusal():
            return deny(reason)
        strictest: Verdict | None = None
        for plugin, value in await self.gather(hook, **arguments):
            if isinstance(value, Fault):
                value = deny(f"The plugin {plugin}, which guards this, failed: {value}.")
            if strictest is None or value.rank > strictest.rank:
                strictest = value
        return strictest

    def fault(self, plugin: str, hook: str, error: BaseException) -> Fault:
        """Count a fault, report it, and switch the plugin off at the third in a row."""
        count = self._faults[plugin] = self._faults.get(plugin, 0) + 1
        fault = Fault(plugin, hook, error, switched_off=count >= MAX_FAULTS)
        if fault.switched_off:
            self.remove(plugin, f"{count} failures in a row, the last: {fault}")
        self.report(fault)
        return fault

    def _guard(self, hook: str, impl: Impl) -> _Guard:
        return _Guard(self, hook, impl)


class _Guard:
    """Isolates one implementation: what it raises becomes a fault. Cancellation passes.

    ``begun`` says that there is only a coroutine so far: whether it succeeds remains to be seen.
    """

    __slots__ = ("began", "begun", "fault", "hook", "impl", "table")

    def __init__(self, table: Table, hook: str, impl: Impl) -> None:
        self.table, self.hook, self.impl = table, hook, impl
        self.fault: Fault | None = None
        self.begun = False

    def __enter__(self) -> None:
        if self.table.observers:
            self.began = time.perf_counter()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self.begun and error is None:
            return False
        for observe in self.table.observers:
            observe("hook", self.hook, self.impl.plugin, time.perf_counter() - self.began, error)
        if error is None:
            if self.table._faults:
                self.table._faults.pop(self.impl.plugin, None)
            return False
        if not isinstance(error, FAULTS) or isinstance(error, self.table.specs[self.hook].raises):
            return False
        self.fault = self.table.fault(self.impl.plugin, self.hook, error)
        return True


def implementations(
    owner: object, plugin: str, index: int, specs: dict[str, Spec], half: bool
) -> Iterator[tuple[str, Impl]]:
    """Find the hook implementations of a plugin module or of a half, checked against the specifications.

    Raises:
        PluginError: An implementation names an unknown hook or argument, or is ``async`` where it cannot be.
    """
    for attribute, hook, options, arguments in _marked(owner, plugin, specs, half):
        order = 0 if options.get("tryfirst") else 2 if options.get("trylast") else 1
        yield hook, Impl(plugin, getattr(owner, attribute), arguments, (order, index, int(half)))


_seen: dict[tuple[object, int], list[tuple[str, str, dict[str, Any], tuple[str, ...]]]] = {}


def _marked(
    owner: object, plugin: str, specs: dict[str, Spec], half: bool
) -> list[tuple[str, str, dict[str, Any], tuple[str, ...]]]:
    """List (attribute, hook, options, argument names); the class of a half is read once."""
    key = (type(owner), len(specs))
    if half and key in _seen:
        return _seen[key]
    found = []
    for attribute in dir(owner):
        options = getattr(inspect.getattr_static(owner, attribute, None), "hilum_impl", None)
        if not isinstance(options, dict):
            continue
        function, hook = getattr(owner, attribute), options.get("specname") or attribute
        if hook not in specs:
            hint = "The hook reference lists all."
            raise PluginError(f"There is no hook {hook!r}.", plugin=plugin, hook=hook, hint=hint)
        if specs[hook].shape == "collect" and inspect.iscoroutinefunction(function):
            raise PluginError(f"{hook} must be a plain def.", plugin=plugin, hook=hook)
        names = tuple(inspect.signature(function).parameters)
        if extra := set(names) - ARGUMENTS.get(hook, set(names)):
            known = ", ".join(sorted(ARGUMENTS[hook])) or "no arguments"
            text = f"{hook} has no argument {', '.join(sorted(extra))}; it has {known}."
            raise PluginError(text, plugin=plugin, hook=hook)
        found.append((attribute, hook, options, names))
    if half:
        _seen[key] = found
    return found


def _arguments(name: str) -> set[str]:
    from hilum import hookspecs

    return set(inspect.signature(getattr(hookspecs, name)).parameters)


ARGUMENTS: dict[str, set[str]] = {name: _arguments(name) for name in HOOKS}


async def resolve(value: Any) -> Any:
    """Await a value if it is awaitable."""
    return await value if isinstance(value, Awaitable) else value
