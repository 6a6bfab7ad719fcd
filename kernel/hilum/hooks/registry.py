"""Registration: pluggy stores, checks and orders the plugins' hook implementations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeVar, cast

import msgspec
import pluggy

from hilum.hooks.failures import HookError, Mistake, locate_function, make_error, suggest
from hilum.hooks.specs import Spec

# The options of markers, as pluggy writes them, by name of the marked attribute.
Marks = Mapping[str, Any]
# The attribute of a function that `hook_deadline` sets.
DEADLINE = "hilum_hook_deadline"
F = TypeVar("F", bound=Callable[..., Any])


def hook_deadline(seconds: float) -> Callable[[F], F]:
    """Return a decorator that gives an implementation a longer deadline than its hook has.

    Use it only for an implementation that waits for something with a time limit of its own, such as
    a program of the user. The call that the hook belongs to waits as long.

    Args:
        seconds: Maximum number of seconds that the implementation may take.
    """

    def mark(function: F) -> F:
        setattr(function, DEADLINE, seconds)
        return function

    return mark


class Implementation(msgspec.Struct, frozen=True, eq=False):
    """One implementation of a hook, ready to be called.

    Attributes:
        plugin: Name of the plugin.
        function: The function to call.
        arguments: Names of the arguments that the function takes, in order.
        is_async: Whether the function is a coroutine function.
        deadline: Maximum number of seconds that the function may take, if it is not that of the
            specification (see ``hook_deadline``); 0 otherwise.
    """

    plugin: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    is_async: bool = False
    deadline: float = 0.0


class Contribution:
    """The marked functions of a plugin's module or instance: what pluggy registers.

    A ``Contribution`` is registered in place of the plugin's own object. pluggy compares registered
    objects with ``==``, which may run the plugin's code, and two plugins may yield equal objects.

    Args:
        plugin: Name of the plugin.
        place: Position in the order of calls: the index of the plugin, and whether the owner is an
            instance.
        owner: The module or object.
        marks: The owner's marked attributes.
    """

    __slots__ = ("__dict__", "_marks", "_place", "_plugin")

    def __init__(self, plugin: str, place: tuple[int, bool], owner: object, marks: Marks) -> None:
        self._plugin = plugin
        self._place = place
        self._marks = marks
        for attribute in marks:
            setattr(self, attribute, getattr(owner, attribute))

    def functions(self) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
        """Yield the hook, the marker's options and the function of each implementation."""
        for attribute, options in self._marks.items():
            yield options["specname"] or attribute, options, vars(self)[attribute]

    def __dir__(self) -> Iterable[str]:
        # pluggy looks at every name that dir() returns. With all names, this would take half of the
        # time that a session needs to register its plugins.
        return list(self._marks)


