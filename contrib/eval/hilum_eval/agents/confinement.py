"""Confines other agents with bubblewrap: they can write to the folders of their attempt only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def make_prefix(folder: Path, temporary: Path, readable: Path | None = None) -> tuple[str, ...]:
    """Return the beginning of a command line that confines an agent.

    The network stays, because the agent talks to the endpoint on the loopback interface.

    Args:
        folder: The folder that the agent can change.
        temporary: The folder that takes the place of the machine's folder for temporary files.
        readable: A folder that must stay readable even if it is among the temporary files.
    """
    prefix = [
        *"bwrap --die-with-parent --unshare-pid --ro-bind / / --dev /dev --proc /proc".split(),
        *("--bind", str(temporary), "/tmp"),
    ]
    roots = {Path("/tmp"), Path(os.path.realpath(tempfile.gettempdir()))}
    if readable is not None and any(readable.is_relative_to(root) for root in roots):
        prefix += ["--ro-bind", str(readable), str(readable)]
    return (*prefix, "--bind", str(folder), str(folder))
