"""Repair of front matter that is not YAML.

The repair works key by key, so that an error affects only one key.

Each entry is read in the first of three ways that works: as YAML, as YAML with quotes around its
plain values, or line by line as text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hilum.frontmatter.document import Problem
from hilum.frontmatter.strict import NotYaml, parse, twice
from hilum.frontmatter.values import unquoted

MAX_REPAIRED = 300
"""Maximum number of entries that are tried as YAML; later ones are read line by line."""

_KEY = r"(\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|(?![#\s]|-\s)[^\n]{1,200}?)[ \t]*:(?=\s|$)"
# The pattern does not match the colon in a URL such as `https://`. The pattern also matches the
# full-width colon of Chinese and Japanese keyboards.
_TIGHT_KEY = r"([A-Za-z][\w.-]{0,63})[ \t]*(?::(?!//)|：)"
_LINE = (
    r"(\s*(?:- +)*)(?:((?:\"[^\"]{1,200}\"|'[^']{1,200}'|[^\s#:\"'\[{][^:\[{]{0,200}?))[ \t]*:["
    r" \t]+)?(\S.*)"
)


class Entry(NamedTuple):
    """An unindented key with the lines that belong to it."""

    line: int
    key: str
    lines: list[str]


class Repaired(NamedTuple):
    """The values and problems found in front matter that is not YAML."""

    fields: dict[str, object]
    lines: dict[str, int]
    problems: list[Problem]


def repair(text: str, first: int, why: NotYaml, raw: frozenset[str]) -> Repaired:
    """Read front matter that, as a whole, is not YAML.

    Args:
        text: The front matter.
        first: The line of the file on which the front matter begins.
        why: The parser's error about the text as a whole.
        raw: Keys whose values need not be YAML (see `hilum.frontmatter.read`).
    """
    found = Repaired({}, {}, [])
    entries, stray = _entries(text.removesuffix("\n").split("\n"), first)
    found.problems.extend(stray)
    excused = False
    for number, entry in enumerate(entries):
        key, value, problems, allowed = _read(entry, number < MAX_REPAIRED, raw)
        excused |= allowed
        if key in found.fields:
            found.problems.append(twice(key, entry.line, found.lines[key]))
        found.fields[key] = value
        found.lines[key] = entry.line
        found.problems.extend(problems)
    if not found.problems and not excused:  # each entry is valid on its own, but the whole is not
        message = f"This is not YAML ({why}); each key was read separately."
        found.problems.append(Problem(why.line, message))
    return found


def _entries(lines: list[str], first: int) -> tuple[list[Entry], list[Problem]]:
    """Return the entries of front matter, and problems for the lines that belong to no entry."""
    entries: list[Entry] = []
    stray: list[Problem] = []
    for number, line in enumerate(lines, first):
        match = _match_key(line)
        if match:
            entries.append(Entry(number, unquoted(match[1]), [line]))
        elif line.rstrip() == "..." or line.startswith("%YAML"):
            message = f"The line {line.strip()[:60]!r} has no meaning here and is ignored."
            stray.append(Problem(number, message))
        elif entries:
            entries[-1].lines.append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            message = f"This line is ignored because it has no key: {line.strip()[:80]!r}"
            stray.append(Problem(number, message, fatal=True))
    return entries, stray


def _match_key(line: str) -> re.Match[str] | None:
    """Match a key with its colon at the beginning of a line."""
    return re.match(_KEY, line) or re.match(_TIGHT_KEY, line)


def _read(
    entry: Entry, tried: bool, raw: frozenset[str]
) -> tuple[str, object, list[Problem], bool]:
    """Return the key, the value, the problems, and whether the entry need not be YAML."""
    reason = "there are too many keys"
    for quoting in (False, True) if tried else ():
        lines = _quoted(entry.lines) if quoting else entry.lines
        try:
            mapping = parse("\n".join(lines) + "\n", entry.line)
        except NotYaml as error:
            reason = reason if quoting else str(error)
            continue
        if len(mapping.fields) != 1:
            break
        ((key, value),) = mapping.fields.items()
        problems = list(mapping.notes)
        if quoting and key not in raw:
            message = f"The value of {key!r} is not YAML ({reason}); it was read as if quoted."
            problems.append(Problem(entry.line, message))
        return key, value, problems, key in raw
    if entry.key in raw and len(entry.lines) == 1:
        return entry.key, _plain(entry), [], True
    message = f"The value of {entry.key!r} is not YAML ({reason}); it was read line by line."
    return entry.key, _plain(entry), [Problem(entry.line, message)], False


def _quoted(lines: list[str]) -> list[str]:
    """Return the lines of an entry with quotes around values that are not YAML.

    Leading tabs are removed.
    """
    result: list[str] = []
    block: int | None = None  # indentation of the key above a block scalar's lines
    for line in lines:
        content = line.lstrip(" \t")
        margin = line[: len(line) - len(content)].replace("\t", "  ")
        line = margin + content
        if block is not None and (not content or len(margin) > block):
            result.append(line)
            continue
        block = None
        match = re.fullmatch(_LINE, line)
        if match is None or content.startswith("#"):
            result.append(line)
            continue
        front = match[1]
        key = match[2]
        value = match[3].rstrip()
        if re.fullmatch(r"[|>][+-]?\d?[+-]?(\s+#.*)?", value):
            block = len(margin)
        elif not (key is None and re.fullmatch(_KEY + r"\s*", content)) and not _is_yaml(value):
            if key:
                front += f"{key}: "
            # Within single quotes, only a single quote is escaped, by doubling it (YAML 1.2,
            # section 7.3.2).
            escaped = value.replace("'", "''")
            line = f"{front}'{escaped}'"
        result.append(line)
    return result


def _is_yaml(value: str) -> bool:
    try:
        parse(f"k: {value}")
    except NotYaml:
        return False
    return True


def _plain(entry: Entry) -> object:
    """Return the value of an entry that is read line by line.

    The text after the colon comes first. The form of the first line decides how the lines below are
    joined.
    """
    match = _match_key(entry.lines[0])
    first = entry.lines[0][match.end() :].strip() if match else entry.lines[0]
    rest = [line.strip() for line in entry.lines[1:] if not line.startswith("#")]
    filled = [line for line in rest if line]
    if not first and filled and all(re.match(r"-(\s|$)", line) for line in filled):
        return [unquoted(line[1:].strip()) for line in filled]
    if re.fullmatch(r"([|>][+-]?\d?[+-]?)?", first):
        return "\n".join(rest).strip() or None
    return unquoted(" ".join([first, *filled]))
