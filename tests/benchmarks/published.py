"""How the readers hold on files that others published.

Run: ``python tests/benchmarks/published.py FOLDER [FOLDER …]``.

Every file of a folder is read with the reader that its name asks for. What the readers give is
compared with the file by means of this script's own, that know nothing of theirs: each key of the
front matter with all letters of its value, and each line of the text, must stand in what was read
or in a problem that is told. The bar: 0 crashed, 0 silently dropped. Prints a table, then each file
that does not meet the bar or does not load; ``--problems`` prints all problems.
"""

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hilum.frontmatter import read
from hilum_agents import load_definition
from hilum_rules.loading import load_rules
from hilum_skills import load_skill

KINDS = ("skills", "mdc", "rules", "agents", "other")
RULES = re.compile(
    r"(?:^|/)(?:agents(?:\.override|\.local)?\.md|claude(?:\.local)?\.md|gemini\.md|\.?cursorrules|\.windsurfrules|\.clinerules"
    r"|copilot-instructions\.md|[^/]*\.instructions\.md|\.claude/rules/.*\.md)$",
    re.IGNORECASE,
)
SLOW = 0.5
"""Seconds for one file that are too many."""


class Reading(NamedTuple):
    """What a reader gave of a file: all its text, its fields, and the lines and words of its
    problems.
    """

    text: str
    fields: dict[str, object]
    problems: list[tuple[int, str]]
    refused: str = ""


def kind_of(path: Path) -> str:
    """Tell which reader a file is for; empty for none."""
    name = path.as_posix()
    if path.name.casefold() == "skill.md":
        return "skills"
    if path.suffix == ".mdc":
        return "mdc"
    if RULES.search(name):
        return "rules"
    if path.suffix == ".md" and (
        "agents" in path.parts or name.endswith((".agent.md", ".chatmode.md"))
    ):
        return "agents"
    return "other" if path.suffix == ".md" else ""


def reading(path: Path, kind: str) -> Reading:
    """Read a file with the reader that it is for."""
    document = read(
        path.read_bytes(), raw=("globs", "description", "alwaysApply", "paths", "applyTo")
    )
    if kind == "other":
        return Reading(
            document.body,
            document.fields,
            [(each.line, each.message) for each in document.problems],
        )
    if kind == "agents":
        agent = load_definition(path)
        return Reading(
            agent.prompt,
            agent.fields,
            [(each.line, each.message) for each in agent.problems],
            agent.error,
        )
    if kind == "skills":
        skill = load_skill(path)
        return Reading(
            skill.body,
            skill.fields,
            [(each.line, each.message) for each in skill.problems],
            skill.error,
        )
    file = load_rules(path)
    given = [each for rule in file.rules for each in (rule.section, rule.lead, rule.content)]
    given += [enforce.text for rule in file.rules for enforce in rule.enforce]
    problems = [(each.line, each.message) for each in file.problems]
    refused = "" if file.rules else problems[0][1] if problems else "nothing is told"
    return Reading("\n".join(given), document.fields, problems, refused)


# --- what stands in a file, found by other means --------------------------------------------------


def lines_of(data: bytes) -> list[str]:
    """Give the lines of a file."""
    text = data.decode(
        "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", errors="replace"
    )
    return re.split(r"\r\n|\r|\n", text.lstrip("\ufeff"))


def fences(lines: Sequence[str], found: Reading) -> tuple[int, int]:
    """Give the indices of the two fences of the front matter, (-1, -1) where there is none.

    Of front matter that is told to have no closing fence the end is the first line that is neither
    a key nor indented.
    """
    if not lines or lines[0].strip() != "---":
        return -1, -1
    if any("has no closing '---' line" in message for _, message in found.problems):
        ends = (
            at
            for at, line in enumerate(lines[1:])
            if not re.match(r"[A-Za-z][\w.-]*[ \t]*:(?:\s|$)|[ \t-]\s*\S", line)
        )
        return 0, next(ends, len(lines) - 1) + 1
    closing = next((index for index, line in enumerate(lines[1:], 1) if line.strip() == "---"), -1)
    return (0, closing) if closing > 0 else (-1, -1)


def letters(text: str) -> str:
    """Give a text without all that is not a letter or a digit."""
    return re.sub(r"[\W_]+", "", text)


def written(value: object) -> str:
    """Give all texts of a value."""
    if isinstance(value, dict):
        return "".join(f"{key}{written(inner)}" for key, inner in value.items())
    return "".join(map(written, value)) if isinstance(value, list) else str(value or "")


