"""Specifications: how a hook is called, how long an implementation may take, and what a failure
means.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, Protocol, TypeVar

import msgspec
import pluggy

F = TypeVar("F", bound=Callable[..., Any])
Shape = Literal["collect", "gather", "first", "pipe", "filter", "gate", "supervised"]


class Spec(msgspec.Struct, frozen=True):
    """How a hook is called.

    Args:
        shape: How implementations combine: ``collect`` (plain ``def``, items joined), ``gather``
            (all at once), ``first`` (until one answers), ``pipe`` (each gets the value of the one
            before), ``filter`` (the same in plain ``def``, which may be called in a thread),
            ``gate`` (all at once; the caller takes the strictest) or ``supervised`` (a lifespan).
        deadline: Seconds an implementation may take.
        fault: What a failure means, in words.
        arguments: Names of what an implementation may take.
        gives: Type of an answer, or of its items where the answer is an iterable; anything else is
            a failure.
        many: Whether a list or tuple of these will do as well.
        raises: Exceptions that are an answer and no failure.
    """

    shape: Shape
    deadline: float
    fault: str
    arguments: tuple[str, ...]
    gives: type = object
    many: bool = False
    raises: tuple[type[Exception], ...] = ()

    @property
    def guards(self) -> bool:
        """Whether implementations stand between a wish and a deed: what they guard stays shut when
        one of them goes.
        """
        return self.shape in ("gate", "pipe", "filter")

    def checked(self, value: Any) -> Any:
        """Return an answer back.

        Raises:
            TypeError: It cannot be one.
        """
        if value is None or isinstance(value, self.gives):
            return value
        if (
            self.many
            and isinstance(value, list | tuple)
            and all(isinstance(item, self.gives) for item in value)
        ):
            return value
        raise TypeError(f"it gave {value!r:.80}")


class Manager(pluggy.PluginManager):
    """pluggy's manager.

    It need not look at names in modules as carefully as in objects, where looking may run code.

    That would cost 5 ms at the start of a program of 20 plugins.
    """

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """Return what the marker says, ``None`` for what is not marked."""
        if isinstance(plugin, ModuleType) and not hasattr(
            vars(plugin).get(name), f"{self.project_name}_impl"
        ):
            return None
        return super().parse_hookimpl_opts(plugin, name)


class Specifier(Protocol):
    """A decorator that declares hooks."""

    def __call__(
        self, *, shape: Shape, deadline: float = 5.0, fault: str, **answers: Any
    ) -> Callable[[F], F]:
        """Declare a hook: its shape, its deadline in seconds, what a failure means, and what it
        gives (see ``Spec``).
        """


def specifier(project: str) -> Specifier:
    """Create the decorator that declares the hooks of a project.

    The ``Spec`` is the function's ``PROJECT_spec_info``.
    """
    mark = pluggy.HookspecMarker(project)

    def hookspec(
        *, shape: Shape, deadline: float = 5.0, fault: str, **answers: Any
    ) -> Callable[[F], F]:
        def declare(function: F) -> F:
            arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
            setattr(
                function, f"{project}_spec_info", Spec(shape, deadline, fault, arguments, **answers)
            )
            return mark(function)

        return declare

    return hookspec
