"""Returns memory that a large piece of work has used to the operating system."""

from __future__ import annotations

from contextlib import suppress


def return_unused_memory() -> None:
    """Return unused memory of this process to the operating system; takes about a millisecond.

    The C library keeps it for later use otherwise: after a walk over 20,000 files, 5 MB. Only the GNU
    C library has a function for this; with any other, nothing is done.
    """
    import ctypes  # the import takes 5 ms

    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
