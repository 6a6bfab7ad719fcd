"""Determine what this system enforces, by trying its sandboxes or by guessing."""

from __future__ import annotations

import sys
import threading

from hilum_guard.sandbox import bubblewrap
from hilum_guard.sandbox.enforcement import Enforcement

# A session prepares its sandbox in one thread, while another thread may start the first command.
_lock = threading.Lock()
# The results of this process, by the bubblewrap that was tried.
_found: dict[tuple[int, ...], Enforcement] = {}


def probe() -> Enforcement:
    """Return what this system enforces, determined by trying its sandboxes.

    The first call, and the first after bubblewrap was replaced, blocks for tens of milliseconds. An
    earlier start of hilum may have kept the result (see ``probe_cache``).
    """
    from hilum_guard.sandbox.probe_cache import read_probe  # with the first command

    with _lock:
        program = identify_bubblewrap()
        if program not in _found:
            _found[program] = read_probe() or _try_sandboxes()
        return _found[program]


def identify_bubblewrap() -> tuple[int, ...]:
    """Return what changes when the system's bubblewrap is replaced, installed or removed."""
    return bubblewrap.identify(bubblewrap.find_bubblewrap())


def forget() -> None:
    """Forget the result, so that the next call of ``probe`` tries the sandboxes. Blocks."""
    from hilum_guard.sandbox.probe_cache import forget_probe  # rarely needed

    with _lock:
        forget_probe()
        _found.clear()


def _try_sandboxes() -> Enforcement:
    from hilum_guard.sandbox.backends import find_enforcement
    from hilum_guard.sandbox.probe_cache import write_probe

    program = identify_bubblewrap()
    found = find_enforcement()
    # The result must not be kept for a program that took the place of the tried one.
    if identify_bubblewrap() == program:
        write_probe(found)
    return found


def presume_enforcement() -> Enforcement:
    """Return what this system most likely enforces, without trying its sandboxes."""
    found = _found.get(identify_bubblewrap())
    if found is not None:
        return found
    if sys.platform == "darwin":
        return Enforcement("sandbox-exec", True, True, "namespace", True)
    if sys.platform != "linux":
        return Enforcement()
    if bubblewrap.find_bubblewrap():
        shared = bool(bubblewrap.find_nsenter())
        return Enforcement("bubblewrap", True, True, "namespace", True, shared=shared)
    from hilum_guard.sandbox import landlock  # imports ctypes, which is slow

    if landlock.read_abi_version():
        return Enforcement("landlock", True, False, "namespace", True, shared=True)
    return Enforcement()
