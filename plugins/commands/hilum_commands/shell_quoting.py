"""Puts arguments into a shell command so that the shell reads them as plain words.

The place of an argument decides how it is quoted: within quotes, the quotes are closed before the
argument and opened again after it. Where quoting would not help, because the text is evaluated a
second time, only arguments without special characters are accepted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from hilum_commands.arguments import Arguments
from hilum_commands.template import Argument, Part

# Characters that mean nothing to a shell, in any context.
_HARMLESS = re.compile(r"[A-Za-z0-9_./:@%+,\- ]*")
# Constructs in which the scanner below does not know the context, or in which the shell, another
# shell or arithmetic evaluates a word again: `[[ 'a[$(id)]' -eq 1 ]]` runs `id`.
_UNCERTAIN = re.compile(
    r"`|<<|\(\(|\[\[|\$\[|\$\{|\$'|\$\"|\\\n"
    r"|\b(?:alias|case|declare|eval|export|let|local|mapfile|read|readonly|trap|typeset|unset)\b"
    # Programs whose arguments are programs, too.
    r"|\b(?:awk|bc|dc|ed|ex|gawk|gdb|m4|make|mawk|mysql|parallel|perl|psql|ruby|sed|sqlite3|ssh"
    r"|su|vim|watch)\b"
    r"|(?:^|\s)-[A-Za-z]*[cev]\b"
    # A newline in an argument would end a comment.
    r"|(?:^|[\s;|&()])#"
)


class UnsafeArgument(ValueError):
    """An argument cannot be put into a shell command safely. The message is one sentence."""


def fill_command(parts: Sequence[Part], arguments: Arguments) -> str:
    """Return a shell command with its arguments quoted.

    Raises:
        UnsafeArgument: An argument has special characters in a place where quoting does not
            protect against them.
    """
    written = "".join(part for part in parts if isinstance(part, str))
    is_uncertain = _UNCERTAIN.search(written) is not None
    scanner = _QuoteScanner()
    result = ""
    for part in parts:
        if isinstance(part, str):
            scanner.read(part)
            result += part
            continue
        if scanner.quote == "'" and part.key.isdigit():
            # `awk '{print $1}'` has variables of awk, and no places.
            result += f"${part.key}"
            continue
        value = arguments.find(part)
        if "\0" in value:
            raise UnsafeArgument("An argument contains a NUL character.")
        # After `$` or a backslash, the quotes would have another meaning.
        is_marked = scanner.is_escaping or result.endswith("$")
        if is_uncertain or is_marked:
            result += _require_harmless(value)
        else:
            result += _quote(part, arguments, scanner.quote)
    return result


def _quote(place: Argument, arguments: Arguments, quote: str) -> str:
    if not quote:
        return " ".join(map(shlex.quote, arguments.find_words(place)))
    return f"{quote}{shlex.quote(arguments.find(place))}{quote}"


def _require_harmless(value: str) -> str:
    if _HARMLESS.fullmatch(value):
        return value
    shown = value if len(value) <= 60 else f"{value[:60]} …"
    raise UnsafeArgument(
        f"The argument {shown!r} has characters that the shell could evaluate at this place."
    )


class _QuoteScanner:
    """Tracks the quotes of a shell command.

    Attributes:
        is_escaping: Whether the text so far ends with a backslash that escapes the next character.
    """

    def __init__(self) -> None:
        # The kinds of open contexts: a quote, or ")" for a command substitution.
        self._open: list[str] = []
        self.is_escaping = False

    @property
    def quote(self) -> str:
        """The quote that is open; empty outside quotes."""
        innermost = self._open[-1] if self._open else ""
        return "" if innermost == ")" else innermost

    def read(self, text: str) -> None:
        """Read the next part of the command."""
        before = ""
        for character in text:
            if self.is_escaping:
                self.is_escaping = False
            else:
                self._read_character(character, before)
            before = character

    def _read_character(self, character: str, before: str) -> None:
        quote = self.quote
        if quote == "'":
            if character == "'":
                self._open.pop()
        elif character == "\\":
            self.is_escaping = True
        elif character == '"':
            if quote == '"':
                self._open.pop()
            else:
                self._open.append('"')
        elif character == "(" and (before == "$" or not quote):
            self._open.append(")")
        elif not quote:
            self._read_unquoted(character)

    def _read_unquoted(self, character: str) -> None:
        if character == "'":
            self._open.append("'")
        elif character == ")" and self._open:
            self._open.pop()
