"""Functions that safely print text from files, models, tools and repositories to a terminal.

Harmful characters are escaped, not removed.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TextIO

from hilum.errors import HilumError

# Characters that a terminal would interpret, and characters that disguise text (direction
# changes, zero-width characters). Tabs and newlines are kept.
_HARMFUL = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


def escape_terminal(text: str) -> str:
    """Return text with all control characters except newlines and tabs escaped."""
    # For most texts, these two checks suffice, and they are faster than the search below.
    if text.isascii() and text.isprintable():
        return text
    return re.sub(
        _HARMFUL, lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text
    )


def escape_line(text: str) -> str:
    """Return text on one line: newlines and tabs are escaped as well.

    A name from a repository may contain newlines, and the text after one must not look like a line of
    hilum.
    """
    return escape_terminal(text).replace("\n", "\\n").replace("\t", "\\t")


def make_code_block(text: str, language: str = "") -> str:
    """Return a text as a code block in Markdown, which the text itself cannot close.

    Args:
        text: The text.
        language: The language of the text.
    """
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def say(text: str, *, to: TextIO | None = None) -> None:
    """Print one or more lines to standard output.

    Args:
        text: The text, which is escaped for a terminal.
        to: The stream to print to; by default, standard output.
    """
    _write(escape_terminal(text), to or sys.stdout)


def say_json(data: object) -> None:
    """Print data as JSON to standard output (see ``format_json``)."""
    _write(format_json(data), sys.stdout)


def format_json(data: object) -> str:
    """Return data as JSON.

    Characters that a terminal would interpret are escaped as JSON allows, so nothing is lost.
    """
    text = json.dumps(data, ensure_ascii=False, indent=1)
    return re.sub(_HARMFUL, lambda match: json.dumps(match[0])[1:-1], text)


def _write(text: str, to: TextIO) -> None:
    # On a terminal without UTF-8 (LANG=C), printing must not raise a UnicodeEncodeError.
    encoding = to.encoding or "utf-8"
    try:
        print(text.encode(encoding, errors="backslashreplace").decode(encoding), file=to)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_error(error) from None


def output_error(error: OSError) -> HilumError:
    """Return the error for output that cannot be written, for example because the disk is full."""
    reason = error.strerror or str(error)
    hint = "The output is incomplete. Write to another location, or free some disk space."
    return HilumError(f"Cannot write to standard output: {reason}.", code="E_FAILED", hint=hint)
