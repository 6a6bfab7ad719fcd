"""A key that hilum keeps for the user."""

from __future__ import annotations

import msgspec


class StoredKey(msgspec.Struct, frozen=True):
    """A key that hilum keeps.

    Attributes:
        key: The key; empty if it could not be read.
        address: Scheme, host and port of the server that it was entered for.
        place: Where it is kept, in words.
        problem: Why it could not be read; empty if it was.
    """

    key: str
    address: str
    place: str
    problem: str = ""

    def __repr__(self) -> str:
        # The key is left out, because tracebacks and logs show the representation.
        return f"StoredKey({self.address})"
