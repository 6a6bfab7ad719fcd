"""Words of a command: quotes, escapes, braces, tildes and field splitting, as Bash does them.

While a word is read, characters that a quote protects are *marked*: moved up by `MARK`. What is
left unmarked still means something to the shell: braces, globs, a tilde, white space that came out
of a variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from hilum_guard.grammar import BRACE, Unreadable

if TYPE_CHECKING:
    from tree_sitter import Node

MARK = 0xF0000
UNKNOWN = "\U000f1000"
"""Stands in a word for what only the run would tell."""
_EMPTY = "\U000f1001"
MAX_FIELDS = 64
MAX_VALUE = 4096

_MARKED = {code: code + MARK for code in range(256)}
_UNMARKED = {code + MARK: code for code in range(256)} | {ord(_EMPTY): None}
_OPEN = {ord(c): c for c in " \t\n*?[]"}  # of an unquoted value, what the shell still looks at
_VALUE = _MARKED | _OPEN
_BRACE_BYTES = BRACE.encode().decode("latin-1")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?!$-]", re.ASCII)
_SIMPLE = {
    "n": 10,
    "t": 9,
    "\\": 92,
    "'": 39,
    '"': 34,
    "?": 63,
    "a": 7,
    "b": 8,
    "e": 27,
    "E": 27,
    "f": 12,
    "r": 13,
    "v": 11,
}
_ANSI = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)


@attrs.frozen
class Word:
    """One word as a program gets it.

    Attributes:
        value: The text; `UNKNOWN` stands for each part that only the run would tell.
        glob: It has a pattern that the shell matches against file names.
        plain: Nothing but quotes stood between the text and this value.
        found: The text with ``{}`` for each thing that a `find` finds; empty where the word has
            nothing of it.
    """

    value: str
    glob: bool = False
    plain: bool = True
    found: str = ""

    @property
    def known(self) -> bool:
        """Whether the whole value is known."""
        return UNKNOWN not in self.value


def marked(text: str) -> str:
    """Protect all characters of a text."""
    return text.translate(_MARKED)


def value_marked(text: str) -> str:
    """Protect what the shell does not look at in the value of an unquoted expansion."""
    return text.translate(_VALUE)


def unmarked(text: str) -> str:
    """Return the text that is left when quoting is done."""
    text = text.translate(_UNMARKED)
    if text.isascii():
        return text
    return "".join(_decoded(part) for part in re.split(f"({UNKNOWN})", text))


def _decoded(text: str) -> str:
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def as_source(text: str) -> str:
    """Turn text into the form of a parsed source, one character for each byte."""
    if text.isascii() or UNKNOWN in text:
        return text
    return text.encode(errors="replace").decode("latin-1")


def original(text: str) -> str:
    """Return a stretch of a parsed source as the user wrote it."""
    return _decoded(text.replace(_BRACE_BYTES, "{"))


def lex(
    text: str,
    start: int,
    end: int,
    nodes: dict[int, Node],
    expand: Callable[[Node, bool], str],
    named: Callable[[str, bool], str],
) -> tuple[str, bool]:
    """Read quotes and escapes of one word.

    Args:
        text: The parsed text.
        start: Where the word begins.
        end: Where it ends.
        nodes: The expansions in it, by their position.
        expand: Gives the marked value of an expansion; told whether it stands in double quotes.
        named: The same for the name of a variable, where the grammar missed one.

    Returns:
        The marked word, and whether it is plain.

    Raises:
        Unreadable: A quote is not closed.
    """
    out: list[str] = []
    i = start
    quoted = False
    plain = True
    while i < end:
        char = text[i]
        following = text[i + 1 : i + 2]
        if i in nodes:
            out.append(expand(nodes[i], quoted))
            i = nodes[i].end_byte
            plain = False
        elif char == "$" and (missed := _NAME.match(text, i + 1, end)):
            out.append(named(missed[0], quoted))
            i = missed.end()
            plain = False
        elif char == "`" or (char == "$" and following and following in "{(["):
            out.append(UNKNOWN)
            i = i + 1
            plain = False
        elif text.startswith(_BRACE_BYTES, i):
            out.append(marked("{") if quoted else "{")
            i += len(_BRACE_BYTES)
        elif char == '"':
            quoted = not quoted
            out.append(_EMPTY)
            i += 1
        elif char == "\\" and (not quoted or following in '$`"\\'):
            out.append(marked(following))
            i += 2
        elif quoted:
            out.append(marked(char))
            i = i + 1
            plain = plain and char != "$"
        elif char == "'" or (char == "$" and following == "'"):
            body, i = _single(text, i, end)
            out.append(_EMPTY + marked(body))
            plain = plain and char == "'"
        else:
            if not (char == "$" and following == '"'):
                out.append(char)
            i = i + 1
            plain = plain and char != "$"
    if quoted or i > end:
        raise Unreadable("A quote in the command is not closed.")
    return "".join(out), plain


def _single(text: str, i: int, end: int) -> tuple[str, int]:
    """Read `'…'` or `$'…'`; give the content and the position after it."""
    ansi = text[i] == "$"
    pattern = r"\$'((?:[^'\\]|\\.)*)'" if ansi else r"'([^']*)'"
    found = re.compile(pattern, re.DOTALL).match(text, i, end)
    if not found:
        raise Unreadable("A quote in the command is not closed.")
    body = found[1].replace(_BRACE_BYTES, "{")
    return (unescaped(body) if ansi else body), found.end()


def unescaped(text: str) -> str:
    """Resolve the escapes of `$'…'` and `echo -e`."""
    return _ANSI.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "uUx" and len(code) > 1:
        number = int(code[1:], 16)
        if code[0] == "x":
            return chr(number)
        if number < 0x110000:
            return chr(number).encode(errors="replace").decode("latin-1")
        return UNKNOWN
    if code[0] == "c" and len(code) > 1:
        return chr(ord(code[1]) & 0x1F)
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return chr(_SIMPLE[code]) if code in _SIMPLE else match[0]


def fields(text: str, plain: bool, tilde: Callable[[str], str]) -> list[Word]:
    """Finish a marked word: braces, tilde, splitting; one word may become many.

    Args:
        text: The marked word.
        plain: Whether it was plain so far.
        tilde: Gives the folder for what follows a tilde (nothing, a user, `+`, `-`).
    """
    found = []
    variants = braces(text)
    plain = plain and len(variants) == 1 and not text.startswith("~")
    for variant in variants:
        for field in re.split(r"[ \t\n]+", opened(variant, tilde)):
            if field:
                found.append(
                    Word(unmarked(field), glob=bool(re.search(r"[*?]|\[.*\]", field)), plain=plain)
                )
    return found


def opened(text: str, tilde: Callable[[str], str]) -> str:
    """Replace a leading tilde of a marked word."""
    if not text.startswith("~"):
        return text
    name, slash, rest = text[1:].partition("/")
    if any(ord(c) >= MARK for c in name):
        return text
    return marked(as_source(tilde(name))) + slash + rest


def braces(text: str) -> list[str]:
    """Expand the braces of a marked word; a word with too many of them is unknown."""
    if text.count("{") > MAX_FIELDS:
        return [UNKNOWN]
    done: list[str] = []
    waiting = [(text, 0)]
    while waiting:
        word, begin = waiting.pop()
        found = _first_brace(word, begin)
        if found is None:
            done.append(word)
        else:
            start, stop, parts = found
            waiting += [(word[:start] + part + word[stop:], start) for part in reversed(parts)]
        if len(done) + len(waiting) > MAX_FIELDS:
            return [UNKNOWN]
    return done


def _first_brace(text: str, begin: int) -> tuple[int, int, list[str]] | None:
    """Find the first brace that expands: where it starts and stops, and its parts."""
    for start in (i for i in range(begin, len(text)) if text[i] == "{"):
        depth = 0
        cuts = [start]
        for i in range(start, len(text)):
            char = text[i]
            depth += (char == "{") - (char == "}")
            if char == "," and depth == 1:
                cuts.append(i)
            elif depth == 0:
                parts = [text[a + 1 : b] for a, b in zip(cuts, [*cuts[1:], i], strict=True)]
                if len(parts) == 1:
                    parts = _sequence(parts[0])
                if parts:
                    return start, i + 1, parts
                break
    return None


def _sequence(text: str) -> list[str]:
    found = re.fullmatch(r"(-?\d{1,9}|[a-zA-Z])\.\.(-?\d{1,9}|[a-zA-Z])(?:\.\.(-?\d{1,9}))?", text)
    if not found:
        return []
    first = found[1]
    last = found[2]
    if first.isalpha() != last.isalpha():
        return []
    a, b = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    step = abs(int(found[3] or 1)) or 1
    if abs(b - a) // step > MAX_FIELDS:
        return [UNKNOWN, UNKNOWN]
    numbers = range(a, b + 1, step) if a <= b else range(a, b - 1, -step)
    return [chr(n) if first.isalpha() else str(n) for n in numbers]
