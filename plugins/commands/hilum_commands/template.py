"""Splits the text of a command into plain text, arguments, shell inserts and file references.

A text is split before any argument is known. What the user types can therefore never become a shell
insert or a file reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import attrs

from hilum_commands.sources import Dialect

WHOLE = "*"
"""The key of an argument that stands for everything the user typed after the command."""


@attrs.frozen
class Argument:
    """A place for an argument.

    Attributes:
        key: ``WHOLE``, the number of a word counted from 1, or a name.
        is_input: Whether the place is written as ``${input:name}``.
    """

    key: str
    is_input: bool = False


Part = str | Argument


@attrs.frozen
class ShellInsert:
    """A shell command whose output belongs to the prompt.

    Attributes:
        parts: The command with the places for arguments.
        line: The line of the insert in the file.
    """

    parts: tuple[Part, ...]
    line: int


@attrs.frozen
class FileReference:
    """A file whose content belongs to the prompt.

    Attributes:
        parts: The path with the places for arguments.
        is_certain: Whether the syntax always means a file. Otherwise a name that is no file is
            plain text, such as a decorator.
        written: The reference as written in the file.
    """

    parts: tuple[Part, ...]
    is_certain: bool
    written: str


Piece = str | Argument | ShellInsert | FileReference


class TemplateError(ValueError):
    """The text of a command cannot be split.

    Args:
        line: The line in the file.
        reason: One sentence.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


