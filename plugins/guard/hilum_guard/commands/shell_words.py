"""Read the words of a command as Bash does: quotes, escapes, braces, tildes, field splitting.

Quoting determines which characters the shell still expands. While a word is read, the code point of
each protected character is increased by `MARK`, so that a quoted `*` or `{` cannot be mistaken for
an active one. The functions in this module call such text *marked*. `unmark` removes the marks
after all expansions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import attrs

if TYPE_CHECKING:
    from tree_sitter import Node

BRACE = "\ue000"
"""Replaces a `{` that belongs to a word while the grammar parses the text."""
MARK = 0xF0000
UNKNOWN = "\U000f1000"
"""Replaces each part of a word whose value is known only at run time."""
CHANGED = f"{UNKNOWN}\U000f1003"
"""Replaces the path of a file that Git lists as changed; a special case of `UNKNOWN`."""
UNKNOWN_TEXT = "${HILUM_UNKNOWN_TEXT}"
"""Shell text that stands for an unknown part in text that is parsed again."""
_EMPTY = "\U000f1001"
FOUND = "\U000f1002"
"""Precedes a path in a variable to indicate everything that a `find` finds below the path."""
# Braces multiply: `{a,b}{a,b}…` doubles the words with each pair, so the number of words is
# limited.
MAX_FIELDS = 64
# `x=$x$x` doubles a value, so a value that exceeds this length becomes unknown.
MAX_VALUE = 4096

_MARKED = {code: code + MARK for code in range(256)}
# If a loop sets a variable to the matches of a pattern, the variable's value is the pattern. The
# pattern's characters stay active in quotes: in `for f in /*; do rm "$f"; done`, `"$f"` is a path
# and not the text `/*`.
_MATCHED = {ord(char): 0xF2000 + ord(char) for char in "*?[]"}
_UNMARKED = (
    {code + MARK: code for code in range(256)}
    | {matched: code for code, matched in _MATCHED.items()}
    | {ord(_EMPTY): None, ord(FOUND): None}
)
# The shell still splits and globs an unquoted expansion's value.
_VALUE = _MARKED | {ord(char): char for char in " \t\n*?[]"}
_BRACE_BYTES = BRACE.encode().decode("latin-1")
# Ordinary characters extend to the next character that can begin a quote, an escape or an
# expansion. The lexer reads all of them at once, which is several times as fast as reading single
# characters.
EXPANSION_STARTS = "$`<>("
_ORDINARY = re.compile(rf"[^{re.escape(EXPANSION_STARTS)}\\'\"{_BRACE_BYTES[0]}]+")
# ASCII only: Python treats a byte of a UTF-8 character as a letter, but in the shell it ends a
# name.
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?!$-]", re.ASCII)
_SINGLE_QUOTED = re.compile(r"'([^']*)'")
_ANSI_QUOTED = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_SIMPLE_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "r": "\r",
    "v": "\v",
}
# `\cX` is a control character; any other character after a backslash stays unchanged.
_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)
_MATCHED_CHARACTERS = "".join(map(chr, _MATCHED.values()))
_GLOB = re.compile(rf"[*?{_MATCHED_CHARACTERS}]")
_SEQUENCE = re.compile(
    r"(-?\d{1,9}|[a-zA-Z])\.\.(-?\d{1,9}|[a-zA-Z])(?:\.\.(-?\d{1,9}))?", re.ASCII
)
_UNCLOSED = "A quote in the command is not closed."


class Unreadable(Exception):
    """An exception for text that cannot be parsed reliably; the message tells the user why."""


@attrs.frozen
class Word:
    """One word as a program receives it.

    Attributes:
        value: The text. `UNKNOWN` replaces each part that is known only at run time.
        glob: Whether the shell matches the word against file names.
        plain: Whether the word's source differs from its value only in quoting.
        placeholder: The text with ``{}`` for each file that a `find` finds; empty if the word does
            not depend on a `find`.
        tree: Whether the word also stands for everything below this path, because a `find` lists
            it.
    """

    value: str
    glob: bool = False
    plain: bool = True
    placeholder: str = ""
    tree: bool = False

    @property
    def known(self) -> bool:
        """Whether the whole value is known."""
        return UNKNOWN not in self.value


def mark(text: str) -> str:
    """Return text with all its characters marked as protected."""
    return text.translate(_MARKED)


def mark_value(text: str) -> str:
    """Return an unquoted expansion's value as marked text, with spaces and globs active."""
    return text.translate(_VALUE)


def unmark(text: str) -> str:
    """Return marked text as a program receives it."""
    text = text.translate(_UNMARKED)
    if text.isascii():
        return text
    # The source has one character per byte, except `UNKNOWN`, which cannot be encoded.
    return "".join(_decode(part) for part in re.split(f"({UNKNOWN})", text))


