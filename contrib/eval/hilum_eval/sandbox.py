"""Confines programs with bubblewrap: verifiers, and agents other than hilum.

bubblewrap itself can fail, which says nothing about the program. So the confined command first writes
a line (``STARTED``) to its standard output; what runs later cannot take this line back.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from hilum.processes import Command, CommandError, Completed, Warden

STARTED = b"hilum-eval: the sandbox has started\n"
"""The first line that a command in a sandbox writes."""
_SCRIPT = f'echo "{STARTED.decode().strip()}"; exec "$@"'


def make_sandbox(
    writable: Iterable[Path],
    *,
    network: bool = False,
    temporary: Path | None = None,
    hidden: Iterable[Path] = (),
    readable: Iterable[Path] = (),
) -> tuple[str, ...]:
    """Return the beginning of a command line that confines a program.

    Args:
        writable: The only folders that the program can change. It cannot remove or rename them.
        network: Whether the program can use the network; otherwise, it has a loopback of its own.
        temporary: A folder that takes the place of the machine's folder for temporary files.
        hidden: Folders that are empty for the program, except for the other arguments.
        readable: Folders that stay readable although a folder around them is hidden or replaced.
    """
    prefix = "bwrap --die-with-parent --unshare-pid".split()
    if not network:
        prefix.append("--unshare-net")
    prefix += "--ro-bind / / --dev /dev --proc /proc".split()
    concealed = list(hidden)
    if temporary is not None:
        # What is below /tmp is hidden already, and a mount point would appear in the replacement.
        concealed = [folder for folder in concealed if not folder.is_relative_to("/tmp")]
        prefix += ["--bind", str(temporary), "/tmp"]
    for folder in concealed:
        if folder.is_dir():
            prefix += ["--tmpfs", str(folder)]
    roots = [*concealed, *_list_temporary_folders(temporary)]
    for folder in readable:
        if any(folder.is_relative_to(root) for root in roots):
            prefix += ["--ro-bind", str(folder), str(folder)]
    for folder in writable:
        prefix += ["--bind", str(folder), str(folder)]
    return (*prefix, "/bin/sh", "-c", _SCRIPT, "sh")


def read_end(done: Completed) -> tuple[Completed, bool]:
    """Return how a command in a sandbox ended, and whether the sandbox started it.

    Args:
        done: How the whole command line ended.
    """
    if not done.stdout.startswith(STARTED):
        return done, False
    return done._replace(stdout=done.stdout.removeprefix(STARTED)), True


async def find_sandbox(warden: Warden) -> bool:
    """Return whether bubblewrap works on this machine."""
    if not sys.platform.startswith("linux") or not shutil.which("bwrap"):
        return False
    try:
        done = await warden.run(Command((*make_sandbox([Path("/tmp")]), "true"), "/"))
    except CommandError:
        return False
    return done.returncode == 0


def _list_temporary_folders(temporary: Path | None) -> Sequence[Path]:
    """Return the folders that ``temporary`` replaces."""
    if temporary is None:
        return ()
    return (Path("/tmp"), Path(os.path.realpath(tempfile.gettempdir())))
