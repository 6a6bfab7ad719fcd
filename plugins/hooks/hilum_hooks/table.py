"""Calling hooks: a table of implementations, called by the shape their specification declares, each
one isolated.

A failure of one implementation never reaches another, nor the caller: it becomes a fault
(``report``), its contribution is left out, and three faults in a row switch the plugin off. What
guards fails closed, and stays closed when its plugin goes.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, ClassVar, Self

import msgspec
import trio

from hilum_hooks.failures import single, split_failure
from hilum_hooks.specs import Spec
from hilum_hooks.supervised import call_within

MAX_FAULTS = 3
ALL_GATES = ""
"""Stands for every gate where it is not known which ones a plugin has."""


class HookError(Exception):
    """An implementation does not fit its specification, or failed where that must stop the caller.

    Args:
        message: What happened, one sentence.
        hint: What to do, may be empty.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())


class Impl(msgspec.Struct, frozen=True, eq=False):
    """One implementation of a hook.

    ``rank`` orders: tryfirst before plain before trylast, then plugins, then halves.
    """

    plugin: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    rank: tuple[int, int, int]
    waits: bool = False


class Fault(msgspec.Struct, frozen=True):
    """What went wrong in a plugin. ``text`` says it where the error itself is not kept."""

    plugin: str
    hook: str
    error: BaseException
    switched_off: bool = False
    text: str = ""

    def without_frames(self) -> Fault:
        """Return the fault as text: its error's traceback would keep alive all that the failed code
        worked with.
        """
        return msgspec.structs.replace(self, error=RuntimeError(str(self)), text=str(self))

    def __str__(self) -> str:
        if self.text:
            return self.text
        error = single(self.error)
        if isinstance(error, trio.TooSlowError):
            return f"it took longer than its deadline. {error}".rstrip(". ")
        return f"{type(error).__name__}: {_text(error)}".rstrip(": ")


def _text(error: BaseException) -> str:
    """Return an exception's text, empty where asking for it fails: its class may be a plugin's
    own.
    """
    try:
        return str(error)
    except Exception:
        return ""


# Attribute, hook, options and argument names of what is marked as an implementation.
Mark = tuple[str, str, dict[str, Any], tuple[str, ...]]
Observer = Callable[[str, str, str, float, BaseException | None], None]


