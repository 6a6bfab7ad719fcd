"""The threads of OpenTelemetry's SDK, which end only if they are told to."""

import threading
import time


def join_sdk_threads(timeout=10.0):
    """Wait until the SDK's threads have ended, and return those that have not after ``timeout``.

    By itself, the SDK would try for 30 seconds.
    """
    deadline = time.monotonic() + timeout
    for thread in _find():
        thread.join(max(0.0, deadline - time.monotonic()))
    return _find()


def _find():
    return [thread for thread in threading.enumerate() if thread.name.startswith("Otel")]
