"""What goes wrong with a language server."""

from __future__ import annotations


class ServerFailed(Exception):
    """A server has ended, hangs or breaks the protocol, so it can no longer be used."""


class ServerRefused(Exception):
    """A server answered a request with an error.

    Args:
        message: The server's message, on one line.
        again: Whether the request may succeed if it is repeated.
    """

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again
