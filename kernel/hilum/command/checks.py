"""Checks for arguments that many commands share."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hilum.command.text import escape_terminal
from hilum.errors import E_BAD_ARGS, UsageError


def check_text(texts: Sequence[str]) -> None:
    """Reject arguments that are not text.

    Raises:
        UsageError: An argument is not UTF-8.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            # Python decodes bytes on the command line that are not UTF-8 as surrogates (PEP 383).
            shown = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
            hint = "Set the locale to UTF-8, and rename files whose names are not UTF-8."
            raise UsageError(
                f"The argument {shown} is not UTF-8 text.", code=E_BAD_ARGS, hint=hint
            ) from None


def check_folder(path: str) -> str:
    """Return the absolute path of a workspace, with links resolved.

    The folder need not exist.

    Raises:
        UsageError: The folder cannot be read, or the current folder no longer exists.
    """
    try:
        absolute = os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError:
        raise UsageError(
            "The current folder no longer exists.", hint="Choose another folder: --workspace DIR."
        ) from None
    if os.path.isdir(absolute) and not os.access(absolute, os.R_OK | os.X_OK):
        raise UsageError(
            f"The workspace {escape_terminal(absolute)} cannot be read.",
            hint="Change the folder's permissions, or choose another folder.",
        )
    return os.path.realpath(absolute)
