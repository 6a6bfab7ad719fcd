"""The exit codes of all commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hilum.errors import EXITS

if TYPE_CHECKING:
    from hilum.events import RunEnded

COMPLETED, FAILED, USAGE, PARTIAL, MODEL, STORE = range(6)
# The code of timeout(1).
TIMED_OUT = 124
# Shells report a process that was ended by signal N as 128 + N, where SIGHUP is 1, SIGINT is 2 and
# SIGPIPE is 13.
HUNG_UP = 129
INTERRUPTED = 130
BROKEN_PIPE = 141

HELP = """exit codes:
  0    completed
  1    failed
  2    usage error: unknown option, name, key or file; invalid settings; no model
  3    partial success: the turn or token limit was reached, the answer was cut off, calls were \
denied because nobody
       could approve them (see --approve) and no other call with an effect ran, or a call was \
refused because a plugin
       with a gate had failed; all finished work is kept
  4    the model did not answer: the provider rejected the key, could not be reached, or failed
  5    the session store: in use, damaged, or the disk is full
  124  timed out
  130  stopped by Ctrl-C (143 by SIGTERM, 129 by a closed terminal)
  141  the reader of the output closed it
"""


def of_run(end: RunEnded, signal: int = 0) -> int:
    """Return the exit code of a run.

    Args:
        end: The event that ended the run.
        signal: Number of the signal that stopped the run, or 0 if no signal did.
    """
    if end.state == "stopped":
        return 128 + signal if signal else INTERRUPTED
    known = {"completed": COMPLETED, "partial_success": PARTIAL, "timed_out": TIMED_OUT}
    if end.state in known:
        return known[end.state]
    return EXITS.get(end.code, FAILED)
