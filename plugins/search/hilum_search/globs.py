"""Parses the globs in the tools' arguments.

This module matches paths itself, because ripgrep's ``--glob`` also selects files that
``.gitignore`` excludes. The glob syntax is that of ripgrep.
"""

from __future__ import annotations

import re
from collections.abc import Callable

WILDCARDS = frozenset("*?[{\\")
# At the beginning of a class, `]` is an ordinary character, as in shells.
_TOKEN = re.compile(
    r"""
    (?P<leading>\A(?:\*\*/)+)
    | (?P<middle>/(?:\*\*/)+)
    | (?P<trailing>(?:\A|(?<=/))\*\*\Z)
    | (?P<star>\*+)
    | (?P<any>\?)
    | \[(?P<negation>[!^]?+)(?P<items>.[^]]*)\]
    | \\(?P<escaped>.)
    | (?P<character>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_WILDCARD_REGEXES = {
    "leading": "(?:.*/)?",
    "middle": "/(?:.*/)?",
    "trailing": ".*",
    "star": "[^/]*",
    "any": "[^/]",
}
_INSIDE_BRACES = {"}": ")", ",": "|"}


def to_regex(glob: str) -> str:
    """Convert a glob to a regular expression for a whole path with forward slashes.

    ``*`` and ``?`` match within a name, ``**`` crosses folders, ``{a,b}`` are alternatives, and
    ``[!a]`` is a negated class.

    Raises:
        ValueError: A bracket or brace is not closed, or a range in a class is reversed.
    """
    pieces: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(glob):
        kind = token.lastgroup or ""
        text = token[kind]
        if kind in _WILDCARD_REGEXES:
            pieces.append(_WILDCARD_REGEXES[kind])
        elif kind == "items":
            pieces.append(_character_class(bool(token["negation"]), text))
        elif kind == "escaped":
            pieces.append(re.escape(text))
        else:
            pieces.append(_plain_character(text, depth))
            depth = _brace_depth(text, depth)
    if depth:
        raise ValueError("a brace { is not closed")
    return "".join(pieces)


def _plain_character(character: str, depth: int) -> str:
    if character == "[":
        raise ValueError("a bracket [ is not closed")
    if character == "{":
        return "(?:"
    if depth and character in _INSIDE_BRACES:
        return _INSIDE_BRACES[character]
    return re.escape(character)


def _brace_depth(character: str, depth: int) -> int:
    """Return the number of open braces after a character."""
    if character == "{":
        return depth + 1
    if character == "}" and depth:
        return depth - 1
    return depth


def _character_class(negated: bool, items: str) -> str:
    # Python reserves `&&`, `~~` and `||` in a class for set operations, and warns about them.
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", items)
    if escaped.startswith("-"):
        escaped = f"\\{escaped}"
    negation = "^" if negated else ""
    # A character class, especially a negated one, must not match the slash between two names.
    regex = f"(?!/)[{negation}{escaped}]"
    try:
        re.compile(regex)
    except re.error as error:
        raise ValueError(str(error)) from None
    return regex


def split_list(text: str) -> list[str]:
    """Split globs at commas outside braces: ``*.ts, *.{js,jsx}`` are two globs."""
    parts = [""]
    depth = 0
    for character in text:
        depth = _brace_depth(character, depth)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    stripped = [part.strip() for part in parts]
    return [part for part in stripped if part]


def fixed_folders(glob: str) -> str:
    """Return the leading folders without wildcards: ``src/lib`` for ``src/lib/**/*.py``."""
    *folders, _ = glob.split("/")
    plain = []
    for folder in folders:
        if WILDCARDS & set(folder):
            break
        plain.append(folder)
    if plain == [""]:
        return "/"
    return "/".join(plain)


def last_name(glob: str) -> str:
    """Return the part of a glob that matches file names, if ripgrep interprets it in the same way.

    Returns:
        The part, for ripgrep's ``--type-add``; empty if the glob is too complicated.
    """
    name = glob.rpartition("/")[2]
    braces = name.count("{") + name.count("}")
    is_balanced = name.count("{") == name.count("}")
    has_all_braces = braces == glob.count("{") + glob.count("}")
    is_plain = "**" not in name and re.fullmatch(r"[\w.*{},+@-]+", name, re.ASCII)
    return name if is_plain and is_balanced and has_all_braces else ""


def make_matcher(globs: list[str]) -> Callable[[str], bool]:
    """Return a function that checks whether a path matches at least one glob and no excluding one.

    Args:
        globs: The globs. A glob without a slash is compared with the name alone, in any folder. A
            glob that begins with ``!`` excludes paths; if all globs do, every other path matches.

    Raises:
        ValueError: One of the globs is not valid.
    """
    included = [glob for glob in globs if not glob.startswith("!")]
    excluded = [glob[1:] for glob in globs if glob.startswith("!")]
    accepts = _compile(included or ["**"])
    if not excluded:
        return lambda path: accepts.match(path) is not None
    rejects = _compile(excluded)
    return lambda path: accepts.match(path) is not None and rejects.match(path) is None


def _compile(globs: list[str]) -> re.Pattern[str]:
    regexes: list[str] = []
    for glob in globs:
        anchored = glob.removeprefix("/") if "/" in glob else f"**/{glob}"
        regexes.append(rf"(?:{to_regex(anchored)})\Z")
    return re.compile("|".join(regexes), re.DOTALL)
