"""Makes a forked process what the caller would have started, and runs hilum in it."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import tempfile
import threading
import time
from importlib import import_module
from typing import NamedTuple, NoReturn, TextIO

from hilum import program_start

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG in linux/prctl.h


class Request(NamedTuple):
    """A start that is handed over.

    Attributes:
        arguments: The arguments of ``hilum``.
        argv: The name of the program.
        environment: The environment of the caller.
        descriptors: Its standard input, output and error, and its current folder.
    """

    arguments: list[str]
    argv: list[str]
    environment: dict[str, str]
    descriptors: list[int]


def take_over(request: Request, server: int) -> None:
    """Apply the streams, the folder and the environment of a request to this process.

    Args:
        request: The request.
        server: The process id of the server.
    """
    program_start.begin_again()
    # If the server is killed, nobody could report the exit code any more.
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != server:
        os._exit(1)
    *streams, folder = request.descriptors
    os.fchdir(folder)
    for target, descriptor in enumerate(streams):
        os.dup2(descriptor, target)
    for descriptor in request.descriptors:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    # The server may have had another TMPDIR.
    tempfile.tempdir = None
    sys.argv[:] = [*request.argv, *request.arguments]
    sys.stdin = open(  # noqa: SIM115
        0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False
    )
    sys.stdout = _open_output(1, sys.stdout)
    sys.stderr = _open_output(2, sys.stderr)


def _open_output(descriptor: int, before: TextIO) -> TextIO:
    """Open an output stream as the interpreter does: line-buffered for terminals and errors."""
    by_line = descriptor == 2 or os.isatty(descriptor)
    return open(
        descriptor,
        "w",
        buffering=1 if by_line else -1,
        encoding=before.encoding,
        errors=before.errors,
        closefd=False,
    )


def run(request: Request) -> NoReturn:
    """Run hilum in a forked process, and exit."""
    program = import_module("hilum.__main__")
    # A caller that ignores SIGINT keeps ignoring it.
    program._ENDED_BY_INTERRUPT = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # type: ignore[attr-defined]
    try:
        code = program.main(request.arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    _exit(code)


def _exit(code: int) -> NoReturn:
    """Exit as the interpreter does, but without destroying all modules, which copies all memory."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120  # as the interpreter does
    os._exit(code)
