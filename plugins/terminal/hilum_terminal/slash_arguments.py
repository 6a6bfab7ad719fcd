"""Reads the arguments of commands."""

from __future__ import annotations

import shlex

from hilum import UsageError
from hilum.errors import E_BAD_ARGS


def split_words(arguments: str) -> list[str]:
    """Return the words of some arguments, as a shell splits them.

    Raises:
        UsageError: A quotation is not closed.
    """
    try:
        return shlex.split(arguments)
    except ValueError as error:
        raise UsageError(
            f"The arguments cannot be read: {error}.", code=E_BAD_ARGS, hint="Close the quotes."
        ) from None


def refuse_arguments(name: str, arguments: str) -> None:
    """Check that a command was given no arguments.

    Raises:
        UsageError: It was given some.
    """
    if arguments:
        raise UsageError(
            f"/{name} takes no arguments.",
            code=E_BAD_ARGS,
            hint=f"To send the text to the agent, type it without /{name}.",
        )
