"""A file into front matter and body: fences by lines, characters that YAML forbids, and the two tries."""

from __future__ import annotations

import re

from hilum_frontmatter.document import Document, Problem
from hilum_frontmatter.repair import repair
from hilum_frontmatter.strict import NotYaml, parse

MOST_CHARACTERS = 65_536
"""How long front matter may be; what is beyond is told and not read."""
MOST_PROBLEMS = 50
# All that YAML forbids, and the characters that it takes for ends of lines and nobody else does.
_FORBIDDEN = "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"


def read_text(data: bytes | str, raw: frozenset[str]) -> Document:
    """Read a file (see `hilum_frontmatter.read`)."""
    problems: list[Problem] = []
    text = _decoded(data, problems) if isinstance(data, bytes) else data
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = _opening(text)
    if start < 0:
        return Document({}, text, 1, tuple(problems))
    fence = 1 + text.count("\n", 0, start - 1)  # the line of the opening fence
    closing = re.compile(r"^---[ \t]*$", re.MULTILINE).search(text, start)
    inner, body = (text[start : closing.start()], text[closing.end() + 1 :]) if closing else ("", "")
    if not closing or _is_body(inner):
        inner = _unclosed(text[start:])
        body = text[start + len(inner) :]
        if not inner:  # a line across the page
            problems.append(
                Problem(fence, "The first line is '---', but no front matter follows: all is read as text.")
            )
            return Document({}, text, 1, tuple(problems))
        message = "The front matter is not closed by a line '---'; it was taken to end where its keys end."
        problems.append(Problem(fence, message))
    fields, lines, found = _fields(inner, fence + 1, raw)
    if fence > 1 and not fields:  # blank lines, a line across the page, text
        return Document({}, text, 1, tuple(problems))
    if fence > 1:
        problems.append(Problem(1, "Blank lines stand before the front matter; it should begin on the first line."))
    problems += found
    line = 1 + text.count("\n", 0, len(text) - len(body)) if body else 1 + text.count("\n") + (not text.endswith("\n"))
    return Document(fields, body, line, _bounded(problems), True, lines)


def _decoded(data: bytes, problems: list[Problem]) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        problems.append(Problem(1, "The file is UTF-16; it should be UTF-8."))
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        problems.append(Problem(line, "The file is not UTF-8; what could not be read stands as U+FFFD."))
        return data.decode("utf-8", errors="replace")


def _opening(text: str) -> int:
    """Where the first line of front matter begins; -1 where there is none."""
    match = re.compile(r"(?:[ \t]*\n){0,20}---[ \t]*(?:\n|$)").match(text)
    return match.end() if match else -1


def _unclosed(text: str) -> str:
    """The lines at the top of a text that can be front matter: keys and what is indented below them."""
    end = 0
    for line in text[:MOST_CHARACTERS].splitlines(keepends=True):
        inner = end and line.startswith((" ", "\t", "- ")) and line.strip()
        if not inner and not re.match(r"[A-Za-z][\w.-]{0,63}[ \t]*:(\s|$)", line):
            break
        end += len(line)
    return text[:end]


def _is_body(text: str) -> bool:
    """Whether a fence was forgotten and the next ``---`` is a line across the page: keys, then Markdown, and no more keys."""
    keys = _unclosed(text)
    rest = text[len(keys) :]
    starts = re.match(r"[ \t]*\n|#+ ", rest)
    if not keys or not starts or re.search(r"^[A-Za-z][\w.-]{0,63}[ \t]*:(\s|$)", rest, re.MULTILINE):
        return False
    if not re.search(r"^[ \t]*[^\s#]", rest, re.MULTILINE):
        return False  # comments
    return not _parses(text) and _parses(keys)


def _parses(text: str) -> bool:
    try:
        return len(text) <= MOST_CHARACTERS and bool(parse(text))
    except NotYaml:
        return False


def _fields(text: str, first: int, raw: frozenset[str]) -> tuple[dict[str, object], dict[str, int], list[Problem]]:
    """Read front matter that begins on line ``first``: values, lines of keys, problems."""
    found: list[Problem] = []
    if len(text) > MOST_CHARACTERS:
        kept = text[:MOST_CHARACTERS].rpartition("\n")[0]
        message = (
            f"The front matter is longer than {MOST_CHARACTERS:,} characters ({len(text):,}); the rest is not read."
        )
        found.append(Problem(first + kept.count("\n") + 1, message, fatal=True))
        text = kept
    forbidden = re.search(_FORBIDDEN, text)
    if forbidden:
        line = first + text.count("\n", 0, forbidden.start())
        found.append(Problem(line, f"Characters that YAML forbids ({forbidden[0]!a}) stand as U+FFFD."))
        text = re.sub(_FORBIDDEN, "\ufffd", text)
    try:
        mapping = parse(text, first)
        return mapping.fields, mapping.lines, found + mapping.notes
    except NotYaml as error:
        repaired = repair(text, first, error, raw)
        return repaired.fields, repaired.lines, found + repaired.problems


def _bounded(problems: list[Problem]) -> tuple[Problem, ...]:
    problems = sorted(problems, key=lambda problem: problem.line)
    if len(problems) > MOST_PROBLEMS:
        more = problems[MOST_PROBLEMS:]
        message = f"And {len(more)} more of this kind, the last on line {more[-1].line}."
        problems[MOST_PROBLEMS:] = [Problem(more[0].line, message, any(problem.fatal for problem in more))]
    return tuple(problems)
