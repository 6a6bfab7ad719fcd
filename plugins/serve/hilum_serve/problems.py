"""Errors as clients of the server see them: a status, and JSON with code, message and hint."""

from __future__ import annotations

import msgspec
from hilum import HilumError
from hilum import errors as codes

from hilum_serve.phrases import Parts, find_parts

E_SEEN = codes.E_SEEN
E_METHOD = codes.E_METHOD
E_RIGHTS = codes.E_RIGHTS
E_TOKEN = codes.E_TOKEN
E_ORIGIN = codes.E_ORIGIN
E_HOST = codes.E_HOST
E_RATE = codes.E_RATE
E_PORT = codes.E_PORT

_STATUSES = {
    codes.E_UNKNOWN: 404,
    codes.E_NOT_FOUND: 404,
    codes.E_FILE_NOT_FOUND: 404,
    codes.E_BUSY: 409,
    codes.E_STALE: 409,
    codes.E_DENIED: 403,
    codes.E_BLOCKED: 403,
    codes.E_PATH_TRAVERSAL: 403,
    codes.E_TOO_LARGE: 413,
    codes.E_STORE: 503,
    codes.E_TIMEOUT: 503,
    codes.E_PLUGIN: 503,
    codes.E_INTERNAL: 503,
    codes.E_NOT_INSTALLED: 503,
    codes.E_INTERRUPTED: 503,
}
"""The HTTP status for each code; every other code is a mistake in the request (400)."""


class ErrorReply(msgspec.Struct, frozen=True):
    """The body of every response with an error.

    Attributes:
        code: A stable code, ``E_…``.
        message: A sentence about the problem.
        hint: A sentence about the next step; may be empty.
        message_parts: The message with codes of its sentences, for translations.
        hint_parts: The same for the hint.
    """

    code: str
    message: str
    hint: str = ""
    message_parts: Parts = []
    hint_parts: Parts = []


class Problem(HilumError):
    """An error with an HTTP status.

    Args:
        status: The HTTP status.
        code: A stable code, ``E_…``.
        message: A sentence about the problem.
        hint: A sentence about the next step.
        headers: Further headers of the response.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        hint: str = "",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.status = status
        self.headers = headers


def find_status(error: HilumError) -> int:
    """Return the HTTP status for an error."""
    if isinstance(error, Problem):
        return error.status
    return _STATUSES.get(error.code, 400)


def make_reply(error: HilumError) -> ErrorReply:
    """Return the body of the response for an error."""
    return ErrorReply(
        error.code,
        error.message,
        error.hint,
        find_parts(error.message),
        find_parts(error.hint),
    )