_ARGUMENTS = r"\$ARGUMENTS\[(?P<index>\d{1,2})\]|\$(?P<all>ARGUMENTS)\b"
# An amount of money such as $100 or $1.50 is no argument.
_NUMBER = r"\$(?P<number>[1-9])(?!\w|[.,]\d)"
_INPUT = r"\$\{input:(?P<input>[\w.-]{1,64})(?::[^}\n]*)?\}"
_BRACES = r"\{\{\s*(?P<args>args)\s*\}\}"
_NAMED = r"\$(?P<named>[A-Z][A-Z0-9_]{0,63})\b"
_DOLLARS = r"(?P<dollars>\$\$)"
_INSERT = r"(?<![\w`])!`(?P<shell>[^`\n]+)`"
_FENCE = r"^```!\n(?P<fence>.*?)\n```[ \t]*$"
_PATH = r"(?<![\w`@/.])@(?P<path>[^\s`'\"<>|*()\[\]{}@,;]+)"
_LINK = r"(?P<link>(?<!!)\[[^\]\n]*\]\((?P<target>\.{0,2}/?[\w./-]+)\))"
_OPENING = r"(?P<opening>[!@])\{"
_SYNTAX: dict[Dialect, tuple[str, ...]] = {
    "hilum": (_FENCE, _INSERT, _ARGUMENTS, _NUMBER, _BRACES, _INPUT, _PATH),
    "claude": (_FENCE, _INSERT, _ARGUMENTS, _NUMBER, _PATH),
    "opencode": (_INSERT, _ARGUMENTS, _NUMBER, _PATH),
    "gemini": (_OPENING, _BRACES),
    "copilot": (_INPUT, _LINK),
    "cursor": (_ARGUMENTS, _NUMBER, _PATH),
    "codex": (_DOLLARS, _ARGUMENTS, _NUMBER, _NAMED),
}
# In the files of Claude Code, `$0` is the first word if it occurs; without it, `$1` is. In code, it
# may be a variable of a shell or of AWK.
_ZERO = re.compile(r"(?<![\w\\$])\$0(?!\w|[.,]\d)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_ANY_INSERT = re.compile(f"({_FENCE}|{_INSERT})", re.MULTILINE | re.DOTALL)
_ANY_NUMBER = re.compile(r"(?<!\\)\$(\d)(?!\w|[.,]\d)")
_PATTERNS: dict[Dialect, re.Pattern[str]] = {}
_PLACES = (_ARGUMENTS, _NUMBER, _BRACES, _INPUT)


def split_template(text: str, dialect: Dialect, first_line: int = 1) -> tuple[Piece, ...]:
    """Return the pieces of a command's text, in order.

    Args:
        text: The text.
        dialect: The program whose syntax the text uses.
        first_line: The line of the file on which the text begins.

    Raises:
        TemplateError: Braces are not closed.
    """
    return tuple(_split(text, dialect, first_line))


def _split(text: str, dialect: Dialect, first_line: int) -> Iterator[Piece]:
    if dialect == "claude" and _ZERO.search(_CODE.sub("", text)):
        text = _count_from_one(text)
    pattern = _PATTERNS.get(dialect)
    if pattern is None:
        source = "|".join(_SYNTAX[dialect])
        pattern = _PATTERNS[dialect] = re.compile(source, re.MULTILINE | re.DOTALL)
    at = 0
    while (match := pattern.search(text, at)) is not None:
        line = first_line + text.count("\n", 0, match.start())
        end = match.end()
        if match.groupdict().get("opening"):
            end = _find_closing_brace(text, match.end(), line)
        piece = _make_piece(match, text[match.end() : end - 1], line, dialect)
        if isinstance(piece, FileReference) and not piece.is_certain:
            # Punctuation after a path belongs to the sentence.
            kept = piece.written.rstrip(".:!?")
            end -= len(piece.written) - len(kept)
            piece = attrs.evolve(
                piece, written=kept, parts=_split_places(kept.removeprefix("@"), _PLACES)
            )
        if match.start() > at:
            yield text[at : match.start()]
        yield piece
        at = end
    if at < len(text):
        yield text[at:]


def _count_from_one(text: str) -> str:
    """Return a text with `$0` as the first argument in the notation without doubt."""
    rows = []
    at = 0
    for insert in _ANY_INSERT.finditer(text):
        rows.append(_replace_numbers(text[at : insert.start()], is_shell=False))
        rows.append(_replace_numbers(insert[0], is_shell=True))
        at = insert.end()
    rows.append(_replace_numbers(text[at:], is_shell=False))
    return "".join(rows)


def _replace_numbers(text: str, *, is_shell: bool) -> str:
    """Return a text with `$ARGUMENTS[0]` for `$0`, except in the single quotes of a shell."""
    if not is_shell:
        return _ANY_NUMBER.sub(r"$ARGUMENTS[\1]", text)
    # Every other part is in single quotes.
    parts = text.split("'")
    parts[::2] = [_ANY_NUMBER.sub(r"$ARGUMENTS[\1]", part) for part in parts[::2]]
    return "'".join(parts)


def _make_piece(match: re.Match[str], inner: str, line: int, dialect: Dialect) -> Piece:
    found = {name: value for name, value in match.groupdict().items() if value is not None}
    places = (_BRACES,) if dialect == "gemini" else _PLACES
    makers: dict[str, Callable[[], Piece]] = {
        "opening": lambda: _make_braced(found["opening"], inner, line),
        "shell": lambda: ShellInsert(_split_places(found["shell"].strip(), places), line),
        "fence": lambda: ShellInsert(_split_places(found["fence"].strip(), places), line),
        "path": lambda: FileReference((found["path"],), False, match[0]),
        "link": lambda: FileReference((found["target"],), True, found["link"]),
        "dollars": lambda: "$",
    }
    for name, make in makers.items():
        if name in found:
            return make()
    return _make_argument(found)


def _make_braced(kind: str, inner: str, line: int) -> Piece:
    """Return the piece for ``!{command}`` or ``@{path}``."""
    if not inner.strip():
        raise TemplateError(line, f"{kind}{{}} is empty.")
    if kind == "@" and re.fullmatch(r"\{\s*args\s*\}", inner.strip()):
        # `@{{args}}` can only mean the file that the user names.
        return FileReference((Argument(WHOLE),), True, f"@{{{inner}}}")
    parts = _split_places(inner.strip(), (_BRACES,))
    if kind == "!":
        return ShellInsert(parts, line)
    return FileReference(parts, True, f"@{{{inner}}}")


def _make_argument(found: dict[str, str]) -> Argument:
    if "index" in found:
        # `$ARGUMENTS[0]` is the first word.
        return Argument(str(int(found["index"]) + 1))
    if "number" in found:
        return Argument(found["number"])
    if "input" in found:
        return Argument(found["input"], is_input=True)
    return Argument(found.get("named", WHOLE))


def _split_places(text: str, syntax: Sequence[str]) -> tuple[Part, ...]:
    """Split a shell command or a path at the places for arguments."""
    parts: list[Part] = []
    at = 0
    for match in re.finditer("|".join(syntax), text):
        if match.start() > at:
            parts.append(text[at : match.start()])
        found = {name: value for name, value in match.groupdict().items() if value is not None}
        parts.append(_make_argument(found))
        at = match.end()
    if at < len(text):
        parts.append(text[at:])
    return tuple(parts)


def _find_closing_brace(text: str, start: int, line: int) -> int:
    """Return the index after the brace that closes an opened one.

    Raises:
        TemplateError: No brace closes it.
    """
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    opened = text[start - 2 : start]
    raise TemplateError(line, f"The braces of `{opened}` are not closed.")
