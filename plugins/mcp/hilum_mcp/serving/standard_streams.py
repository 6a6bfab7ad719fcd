"""Claims standard input and output before the server opens anything."""

from __future__ import annotations

import os
import sys


def claim_stdio() -> tuple[int, int]:
    """Reserve standard input and output for the protocol.

    From then on, other code gets end-of-file when it reads standard input, and its output goes to
    standard error.

    Returns:
        File descriptors to read from and to write to, which no child process inherits.
    """
    sys.stdout.flush()
    wire = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return wire