class Registry(pluggy.PluginManager):
    """The implementations of a kernel's plugins, or of a session's.

    Args:
        project: The project name of the pluggy markers.
        specs: Specifications by hook name.
        error: The class of the errors to raise, which takes a message and a ``hint``.
    """

    def __init__(
        self, project: str, specs: Mapping[str, Spec], error: type[Exception] = HookError
    ) -> None:
        super().__init__(project)
        self._error = error
        self._specs: dict[str, Spec] = {}
        self._by_plugin: dict[str, list[Contribution]] = {}
        self._called: dict[str, tuple[Implementation, ...]] = {}
        self.specify(specs)

    def copy(self) -> Registry:
        """Return a registry with the same implementations, to which more can be added."""
        copy = Registry(self.project_name, self._specs, self._error)
        for contributions in self._by_plugin.values():
            for contribution in contributions:
                copy.add(contribution)
        return copy

    def specify(self, specs: Mapping[str, Spec]) -> None:
        """Add specifications."""
        if specs:
            module = ModuleType("specifications")
            vars(module).update((name, spec.function) for name, spec in specs.items())
            self.add_hookspecs(module)
            self._specs.update(specs)

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        """Return the options of a specification's marker; ``None`` for other names."""
        return getattr(vars(module_or_class).get(name), f"{self.project_name}_spec", None)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """Return the options of an implementation's marker.

        The options were already read, without running any of the plugin's code.
        """
        return plugin._marks[name]

    def add(self, contribution: Contribution, mistakes: Sequence[Mistake] = ()) -> None:
        """Register the implementations of a plugin's module or instance.

        Args:
            contribution: The implementations.
            mistakes: Mistakes in the plugin that were already found. If the list is not empty,
                nothing is registered, and the error lists these mistakes together with new ones.

        Raises:
            HookError: An implementation does not fit its specification. In that case, nothing is
                registered, and the error lists every mistake.
        """
        if mistakes or any(self._check_call(*each) for each in contribution.functions()):
            found = [*mistakes, *self._find_mistakes(contribution)]
            raise make_error(found, self._error)
        name = f"{contribution._plugin} {contribution._place}"
        try:
            self.register(contribution, name)
            self.check_pending()
        except pluggy.PluginValidationError as error:
            # pluggy stops at the first mistake and does not report its location.
            self.unregister(name=name)
            found = self._find_mistakes(contribution) or [Mistake(str(error))]
            raise make_error(found, self._error) from error
        self._by_plugin.setdefault(contribution._plugin, []).append(contribution)
        self._called.clear()

    def remove(self, plugin: str) -> None:
        """Remove the implementations of a plugin."""
        for contribution in self._by_plugin.pop(plugin, ()):
            self.unregister(contribution)
        self._called.clear()

    def hooks_of(self, plugin: str) -> list[str]:
        """Return the hooks that a plugin implements."""
        found: dict[str, None] = {}
        for contribution in self._by_plugin.get(plugin, ()):
            callers = self.get_hookcallers(contribution) or ()
            found.update((caller.name, None) for caller in callers if caller.has_spec())
        return list(found)

    def implementations(self, hook: str) -> tuple[Implementation, ...]:
        """Return the implementations of a hook in the order in which they are called."""
        called = self._called.get(hook)
        if called is None:
            called = tuple(self._in_order(hook))
            self._called[hook] = called
        return called

    def _in_order(self, hook: str) -> Iterator[Implementation]:
        """Yield the implementations of a hook.

        pluggy orders implementations by ``tryfirst`` and ``trylast``. Within such a rank, pluggy
        would call the last registered implementation first. hilum calls implementations in plugin
        order, a module before its instance, no matter when a plugin opened.
        """
        caller = getattr(self.hook, hook, None)
        if caller is None:
            return
        impls = reversed(caller.get_hookimpls())
        for _, rank in groupby(impls, key=lambda impl: (impl.tryfirst, impl.trylast)):
            for impl in sorted(rank, key=lambda impl: cast(Any, impl.plugin)._place):
                yield Implementation(
                    cast(Any, impl.plugin)._plugin,
                    impl.function,
                    (*impl.argnames, *impl.kwargnames),
                    inspect.iscoroutinefunction(impl.function),
                    getattr(impl.function, DEADLINE, 0.0),
                )

    # --- validation -------------------------------------------------------------------------------

    def _find_mistakes(self, contribution: Contribution) -> list[Mistake]:
        """Return each mistake in implementations that do not fit their hooks, with its location."""
        found = []
        for each in contribution.functions():
            mistake = self._check_call(*each) or self._check_names(*each)
            if mistake is not None:
                found.append(mistake)
        return found

    def _check_call(self, hook: str, options: Marks, function: Any) -> Mistake | None:
        """Return the mistake that prevents calls to a function and that pluggy does not detect."""
        if not isinstance(function, FunctionType | MethodType):
            return Mistake(f"{hook} must be a function.")
        # ``Table`` calls the functions itself, and would call a wrapper like any other
        # implementation.
        if options.get("wrapper") or options.get("hookwrapper"):
            problem = f"{hook} is marked as a wrapper, but hook wrappers are not supported."
            return Mistake(problem, place=locate_function(function))
        spec = self._specs.get(hook)
        if spec is None:
            return None
        # ``collect`` and ``filter`` hooks are called where nothing can be awaited, for example
        # while an event is written.
        if spec.shape in ("collect", "filter") and inspect.iscoroutinefunction(function):
            place = locate_function(function)
            return Mistake(f"{hook} must be a plain def.", "Remove async.", place)
        # pluggy neither passes nor checks arguments that have a default. hilum passes such
        # arguments.
        if function.__defaults__:
            return self._check_names(hook, options, function)
        return None

    def _check_names(self, hook: str, options: Marks, function: Any) -> Mistake | None:
        """Return the mistake if pluggy rejects a name: that of the hook or of an argument."""
        spec = self._specs.get(hook)
        place = locate_function(function)
        if spec is None:
            if options.get("optionalhook"):
                return None
            hint = suggest(hook, self._specs) or "The hook reference lists them all."
            return Mistake(f"There is no hook {hook!r}.", hint, place)
        known = spec.arguments
        extra = sorted(set(inspect.signature(function).parameters).difference(known))
        if not extra:
            return None
        has = ", ".join(sorted(known)) or "no arguments"
        hints = [suggest(name, known) for name in extra]
        problem = f"{hook} has no argument {', '.join(extra)}; it has {has}."
        return Mistake(problem, " ".join(filter(None, hints)), place)


def read_marks(owner: object, mark: str) -> tuple[Marks, list[str]]:
    """Return the attributes marked as implementations, and the names of unmarked functions.

    Args:
        owner: A module, an object or a class.
        mark: The attribute that pluggy's marker sets.
    """
    marks: dict[str, Any] = {}
    others = []
    for attribute, value in _own_attributes(owner).items():
        options = getattr(value, mark, None)
        if isinstance(options, dict):
            marks[attribute] = options
        elif _is_own_function(owner, value) and not hasattr(value, mark.replace("_impl", "_spec")):
            others.append(attribute)
    return marks, others


def _own_attributes(owner: object) -> dict[str, object]:
    """Return the attributes of a module, object or class, without running any of its code.

    For a module, ``vars`` is used, which runs no code and is faster than ``getattr_static``.
    """
    if isinstance(owner, ModuleType):
        return dict(vars(owner))
    if isinstance(owner, type):
        found: dict[str, object] = {}
        # Base classes come first, so that the attributes of subclasses replace theirs.
        for kind in reversed(owner.__mro__):
            found.update(vars(kind))
        return found
    return {name: inspect.getattr_static(owner, name, None) for name in dir(owner)}


def _is_own_function(owner: object, value: object) -> bool:
    """Return whether an attribute is a function that a module or object defines itself.

    An imported function, as in ``from hilum import open_kernel``, implements nothing.
    """
    if not isinstance(value, FunctionType):
        return False
    return not isinstance(owner, ModuleType) or value.__module__ == owner.__name__


@functools.cache
def read_class_marks(kind: type, mark: str) -> tuple[Marks, list[str]]:
    """Return the result of ``read_marks`` for a class.

    The result is cached, because every session has an instance of the class.
    """
    return read_marks(kind, mark)
