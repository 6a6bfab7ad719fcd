"""Describes errors in a server's connection, each in one sentence."""

from __future__ import annotations

from hilum import HilumError
from hilum.hooks import find_first_error

MAX_REASON = 500
# The SDK's message for every unsuccessful HTTP status.
ERROR_STATUS = "Server returned an error response"

# Maximum size, in bytes, of one message from a server. A large image fits within this limit.
MAX_MESSAGE = 32 << 20

TOO_LARGE = f"It sent a response larger than {MAX_MESSAGE >> 20} MB."
ASK_FOR_LESS = "Request less at once: a part, a page or a smaller image."
_HTTP_LIBRARIES = ("httpx", "httpx2", "httpcore2")


class LoginRequiredError(Exception):
    """The server requires a login, which only ``hilum mcp login`` can perform."""


class ServerProtocolError(Exception):
    """The connection to a server cannot continue, for the reason in the message."""


def is_too_large(reason: str) -> bool:
    """Return whether a response was too large, judging by hilum's message or the SDK's."""
    if "It sent a response larger than" in reason:
        return True
    return "event exceeded the" in reason and "byte limit" in reason


def describe_error(error: BaseException) -> str:
    """Return one sentence about an error, for the user and the model."""
    error = find_first_error(error)
    if isinstance(error, HilumError):
        return str(error)
    text = _describe(error)
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _describe(error: BaseException) -> str:
    name = type(error).__name__
    protocol_message = getattr(getattr(error, "error", None), "message", "")
    if protocol_message:
        return _shorten(str(protocol_message))
    # Classes are compared by name, so that this module imports neither pydantic nor an HTTP
    # library.
    if name == "ValidationError":
        first = error.errors()[0]  # type: ignore[attr-defined]
        path = ".".join(map(str, first["loc"]))
        return _shorten(f"Its response violates the protocol: {path}: {first['msg']}")
    if name == "HTTPStatusError":
        # The error's own text contains the whole URL, which may include a key.
        return f"HTTP {error.response.status_code}"  # type: ignore[attr-defined]
    text = _shorten(_innermost_message(error)) or name
    library = type(error).__module__.partition(".")[0]
    if isinstance(error, OSError) or library in _HTTP_LIBRARIES:
        return f"{name}: {text}"
    return text


def _innermost_message(error: BaseException) -> str:
    """Return the first message in a chain of causes; HTTP libraries wrap it in empty errors."""
    cause: BaseException | None = error
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    return str(cause or "")


def _shorten(text: str) -> str:
    return " ".join(text.split())[:MAX_REASON]
