"""The threads of OpenTelemetry's SDK, which end only if they are told to."""

import gc
import threading
import time
import warnings


def join_sdk_threads(timeout=10.0):
    """Wait until the SDK's threads have ended, and return those that have not after ``timeout``.

    By itself, the SDK would try for 30 seconds.
    """
    deadline = time.monotonic() + timeout
    while (threads := _find()) and time.monotonic() < deadline:
        for thread in threads:
            # Listed threads may not have started yet: they cannot be joined, and nothing reports it.
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
            else:
                time.sleep(0.01)
    # The SDK leaves the sockets of broken exports to the collector, which would report them in a
    # later test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    # The next collection need not examine what earlier tests keep, which takes a third of a second.
    gc.freeze()
    return _find()


def _find():
    return [thread for thread in threading.enumerate() if thread.name.startswith("Otel")]
