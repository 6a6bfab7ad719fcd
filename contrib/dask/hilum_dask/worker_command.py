"""``hilum batch worker``: a Dask worker that is started again whenever it ends.

A worker ends when its scheduler ends. Without somebody who starts it again, a cluster would be empty
after its scheduler was restarted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import trio
from hilum import Command, UsageError
from hilum.command import Parser
from hilum.errors import E_BAD_ARGS, E_NOT_INSTALLED
from hilum.processes import CommandError, Warden
from hilum_cli.stopping import Stopping
from hilum_cli.terminal import Out

EPILOG = """\
The worker ends with all its tasks when this command ends. It is started again when it ends for
any other reason, for example because the scheduler was restarted.

  hilum batch worker tcp://head:8786 --threads 4
"""
FIRST_DELAY = 0.5
MAX_DELAY = 30.0
LONG_LIFE = 60.0
"""Seconds after which a worker that ended was a working one, so that the next one starts soon."""


def main(argv: Sequence[str]) -> int:
    """Run a worker until a signal arrives; return the exit code."""
    parser = Parser("hilum batch worker", "Run a Dask worker for batches.", EPILOG)
    add = parser.add_argument
    add("scheduler", metavar="ADDRESS", help="address of the scheduler")
    add("--threads", type=int, default=0, metavar="N", help="tasks at once (default: processors)")
    add("--name", default="", help="name of the worker")
    options = parser.parse_args(argv)
    if options.threads < 0:
        raise UsageError(
            "--threads must not be negative.", code=E_BAD_ARGS, hint=f"{parser.prog} --help"
        )
    if options.scheduler.startswith("-"):
        raise UsageError(
            f"{options.scheduler!r} is not the address of a scheduler.",
            code=E_BAD_ARGS,
            hint="Name it as tcp://HOST:PORT.",
        )
    if find_spec("distributed") is None:
        raise UsageError(
            "A worker needs distributed, which is not installed.",
            code=E_NOT_INSTALLED,
            hint="pip install 'hilum-dask[cluster]'",
        )
    # -P: modules in the current folder must not take the place of installed ones.
    words = [sys.executable, "-P", "-m", "distributed.cli.dask_worker"]
    words += [options.scheduler, "--no-nanny"]
    # The supervisor is this command, so that there is one process less between it and the tasks.
    words += ["--nworkers", "1", "--no-dashboard", "--death-timeout", "60"]
    if options.threads:
        words += ["--nthreads", str(options.threads)]
    if options.name:
        words += ["--name", options.name]
    return trio.run(_supervise, tuple(words))


async def _supervise(words: tuple[str, ...]) -> int:
    scope = trio.CancelScope()
    stopping = Stopping(scope.cancel)
    out = Out(2)
    async with trio.open_nursery() as nursery:
        await nursery.start(stopping.listen)
        with scope:
            async with Warden() as warden:
                await _restart_for_ever(warden, words, out)
        nursery.cancel_scope.cancel()
    return 128 + stopping.signal


async def _restart_for_ever(warden: Warden, words: tuple[str, ...], out: Out) -> None:
    delay = FIRST_DELAY
    while True:
        began = trio.current_time()
        try:
            done = await warden.run(
                Command(words, os.getcwd(), dict(os.environ)),
                on_output=lambda _, chunk: out.put(chunk),
                limit=1000,
                grace=5.0,
            )
            reason = f"ended with {done.returncode}"
        except CommandError as error:
            reason = f"cannot run: {error.message}"
        if trio.current_time() - began > LONG_LIFE:
            delay = FIRST_DELAY
        out.say(f"hilum: the worker {reason}; it starts again in {delay:.1f} s")
        await trio.sleep(delay)
        delay = min(MAX_DELAY, delay * 2)
