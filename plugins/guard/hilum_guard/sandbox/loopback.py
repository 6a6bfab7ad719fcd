"""The loopback network that a session's commands share.

The loopback is in a network namespace, which a user namespace owns. A short-lived process creates
both namespaces, and hilum opens them. Afterwards, only hilum's descriptors and the running commands
keep the namespaces alive, so the namespaces end with the session and the last command, even if
hilum is killed. No helper process has to stay alive, so no helper can be killed, and no process id
can be reused.

Commands join the namespaces through the paths of hilum's descriptors in ``/proc``, and create their
own user namespace inside, so that no command has any rights in the shared user namespace.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
from collections.abc import Callable, Sequence

HOLD = "echo $$; read -r _; echo here; read -r _"
"""Shell script that runs in the new namespaces.

The script writes its process id. When it reads a line, it confirms that it is still running.
"""
_TIMEOUT = 15_000  # milliseconds


class Loopback:
    """The loopback of one session.

    The loopback is created on first use. Its methods may block, and threads may call them.
    """

    def __init__(self) -> None:
        # Several commands may start at once, each in its own thread.
        self._lock = threading.Lock()
        self._fds = list[int]()

    def paths(self, maker: Sequence[str]) -> tuple[str, ...]:
        """Return the paths of the user namespace and the network namespace.

        Args:
            maker: A command that runs ``HOLD`` in new namespaces, with the loopback up.

        Raises:
            OSError: The namespaces cannot be created.
        """
        with self._lock:
            if not self._fds:
                self._fds = _create(maker)
            return tuple(f"/proc/{os.getpid()}/fd/{fd}" for fd in self._fds)

    def close(self) -> None:
        """Close the descriptors. The loopback ends with the last command that uses it."""
        with self._lock:
            while self._fds:
                os.close(self._fds.pop())


def works(maker: Sequence[str], starts: Callable[[tuple[str, ...]], bool]) -> bool:
    """Return whether a loopback can be created and joined. Blocks for a few milliseconds.

    Args:
        maker: As for ``Loopback.paths``.
        starts: Returns whether a command starts in a loopback with the given paths.
    """
    loopback = Loopback()
    try:
        return starts(loopback.paths(maker))
    except OSError:
        return False
    finally:
        loopback.close()


def _create(maker: Sequence[str]) -> list[int]:
    """Create the namespaces, and return descriptors for them."""
    fds: list[int] = []
    with subprocess.Popen(
        maker,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # A new process session keeps Ctrl-C in the terminal from ending this process.
        start_new_session=True,
    ) as process:
        try:
            pid = int(_read_line(process) or 0)
            for name in ("user", "net"):
                fds.append(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY))
                # If the process had no namespace of its own, commands would share the machine's
                # network.
                if os.path.samestat(os.fstat(fds[-1]), os.stat(f"/proc/self/ns/{name}")):
                    raise OSError(f"the maker has no {name} namespace of its own")
            assert process.stdin is not None
            process.stdin.write(b"\n")
            # If the process has ended, its id may already belong to another process.
            if _read_line(process) != b"here\n":
                raise OSError("the maker of the namespaces has ended")
        except (OSError, ValueError) as error:
            for fd in fds:
                os.close(fd)
            process.kill()
            raise OSError(str(error)) from error
    # Leaving the `with` block closed the standard input of the process, which makes it exit.
    return fds


def _read_line(process: subprocess.Popen[bytes]) -> bytes:
    """Read a line; return an empty line if none arrives in time."""
    assert process.stdout is not None
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    if poll.poll(_TIMEOUT):
        return process.stdout.readline()
    return b""
