"""Blank out the comments and strings of code, which a rule about code does not mean."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from functools import cache

_SLASHES = frozenset(
    """
    astro c cc cjs cpp cs cts dart go gradle groovy h hpp html java js jsx kt kts less m mjs mm mts php
    proto rs scala scss svelte swift ts tsx vue zig
    """.split()
)
_HASHES = frozenset(
    "bash ex exs jl nix php pl py pyi r rb sh tf toml yaml yml zsh dockerfile makefile".split()
)
# Templates, whose texts are no code of one language. An expression in a comment of HTML is evaluated.
_TEMPLATES = {
    "erb": r"<%#.*?(?:%>|\Z)",
    "ejs": r"<%#.*?(?:%>|\Z)",
    "heex": r"<%!--.*?(?:--%>|\Z)",
    "eex": r"<%(?:#.*?(?:%>|\Z)|!--.*?(?:--%>|\Z))",
    "hbs": r"\{\{!(?:--.*?(?:--\}\}|\Z)|[^}]*\}\})",
    "j2": r"\{#.*?(?:#\}|\Z)",
    "jinja": r"\{#.*?(?:#\}|\Z)",
    "twig": r"\{#.*?(?:#\}|\Z)",
}
_BLADE = r"\{\{--.*?(?:--\}\}|\Z)"
_STARS = _SLASHES | {"css"}
_MARKUP = frozenset("astro html svelte vue xml".split())
# Languages in which single quotes enclose one character.
_CHARACTERS = frozenset(
    "c cc cpp cs go gradle groovy h hpp java kt kts m mm rs scala swift zig".split()
)
_BACKTICKS = frozenset("astro cjs cts go html js jsx mjs mts svelte ts tsx vue".split())
_SCRIPTS = _BACKTICKS - {"go", "html"}
_TRIPLE = frozenset("dart ex exs java jl kt kts py pyi scala swift toml".split())

# An apostrophe in a text is no quote: a letter is before or after it.
_CLOSED = r"(?!\w)"


@cache
def _token_pattern(language: str) -> re.Pattern[str] | None:
    """Return a pattern for the comments and strings of a language; ``None`` if it is unknown."""
    if language in _TEMPLATES:
        return re.compile(
            rf"(?P<comment>{_TEMPLATES[language]})|(?P<prefix>(?!))(?P<string>(?!))", re.DOTALL
        )
    comments = []
    if language == "blade":
        comments.append(_BLADE)
        language = "php"
    if language in _MARKUP:
        comments.append(r"<!--.*?(?:-->|\Z)")
    if language in _STARS:
        comments.append(r"/\*.*?(?:\*/|\Z)")
        # A line of a comment whose beginning is not in the text.
        comments.append(r"(?m:^)[ \t]+\*[ \t][^\n]*")
    if language in _SCRIPTS:
        # A slash after an operator begins a regular expression, which may contain quotes.
        comments.append(
            r"(?P<regex>(?:(?<=[(,=:\[!&|?{;+~^])|(?<==>)|(?<=\breturn)|(?<=\bcase)|(?<=\btypeof))"
            r"[ \t]*/(?![*/])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*)"
        )
    if language in _SLASHES:
        # `https://…` is no comment.
        comments.append(r"(?<!:)//[^\n]*")
    if language in _HASHES:
        # In shells, `$#` and `a#b` are no comments; in PHP, `#[…]` is an attribute.
        comments.append(r"(?<![\w$\\{])#(?![\[{])[^\n]*")
    if not comments:
        return None
    strings = []
    if language in _TRIPLE:
        strings += [r'"""(?:[^\\]|\\.)*?(?:"""|\Z)', r"'''(?:[^\\]|\\.)*?(?:'''|\Z)"]
    # A string without an end is passed over, because searching its end again at each further quote
    # would take quadratic time.
    strings.append(rf'"(?:[^"\\\n]|\\.)*(?:"{_CLOSED})?')
    if language in _CHARACTERS:
        strings.append(rf"'(?:[^'\\\n]|\\[^'\n]{{1,10}}|\\')'{_CLOSED}")
    else:
        strings.append(rf"'(?:[^'\\\n]|\\.)*(?:'{_CLOSED})?")
    if language in _BACKTICKS:
        strings.append(r"`(?:[^`\\]|\\.)*`?")
    text = rf"(?<!\w)(?P<prefix>[A-Za-z]{{0,2}}[$@]{{0,2}})(?P<string>{'|'.join(strings)})"
    return re.compile(rf"(?P<comment>{'|'.join(comments)})|{text}", re.DOTALL)


# What a string inserts is code: `${…}`, `#{…}`, `\(…)`, and `{…}` in a string with a prefix.
_INSERTED = re.compile(r"[$#]\{|\\\(|\$\(")
_INSERTED_AFTER_PREFIX = re.compile(r"[$#]\{|\\\(|\$\(|\{(?!\{)|\{\{")
_BRACKET = re.compile(r"[(){}'\"`\\/]")
# Attributes whose values are code: `@click="…"`, `onclick="…"`, `:class="…"`, `v-if="…"`.
_CODE_ATTRIBUTE = re.compile(
    r"(?:\son\w+|[@:#*\[(][\w.:\[\]()-]*|\b(?:v|x|ng|on|bind)[-:][\w.:-]*)=$"
)


def blank_remarks(text: str, path: str, ignored: Collection[str]) -> str:
    """Return a text with spaces for the contents of its comments or strings.

    What a string inserts, such as `${…}`, stays, and so does a text in a language whose comments are
    not known.

    Args:
        text: The text.
        path: The path of its file, which tells the language.
        ignored: What to blank out, of "comments", "strings" and "blocks", which are strings of
            several lines.
    """
    name = os.path.basename(path).lower()
    language = "blade" if name.endswith(".blade.php") else name.rpartition(".")[2]
    pattern = _token_pattern(language) if ignored else None
    if pattern is None:
        return text

    def blank(found: re.Match[str]) -> str:
        if found["comment"] is not None:
            if found.groupdict().get("regex") is not None:
                return _blank_expression(found[0]) if "strings" in ignored else found[0]
            return _blank(found[0]) if "comments" in ignored else found[0]
        start = found.start("string")
        is_closed = len(found["string"]) > 1 and found["string"][-1] == found["string"][0]
        is_ignored = "strings" in ignored or ("blocks" in ignored and "\n" in found["string"])
        if not is_ignored or not is_closed:
            return found[0]
        if language in _MARKUP and _CODE_ATTRIBUTE.search(text, max(0, start - 60), start):
            return found[0]
        quote = found["string"][0]
        has_prefix = re.search(r"[fFtT$]", found["prefix"]) is not None
        content = _blank_uninserted(found["string"][1:-1], has_prefix=has_prefix)
        return found["prefix"] + quote + content + quote

    return pattern.sub(blank, text)


def _blank_uninserted(content: str, *, has_prefix: bool) -> str:
    """Return the content of a string with spaces for all that is not inserted."""
    pattern = _INSERTED_AFTER_PREFIX if has_prefix else _INSERTED
    parts: list[str] = []
    at = 0
    while True:
        opened = pattern.search(content, at)
        if opened is None:
            return "".join((*parts, _blank(content[at:])))
        parts.append(_blank(content[at : opened.start()]))
        if opened[0] == "{{":  # a brace of the text
            parts.append("  ")
            at = opened.end()
            continue
        at = _find_end(content, opened.end())
        parts.append(content[opened.start() : at])


def _find_end(content: str, start: int) -> int:
    """Return where an insertion ends that begins before a position."""
    depth = 1
    for found in _BRACKET.finditer(content, start):
        # A string or a regular expression may contain brackets.
        if found[0] in "'\"`\\/":
            break
        depth += 1 if found[0] in "({" else -1
        if depth == 0:
            return found.end()
    return len(content)


# The attributes of an item that is compiled for tests only, up to the beginning of its contents.
_RUST_TEST = re.compile(
    r"#\[(?:cfg\((?:test|all\(test,[^\]\n]*\))\)|(?:\w+::)*test(?:\([^\]\n]*\))?)\]"
    r"(?:\s*#\[[^\]\n]*\])*\s*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+)?(?:mod|fn|impl)\b[^{};]*\{"
)


def blank_rust_tests(text: str) -> str:
    """Return code of Rust with spaces for its unit tests: `#[cfg(test)] mod tests { … }`.

    Args:
        text: The code. Brackets in its comments and strings, if it has any, count as code.
    """
    plain = blank_remarks(text, "a.rs", ("comments", "strings"))
    parts = []
    at = 0
    while found := _RUST_TEST.search(plain, at):
        end = _find_closing(plain, found.end())
        # Without its end, it is not certain what belongs to the test.
        if end is None:
            break
        parts += [text[at : found.end()], _blank(text[found.end() : end])]
        at = end
    return "".join((*parts, text[at:]))


def _find_closing(text: str, start: int) -> int | None:
    """Return the position of the brace that closes the one before a position; ``None`` if none does."""
    depth = 1
    for found in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.start()
    return None


def find_strings(text: str, language: str) -> list[str] | None:
    """Return the contents of the strings in code; ``None`` if it is not certain which they are.

    Args:
        text: The code.
        language: The usual ending of files in its language.
    """
    pattern = _token_pattern(language)
    # A quote in a regular expression begins no string.
    if pattern is None or "/" in pattern.sub("", text):
        return None
    found = [each["string"] for each in pattern.finditer(text) if each["comment"] is None]
    if any(len(each) < 2 or each[-1] != each[0] for each in found):
        return None
    return [each[1:-1] for each in found]


def _blank_expression(text: str) -> str:
    """Return a regular expression of JavaScript with spaces for its contents."""
    begin, end = text.index("/"), text.rindex("/")
    return text[: begin + 1] + _blank(text[begin + 1 : end]) + text[end:]


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
