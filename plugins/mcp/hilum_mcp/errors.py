"""What goes wrong between a server and the SDK, said in one sentence."""

from __future__ import annotations

from hilum import HilumError

LONGEST = 500
NO_STATUS = "Server returned an error response"
"""What the SDK says of any status that is no success."""

TOO_LARGE = "It sent an answer of more than {} MB."
LESS = "Ask for less at once: a part, a page, a smaller image."


class NeedsLogin(Exception):
    """The server wants the user to log in, which only ``hilum mcp login`` does."""


def too_large(why: str) -> bool:
    """Return whether something failed by the size of an answer: what is said of one here, or by the
    SDK of an event.
    """
    return TOO_LARGE.partition("{")[0] in why or (
        "event exceeded the" in why and "byte limit" in why
    )


def single(error: BaseException) -> BaseException:
    """Return the first error of nested groups that is no group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def reason_of(error: BaseException) -> str:
    """Say in a sentence what an error says, for the user and the model."""
    error = single(error)
    if isinstance(error, HilumError):
        return str(error)
    told: BaseException | None = error
    while told is not None and not str(
        told
    ):  # libraries of HTTP hide the reason behind an error of their own
        told = told.__cause__ or told.__context__
    text = " ".join(str(told or "").split())[:LONGEST] or type(error).__name__
    said = getattr(getattr(error, "error", None), "message", "")
    if said:  # an error of the protocol
        text = " ".join(str(said).split())[:LONGEST]
    elif type(error).__name__ == "ValidationError":
        first = error.errors()[0]  # type: ignore[attr-defined]
        text = f"It answers what the protocol does not have: {'.'.join(map(str, first['loc']))}: {first['msg']}"[
            :LONGEST
        ]
    elif (
        type(error).__name__ == "HTTPStatusError"
    ):  # its text has the whole address, which may hold a key
        text = f"HTTP {error.response.status_code}"  # type: ignore[attr-defined]
    elif isinstance(error, OSError) or type(error).__module__.partition(".")[0] in (
        "httpx",
        "httpx2",
        "httpcore2",
    ):
        text = f"{type(error).__name__}: {text}"
    return text if text.endswith((".", "!", "?")) else f"{text}."
