"""Reading command lines: argparse with errors that name what to do, and the prompt from arguments
and standard input.
"""

from __future__ import annotations

import os
import re
import select
import stat
import sys
from collections.abc import Callable, Sequence

from hilum import HilumError, UsageError
from hilum.errors import E_BAD_ARGS

from hilum_cli.terminal import Out, is_terminal, neutral, report

STDIN_LIMIT = 2_000_000
PATIENCE = 2.0


def run_command(action: Callable[[], int]) -> int:
    """Run a command; an error of hilum's becomes a message and an exit code."""
    try:
        return action()
    except SystemExit as error:  # --help
        return int(error.code or 0)
    except HilumError as error:
        report(error.message, hint=error.hint, code=error.code)
        return error.exit_code


def check_text(texts: Sequence[str]) -> None:
    """Refuse arguments that are not text.

    Raises:
        UsageError: One of them is not UTF-8.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
            hint = "Set the locale to UTF-8, and rename files whose names are not."
            raise UsageError(
                f"The argument {shown} is not UTF-8 text.", code=E_BAD_ARGS, hint=hint
            ) from None


def check_folder(path: str) -> str:
    """Return the absolute path of a workspace, links resolved.

    Raises:
        UsageError: There is no such folder, or it cannot be read.
    """
    try:
        absolute = os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError:
        raise UsageError(
            "The current folder does not exist any more.", hint="Name another: --workspace DIR."
        ) from None
    if os.path.isdir(absolute) and not os.access(absolute, os.R_OK | os.X_OK):
        raise UsageError(
            f"The workspace {neutral(absolute)} cannot be read.",
            hint="Change its permissions, or name another.",
        )
    return os.path.realpath(absolute)


def read_prompt(words: Sequence[str]) -> str:
    """Create the prompt of the arguments and of what is piped in.

    Args:
        words: The arguments; ``-`` stands for standard input and asks for it even on a terminal.

    Raises:
        UsageError: Standard input is not UTF-8 text, or too long.
    """
    text = " ".join(word for word in words if word != "-").strip()
    piped = "-" in words or _is_piped()
    given = _read_stdin(told="-" in words).strip("\n") if piped else ""
    if not text or not given.strip():
        return text or given
    closed = re.sub(r"(?i)<(?=\s*/\s*stdin\b)", r"<\\", given)
    return f"{text}\n\n<stdin>\n{closed}\n</stdin>"


def is_document(words: Sequence[str]) -> bool:
    """Return whether the whole prompt comes from another program or a file, and none of it was
    typed by the user.

    It is worked on as the prompt. What it names is data all the same: ``curl … | hilum run`` has
    somebody else write it.

    Args:
        words: The arguments.
    """
    typed = any(word.strip() for word in words if word != "-")
    return not typed and not is_terminal(0)


def _is_piped() -> bool:
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read_stdin(told: bool) -> str:
    if not told and sys.platform != "win32":
        # Some programs start others with a pipe that nobody ever writes to; say what is being
        # waited for.
        if not select.select([0], [], [], PATIENCE)[0]:
            Out(2).say(
                "hilum: reading standard input to its end; without it: hilum run … < /dev/null"
            )
    elif is_terminal(0):
        Out(2).say("hilum: type the prompt, then Ctrl-D")
    data = bytearray()
    while len(data) <= STDIN_LIMIT:
        try:
            piece = os.read(0, 1 << 16)
        except OSError as error:
            raise UsageError(
                f"Standard input cannot be read: {error.strerror}.", code=E_BAD_ARGS
            ) from None
        if not piece:
            break
        data += piece
    if len(data) > STDIN_LIMIT:
        hint = "Put it into a file of the workspace and name that in the prompt."
        raise UsageError(
            f"Standard input has more than {STDIN_LIMIT:,} bytes.", code=E_BAD_ARGS, hint=hint
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        hint = "Convert it first, for example with iconv -t utf-8."
        message = f"Standard input is not UTF-8 text (byte {error.start})."
        raise UsageError(message, code=E_BAD_ARGS, hint=hint) from None