class Table(msgspec.Struct, eq=False):
    """The hooks of a program, or of a part of it.

    Args:
        report: Called with each fault, after the plugin was switched off if it was the third.
        specs: Specifications by hook name; those that plugins add included.
        observers: Called after each implementation with kind ``hook``, its name, plugin, seconds
            and error.
        gates: By plugin: the gates that it has declared. ``ALL_GATES`` is among them where they are
            not known.
        closed: By gate: plugins that guard it and are not in working order, with the reason. What
            such a gate would judge does not happen. Those whose gates are not known are under
            ``ALL_GATES``.
    """

    # What implementations that do not fit, and failures in a pipe, are raised as: message and
    # ``hint``.
    error: ClassVar[type[Exception]] = HookError
    project: ClassVar[str]  # as in pluggy's markers

    report: Callable[[Fault], None]
    specs: dict[str, Spec]
    observers: list[Observer]
    gates: dict[str, set[str]] = msgspec.field(default_factory=dict)
    closed: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    _impls: dict[str, list[Impl]] = msgspec.field(default_factory=dict)
    _faults: Counter[str] = msgspec.field(default_factory=Counter)

    def copy(self, report: Callable[[Fault], None]) -> Self:
        """Return a table with the same implementations, for more to be added to."""
        return type(self)(
            report,
            self.specs,
            self.observers,
            {plugin: set(gates) for plugin, gates in self.gates.items()},
            {gate: dict(plugins) for gate, plugins in self.closed.items()},
            {name: list(impls) for name, impls in self._impls.items()},
        )

    def around(self) -> AbstractContextManager[object]:
        """Return what is entered around every implementation."""
        return nullcontext()

    # --- implementations --------------------------------------------------------------------------

    def add(self, owner: Any, plugin: str, index: int, *, half: bool = False) -> bool:
        """Add the implementations of a plugin's module, or of an object that is its half.

        Args:
            owner: The module or object.
            plugin: Name of the plugin.
            index: Its place among the plugins.
            half: Whether the owner is a half: its class is then read once, and its gates must be
                declared.

        Returns:
            Whether anything of it is marked as an implementation, those of hooks that are not there
            included.

        Raises:
            HookError: An implementation names an unknown hook or argument, is ``async`` where it
                cannot be, is not marked, or is a gate that was not declared; nothing is added.
        """
        mark = f"{self.project}_impl"
        marked, others = _marked_in_class(type(owner), mark) if half else _marked(owner, mark)  # type: ignore[arg-type]
        declared = set(self.gates.get(plugin, ()))
        # Known before anything can fail, so that a gate with a mistake is a closed one.
        names = {hook for _, hook, _, _ in marked} | set(others)
        guarding = {hook for hook in names if hook in self.specs and self.specs[hook].guards}
        self.declare(plugin, guarding)
        found = list(self._implementations(owner, plugin, (index, int(half)), marked, others))
        if half and (undeclared := guarding - declared):
            hint = (
                "Write in its module: gates ="
                f" {tuple(sorted((guarding | declared) - {ALL_GATES}))!r}."
            )
            problem = (
                f"{type(owner).__name__} implements the gate {min(undeclared)}, which its module"
                " does not declare."
            )
            raise self.error(problem, hint=hint)  # type: ignore[call-arg]
        for hook, impl in found:
            impls = self._impls.setdefault(hook, [])
            impls.append(impl)
            impls.sort(key=lambda impl: impl.rank)
        return bool(marked)

    def _implementations(
        self, owner: Any, plugin: str, place: tuple[int, int], marked: list[Mark], others: list[str]
    ) -> Iterator[tuple[str, Impl]]:
        for name in others:
            if name in self.specs:
                problem = f"{name} is not marked as a hook."
                hint = "Mark it with @hookimpl, or give it another name."
                raise self.error(problem, hint=hint)  # type: ignore[call-arg]
        for attribute, hook, options, names in marked:
            function = getattr(owner, attribute)
            problem = ""
            hint = ""
            waits = inspect.iscoroutinefunction(function)
            if hook not in self.specs:
                if options.get("optionalhook"):  # of a plugin that is not there
                    continue
                problem = f"There is no hook {hook!r}."
                hint = "The hook reference lists all."
            elif self.specs[hook].shape in ("collect", "filter") and waits:
                problem = f"{hook} must be a plain def."
            elif extra := set(names).difference(self.specs[hook].arguments):
                known = ", ".join(sorted(self.specs[hook].arguments)) or "no arguments"
                problem = f"{hook} has no argument {', '.join(sorted(extra))}; it has {known}."
            if problem:
                raise self.error(problem, hint=hint)  # type: ignore[call-arg]
            order = 0 if options.get("tryfirst") else 2 if options.get("trylast") else 1
            yield hook, Impl(plugin, function, names, (order, *place), waits)

    def remove(self, plugin: str, reason: str) -> None:
        """Take out all of a plugin's implementations, and close its gates with the reason."""
        self.close(plugin, reason)
        self.forget(plugin)

    def forget(self, plugin: str) -> None:
        """Take out all of a plugin's implementations. Its gates stay declared."""
        for hook, impls in self._impls.items():
            self._impls[hook] = [impl for impl in impls if impl.plugin != plugin]

    def names(self, plugin: str) -> list[str]:
        """Return the hooks that a plugin implements."""
        return [
            hook
            for hook, impls in self._impls.items()
            if any(impl.plugin == plugin for impl in impls)
        ]

    # --- gates ------------------------------------------------------------------------------------

    def declare(self, plugin: str, gates: Iterable[str]) -> None:
        """Declare gates of a plugin: it must implement them, and ``close`` closes them.

        Raises:
            HookError: There is no such gate.
        """
        gates = set(gates)
        for gate in gates - {ALL_GATES}:
            if gate not in self.specs or not self.specs[gate].guards:
                known = ", ".join(sorted(name for name, spec in self.specs.items() if spec.guards))
                raise self.error(f"There is no gate {gate!r}.", hint=f"Gates are {known}.")  # type: ignore[call-arg]
        if gates:
            self.gates.setdefault(plugin, set()).update(gates)

    def close(self, plugin: str, reason: str) -> None:
        """Close the gates of a plugin, if it has any."""
        for gate in self.gates.get(plugin, ()):
            self.closed.setdefault(gate, {})[plugin] = reason

    def reopen(self, plugin: str) -> None:
        """Open the gates of a plugin, which is in working order."""
        for plugins in self.closed.values():
            plugins.pop(plugin, None)

    def missing(self, plugin: str) -> list[str]:
        """Return the gates that a plugin has declared and does not implement."""
        return sorted(self.gates.get(plugin, set()) - {ALL_GATES, *self.names(plugin)})

    # --- calls ------------------------------------------------------------------------------------

    def collect(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Ask all; give (plugin, item) for every item of every answer."""
        found: list[tuple[str, Any]] = []
        for impl in self._all(hook):
            with self._guard(hook, impl):
                items = self._inline(hook, impl, [arguments[name] for name in impl.arguments])
                found += [(impl.plugin, self.specs[hook].checked(item)) for item in items or ()]
        return found

    async def gather(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Ask all at once; give (plugin, answer) in order, without ``None``.

        A fault's answer is the fault.
        """
        impls = self._all(hook)
        answers = {}

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

    def filter(self, hook: str, over: str, **arguments: Any) -> Any:
        """Hand the argument named ``over`` from one plain function to the next.

        Raises:
            HookError: An implementation failed; what that means is the caller's to say.
        """
        for impl in self._all(hook):
            with self._guard(hook, impl) as faults:
                value = _quietly(
                    self._inline, [hook, impl, [arguments[name] for name in impl.arguments]]
                )
                value = _quietly(self.specs[hook].checked, [value])
                arguments[over] = arguments[over] if value is None else value
            if faults:
                raise self.error(f"The plugin {impl.plugin} failed: {faults[0]}.")
        return arguments[over]

    async def filter_in_thread(self, hook: str, over: str, **arguments: Any) -> Any:
        """Do what ``filter`` does, with each function in a thread: for values that take long.

        Raises:
            HookError: An implementation failed, or missed its deadline.
        """
        for impl in self._all(hook):
            with self._guard(hook, impl) as faults:
                given = [arguments[name] for name in impl.arguments]
                call = partial(_quietly, impl.function, given)
                with trio.fail_after(self.specs[hook].deadline):
                    value = await trio.to_thread.run_sync(call, abandon_on_cancel=True)
                value = _quietly(self.specs[hook].checked, [value])
                arguments[over] = arguments[over] if value is None else value
            if faults:
                raise self.error(f"The plugin {impl.plugin} failed: {faults[0]}.")
        return arguments[over]

    def implemented(self, hook: str) -> bool:
        """Return whether any plugin implements a hook."""
        return bool(self._impls.get(hook))

    def _all(self, hook: str) -> list[Impl]:
        return list(self._impls.get(hook, ()))  # a copy: a fault may take a plugin out meanwhile

    async def _call(self, hook: str, impl: Impl, arguments: dict[str, Any]) -> Any:
        spec = self.specs[hook]
        given = [arguments[name] for name in impl.arguments]
        with self._guard(hook, impl) as faults:
            if impl.waits:
                name = f"hook {hook} of {impl.plugin}"
                value = await call_within(spec.deadline, impl.function, *given, name=name)
            else:
                value = self._inline(hook, impl, given)
                if inspect.isawaitable(value):
                    value = await call_within(
                        spec.deadline, _awaited, value, name=f"hook {hook} of {impl.plugin}"
                    )
            return spec.checked(value)
        return faults[0]

    def _inline(self, hook: str, impl: Impl, given: list[Any]) -> Any:
        """Call a plain function, which nothing can interrupt: one that blocked past its deadline is
        charged afterwards.
        """
        began = time.perf_counter()
        try:
            value = impl.function(*given)
        except (
            trio.Cancelled
        ) as error:  # a plain function has no checkpoint at which it could be cancelled
            raise RuntimeError(
                "It raised trio.Cancelled, and nothing had been cancelled."
            ) from error
        if time.perf_counter() - began > self.specs[hook].deadline:
            if inspect.iscoroutine(value):
                value.close()
            raise trio.TooSlowError(
                "All of hilum waited for it: write async def, and wait in a thread."
            )
        return value

    @contextmanager
    def _guard(self, hook: str, impl: Impl) -> Iterator[list[Fault]]:
        """Isolate one implementation: what it raises becomes a fault, which is in the list then.

        Cancellation passes.
        """
        faults: list[Fault] = []
        failure: BaseException | None = None
        began = time.perf_counter()
        try:
            with self.around():
                yield faults
            del self._faults[impl.plugin]
        except BaseException as error:
            failure = error
            if isinstance(error, self.specs[hook].raises):
                raise
            own, rest = split_failure(error)
            if own is not None:
                faults.append(self.fault(impl.plugin, hook, own))
            if rest is error:
                raise
            if rest is not None:
                raise rest from None
        finally:
            for observe in self.observers:
                observe("hook", hook, impl.plugin, time.perf_counter() - began, failure)

    def fault(self, plugin: str, hook: str, error: BaseException, reason: str = "") -> Fault:
        """Count a fault, report it, and switch the plugin off: at the third in a row, or at once
        for a reason.
        """
        self._faults[plugin] += 1
        count = self._faults[plugin]
        fault = Fault(plugin, hook, error, switched_off=bool(reason) or count >= MAX_FAULTS)
        if fault.switched_off:
            self.remove(plugin, f"{reason or f'{count} failures in a row, the last'}: {fault}")
        self.report(fault)
        return fault


async def _awaited(value: Any) -> Any:
    return await value


def _quietly(function: Callable[..., Any], given: list[Any]) -> Any:
    """Call a filter.

    The message of what it raises is dropped: it may quote the very text that nobody is to read.

    Raises:
        RuntimeError: The filter raised an exception; the message has only the name of its class.
    """
    problem = ""
    try:
        return function(*given)
    except Exception as error:
        problem = (
            f"it raised {type(error).__name__} (the message is left out, because it may quote the"
            " text)"
        )
    raise RuntimeError(problem)


def _marked(owner: Any, mark: str) -> tuple[list[Mark], list[str]]:
    """Return what is marked as an implementation, and the names of other functions."""
    found = []
    others = []
    # Nothing is looked up that could run code, except in modules, where looking statically is slow
    # and there is nothing to run.
    if isinstance(owner, ModuleType):
        own = dict(vars(owner))
    elif isinstance(owner, type):
        own = {
            name: value for kind in reversed(owner.__mro__) for name, value in vars(kind).items()
        }
    else:
        own = {name: inspect.getattr_static(owner, name, None) for name in dir(owner)}
    for attribute, value in own.items():
        options = getattr(value, mark, None)
        if isinstance(options, dict):
            names = [
                name
                for name in inspect.signature(getattr(owner, attribute)).parameters
                if name != "self"
            ]
            found.append((attribute, options.get("specname") or attribute, options, tuple(names)))
        elif isinstance(value, FunctionType) and not hasattr(value, mark.replace("_impl", "_spec")):
            others += [] if _imported(owner, value) else [attribute]
    return found, others


def _imported(owner: Any, function: FunctionType) -> bool:
    """Return whether a module has a function from elsewhere: ``from hilum import open_kernel``
    implements nothing.
    """
    return isinstance(owner, ModuleType) and function.__module__ != owner.__name__


_marked_in_class = functools.cache(_marked)  # the class of a half is read once
