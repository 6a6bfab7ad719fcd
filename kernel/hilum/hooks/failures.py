"""Failures of plugins, as distinct from exceptions that end a program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import NamedTuple

import msgspec
import trio
from msgspec.structs import replace

# All exceptions that our own code may raise, except those with which trio and Python end a program.
# A plugin may raise an exception of any class, so use `is_failure` where its code runs.
PLUGIN_EXCEPTIONS = (Exception, SystemExit, GeneratorExit)
# Packages whose frames may be between those of the kernel and a plugin in a traceback.
_CALLERS = frozenset(("hilum", "trio", "outcome", "contextlib", "asyncio", "functools", "msgspec"))


def describe_error(error: BaseException) -> str:
    """Return the class and the text of an exception, even if its ``__str__`` raises.

    The result has no full stop at its end, so that it can be part of a sentence.
    """
    return f"{type(error).__name__}: {_text(error)}".rstrip(": ").removesuffix(".")


def locate_function(function: object) -> str:
    """Return the file and line of a function, as ``package/module.py, line 7``; empty if unknown.

    The path begins with the package's own folder, not with the folder where the package is
    installed.
    """
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    return _place(code.co_filename, code.co_firstlineno, str(getattr(function, "__module__", "")))


def locate_error(error: BaseException) -> str:
    """Return the file and line of the plugin's code that raised an exception; empty if unknown.

    The line is the innermost one in the plugin's package. A line in a library that the package uses
    would not help the plugin's author.
    """
    place = ""
    package = ""
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        module = str(frame.f_globals.get("__name__", ""))
        root = module.partition(".")[0]
        if not package and root not in _CALLERS:
            package = root
        if package and root == package:
            place = _place(frame.f_code.co_filename, traceback.tb_lineno, module)
        traceback = traceback.tb_next
    return place


def _place(path: str, line: int, module: str) -> str:
    if not path.endswith(".py"):  # code that was compiled from a string
        return ""
    folders = module.count(".")
    if os.path.basename(path) == "__init__.py":
        folders += 1
    parts = path.split(os.sep)[-folders - 1 :]
    return f"{'/'.join(parts)}, line {line}"


def is_failure(error: BaseException) -> bool:
    """Return whether an exception from a plugin's code is nothing but a failure of the plugin."""
    return split_failure(error)[1] is None


def split_failure(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Split an exception from a plugin's code into the plugin's failure and the rest.

    The rest must propagate.

    An exception of any class is a failure, including ``asyncio.CancelledError``, but
    ``trio.Cancelled`` is not. A nursery in a plugin raises an exception group, which may contain
    both a ``SystemExit`` from the plugin and a cancellation from the kernel. ``KeyboardInterrupt``
    is a failure if the plugin raised it, and propagates if the user pressed Ctrl-C.

    Returns:
        The failure and the rest, each of which may be ``None``.
    """
    if isinstance(error, BaseExceptionGroup):
        return error.split(_is_failure)
    return (error, None) if _is_failure(error) else (None, error)


def _is_failure(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return False  # `split` also passes the group itself, but only its members decide
    return not isinstance(error, trio.Cancelled) and not is_interrupt(error)


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is or contains a ``KeyboardInterrupt`` that Ctrl-C caused.

    A ``KeyboardInterrupt`` that a plugin raises itself does not count.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_interrupt, error.exceptions))
    if not isinstance(error, KeyboardInterrupt):
        return False
    traceback = error.__traceback__
    if traceback is None:  # the exception was created, but never raised
        return False
    # The innermost frame raised the exception. Only trio's handler for SIGINT raises
    # KeyboardInterrupt inside trio.
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    module: str = traceback.tb_frame.f_globals.get("__name__", "")
    return module.startswith("trio.")


def unwrap_group(error: BaseException) -> BaseException:
    """Return the single exception in a (nested) group; return any other exception unchanged."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def find_first_error(error: BaseException) -> BaseException:
    """Return the first error in (nested) groups; return any other exception unchanged."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class HookError(Exception):
    """An implementation does not fit its specification, or its failure must stop the caller.

    Args:
        message: A sentence about the problem.
        hint: A sentence about the next step; may be empty.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class Mistake(NamedTuple):
    """A mistake in the code of a plugin.

    Args:
        problem: A sentence about the problem.
        hint: A sentence about the next step; may be empty.
        place: File and line of the code; empty if they are not known.
    """

    problem: str
    hint: str = ""
    place: str = ""

    def __str__(self) -> str:
        text = f"{self.problem} {self.hint}".strip()
        return f"{self.place}: {text}" if self.place else text


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests similar known names; empty if there are none."""
    from difflib import get_close_matches  # takes 2 ms, needed only for an error

    near = get_close_matches(name, sorted(known), n=2)
    return f"Did you mean {' or '.join(near)}?" if near else ""


def make_error(mistakes: Sequence[Mistake], error: type[Exception] = HookError) -> Exception:
    """Create the error for a plugin's mistakes: one sentence, or one line for each mistake.

    Args:
        mistakes: The mistakes, of which there must be at least one.
        error: The class of the error, which takes a message and a ``hint``.
    """
    first = mistakes[0]
    if len(mistakes) == 1:
        message = str(first._replace(hint=""))
        return error(message, hint=first.hint)  # type: ignore[call-arg]
    lines = "\n".join(f"  {mistake}" for mistake in mistakes)
    return error(f"{len(mistakes)} mistakes:\n{lines}")


class PluginFailure(msgspec.Struct, frozen=True):
    """A failure in a plugin. ``text`` describes the failure if the exception itself is not kept."""

    plugin: str
    hook: str
    error: BaseException
    switched_off: bool = False
    text: str = ""

    def without_frames(self) -> PluginFailure:
        """Return the failure without its traceback, whose frames would keep objects alive."""
        return replace(self, error=RuntimeError(str(self)), text=str(self))

    def __str__(self) -> str:
        if self.text:
            return self.text
        error = unwrap_group(self.error)
        if isinstance(error, trio.TooSlowError):
            return f"it took longer than its deadline. {error}".rstrip(". ")
        if isinstance(getattr(error, "hint", None), str):
            # The message of hilum's own errors is a sentence for users, to whom the class means
            # nothing.
            return _text(error).removesuffix(".")
        place = locate_error(error)
        return f"{describe_error(error)} ({place})" if place else describe_error(error)


def _text(error: BaseException) -> str:
    """Return an exception's text; empty if ``__str__``, which a plugin may define, fails."""
    try:
        return str(error)
    except Exception:
        return ""
