"""Determine what this system enforces, by trying its sandboxes or by guessing."""

from __future__ import annotations

import functools
import sys

from hilum_guard.sandbox import bubblewrap
from hilum_guard.sandbox.enforcement import Enforcement


@functools.cache
def probe() -> Enforcement:
    """Return what this system enforces, determined by trying its sandboxes.

    The first call blocks for tens of milliseconds.
    """
    from hilum_guard.sandbox.backends import find_enforcement  # imported with the first command

    return find_enforcement()


def presume_enforcement() -> Enforcement:
    """Return what this system most likely enforces, without trying its sandboxes."""
    if probe.cache_info().currsize:
        return probe()
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