def lost_fields(lines: Sequence[str], found: Reading) -> Iterator[tuple[int, str]]:
    """Give the keys at the margin of front matter whose values are not read, and not told
    either.
    """
    opening, closing = fences(lines, found)
    at = opening + 1
    while 0 < at < closing:
        match = re.match(r"([A-Za-z_][\w.-]*)[ \t]*:(?:\s|$)(.*)", lines[at])
        end = at + 1
        while end < closing and not re.match(r"[A-Za-z_][\w.-]*[ \t]*:(?:\s|$)", lines[end]):
            end += 1
        # What is beyond the bound of problems is told by its first line and its number.
        told = any(f"first on line {at + 1})" in text for _, text in found.problems) or any(
            at + 1 <= line <= end or (line <= end and "more of this kind" in text)
            for line, text in found.problems
        )
        empty = match and re.sub(r"\s#\s.*", "", match[2]).strip() in ("~", "null")
        if match and not told and "\\" not in match[2] and not empty:
            value = "\n".join([match[2], *lines[at + 1 : end]])
            plain = re.sub(
                r"^[|>][+-]?\d?[+-]?", "", re.sub(r"(?:^|\s)#+\s.*", "", value, flags=re.MULTILINE)
            )
            got = letters(written(found.fields.get(match[1])))
            if match[1] not in found.fields or (
                letters(plain) not in got and letters(value) not in got
            ):
                yield at + 1, lines[at]
        at = end


def without_marks(line: str) -> Iterator[str]:
    """Give the ways in which a line may stand in what was read: with and without marks of lists,
    quotes and code.
    """
    bare = re.sub(r"^[\s>]*", "", line)
    yield bare
    yield re.sub(r"^(?:\d{1,9}[.)、．，]?|[A-Za-z][.)]|[(（]\d+[）)])\s*", "", bare)
    yield re.sub(r"^(?:[-*+]\s+|\d+[.)]\s+)*(?:`{3,}|~{3,})\s*\S*", "", bare)


def lost_lines(lines: Sequence[str], found: Reading) -> Iterator[tuple[int, str]]:
    """Give the lines of a text that are not read, and not told either."""
    have = letters(found.text)
    told = {line for line, _ in found.problems}
    cut = min(
        (line for line, message in found.problems if "What follows is not read" in message),
        default=len(lines) + 1,
    )
    second = any("second front matter" in message.lower() for _, message in found.problems)
    start = max(fences(lines, found)[1], -1) + (
        not any("has no closing" in message for _, message in found.problems)
    )
    if second:
        start += fences(lines[start:], found)[1] + 1
    comment = False
    for number, line in enumerate(lines[start : cut - 1], start + 1):
        opens, ends = "<!--" in line, "-->" in line
        hidden = comment or opens
        comment = (comment or opens) and not ends
        if re.fullmatch(
            r"\s*@[\w./~-]+\s*", line
        ):  # what is imported stands in its place, or is told
            continue
        if (
            hidden
            or number in told
            or not letters(line)
            or re.fullmatch(r"\s*</?[A-Za-z][^<>]*>\s*", line)
        ):
            continue
        if any(letters(each) in have for each in without_marks(line)):
            continue
        if not all(letters(cell) in have for cell in line.split("|")):
            yield number, line


# --- the table ------------------------------------------------------------------------------------


def files(folders: Iterable[str]) -> Iterator[Path]:
    """Give all files below folders, in order."""
    for folder in folders:
        for here, inner, names in os.walk(folder):
            inner.sort()
            yield from (Path(here, name) for name in sorted(names))


def main(arguments: Sequence[str]) -> int:
    """Read all files; gives 1 if one crashed a reader or lost something in silence."""
    table: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    told: list[str] = []
    times = []
    for path in files(each for each in arguments if not each.startswith("-")):
        kind = kind_of(path)
        if not kind:
            continue
        row = table[kind]
        row["files"] += 1
        start = time.perf_counter()
        try:
            found = reading(path, kind)
        except Exception as error:
            row["crashed"] += 1
            told.append(f"CRASHED  {path}: {type(error).__name__}: {str(error)[:200]}")
            continue
        times.append(time.perf_counter() - start)
        if times[-1] > SLOW:
            told.append(f"SLOW     {path}: {times[-1]:.2f} s")
        lines = lines_of(path.read_bytes())
        lost = [
            *lost_fields(lines, found),
            *(() if found.refused and found.problems else lost_lines(lines, found)),
        ]
        row["silently dropped"] += bool(lost)
        told += [f"DROPPED  {path}:{line}: {text[:100]!r}" for line, text in lost[:5]]
        state = "not loaded" if found.refused else "with problems" if found.problems else "clean"
        row[state] += 1
        if found.refused:
            told.append(f"NOT READ {path}: {found.refused}")
        if "--problems" in arguments:
            told += [f"PROBLEM  {path}:{line}: {message}" for line, message in found.problems]
    columns = ("files", "clean", "with problems", "not loaded", "crashed", "silently dropped")
    print(f"{'':8}" + "".join(f"{column:>18}" for column in columns))
    for kind, row in table.items():
        print(f"{kind:8}" + "".join(f"{row[column]:18}" for column in columns))
    print(
        f"{len(times)} files in {sum(times):.1f} s, the slowest in {max(times, default=0) * 1000:.0f} ms"
    )
    print("\n".join(told))
    return int(any(row["crashed"] + row["silently dropped"] for row in table.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
