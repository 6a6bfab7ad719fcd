"""The copy of an open log on the local disk, so that reading it never waits for the database."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Sequence

from hilum import StoreError
from hilum.events import AnyEvent, decode


class LocalCopy:
    """The events of one open log, in an unnamed temporary file that ends with the process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed by ``close``)
        # The end of each event in the file; 8 bytes an event.
        self._ends = array("Q", [0])

    @property
    def last(self) -> int:
        """Number of events."""
        return len(self._ends) - 1

    def measure(self, after: int) -> int:
        """Return the number of bytes of the events after a sequence number."""
        return self._ends[-1] - self._ends[after]

    def add(self, lines: Sequence[bytes], after: int) -> None:
        """Add encoded events after the given one; what follows it is forgotten.

        Raises:
            StoreError: The temporary folder is full.
        """
        del self._ends[after + 1 :]
        end = self._ends[-1]
        data = b"".join(lines)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._file.fileno(), data[written:], end + written)
        except OSError as error:
            raise StoreError(
                f"The temporary folder {tempfile.gettempdir()} cannot be written:"
                f" {error.strerror or error}.",
                hint="Free some space there, or set TMPDIR to another folder.",
            ) from None
        for line in lines:
            end += len(line)
            self._ends.append(end)

    def read(self, after: int, limit: int, last: int) -> list[AnyEvent]:
        """Return at most ``limit`` events after a sequence number, up to ``last``."""
        after = max(after, 0)
        upto = min(after + limit, last, self.last)
        if upto <= after:
            return []
        start = self._ends[after]
        data = os.pread(self._file.fileno(), self._ends[upto] - start, start)
        return [
            decode(data[self._ends[seq] - start : self._ends[seq + 1] - start])
            for seq in range(after, upto)
        ]

    def close(self) -> None:
        """Free the space; a second call does nothing."""
        self._file.close()
