"""Functions that split a file into front matter and body.

A fence is a whole line. Front matter that is not YAML is repaired key by key.
"""

from __future__ import annotations

import re
from textwrap import dedent

from hilum.frontmatter.document import Document, Problem
from hilum.frontmatter.repair import repair
from hilum.frontmatter.strict import NotYaml, parse

MAX_CHARACTERS = 65_536
"""Maximum length of front matter in characters. The rest is reported and not read."""
MAX_PROBLEMS = 50
_OPENING = r"(?:[ \t]*\n){0,20}([ \t]{0,8})---[ \t]*(?:\n|$)"
# All characters that YAML forbids, and those that YAML alone treats as line breaks.
_FORBIDDEN = (
    "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def read_text(data: bytes | str, raw: frozenset[str]) -> Document:
    """Read a file (see `hilum.frontmatter.read`)."""
    problems: list[Problem] = []
    text = _decoded(data, problems) if isinstance(data, bytes) else data
    # Editors on Windows begin UTF-8 files with a byte order mark, which Python's utf-8 codec keeps.
    text = text.lstrip("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = 1 + text.count("\n", 0, text.index("\0"))
        problems.append(Problem(line, "The file contains NUL characters: it may not be text."))
    opening = re.compile(_OPENING).match(text)
    if opening is None:
        return Document({}, text, 1, tuple(problems))
    start = opening.end()
    is_indented = bool(opening[1])
    fence = 1 + text.count("\n", 0, start - 1)  # the line of the opening fence
    inner, body, is_closed = _split_at_fence(text, start, is_indented)
    if not is_closed and not inner:
        message = "The first line is '---', but no front matter follows: everything is text."
        problems.append(Problem(fence, message))
        return Document({}, text, 1, tuple(problems))
    if not is_closed:
        message = (
            "The front matter has no closing '---' line; it is assumed to end after its last key."
        )
        problems.append(Problem(fence, message))
    fields, lines, found = _fields(inner, fence + 1, raw)
    if (fence > 1 or is_indented) and not fields:  # a horizontal rule and text
        return Document({}, text, 1, tuple(problems))
    if fence > 1:
        message = (
            "There are blank lines before the front matter; it should begin on the first line."
        )
        problems.append(Problem(1, message))
    if is_indented:
        message = "The line '---' before the front matter is indented; it should begin the line."
        problems.append(Problem(fence, message))
    problems += found
    body = _second(fields, lines, text, body, problems, raw)
    return Document(fields, body, _line_of(text, body), _bounded(problems), True, lines)


def _split_at_fence(text: str, start: int, is_indented: bool) -> tuple[str, str, bool]:
    """Split a text at the closing fence or, if there is no closing fence, where its keys end.

    Args:
        text: The text.
        start: The index of the first character after the opening fence.
        is_indented: Whether the opening fence is indented.

    Returns:
        The front matter, the body, and whether there is a closing fence.
    """
    fence = r"^[ \t]*---[ \t]*$" if is_indented else r"^---[ \t]*$"
    closing = re.compile(fence, re.MULTILINE).search(text, start)
    if closing is not None:
        inner = text[start : closing.start()]
        if is_indented:
            return dedent(inner), text[closing.end() + 1 :], True
        # If the closing fence was forgotten, this `---` may be a horizontal rule in the body.
        if not _is_body(inner):
            return inner, text[closing.end() + 1 :], True
    inner = _unclosed(text[start:])
    return inner, text[start + len(inner) :], False


def _line_of(text: str, rest: str) -> int:
    """Return the line on which the rest of a text begins (after the last line if it is empty)."""
    if rest:
        return 1 + text.count("\n", 0, len(text) - len(rest))
    return 1 + text.count("\n") + (not text.endswith("\n"))


def _second(
    fields: dict[str, object],
    lines: dict[str, int],
    text: str,
    body: str,
    problems: list[Problem],
    raw: frozenset[str],
) -> str:
    """Merge a second block of front matter into the first one, and return the rest of the body.

    Cursor writes its own, mostly empty front matter above the author's. Text between two horizontal
    rules looks like a second block, so it counts as front matter only if it has a key in common
    with the first block.
    """
    opening = re.compile(r"\s{0,4}^---[ \t]*\n", re.MULTILINE).match(body)
    if opening is None:
        return body
    closing = re.compile(r"^---[ \t]*$", re.MULTILINE).search(body, opening.end())
    if closing is None:
        return body
    first = _line_of(text, body) + body.count("\n", 0, opening.end())
    inner, where, found = _fields(body[opening.end() : closing.start()], first, raw)
    if not inner.keys() & fields.keys():
        return body
    message = (
        "A second front matter follows; values that are empty in the first were taken from it."
    )
    problems.append(Problem(first - 1, message))
    problems += found
    for key, value in inner.items():
        if fields.get(key) is None:
            fields[key] = value
            lines[key] = where[key]
        elif value is not None and value != fields[key]:
            message = (
                f"{key[:60]!r} is in both front matters (first on line {lines[key]}): the first"
                " value counts."
            )
            problems.append(Problem(where[key], message))
    return body[closing.end() + 1 :]


def _decoded(data: bytes, problems: list[Problem]) -> str:
    wide = _wide(data)
    if wide:
        problems.append(Problem(1, f"The file is {wide.upper()[:6]}; it should be UTF-8."))
        return data.decode(wide, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        problems.append(Problem(line, "The file is not UTF-8; unreadable bytes became U+FFFD."))
        return data.decode("utf-8", errors="replace")


def _wide(data: bytes) -> str:
    """Return the encoding of a UTF-16 or UTF-32 file; empty for other files."""
    # UTF-32 is checked first, because its little-endian byte order mark begins with that of UTF-16.
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    # In UTF-16 without a byte order mark, every second byte of the first letters is NUL, because
    # they are ASCII.
    even = data[:16:2]
    odd = data[1:16:2]
    if len(odd) < 2 or any(even) == any(odd):
        return ""
    if all(odd):
        return "utf-16-be"
    return "utf-16-le" if all(even) else ""


def _unclosed(text: str) -> str:
    """Return the lines at the top of a text that can be front matter.

    These lines are keys and the indented lines below them.
    """
    end = 0
    for line in text[:MAX_CHARACTERS].splitlines(keepends=True):
        inner = end and line.startswith((" ", "\t", "- ")) and line.strip()
        if not inner and not re.match(r"[A-Za-z][\w.-]{0,63}[ \t]*:(\s|$)", line):
            break
        end += len(line)
    return text[:end]


def _is_body(text: str) -> bool:
    """Return whether the text before a ``---`` is the body of a file without a closing fence.

    Such a text consists of keys followed by Markdown without further keys.
    """
    keys = _unclosed(text)
    rest = text[len(keys) :]
    if not keys or not re.match(r"[ \t]*\n|#+ ", rest):
        return False
    if re.search(r"^[A-Za-z][\w.-]{0,63}[ \t]*:(\s|$)", rest, re.MULTILINE):
        return False
    if not re.search(r"^[ \t]*[^\s#]", rest, re.MULTILINE):
        return False  # only comments
    return not _parses(text) and _parses(keys)


def _parses(text: str) -> bool:
    try:
        return len(text) <= MAX_CHARACTERS and bool(parse(text))
    except NotYaml:
        return False


def _fields(
    text: str, first: int, raw: frozenset[str]
) -> tuple[dict[str, object], dict[str, int], list[Problem]]:
    """Read front matter that begins on line ``first`` as values, lines of keys, and problems."""
    found: list[Problem] = []
    if len(text) > MAX_CHARACTERS:
        # The text is cut between lines, because half a line could be read as a different value.
        kept = text[:MAX_CHARACTERS].rpartition("\n")[0]
        message = (
            f"The front matter is longer than {MAX_CHARACTERS:,} characters ({len(text):,}); the"
            " rest is not read."
        )
        found.append(Problem(first + kept.count("\n") + 1, message, fatal=True))
        text = kept
    forbidden = re.search(_FORBIDDEN, text)
    if forbidden:
        line = first + text.count("\n", 0, forbidden.start())
        found.append(
            Problem(line, f"Characters that YAML forbids ({forbidden[0]!a}) became U+FFFD.")
        )
        text = re.sub(_FORBIDDEN, "\ufffd", text)
    try:
        mapping = parse(text, first)
        found += _comments(text.split("\n"), first, mapping.fields, mapping.lines)
        return mapping.fields, mapping.lines, found + mapping.notes
    except NotYaml as error:
        repaired = repair(text, first, error, raw)
        return repaired.fields, repaired.lines, found + repaired.problems


def _comments(
    given: list[str], first: int, fields: dict[str, object], lines: dict[str, int]
) -> list[Problem]:
    """Report values that YAML cuts off at a ``#`` that the author may have meant as text.

    For example: ``Close issue #12 of the project``.
    """
    found = []
    for key, line in lines.items():
        value = given[line - first].partition(":")[2].strip()
        text = fields[key] or ""
        # In quoted values and block scalars, `#` is part of the text.
        if not isinstance(text, str) or value.startswith(("'", '"', "|", ">")):
            continue
        match = re.search(r"(?:^|\s)#[^\s#].*", value)
        if match and match[0].strip() not in text:
            message = (
                f"{match[0].strip()[:40]!r} is a comment in YAML and not read; quotes around the"
                " value make it text."
            )
            found.append(Problem(line, message))
    return found


def _bounded(problems: list[Problem]) -> tuple[Problem, ...]:
    """Return problems in line order, with one that summarizes those beyond ``MAX_PROBLEMS``."""
    problems = sorted(problems, key=lambda problem: problem.line)
    more = problems[MAX_PROBLEMS:]
    if not more:
        return tuple(problems)
    message = f"And {len(more)} more of this kind, the last on line {more[-1].line}."
    is_fatal = any(problem.fatal for problem in more)
    return (*problems[:MAX_PROBLEMS], Problem(more[0].line, message, is_fatal))
