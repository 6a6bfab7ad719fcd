"""A process that forks a process for each attempt: ``python -m hilum_eval.fork_server``.

A short attempt spends most of its processor time importing modules. This server imports them once; each
attempt still has a process of its own, with its own environment, folder and memory.

The server reads requests from standard input, one JSON object a line, and writes the exit code of each
process as a line to standard output. It makes one attempt at a time: after its process has ended, the
server ends all processes that it left behind.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hilum_eval import worker
from hilum_eval.regular_files import read_regular_file, write_regular_file
from hilum_eval.worker_job import EXIT_MARK

# See prctl(2): orphans below this process become its children, and not those of init.
_PR_SET_CHILD_SUBREAPER = 36
# Modules that an attempt may import, but that a process must not import for others.
_NOT_PRELOADED = ("__main__", "test", "pytest", "_pytest", "sitecustomize", "usercustomize")


def main() -> None:
    """Serve requests until standard input is closed."""
    _adopt_orphans()
    _preload()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        # Objects in the permanent generation are not copied when the collector of a child marks
        # them.
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            _run(request)
        _, status = os.waitpid(pid, 0)
        _end_orphans()
        _learn(Path(request["modules"]))
        print(f"{EXIT_MARK}{os.waitstatus_to_exitcode(status)}", flush=True)


def _run(request: dict[str, Any]) -> None:
    """Make the attempt of a request in this process, which ends with it."""
    code = 1
    try:
        os.setsid()
        _redirect(request["log"])
        os.environ.clear()
        os.environ.update(request["environ"])
        if hasattr(time, "tzset"):
            time.tzset()
        os.chdir(request["cwd"])
        known = set(sys.modules)
        code = worker.main(request["argv"])
        write_regular_file(Path(request["modules"]), "\n".join(set(sys.modules) - known))
    except BaseException:  # whatever it is, this process must not go on as a server
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        # Threads of tools that were abandoned must not keep the process.
        os._exit(code)


def _redirect(log: str) -> None:
    """Read nothing, and write both outputs to a file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    # A named pipe in the place of the file must not block.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
    output = os.open(log, flags, 0o600)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)


def _preload() -> None:
    """Import the plugins. One that fails is reported by the session that loads it."""
    for point in entry_points(group="hilum"):
        try:
            point.load()
        except Exception:
            continue


def _learn(path: Path) -> None:
    """Import the modules that an attempt had to import, so that the next one need not."""
    try:
        names = read_regular_file(path).split()
    except OSError:  # the attempt did not finish
        return
    for name in sorted(names):
        top = name.partition(".")[0]
        # Modules that files of the workspace or of an arm define cannot be found by their names.
        if top in _NOT_PRELOADED or name in sys.modules:
            continue
        try:
            importlib.import_module(name)
        except Exception:
            continue


def _adopt_orphans() -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_orphans() -> None:
    """End the processes that an attempt left behind, and the processes that these leave."""
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    # On other systems, hilum itself ends the processes that it started.
    while path.exists() and (children := path.read_text().split()):
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        for child in children:
            os.waitpid(int(child), 0)


if __name__ == "__main__":
    main()
