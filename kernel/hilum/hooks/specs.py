"""Specifications of hooks.

A specification declares how a hook is called, how long an implementation may take, and what a
failure means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

import msgspec
import pluggy

F = TypeVar("F", bound=Callable[..., Any])
Shape = Literal["collect", "gather", "first", "pipe", "filter", "gate", "supervised"]


class WrongAnswer(TypeError):
    """An implementation returned a value that its hook does not accept.

    Attributes:
        hint: Always empty. (An error with a ``hint`` is shown without the name of its class.)
    """

    hint = ""


class Spec(msgspec.Struct, frozen=True):
    """The specification of a hook.

    Args:
        shape: How implementations combine: ``collect`` (plain ``def``, items joined), ``gather``
            (all at once), ``first`` (until one returns a value), ``pipe`` (each gets the value of
            the previous one), ``filter`` (the same in plain ``def``, which may be called in a
            thread), ``gate`` (all at once; the caller takes the strictest) or ``supervised`` (a
            lifespan).
        deadline: Maximum number of seconds that an implementation may take.
        on_failure: The consequence of a failure, as a phrase.
        function: The decorated function, any of whose arguments an implementation may take.
        returns: Type of a result, or of its items if the result is an iterable; any other type is a
            failure.
        returns_many: Whether a list or tuple of such results is also accepted.
        raises: Exceptions that count as results, not as failures.
    """

    shape: Shape
    deadline: float
    on_failure: str
    function: Callable[..., Any]
    returns: type = object
    returns_many: bool = False
    raises: tuple[type[Exception], ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments that an implementation may take."""
        code = self.function.__code__
        return code.co_varnames[: code.co_argcount]

    @property
    def guards(self) -> bool:
        """Whether implementations are gates, which stay closed when their plugin fails."""
        return self.shape in ("gate", "pipe", "filter")

    def checked(self, value: Any) -> Any:
        """Check the type of a result and return the result.

        Raises:
            WrongAnswer: The result has the wrong type.
        """
        if value is None or isinstance(value, self.returns):
            return value
        if (
            self.returns_many
            and isinstance(value, list | tuple)
            and all(isinstance(item, self.returns) for item in value)
        ):
            return value
        expected = self.returns.__name__
        if self.returns_many:
            expected += f" or a list of {expected}"
        raise WrongAnswer(f"it returned {value!r:.80}, expected {expected}")


class Specifier(Protocol):
    """A decorator that declares hooks."""

    def __call__(
        self, *, shape: Shape, deadline: float = 5.0, on_failure: str, **answers: Any
    ) -> Callable[[F], F]:
        """Declare a hook (see ``Spec``).

        The arguments are the hook's shape, its deadline in seconds, the effect of a failure, and
        the return type.
        """


def specifier(project: str) -> Specifier:
    """Create the decorator that declares the hooks of a project.

    The ``Spec`` is stored in the function's attribute ``PROJECT_spec_info``.
    """
    mark = pluggy.HookspecMarker(project)

    def hookspec(
        *, shape: Shape, deadline: float = 5.0, on_failure: str, **answers: Any
    ) -> Callable[[F], F]:
        def declare(function: F) -> F:
            spec = Spec(shape, deadline, on_failure, function, **answers)
            setattr(function, f"{project}_spec_info", spec)
            return mark(function)

        return declare

    return hookspec
