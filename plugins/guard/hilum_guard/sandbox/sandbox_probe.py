"""Determine what this system enforces, by trying its sandboxes or by guessing."""

from __future__ import annotations

import functools
import sys
import threading

from hilum_guard.sandbox import bubblewrap
from hilum_guard.sandbox.enforcement import Enforcement

# A session prepares its sandbox in one thread, while another thread may start the first command.
_lock = threading.Lock()


def probe() -> Enforcement:
    """Return what this system enforces, determined by trying its sandboxes.

    The first call blocks for tens of milliseconds. An earlier start of hilum may have kept the
    result (see ``probe_cache``).
    """
    with _lock:
        return _probe_once()


@functools.cache
def _probe_once() -> Enforcement:
    from hilum_guard.sandbox.probe_cache import read_probe  # with the first command

    return read_probe() or _try_sandboxes()


def forget() -> None:
    """Forget the result, so that the next call of ``probe`` tries the sandboxes. Blocks."""
    from hilum_guard.sandbox.probe_cache import forget_probe  # rarely needed

    with _lock:
        forget_probe()
        _probe_once.cache_clear()


def _try_sandboxes() -> Enforcement:
    from hilum_guard.sandbox.backends import find_enforcement
    from hilum_guard.sandbox.probe_cache import write_probe

    found = find_enforcement()
    write_probe(found)
    return found


def presume_enforcement() -> Enforcement:
    """Return what this system most likely enforces, without trying its sandboxes."""
    if _probe_once.cache_info().currsize:
        return _probe_once()
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