def _decode(text: str) -> str:
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def encode_source(text: str) -> str:
    """Convert text to the form of a parsed source: one character for each byte."""
    if text.isascii() or UNKNOWN in text:
        return text
    return text.encode(errors="replace").decode("latin-1")


def encode_value(word: Word) -> str:
    """Return the value of a variable that is set to a word."""
    text = encode_source(word.value)
    if word.glob:
        text = text.translate(_MATCHED)
    return f"{FOUND}{text}" if word.tree else text


def decode_value(value: str) -> str:
    """Return the text of a variable's value."""
    return unmark(value)


def encode_output(text: str, is_found: bool) -> str:
    """Return the value of a variable that is set to a command's output.

    Args:
        text: The text.
        is_found: Whether a `find` prints the output, so that each line also stands for everything
            below that path.
    """
    encoded = encode_source(text)
    return FOUND + encoded.replace("\n", f"\n{FOUND}") if is_found else encoded


def has_matches(marked: str) -> bool:
    """Return whether a marked word contains matches for a pattern from a variable."""
    return any(char in marked for char in _MATCHED_CHARACTERS)


def decode_source(text: str) -> str:
    """Return a part of a parsed source as originally written."""
    return _decode(text.replace(_BRACE_BYTES, "{"))


class WordLexer:
    """A reader of the quotes and escapes of one word.

    Args:
        text: The parsed source.
        start: Where the word begins.
        end: Where it ends.
        nodes: The expansions in the word, by position.
        expand: Returns the marked value of an expansion; the second argument tells whether the
            expansion is in double quotes.
        expand_name: Like ``expand``, but for a variable that the grammar did not recognise.
    """

    def __init__(
        self,
        text: str,
        start: int,
        end: int,
        nodes: dict[int, Node],
        expand: Callable[[Node, bool], str],
        expand_name: Callable[[str, bool], str],
    ) -> None:
        self._text = text
        self._at = start
        self._end = end
        self._nodes = nodes
        self._expand = expand
        self._expand_name = expand_name
        self._out: list[str] = []
        self._quoted = False
        self._plain = True

    def read(self) -> tuple[str, bool]:
        """Return the marked word, and whether it is plain.

        Raises:
            Unreadable: A quote is not closed.
        """
        while self._at < self._end:
            node = self._nodes.get(self._at)
            if node is not None:
                self._out.append(self._expand(node, self._quoted))
                self._at = node.end_byte
                self._plain = False
                continue
            run = _ORDINARY.match(self._text, self._at, self._end)
            if run is not None:
                self._add(run[0])
                continue
            handler = self._HANDLERS.get(self._text[self._at], WordLexer._read_ordinary)
            handler(self)
        if self._quoted or self._at > self._end:
            raise Unreadable(_UNCLOSED)
        return "".join(self._out), self._plain

    def _add(self, text: str) -> None:
        """Add source text at the current position."""
        self._out.append(mark(text) if self._quoted else text)
        self._at += len(text)

    def _read_ordinary(self) -> None:
        self._add(self._text[self._at])

    def _read_dollar(self) -> None:
        self._plain = False
        following = self._text[self._at + 1 : self._at + 2]
        missed = _NAME.match(self._text, self._at + 1, self._end)
        if missed:
            self._out.append(self._expand_name(missed[0], self._quoted))
            self._at = missed.end()
        elif following and following in "{([":
            self._read_unknown()
        elif self._quoted:
            self._add("$")
        elif following == "'":
            self._read_quoted(_ANSI_QUOTED)
        elif following == '"':
            self._at += 1  # `$"…"` is translated text: the quote itself follows
        else:
            self._add("$")

    def _read_unknown(self) -> None:
        """Read the start of an expansion that the grammar did not recognise."""
        self._plain = False
        self._out.append(UNKNOWN)
        self._at += 1

    def _read_brace(self) -> None:
        if self._text.startswith(_BRACE_BYTES, self._at):
            self._out.append(mark("{") if self._quoted else "{")
            self._at += len(_BRACE_BYTES)
        else:
            self._read_ordinary()

    def _read_double_quote(self) -> None:
        self._quoted = not self._quoted
        self._out.append(_EMPTY)  # keeps `""` as a word
        self._at += 1

    def _read_backslash(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if self._quoted and following not in '$`"\\':
            self._read_ordinary()
            return
        self._out.append(mark(following))
        self._at += 2

    def _read_single_quote(self) -> None:
        if self._quoted:
            self._read_ordinary()
        else:
            self._read_quoted(_SINGLE_QUOTED)

    def _read_quoted(self, pattern: re.Pattern[str]) -> None:
        """Read `'…'` or `$'…'`."""
        match = pattern.match(self._text, self._at, self._end)
        if not match:
            raise Unreadable(_UNCLOSED)
        body = match[1].replace(_BRACE_BYTES, "{")
        if pattern is _ANSI_QUOTED:
            body = resolve_escapes(body)
        self._out.append(_EMPTY + mark(body))
        self._at = match.end()

    _HANDLERS: ClassVar[dict[str, Callable[[WordLexer], None]]] = {
        "$": _read_dollar,
        "`": _read_unknown,
        _BRACE_BYTES[0]: _read_brace,
        '"': _read_double_quote,
        "\\": _read_backslash,
        "'": _read_single_quote,
    }


def resolve_escapes(text: str) -> str:
    """Return text with the escapes of `$'…'` and `echo -e` resolved."""
    return _ESCAPE.sub(_resolve_escape, text)


def _resolve_escape(match: re.Match[str]) -> str:
    code = match[1]
    if code in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[code]
    kind = code[0]
    if kind in "01234567":
        return chr(int(code, 8) & 0xFF)
    if len(code) == 1:
        return match[0]
    if kind == "c":
        return chr(ord(code[1]) & 0x1F)
    number = int(code[1:], 16)
    if kind == "x":
        return chr(number)
    if number < 0x110000:
        return chr(number).encode(errors="replace").decode("latin-1")
    return UNKNOWN


def split_fields(text: str, plain: bool, find_home: Callable[[str], str]) -> list[Word]:
    """Return the words that result from a marked word: expand its braces and tilde, then split it.

    Args:
        text: The marked word.
        plain: Whether the word has been plain so far.
        find_home: Returns the folder for the text after a tilde (nothing, a user, `+` or `-`).
    """
    words = []
    variants = expand_braces(text)
    plain = plain and len(variants) == 1 and not text.startswith("~")
    for variant in variants:
        for field in re.split(r"[ \t\n]+", expand_tilde(variant, find_home)):
            if field:
                has_glob = _has_glob(field)
                is_tree = FOUND in field
                words.append(Word(unmark(field), glob=has_glob, plain=plain, tree=is_tree))
    return words


def _has_glob(field: str) -> bool:
    """Return whether the shell matches a marked word against file names."""
    # A regular expression for `[…]` takes quadratic time in the number of open brackets.
    begin = field.find("[")
    return _GLOB.search(field) is not None or 0 <= begin < field.rfind("]")


def expand_tilde(text: str, find_home: Callable[[str], str]) -> str:
    """Return a marked word with its leading tilde replaced by a folder."""
    if not text.startswith("~"):
        return text
    name, slash, rest = text[1:].partition("/")
    # A quoted character in the name keeps the tilde literal, as in `~"root"`.
    if any(ord(char) >= MARK for char in name):
        return text
    return mark(encode_source(find_home(name))) + slash + rest


def expand_braces(text: str) -> list[str]:
    """Return the brace expansion of a marked word; too many words become unknown."""
    # Searching for closing braces takes quadratic time in the number of open braces.
    if text.count("{") > MAX_FIELDS:
        return [UNKNOWN]
    expanded: list[str] = []
    waiting = [(text, 0)]
    while waiting:
        word, begin = waiting.pop()
        brace = _find_brace(word, begin)
        if brace is None:
            expanded.append(word)
        else:
            start, stop, parts = brace
            for part in reversed(parts):
                waiting.append((word[:start] + part + word[stop:], start))
        if len(expanded) + len(waiting) > MAX_FIELDS:
            return [UNKNOWN]
    return expanded


def _find_brace(text: str, begin: int) -> tuple[int, int, list[str]] | None:
    """Return the first brace that expands: its start, its end, and its parts."""
    start = text.find("{", begin)
    while start >= 0:
        cuts = _cut_brace(text, start)
        parts = [text[before + 1 : after] for before, after in pairwise(cuts)]
        # The shell treats `{a}` as literal text and `{1..3}` as a sequence.
        if len(parts) == 1:
            parts = _expand_sequence(parts[0])
        if parts:
            return start, cuts[-1] + 1, parts
        start = text.find("{", start + 1)
    return None


def _cut_brace(text: str, start: int) -> list[int]:
    """Return the positions of a brace, its commas and its end; empty if the brace is not closed."""
    depth = 0
    cuts = [start]
    for at in range(start, len(text)):
        char = text[at]
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return [*cuts, at]
        elif char == "," and depth == 1:
            cuts.append(at)
    return []


def _expand_sequence(text: str) -> list[str]:
    """Return the words of `1..5` or `a..e`; empty if the text is not a sequence."""
    match = _SEQUENCE.fullmatch(text)
    if not match or match[1].isalpha() != match[2].isalpha():
        return []
    letters = match[1].isalpha()
    convert: Callable[[str], int] = ord if letters else int
    first = convert(match[1])
    last = convert(match[2])
    step = abs(int(match[3] or 1)) or 1
    if abs(last - first) // step > MAX_FIELDS:
        # Return two words, so that the result does not count as a plain word.
        return [UNKNOWN, UNKNOWN]
    if first > last:
        step = -step
    numbers = range(first, last + (1 if step > 0 else -1), step)
    return [chr(number) if letters else str(number) for number in numbers]
