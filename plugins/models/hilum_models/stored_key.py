"""A key that hilum keeps for the user."""

from __future__ import annotations

import msgspec


class StoredKey(msgspec.Struct, frozen=True):
    """A key that hilum keeps.

    Attributes:
        key: The key; empty if it could not be read.
        address: Scheme, host and port of the server for which the key was entered.
        place: Description of where the key is stored.
        problem: Why the key could not be read; empty if there was no problem.
    """

    key: str
    address: str
    place: str
    problem: str = ""

    def __repr__(self) -> str:
        # Omit the key, because representations may appear in tracebacks and logs.
        return f"StoredKey({self.address})"
