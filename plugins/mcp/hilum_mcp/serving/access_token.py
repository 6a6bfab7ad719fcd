"""Finds or creates the access token for clients that connect over HTTP."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import MutableMapping
from pathlib import Path

from hilum import UsageError
from hilum.errors import E_BAD_ARGS

VARIABLE = "HILUM_MCP_TOKEN"
MIN_LENGTH = 16
MAX_FILE = 10_000


def find_token(file: str, environ: MutableMapping[str, str]) -> tuple[str, str]:
    """Return the token and its source: a file, the environment, or empty for a new token.

    Args:
        file: The file that contains the token, which is created if it does not exist; empty if no
            file is used.
        environ: The environment. The token's variable is removed from the environment, so that no
            child process inherits the token.

    Raises:
        UsageError: The file cannot be used, or the token is too short.
    """
    from_environment = environ.pop(VARIABLE, "").strip()
    if file:
        token = _read_file(Path(os.path.expanduser(file)))
        return _check(token, f"the file {file}"), file
    if from_environment:
        return _check(from_environment, f"the variable {VARIABLE}"), VARIABLE
    return secrets.token_urlsafe(32), ""


def _read_file(path: Path) -> str:
    """Return the token in a file, creating the file if it does not exist."""
    try:
        # O_EXCL prevents hilum from overwriting an existing file or following a planted link.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as new:
            new.write(secrets.token_urlsafe(32) + "\n")
    except FileExistsError:
        pass
    except OSError as error:
        raise _file_error(path, f"cannot be created: {error.strerror}") from None
    try:
        with open(path, "rb") as file:
            # The open file is checked, because the file at the path may be replaced at any time.
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(MAX_FILE)
    except OSError as error:
        raise _file_error(path, f"cannot be read: {error.strerror}") from None
    if os.name == "posix" and mode & 0o077:
        raise UsageError(
            f"The token file {path} is readable by other users.",
            code=E_BAD_ARGS,
            hint=f"Run chmod 600 {path}.",
        )
    return data.decode("ascii", errors="replace").strip()


def _file_error(path: Path, what: str) -> UsageError:
    return UsageError(f"The token file {path} {what}.", code=E_BAD_ARGS)


def _check(token: str, place: str) -> str:
    # A header cannot contain other characters, and a short token could be guessed.
    if not re.fullmatch(rf"[\x21-\x7e]{{{MIN_LENGTH},}}", token):
        raise UsageError(
            f"The token in {place} is too short, or contains spaces or special characters.",
            code=E_BAD_ARGS,
            hint=f"Use at least {MIN_LENGTH} characters; openssl rand -hex 32 creates a token.",
        )
    return token
