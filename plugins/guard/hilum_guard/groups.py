"""A control group for commands: it limits the processes of root, whom the usual limit does not
bind.

To move a process into a group takes the system some 10 ms. So the first commands move what starts
commands, too: their keeper and its warden (see ``hilum_warden``), and the ones that come after are
in the group from birth. There is one group for a hilum and a limit, as the warden serves all
sessions; it goes when this process ends.
"""

from __future__ import annotations

import atexit
import functools
import os
import shlex
from contextlib import suppress
from pathlib import Path

_BASES = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")  # version 1, version 2
# The keeper and the warden are moved only if they are what they should be: the warden is hilum's
# child. That they could not be moved costs time and no more; the command itself is always in the
# group.
_JOIN = """
hilum_joined=
while read -r hilum_line; do case $hilum_line in */{name}) hilum_joined=1 ;; esac; done < /proc/self/cgroup
hilum_parent() {{ read -r hilum_line < "/proc/$1/stat" && set -- ${{hilum_line##*) }} && hilum_up=$2; }}
if [ ! "$hilum_joined" ]; then
  echo $$ > {procs} || exit 125
  if hilum_parent $PPID && hilum_warden=$hilum_up && hilum_parent "$hilum_warden" && [ "$hilum_up" = {owner} ]; then
    {{ echo "$hilum_warden" > {procs}; echo "$PPID" > {procs}; }} 2>/dev/null
  fi
fi
"""


@functools.cache
def make(processes: int) -> str:
    """Make a group and limit it, once.

    Args:
        processes: Most processes and threads in it.

    Returns:
        Its folder; empty for ordinary users, who need none, and where the system has no such groups
        or lets nobody make any.
    """
    if os.getuid():
        return ""
    for base in _BASES:
        folder = Path(base, f"hilum-{os.getpid()}-{_started(os.getpid())}-{processes}")
        with suppress(OSError):
            if not os.path.exists(f"{base}/cgroup.procs"):
                continue
            folder.mkdir(exist_ok=True)  # another thread may be doing the same
            try:
                (folder / "pids.max").write_text(str(processes))
            except OSError:
                folder.rmdir()
                raise
            atexit.register(remove, str(folder))
            return str(folder)
    return ""


def sweep_groups() -> None:
    """Remove the groups of processes that are gone; one in which something runs cannot be removed.

    Blocks.
    """
    if not hasattr(os, "getuid") or os.getuid():
        return
    for base in _BASES:
        with suppress(OSError):
            for name in os.listdir(base):
                if name.startswith("hilum-") and not _lives(name):
                    remove(f"{base}/{name}")


def _lives(name: str) -> bool:
    """Check whether the owner that a group's name tells of is there.

    What hilum did not name counts as alive.
    """
    owner, _, rest = name.removeprefix("hilum-").partition("-")
    if not owner.isdigit():
        return True
    started, _, limit = rest.partition("-")
    now = _started(int(owner))
    # Older versions left the time out. The number of a process is used again, its number and start
    # together are not.
    return bool(now) and (not limit or started == now)


def _started(pid: int) -> str:
    """Return when a process started, in ticks of the clock since the system did.

    Empty where there is no such process.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def script(folder: str) -> str:
    """Return the lines of shell that put the shell into a group; none where there is no group."""
    if not folder:
        return ""
    procs = shlex.quote(f"{folder}/cgroup.procs")
    return _JOIN.format(name=os.path.basename(folder), procs=procs, owner=os.getpid())


def remove(folder: str) -> None:
    """Remove a group whose processes have ended."""
    with suppress(OSError):
        os.rmdir(folder)
