"""The token that a client over HTTP must know."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import MutableMapping
from pathlib import Path

from hilum import UsageError
from hilum.errors import E_BAD_ARGS

VARIABLE = "HILUM_MCP_TOKEN"
SHORTEST = 16


def find(file: str, environ: MutableMapping[str, str]) -> tuple[str, str]:
    """Return the token, and where it is from: a file, the environment, or nowhere (it was made for
    this run).

    Args:
        file: A file that holds it, or is to hold a new one; empty for none.
        environ: Where the variable may stand; it is taken out, so that no child process has it.

    Raises:
        UsageError: The file cannot be used, or the token is too short.
    """
    given = environ.pop(VARIABLE, "").strip()
    if file:
        return _checked(_from_file(Path(file).expanduser()), f"the file {file}"), file
    if given:
        return _checked(given, f"the variable {VARIABLE}"), VARIABLE
    return secrets.token_urlsafe(32), ""


def _from_file(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(
            f"The file of the token, {path}, cannot be made: {error.strerror}.", code=E_BAD_ARGS
        ) from None
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(10_000)
    except OSError as error:
        raise UsageError(
            f"The file of the token, {path}, cannot be read: {error.strerror}.", code=E_BAD_ARGS
        ) from None
    if os.name == "posix" and mode & 0o077:
        raise UsageError(
            f"Others may read the file of the token, {path}.",
            code=E_BAD_ARGS,
            hint=f"Run chmod 600 {path}.",
        )
    return data.decode("ascii", errors="replace").strip()


def _checked(token: str, where: str) -> str:
    if not re.fullmatch(rf"[\x21-\x7e]{{{SHORTEST},}}", token):
        hint = (
            f"It is at least {SHORTEST} letters, digits and signs without spaces: openssl rand -hex"
            " 32 gives one."
        )
        raise UsageError(f"The token in {where} is no good one.", code=E_BAD_ARGS, hint=hint)
    return token
