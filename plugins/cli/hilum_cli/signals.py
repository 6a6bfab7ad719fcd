"""Handles signals before and after the run.

This module imports nothing slow, because a run installs these handlers first.

During the run, ``stopping`` handles signals with trio. Before the run there is nothing to clean up,
and after the run there is nothing to stop, so the process simply exits with the right exit code
and, for programs, writes a result line.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)

# A ``ResultLine`` as JSON text, written by hand because msgspec may not be imported yet. A test
# compares this text with the encoded class.
_NO_TOKENS = '{"input":0,"cached":0,"cache_write":0,"output":0,"reasoning":0,"total":0,"cost":null}'
_RESULT = (
    '{"type":"result","seq":0,"at":0.0,"agent":"","run":"","schema":1,"version":"","session":"",'
    '"workspace":"","kind":"","model":"","state":"stopped","text":"","commentary":"","done":"","code":"E_STOPPED",'
    '"error":"The run was stopped before it began.","hint":"","left":"",'
    f'"turns":0,"seconds":0.0,"usage":{_NO_TOKENS},"session_usage":{_NO_TOKENS},"session_runs":0,'
    '"calls":[],"agents":[],"faults":[],"denied":0,"denied_rules":[],"interrupted":[],"redacted":[],'
    '"files_changed":null,"services":[],"exit_code":%d}\n'
)


def listened() -> tuple[int, ...]:
    """Return the signals that end a run.

    Signals that the caller made this process ignore, as ``nohup`` does, are not included.
    """
    return tuple(number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN)


def end_before_run(*, json: bool) -> None:
    """Make a signal end the process while nothing has been started yet.

    Args:
        json: Whether standard output is read by a program.
    """

    def end(number: int, frame: FrameType | None) -> None:
        try:
            if json:
                # ``os.write``, not ``print``, because the handler may have interrupted a write to
                # the same stream.
                os.write(1, early_result(number))
            else:
                os.write(2, b"hilum: stopped before the run began.\n")
        except OSError:  # the reader closed it
            pass
        # Exit without an exception, which would be raised in the middle of an import and shown as a
        # traceback.
        os._exit(128 + number)

    _install(end)


def end_with(code: int) -> None:
    """Make a signal end the process with the run's exit code, because all work is finished."""

    def end(number: int, frame: FrameType | None) -> None:
        os._exit(code)

    _install(end)


def early_result(number: int) -> bytes:
    """Return the result line for a run that a signal ended before it began."""
    return (_RESULT % (128 + number)).encode()


def _install(handler: signal._HANDLER) -> None:
    for number in listened():
        signal.signal(number, handler)
