"""Reads the prompt from arguments and standard input, and runs async commands."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from hilum import UsageError
from hilum.errors import E_BAD_ARGS

from hilum_cli.terminal import Out, is_terminal

Result = TypeVar("Result")

STDIN_LIMIT = 2_000_000  # bytes
STDIN_NOTICE_TIMEOUT = 2.0  # seconds


def run_async(function: Callable[..., Awaitable[Result]], *arguments: Any) -> Result:
    """Run an async function and return its result.

    Commands call this instead of trio, so that their ``--help`` does not wait for trio's import.
    """
    import trio

    return trio.run(function, *arguments)


class GivenPrompt(NamedTuple):
    """The task given by the user.

    Attributes:
        text: The prompt.
        attached: Text that was piped in along with the prompt. The model must treat this text as
            data, not as instructions.
        piped: Whether another program or a file provides the whole prompt. hilum follows such a
            prompt but treats it as data: with ``curl … | hilum run``, somebody else wrote it.
    """

    text: str
    attached: str = ""
    piped: bool = False


def read_prompt(words: Sequence[str]) -> GivenPrompt:
    """Read the prompt from the arguments and from piped input.

    Args:
        words: The arguments; ``-`` reads standard input, even from a terminal.

    Raises:
        UsageError: Standard input is not UTF-8 text, or is too long.
    """
    typed = " ".join(word for word in words if word != "-")
    text = typed.strip()
    # As in the terminal, a space keeps plugins from reading the prompt as a command.
    if text and typed[0].isspace():
        text = f" {text}"
    given = ""
    if "-" in words or _is_piped():
        given = _read_stdin(wanted="-" in words).strip("\n")
    if not text:
        return GivenPrompt(given, piped=not is_terminal(0))
    return GivenPrompt(text, attached=given if given.strip() else "")


def _is_piped() -> bool:
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # closed
        return False
    # A character device, such as a terminal or /dev/null, is not piped input.
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read_stdin(wanted: bool) -> str:
    if not wanted and sys.platform != "win32":
        # Some programs start hilum with a pipe that they never write to or close. A notice tells
        # the user what hilum is waiting for.
        readable, _, _ = select.select([0], [], [], STDIN_NOTICE_TIMEOUT)
        if not readable:
            Out(2).say(
                "hilum: reading standard input to its end"
                " (to run without it: hilum run … < /dev/null)"
            )
    elif is_terminal(0):
        Out(2).say("hilum: type the prompt, then Ctrl-D")
    data = bytearray()
    while len(data) <= STDIN_LIMIT:
        try:
            # Read bytes, because the encoding of ``sys.stdin`` depends on the locale.
            piece = os.read(0, 1 << 16)
        except OSError as error:
            raise UsageError(
                f"Standard input cannot be read: {error.strerror}.", code=E_BAD_ARGS
            ) from None
        if not piece:
            break
        data += piece
    if len(data) > STDIN_LIMIT:
        hint = "Save the input as a file in the workspace and name the file in the prompt."
        raise UsageError(
            f"Standard input has more than {STDIN_LIMIT:,} bytes.", code=E_BAD_ARGS, hint=hint
        )
    try:
        # Some programs on Windows write a byte order mark.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        hint = "Convert the input first, for example with iconv -t utf-8."
        message = f"Standard input is not UTF-8 text (byte {error.start})."
        raise UsageError(message, code=E_BAD_ARGS, hint=hint) from None
