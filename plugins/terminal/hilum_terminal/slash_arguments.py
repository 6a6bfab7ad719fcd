"""Reads the arguments of commands."""

from __future__ import annotations

import shlex

from hilum import UsageError
from hilum.errors import E_BAD_ARGS


def split_words(arguments: str) -> list[str]:
    """Split arguments into words, as a shell does.

    Raises:
        UsageError: A quotation mark is not closed.
    """
    try:
        return shlex.split(arguments)
    except ValueError as error:
        raise UsageError(
            f"The arguments cannot be read: {error}.", code=E_BAD_ARGS, hint="Close the quotes."
        ) from None


def refuse_arguments(name: str, arguments: str) -> None:
    """Raise an error if a command without parameters was given arguments.

    Raises:
        UsageError: It was given some.
    """
    if arguments:
        raise UsageError(
            f"/{name} takes no arguments.",
            code=E_BAD_ARGS,
            hint=f"To send the text to the agent, type it without /{name}.",
        )
