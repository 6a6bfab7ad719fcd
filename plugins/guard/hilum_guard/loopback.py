"""The loopback that the commands of a session share: a network namespace, and the user namespace
that owns it.

A process that lives for some milliseconds makes both, and hilum opens them. From then on hilum's
descriptors and the commands keep them, so they end with the session, with hilum however it ends,
and with the last command. There is no process that could be killed, and no process id that could
come to mean another. Commands join by the names of hilum's descriptors in ``/proc``, and make a
user namespace of their own inside: nothing that runs has any rights in the shared one.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
from collections.abc import Callable, Sequence

HOLD = "echo $$; read -r _; echo here; read -r _"
"""What a maker's shell runs in the new namespaces: it tells its process id, and when asked, that it
is still there.
"""
_PATIENCE = 4000  # milliseconds


class Loopback:
    """The loopback of one session.

    It is made when it is first asked for; both methods may block and be called in threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fds = list[int]()

    def paths(self, maker: Sequence[str]) -> tuple[str, ...]:
        """Return what to join: the paths of the user namespace and of the network namespace.

        Args:
            maker: A command that runs ``HOLD`` in new ones, with the loopback up.

        Raises:
            OSError: They cannot be made.
        """
        with self._lock:
            if not self._fds:
                self._fds = _make(maker)
            return tuple(f"/proc/{os.getpid()}/fd/{fd}" for fd in self._fds)

    def close(self) -> None:
        """Let go of it; it ends when no command is in it any more."""
        with self._lock:
            while self._fds:
                os.close(self._fds.pop())


def works(maker: Sequence[str], starts: Callable[[tuple[str, ...]], bool]) -> bool:
    """Return whether a loopback can be made and joined. Blocks for some milliseconds.

    Args:
        maker: As for ``Loopback.paths``.
        starts: Tries a command in the loopback with these paths.
    """
    loopback = Loopback()
    try:
        return starts(loopback.paths(maker))
    except OSError:
        return False
    finally:
        loopback.close()


def _make(maker: Sequence[str]) -> list[int]:
    fds: list[int] = []
    with subprocess.Popen(
        maker,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            pid = int(_line(process) or 0)
            for name in ("user", "net"):
                fds.append(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY))
                if os.path.samestat(os.fstat(fds[-1]), os.stat(f"/proc/self/ns/{name}")):
                    raise OSError(f"the maker has no {name} namespace of its own")
            assert process.stdin is not None
            process.stdin.write(b"\n")
            if _line(process) != b"here\n":  # its id could be another's by now
                raise OSError("the maker of the namespaces has ended")
        except (OSError, ValueError) as error:
            for fd in fds:
                os.close(fd)
            process.kill()
            raise OSError(str(error)) from error
    return fds  # the maker ends as its standard input is closed


def _line(process: subprocess.Popen[bytes]) -> bytes:
    """Read a line, if one comes in time."""
    assert process.stdout is not None
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    if poll.poll(_PATIENCE):
        return process.stdout.readline()
    return b""
