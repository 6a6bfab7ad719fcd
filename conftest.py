"""Tests everywhere in this repository may use the fixtures of ``hilum.testing``."""

import gc
import os
import signal
from collections.abc import Callable

import hypothesis
import pytest

pytest_plugins = ["hilum.testing"]

# Under nohup, and in the background of a script, signals are ignored, and whatever is started inherits that.
for _name in ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM"):
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)

# How fast examples are made is not what a test of hilum is about, and on a busy machine it is slow.
hypothesis.settings.register_profile("hilum", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("hilum")


@pytest.fixture
def open_files() -> Callable[[], int]:
    """Counts the descriptors this process has open, without those that another test has left to the collector."""

    def open_files() -> int:
        gc.collect()
        return len(os.listdir("/dev/fd"))

    return open_files
