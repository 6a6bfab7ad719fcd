"""Signals before and after the run.

Imports nothing that takes time: its handlers are the first thing that a run sets up.

While the run is on, ``stopping`` listens with trio. Before it there is nothing to unwind, and after
it nothing is left to stop: the process just ends, with the right exit code and, for programs, with
a result line.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)

# What ``output.ResultLine`` encodes to; a test compares them. Spelled out because msgspec may not
# be imported yet.
_NO_TOKENS = '{"input":0,"cached":0,"cache_write":0,"output":0,"reasoning":0,"total":0,"cost":null}'
_RESULT = (
    '{"type":"result","seq":0,"at":0.0,"agent":"","run":"","schema":1,"version":"","session":"","workspace":"","kind":"",'
    '"model":"","state":"stopped","text":"","commentary":"","done":"","code":"E_STOPPED",'
    '"error":"Stopped before the run began.","hint":"","left":"",'
    f'"turns":0,"seconds":0.0,"usage":{_NO_TOKENS},"session_usage":{_NO_TOKENS},"session_runs":0,"calls":[],"agents":[],'
    '"faults":[],"denied":0,"interrupted":[],"redacted":[],"files_changed":null,"services":[],"exit_code":%d}\n'
)


def listened() -> tuple[int, ...]:
    """Return the signals that end a run: not those that the caller had this process ignore, as
    ``nohup`` does.
    """
    return tuple(number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN)


def end_before_run(*, json: bool) -> None:
    """End the process when a signal comes, as long as nothing was started.

    Args:
        json: Whether a program reads standard output.
    """

    def end(number: int, frame: FrameType | None) -> None:
        try:
            if json:
                os.write(1, early_result(number))
            else:
                os.write(2, b"hilum: stopped before the run began.\n")
        except OSError:  # nobody reads it
            pass
        os._exit(128 + number)

    _install(end)


def end_with(code: int) -> None:
    """End the process with its own exit code when a signal comes: everything is done and closed."""

    def end(number: int, frame: FrameType | None) -> None:
        os._exit(code)

    _install(end)


def early_result(number: int) -> bytes:
    """Return the result line of a run that a signal ended before it began."""
    return (_RESULT % (128 + number)).encode()


def _install(handler: signal._HANDLER) -> None:
    for number in listened():
        signal.signal(number, handler)
