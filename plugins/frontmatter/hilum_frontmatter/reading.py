"""A file into front matter and body: fences by lines, characters that YAML forbids, and the two
tries.
"""

from __future__ import annotations

import re
from textwrap import dedent

from hilum_frontmatter.document import Document, Problem
from hilum_frontmatter.repair import repair
from hilum_frontmatter.strict import NotYaml, parse

MOST_CHARACTERS = 65_536
"""How long front matter may be; what is beyond is told and not read."""
MOST_PROBLEMS = 50
_OPENING = r"(?:[ \t]*\n){0,20}([ \t]{0,8})---[ \t]*(?:\n|$)"
# All that YAML forbids, and the characters that it takes for ends of lines and nobody else does.
_FORBIDDEN = (
    "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def read_text(data: bytes | str, raw: frozenset[str]) -> Document:
    """Read a file (see `hilum_frontmatter.read`)."""
    problems: list[Problem] = []
    text = _decoded(data, problems) if isinstance(data, bytes) else data
    text = text.lstrip("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = 1 + text.count("\n", 0, text.index("\0"))
        problems.append(Problem(line, "The file holds NUL characters: it may be no text."))
    opening = re.compile(_OPENING).match(text)
    if opening is None:
        return Document({}, text, 1, tuple(problems))
    start = opening.end()
    indented = bool(opening[1])
    fence = 1 + text.count("\n", 0, start - 1)  # the line of the opening fence
    closing = re.compile(r"^[ \t]*---[ \t]*$" if indented else r"^---[ \t]*$", re.MULTILINE).search(
        text, start
    )
    inner, body = (
        (text[start : closing.start()], text[closing.end() + 1 :]) if closing else ("", "")
    )
    inner = dedent(inner) if indented else inner
    if not closing or (not indented and _is_body(inner)):
        inner = _unclosed(text[start:])
        body = text[start + len(inner) :]
        if not inner:  # a line across the page
            problems.append(
                Problem(
                    fence,
                    "The first line is '---', but no front matter follows: all is read as text.",
                )
            )
            return Document({}, text, 1, tuple(problems))
        message = (
            "The front matter is not closed by a line '---'; it was taken to end where its keys"
            " end."
        )
        problems.append(Problem(fence, message))
    fields, lines, found = _fields(inner, fence + 1, raw)
    if (fence > 1 or indented) and not fields:  # a line across the page, text
        return Document({}, text, 1, tuple(problems))
    if fence > 1:
        problems.append(
            Problem(
                1, "Blank lines stand before the front matter; it should begin on the first line."
            )
        )
    if indented:
        problems.append(
            Problem(
                fence,
                "The line '---' before the front matter is indented; it should begin the line.",
            )
        )
    problems += found
    body = _second(fields, lines, text, body, problems, raw)
    return Document(fields, body, _line_of(text, body), _bounded(problems), True, lines)


def _line_of(text: str, rest: str) -> int:
    """The line of a text on which its rest begins, the one behind its last line where nothing is
    left.
    """
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
    """Take the fields of a second front matter right behind the first into it, and give what
    follows.

    Cursor writes one of its own, mostly empty, before that of the author. A line across the page
    with text between is none: two keys of front matter that is written twice are the same.
    """
    opening = re.compile(r"\s{0,4}^---[ \t]*\n", re.MULTILINE).match(body)
    if opening:
        closing = re.compile(r"^---[ \t]*$", re.MULTILINE).search(body, opening.end())
    else:
        closing = None
    if opening is None or closing is None:
        return body
    first = _line_of(text, body) + body.count("\n", 0, opening.end())
    inner, where, found = _fields(body[opening.end() : closing.start()], first, raw)
    if not inner.keys() & fields.keys():
        return body
    problems.append(
        Problem(
            first - 1,
            "A second front matter follows; what the first leaves empty was taken from it.",
        )
    )
    problems += found
    for key, value in inner.items():
        if fields.get(key) is None:
            fields[key], lines[key] = value, where[key]
        elif value is not None and value != fields[key]:
            message = (
                f"{key[:60]!r} stands in both front matters (first on line {lines[key]}): the first"
                " value holds."
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
        problems.append(
            Problem(line, "The file is not UTF-8; what could not be read stands as U+FFFD.")
        )
        return data.decode("utf-8", errors="replace")


def _wide(data: bytes) -> str:
    """The name of an encoding with more than one byte for each letter, if the file is in one."""
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    even = data[:16:2]
    odd = data[1:16:2]
    if len(odd) < 2 or any(even) == any(odd):
        return ""
    # Without a mark: each of the first letters is ASCII, and half of its bytes are NUL.
    if all(odd):
        return "utf-16-be"
    return "utf-16-le" if all(even) else ""


def _unclosed(text: str) -> str:
    """The lines at the top of a text that can be front matter: keys and what is indented below
    them.
    """
    end = 0
    for line in text[:MOST_CHARACTERS].splitlines(keepends=True):
        inner = end and line.startswith((" ", "\t", "- ")) and line.strip()
        if not inner and not re.match(r"[A-Za-z][\w.-]{0,63}[ \t]*:(\s|$)", line):
            break
        end += len(line)
    return text[:end]


def _is_body(text: str) -> bool:
    """Return whether a fence was forgotten and the next ``---`` is a line across the page: keys,
    then Markdown, and no more keys.
    """
    keys = _unclosed(text)
    rest = text[len(keys) :]
    starts = re.match(r"[ \t]*\n|#+ ", rest)
    if (
        not keys
        or not starts
        or re.search(r"^[A-Za-z][\w.-]{0,63}[ \t]*:(\s|$)", rest, re.MULTILINE)
    ):
        return False
    if not re.search(r"^[ \t]*[^\s#]", rest, re.MULTILINE):
        return False  # comments
    return not _parses(text) and _parses(keys)


def _parses(text: str) -> bool:
    try:
        return len(text) <= MOST_CHARACTERS and bool(parse(text))
    except NotYaml:
        return False


def _fields(
    text: str, first: int, raw: frozenset[str]
) -> tuple[dict[str, object], dict[str, int], list[Problem]]:
    """Read front matter that begins on line ``first``: values, lines of keys, problems."""
    found: list[Problem] = []
    if len(text) > MOST_CHARACTERS:
        kept = text[:MOST_CHARACTERS].rpartition("\n")[0]
        message = (
            f"The front matter is longer than {MOST_CHARACTERS:,} characters ({len(text):,}); the"
            " rest is not read."
        )
        found.append(Problem(first + kept.count("\n") + 1, message, fatal=True))
        text = kept
    forbidden = re.search(_FORBIDDEN, text)
    if forbidden:
        line = first + text.count("\n", 0, forbidden.start())
        found.append(
            Problem(line, f"Characters that YAML forbids ({forbidden[0]!a}) stand as U+FFFD.")
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
    """Tell of values that end at a ``#`` that may be meant as text:
    ``Close issue #12 of the project``.
    """
    found = []
    for key, line in lines.items():
        value = given[line - first].partition(":")[2].strip()
        text = fields[key] or ""
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
    problems = sorted(problems, key=lambda problem: problem.line)
    if len(problems) > MOST_PROBLEMS:
        more = problems[MOST_PROBLEMS:]
        message = f"And {len(more)} more of this kind, the last on line {more[-1].line}."
        problems[MOST_PROBLEMS:] = [
            Problem(more[0].line, message, any(problem.fatal for problem in more))
        ]
    return tuple(problems)
