"""Create a control group that limits root's number of processes, which `ulimit -u` cannot do.

Moving a process into a group takes about 10 ms. Therefore the first command also moves the
processes that start commands: the keeper and its warden (see ``hilum.processes``). Later commands
then start inside the group. The warden serves all sessions, so each hilum process has one group for
each limit. A group is removed when its hilum process ends.
"""

from __future__ import annotations

import atexit
import functools
import os
import shlex
from contextlib import suppress
from pathlib import Path

_BASES = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")  # version 1, version 2
# The keeper and the warden are moved only if the warden is a child of hilum. If the keeper and the
# warden cannot be moved, commands start more slowly; each command is always in the group.
_JOIN = """
hilum_joined=
while read -r hilum_line; do
  case $hilum_line in */{name}) hilum_joined=1 ;; esac
done < /proc/self/cgroup
hilum_parent() {{
  read -r hilum_line < "/proc/$1/stat" && set -- ${{hilum_line##*) }} && hilum_up=$2
}}
if [ ! "$hilum_joined" ]; then
  echo $$ > {procs} || exit 125
  if hilum_parent $PPID && hilum_warden=$hilum_up &&
    hilum_parent "$hilum_warden" && [ "$hilum_up" = {owner} ]; then
    {{ echo "$hilum_warden" > {procs}; echo "$PPID" > {procs}; }} 2>/dev/null
  fi
fi
"""


@functools.cache
def create_group(processes: int) -> str:
    """Create a control group with a process limit, once for each limit.

    Args:
        processes: The maximum number of processes and threads in the group.

    Returns:
        The group's folder; empty for ordinary users, who do not need a group, or if no group can be
        created.
    """
    if os.getuid():
        return ""
    pid = os.getpid()
    started = _get_start_time(pid)
    for base in _BASES:
        folder = Path(base, f"hilum-{pid}-{started}-{processes}")
        with suppress(OSError):
            # Under version 1, the second folder is not a control group, and `mkdir` would create an
            # ordinary folder in it.
            if not os.path.exists(f"{base}/cgroup.procs"):
                continue
            folder.mkdir(exist_ok=True)  # another thread may have created the group
            try:
                (folder / "pids.max").write_text(str(processes))
            except OSError:
                folder.rmdir()
                raise
            atexit.register(remove_group, str(folder))
            return str(folder)
    return ""


def sweep_groups() -> None:
    """Remove the groups of hilum processes that have ended. Blocks.

    The kernel does not remove a group in which a process runs.
    """
    if not hasattr(os, "getuid") or os.getuid():
        return
    for base in _BASES:
        with suppress(OSError):
            for name in os.listdir(base):
                if name.startswith("hilum-") and not _has_owner(name):
                    remove_group(f"{base}/{name}")


def _has_owner(name: str) -> bool:
    """Return whether the process that created a group is running.

    A group whose name has a different format counts as having an owner.
    """
    owner, _, rest = name.removeprefix("hilum-").partition("-")
    if not owner.isdigit():
        return True
    started, _, limit = rest.partition("-")
    now = _get_start_time(int(owner))
    # Older versions of hilum omitted the time. Process ids are reused, but the combination of
    # process id and start time is unique.
    return bool(now) and (not limit or started == now)


def _get_start_time(pid: int) -> str:
    """Return a process's start time in clock ticks since boot; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the program's name in parentheses, and may itself contain
            # parentheses and spaces. The start time is field 22 (proc(5)).
            return file.read().rpartition(b") ")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def make_join_script(folder: str) -> str:
    """Return shell code that moves its shell into a control group; empty without a group."""
    if not folder:
        return ""
    procs = shlex.quote(f"{folder}/cgroup.procs")
    return _JOIN.format(name=os.path.basename(folder), procs=procs, owner=os.getpid())


def count_refusals(folder: str) -> int:
    """Return how often the system has refused a process or a thread because of a group's limit."""
    with suppress(OSError, ValueError), open(f"{folder}/pids.events", encoding="ascii") as file:
        for line in file:
            name, _, count = line.partition(" ")
            if name == "max":
                return int(count)
    return 0


def remove_group(folder: str) -> None:
    """Remove a group, unless a process runs in it."""
    with suppress(OSError):
        os.rmdir(folder)
