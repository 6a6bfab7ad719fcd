"""A plugin for tests, after which a log can no longer be written."""

# The disk is full as soon as the file "full" exists in the folder of the session.
FULL_DISK = """
import os
from hilum.errors import StoreError
from hilum.journal import Journal

append = Journal.append

def append_unless_full(self, *arguments):
    if os.path.exists("full") and self.broken is None:
        self.broken = StoreError("The disk is full.", hint="Make room.")
        self._wake()
        raise self.broken
    return append(self, *arguments)

Journal.append = append_unless_full
"""
