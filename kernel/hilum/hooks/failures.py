"""Failures of plugins, as distinct from exceptions that end a program."""

from __future__ import annotations

from types import TracebackType

import msgspec
import trio

# Everything that our own code may raise, except what trio and Python use to end a program.
# A plugin may raise any class: where its code runs, use `is_failure`.
PLUGIN_EXCEPTIONS = (Exception, SystemExit, GeneratorExit)


def describe_error(error: BaseException) -> str:
    """Return the class and the text of an exception, also if it cannot make its text."""
    return f"{type(error).__name__}: {_text(error)}".rstrip(": ")


def is_failure(error: BaseException) -> bool:
    """Return whether an exception from a plugin's code is only a failure of the plugin."""
    return split_failure(error)[1] is None


def split_failure(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Split an exception from a plugin's code into the plugin's failure and the rest.

    The rest must be passed on.

    Every class of exception is a failure, including ``asyncio.CancelledError``; only
    ``trio.Cancelled`` is not. A nursery in a plugin raises a group, which may contain a
    ``SystemExit`` of the plugin and a cancellation of ours. ``KeyboardInterrupt`` is a failure if
    the plugin raised it, and is passed on if the user pressed Ctrl-C.

    Returns:
        The failure and the rest; ``None`` for a part that does not exist.
    """
    if isinstance(error, BaseExceptionGroup):
        return error.split(_is_failure)
    return (error, None) if _is_failure(error) else (None, error)


def _is_failure(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return False  # `split` tests the whole group first, but only its members decide
    if isinstance(error, KeyboardInterrupt):
        return not _is_interrupt(error.__traceback__)
    return not isinstance(error, trio.Cancelled)


def _is_interrupt(traceback: TracebackType | None) -> bool:
    """Return whether the exception was raised by trio's handler of SIGINT.

    Args:
        traceback: The exception's traceback; ``None`` if it was never raised but put into a group
            by the plugin.
    """
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    name: str = traceback.tb_frame.f_globals.get("__name__", "")
    return name.startswith("trio.")


def unwrap_group(error: BaseException) -> BaseException:
    """Return the only exception in a group or in nested groups; any other one as it is."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class HookError(Exception):
    """An implementation does not fit its specification, or failed where that must stop the caller.

    Args:
        message: The problem, in one sentence.
        hint: The next step; may be empty.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())


class PluginFailure(msgspec.Struct, frozen=True):
    """A failure in a plugin. ``text`` describes it if the exception itself is not kept."""

    plugin: str
    hook: str
    error: BaseException
    switched_off: bool = False
    text: str = ""

    def without_frames(self) -> PluginFailure:
        """Return the failure without its traceback, which would keep its frames' objects alive."""
        return msgspec.structs.replace(self, error=RuntimeError(str(self)), text=str(self))

    def __str__(self) -> str:
        if self.text:
            return self.text
        error = unwrap_group(self.error)
        if isinstance(error, trio.TooSlowError):
            return f"it took longer than its deadline. {error}".rstrip(". ")
        return describe_error(error)


def _text(error: BaseException) -> str:
    """Return an exception's text; empty if its class, which may be a plugin's, raises."""
    try:
        return str(error)
    except Exception:
        return ""
