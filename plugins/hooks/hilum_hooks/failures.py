"""What counts as a plugin's failure, and what Python or trio use to end a program."""

from __future__ import annotations

from types import TracebackType

import trio

# Everything that our own code may raise, except what trio and Python use to end a program.
# A plugin may raise any class: where its code runs, `is_failure` tells.
FAULTS = (Exception, SystemExit, GeneratorExit)


def is_failure(error: BaseException) -> bool:
    """Return whether an exception that came out of a plugin's code is the plugin's failure
    alone.
    """
    return split_failure(error)[1] is None


def split_failure(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Split an exception that came out of a plugin's code into the plugin's failure and what must
    be passed on.

    Every class of exception is a failure, ``asyncio.CancelledError`` and the plugin's own ones too;
    ``trio.Cancelled`` is none. A nursery in a plugin raises a group, in which a ``SystemExit`` of
    the plugin may sit beside a cancellation of ours. ``KeyboardInterrupt`` is a failure where the
    plugin raised it, and is passed on where Ctrl-C was pressed.

    Returns:
        The failure and the rest; ``None`` for a part that is not there.
    """
    if isinstance(error, BaseExceptionGroup):
        return error.split(_is_failure)
    return (error, None) if _is_failure(error) else (None, error)


def _is_failure(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return False  # `split` asks about a group as a whole first; what is in it decides
    if isinstance(error, KeyboardInterrupt):
        return not _is_interrupt(error.__traceback__)
    return not isinstance(error, trio.Cancelled)


def _is_interrupt(traceback: TracebackType | None) -> bool:
    """Return whether the exception was raised by trio's handler of SIGINT.

    Args:
        traceback: Of the exception; ``None`` if it was never raised but put into a group by the
            plugin.
    """
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    name: str = traceback.tb_frame.f_globals.get("__name__", "")
    return name.startswith("trio.")


def single(error: BaseException) -> BaseException:
    """Return the one exception in a group, or in groups in it; anything else as it is."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
