"""The table of implementations, which calls hooks.

The shape that a specification declares decides how implementations are called. Each implementation
is isolated: its failure never reaches another implementation or the caller. The failure is reported
(``report``), the implementation's contribution is left out, and three failures in a row switch the
plugin off. Gates fail closed, and stay closed when their plugin is switched off.
"""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Self

import trio

from hilum.hooks.current import running_plugin
from hilum.hooks.failures import (
    HookError,
    Mistake,
    PluginFailure,
    locate_function,
    split_failure,
    suggest,
)
from hilum.hooks.registry import (
    Contribution,
    Implementation,
    Registry,
    read_class_marks,
    read_marks,
)
from hilum.hooks.specs import Spec, WrongAnswer
from hilum.hooks.supervised import call_within

MAX_FAILURES = 3
ALL_GATES = ""
"""Stands for every gate when it is not known which gates a plugin has."""


Observer = Callable[[str, str, str, float, BaseException | None], None]
SlowReporter = Callable[[str, str, float, dict[str, Any], BaseException | None], None]


class Table:
    """The hooks of a program or a part of the program.

    Args:
        report: Called with each failure; at the third failure in a row, the plugin is already off.
        specs: Specifications by hook name, including those that plugins add.
        observers: Called after each implementation, with the kind ``hook``, the hook's name, the
            plugin, the seconds and the error.
        registry: The existing implementations; none by default.

    Attributes:
        registry: The implementations as stored by pluggy.
        gates: The declared gates by plugin; ``ALL_GATES`` is among them if they are not known.
        closed: For each gate, the plugins that implement it and are not working, each with the
            reason. A call that a closed gate would judge is refused. Plugins whose gates are not
            known are listed under ``ALL_GATES``.
        slow_after: Seconds after which a call of an implementation counts as slow.
        report_slow: Called after each slow call with the hook, the plugin, the seconds, the
            arguments of the hook and the error.
    """

    # The class of the errors to raise for implementations that do not fit their hooks, and for
    # failures in a pipe. The class takes a message and a ``hint``.
    error: ClassVar[type[Exception]] = HookError
    project: ClassVar[str]  # as in pluggy's markers

    def __init__(
        self,
        report: Callable[[PluginFailure], None],
        specs: dict[str, Spec],
        observers: list[Observer],
        registry: Registry | None = None,
    ) -> None:
        self.report = report
        self.specs = specs
        self.observers = observers
        self.registry: Registry = registry or Registry(self.project, specs, self.error)
        self.gates: dict[str, set[str]] = {}
        self.closed: dict[str, dict[str, str]] = {}
        self.slow_after: float = float("inf")
        self.report_slow: SlowReporter | None = None
        self._failures: Counter[str] = Counter()

    def copy(self, report: Callable[[PluginFailure], None]) -> Self:
        """Return a table with the same implementations, to which more can be added."""
        copy = type(self)(report, self.specs, self.observers, self.registry.copy())
        copy.gates = {plugin: set(gates) for plugin, gates in self.gates.items()}
        copy.closed = {gate: dict(plugins) for gate, plugins in self.closed.items()}
        return copy

    def around(self) -> AbstractContextManager[object]:
        """Return the context in which every implementation is called."""
        return nullcontext()

    # --- implementations --------------------------------------------------------------------------

    def add(
        self,
        owner: Any,
        plugin: str,
        index: int,
        *,
        instance: bool = False,
        mistakes: Sequence[Mistake] = (),
    ) -> bool:
        """Add the implementations of a plugin's module, or of an object that is its instance.

        Args:
            owner: The module or object.
            plugin: Name of the plugin.
            index: The plugin's position in the order of the plugins.
            instance: Whether the owner is an instance, whose class is read only once and whose
                gates must be declared.
            mistakes: Mistakes in the plugin that were already found; see ``Registry.add``.

        Returns:
            Whether the owner has a function that is marked as an implementation, even of an unknown
            hook.

        Raises:
            HookError: An implementation names an unknown hook or argument, is ``async`` although
                its hook does not allow that, is not marked, or is a gate that was not declared.
                Nothing is added, and the error lists every mistake.
        """
        mark = f"{self.project}_impl"
        if instance:
            kind: type = type(owner)
            marks, others = read_class_marks(kind, mark)
        else:
            marks, others = read_marks(owner, mark)
        contribution = Contribution(plugin, (index, instance), owner, marks)
        hooks = {hook for hook, _, _ in contribution.functions()}
        undeclared = self._declare_implemented(plugin, hooks | set(others))
        found = [*mistakes]
        for name in others:
            # The author probably forgot the mark. If the function were ignored, nobody would
            # notice that a gate is missing.
            if name in self.specs:
                hint = "Mark it with @hookimpl, or give it another name."
                place = locate_function(inspect.getattr_static(owner, name))
                found.append(Mistake(f"{name} is not marked as a hook.", hint, place))
        if instance and undeclared:
            gates = tuple(sorted(self.gates[plugin] - {ALL_GATES}))
            problem = (
                f"{type(owner).__name__} implements the gate {min(undeclared)}, which its module"
                " does not declare."
            )
            found.append(Mistake(problem, f"Write in its module: gates = {gates!r}."))
        self.registry.add(contribution, found)
        return bool(marks)

    def _declare_implemented(self, plugin: str, names: Iterable[str]) -> set[str]:
        """Declare the gates among the names of a plugin's functions.

        The gates are declared before the registration can fail, so that a gate whose implementation
        has a mistake is closed.

        Returns:
            The gates that the plugin itself did not declare.
        """
        declared = set(self.gates.get(plugin, ()))
        guarding = {name for name in names if name in self.specs and self.specs[name].guards}
        self.declare(plugin, guarding)
        return guarding - declared

    def _failure(self, problem: str, hint: str = "") -> Exception:
        return self.error(problem, hint=hint)  # type: ignore[call-arg]

    def remove(self, plugin: str, reason: str) -> None:
        """Remove all of a plugin's implementations, and close its gates with the reason."""
        self.close(plugin, reason)
        self.forget(plugin)

    def forget(self, plugin: str) -> None:
        """Remove all of a plugin's implementations. Its gates remain declared."""
        self.registry.remove(plugin)

    def names(self, plugin: str) -> list[str]:
        """Return the hooks that a plugin implements."""
        return self.registry.hooks_of(plugin)

    # --- gates ------------------------------------------------------------------------------------

    def declare(self, plugin: str, gates: Iterable[str]) -> None:
        """Declare a plugin's gates, which the plugin must implement and ``close`` closes.

        Raises:
            HookError: The gate does not exist.
        """
        gates = set(gates)
        for gate in gates - {ALL_GATES}:
            if gate not in self.specs or not self.specs[gate].guards:
                known = sorted(name for name, spec in self.specs.items() if spec.guards)
                hint = suggest(gate, known) or f"Gates are {', '.join(known)}."
                raise self._failure(f"There is no gate {gate!r}.", hint)
        if gates:
            self.gates.setdefault(plugin, set()).update(gates)

    def close(self, plugin: str, reason: str) -> None:
        """Close the gates of a plugin, if it has any."""
        for gate in self.gates.get(plugin, ()):
            self.closed.setdefault(gate, {})[plugin] = reason

    def reopen(self, plugin: str) -> None:
        """Open the gates that ``close`` closed, because their plugin works again."""
        for plugins in self.closed.values():
            plugins.pop(plugin, None)

    def missing(self, plugin: str) -> list[str]:
        """Return the gates that a plugin declares but does not implement."""
        declared = self.gates.get(plugin, set()) - {ALL_GATES}
        if not declared:  # most plugins have no gates
            return []
        return sorted(declared.difference(self.names(plugin)))

    # --- calls ------------------------------------------------------------------------------------

    def collect(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Call all implementations; return (plugin, item) for every item in every result."""
        found: list[tuple[str, Any]] = []
        check = self.specs[hook].checked
        for impl in self.registry.implementations(hook):
            with self._guard(hook, impl, arguments):
                items = self._inline(hook, impl, _arguments(impl, arguments))
                if items is not None and not isinstance(items, Iterable):
                    items = [items]  # the type check below reports the mistake
                found += [(impl.plugin, check(item)) for item in items or ()]
        return found

    async def gather(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Call all implementations at once; return (plugin, result) in order, without ``None``.

        The result of an implementation that failed is its ``PluginFailure``.
        """
        impls = self.registry.implementations(hook)
        answers = {}

        async def ask(impl: Implementation) -> None:
            answers[impl] = await self._call(hook, impl, arguments)

        waiting = [impl for impl in impls if impl.is_async]
        # A single implementation is awaited below: a nursery and a task would cost more than most
        # hooks.
        if len(waiting) > 1:
            async with trio.open_nursery() as nursery:
                for impl in waiting:
                    nursery.start_soon(ask, impl, name=f"hook {hook} of {impl.plugin}")
        for impl in impls:
            if impl not in answers:
                answers[impl] = await self._call(hook, impl, arguments)
        return [(impl.plugin, answers[impl]) for impl in impls if answers[impl] is not None]

    async def first(self, hook: str, **arguments: Any) -> Any:
        """Call implementations in order until one returns a value; skip those that fail."""
        _, value = await self.first_with_plugin(hook, **arguments)
        return value

    async def first_with_plugin(self, hook: str, **arguments: Any) -> tuple[str, Any]:
        """Return the result of ``first`` with its plugin; ``("", None)`` if there is none."""
        for impl in self.registry.implementations(hook):
            value = await self._call(hook, impl, arguments)
            if value is not None and not isinstance(value, PluginFailure):
                return impl.plugin, value
        return "", None

    async def pipe(self, hook: str, over: str, **arguments: Any) -> Any:
        """Pass the argument named ``over`` from one implementation to the next.

        Raises:
            HookError: An implementation failed; the caller decides what that means.
        """
        for impl in self.registry.implementations(hook):
            value = await self._call(hook, impl, arguments)
            if isinstance(value, PluginFailure):
                raise self.error(f"The plugin {impl.plugin} failed: {value}.")
            if value is not None:
                arguments[over] = value
        return arguments[over]

    def filter(self, hook: str, over: str, **arguments: Any) -> Any:
        """Pass the argument named ``over`` from one plain function to the next.

        Raises:
            HookError: An implementation failed; the caller decides what that means.
        """
        spec = self.specs[hook]
        for impl in self.registry.implementations(hook):
            with self._guard(hook, impl, arguments) as faults:
                value = _quietly(self._inline, [hook, impl, _arguments(impl, arguments)])
                value = _quietly(spec.checked, [value])
                if value is not None:
                    arguments[over] = value
            if faults:
                raise self.error(f"The plugin {impl.plugin} failed: {faults[0]}.")
        return arguments[over]

    async def filter_in_thread(self, hook: str, over: str, **arguments: Any) -> Any:
        """Run ``filter`` with each function in a thread, for values that take long to process.

        Raises:
            HookError: An implementation failed or missed its deadline.
        """
        spec = self.specs[hook]
        for impl in self.registry.implementations(hook):
            with self._guard(hook, impl, arguments) as faults:
                call = partial(_quietly, impl.function, _arguments(impl, arguments))
                with trio.fail_after(spec.deadline):
                    # A regular expression that backtracks cannot be interrupted, so its thread
                    # is abandoned at the deadline.
                    value = await trio.to_thread.run_sync(call, abandon_on_cancel=True)
                value = _quietly(spec.checked, [value])
                if value is not None:
                    arguments[over] = value
            if faults:
                raise self.error(f"The plugin {impl.plugin} failed: {faults[0]}.")
        return arguments[over]

    def implemented(self, hook: str) -> bool:
        """Return whether any plugin implements a hook."""
        return bool(self.registry.implementations(hook))

    async def _call(self, hook: str, impl: Implementation, arguments: dict[str, Any]) -> Any:
        spec = self.specs[hook]
        given = _arguments(impl, arguments)
        with self._guard(hook, impl, arguments) as faults:
            if impl.is_async:
                function = impl.function
            else:
                value = self._inline(hook, impl, given)
                if value is None:
                    return None
                # A functools.partial of a coroutine function, for example, is not recognized as
                # async.
                if not inspect.isawaitable(value):
                    return spec.checked(value)
                function = _awaited
                given = [value]
            name = f"hook {hook} of {impl.plugin}"
            deadline = impl.deadline or spec.deadline
            return spec.checked(await call_within(deadline, function, *given, name=name))
        return faults[0]

    def _inline(self, hook: str, impl: Implementation, given: list[Any]) -> Any:
        """Call a plain function, which cannot be interrupted.

        If the function blocks past its deadline, the call counts as failed when it returns.
        """
        began = time.perf_counter()
        try:
            value = impl.function(*given)
        except trio.Cancelled as error:
            # A plain function has no checkpoint at which it could be cancelled.
            message = "The plugin raised trio.Cancelled although nothing was cancelled."
            raise RuntimeError(message) from error
        if time.perf_counter() - began > self.specs[hook].deadline:
            if inspect.iscoroutine(value):
                # An unclosed coroutine would make Python warn that it was never awaited.
                value.close()
            raise trio.TooSlowError(
                "The function blocked all of hilum: write async def, and block only in a thread."
            )
        return value

    def _guard(self, hook: str, impl: Implementation, arguments: dict[str, Any]) -> _Isolation:
        """Isolate one implementation, whose exceptions become failures in the yielded list.

        A cancellation propagates.
        """
        return _Isolation(self, hook, impl, arguments)

    def _note_end(
        self,
        hook: str,
        impl: Implementation,
        failure: BaseException | None,
        faults: list[PluginFailure],
    ) -> bool:
        """Note the end of an implementation.

        Args:
            hook: The hook.
            impl: The implementation.
            failure: The exception that it raised.
            faults: Receives the failure.

        Returns:
            Whether the exception is handled; otherwise, it propagates.
        """
        if failure is None:
            # Only failures in a row count.
            del self._failures[impl.plugin]
            return False
        if isinstance(failure, self.specs[hook].raises):
            return False
        own, rest = split_failure(failure)
        if own is not None:
            if isinstance(own, WrongAnswer):
                own = WrongAnswer(f"{own} ({locate_function(impl.function)})")
            faults.append(self.record_failure(impl.plugin, hook, own))
        if rest is failure:
            return False
        if rest is not None:
            raise rest from None
        return True

    def _observe(
        self,
        hook: str,
        impl: Implementation,
        seconds: float,
        arguments: dict[str, Any],
        failure: BaseException | None,
    ) -> None:
        for observe in self.observers:
            observe("hook", hook, impl.plugin, seconds, failure)
        if seconds > self.slow_after and self.report_slow is not None:
            self.report_slow(hook, impl.plugin, seconds, arguments, failure)

    def record_failure(
        self, plugin: str, hook: str, error: BaseException, reason: str = ""
    ) -> PluginFailure:
        """Count a failure and report it.

        The third failure in a row, or a failure with a ``reason``, switches the plugin off.
        """
        self._failures[plugin] += 1
        count = self._failures[plugin]
        is_off = bool(reason) or count >= MAX_FAILURES
        fault = PluginFailure(plugin, hook, error, switched_off=is_off)
        if is_off:
            reason = reason or f"{count} failures in a row, the last"
            # The gates are closed before the report, so that its readers already find them closed.
            self.remove(plugin, f"{reason}: {fault}")
        self.report(fault)
        return fault


class _Isolation:
    """The context of one call of an implementation.

    It is a class, because a turn calls 28 hooks, and a generator would take three times as long.
    """

    __slots__ = (
        "_arguments",
        "_around",
        "_began",
        "_faults",
        "_hook",
        "_impl",
        "_running",
        "_table",
    )

    def __init__(
        self, table: Table, hook: str, impl: Implementation, arguments: dict[str, Any]
    ) -> None:
        self._table = table
        self._hook = hook
        self._impl = impl
        self._arguments = arguments
        self._faults: list[PluginFailure] = []
        self._around = table.around()
        self._running = running_plugin(impl.plugin)

    def __enter__(self) -> list[PluginFailure]:
        self._began = time.perf_counter()
        self._around.__enter__()
        self._running.__enter__()
        return self._faults

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._running.__exit__(kind, failure, traceback)
        self._around.__exit__(kind, failure, traceback)
        table = self._table
        try:
            return table._note_end(self._hook, self._impl, failure, self._faults)
        finally:
            seconds = time.perf_counter() - self._began
            table._observe(self._hook, self._impl, seconds, self._arguments, failure)


def _arguments(impl: Implementation, arguments: dict[str, Any]) -> list[Any]:
    """Return the arguments that an implementation takes, in the implementation's order."""
    return [arguments[name] for name in impl.arguments]


async def _awaited(value: Any) -> Any:
    return await value


def _quietly(function: Callable[..., Any], given: list[Any]) -> Any:
    """Call a filter.

    The message of an exception is dropped, because it may quote the text with its secrets.

    Raises:
        RuntimeError: The filter raised an exception; only its class is named.
    """
    problem = ""
    try:
        return function(*given)
    except Exception as error:
        problem = (
            f"it raised {type(error).__name__} (the message is left out, because it may quote the"
            " text)"
        )
    # The new error is raised outside the except block, so that the original exception is not kept
    # as its context.
    raise RuntimeError(problem)
