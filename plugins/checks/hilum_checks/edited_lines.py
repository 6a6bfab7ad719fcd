"""Decide which lines of a file a stream editor may change: `sed -i s/a/b/`, `perl -pi -e s/a/b/`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import regex  # type: ignore[import-untyped]
from hilum_guard import UNKNOWN

from hilum_checks.command_facts import CommandFacts
from hilum_checks.expressions import MATCH_TIMEOUT

MAX_MATCHES = 20
"""Maximum number of matches in a file to follow."""
_ADDRESS = r"\d+|\$|/(?:[^/\\]|\\.)*/"
# One command of `sed`; to add or to print lines changes no other line.
_COMMAND = re.compile(
    rf"\s*+(?P<start>{_ADDRESS})?(?:,(?P<end>{_ADDRESS}|[+~]\d+))?\s*+"
    r"(?:s(?P<mark>[^\w\s\\])(?P<pattern>(?:\\.|(?!(?P=mark))[^\\])*)(?P=mark)"
    r"(?:\\.|(?!(?P=mark))[^\\])*(?P=mark)[gIip\d]*|(?P<deletes>d)|p|=|[ai][\\ ].*)"
    r"\s*(?:;|\n|$)"
)
_EXTENDED = re.compile(r"-\w*[Er]\w*|--regexp-extended")
# Neither `-n`, with which only printed lines remain, nor `-z`, with which lines have other ends.
_OPTION = re.compile(r"-[Eirple]*e|--expression")
_FLAG = re.compile(r"-[Erpl]*i.*|-[Ersupl]+|--in-place.*|--regexp-extended")


def keeps_match(command: CommandFacts, text: str, expression: str) -> bool:
    """Return whether an expression certainly matches a file after an editor has changed its lines.

    Args:
        command: The command.
        text: The text of the file.
        expression: The expression, which matches the text.
    """
    steps = _find_steps(command)
    if not steps:
        return False
    lines = text.split("\n")
    try:
        return any(
            not any(_may_change(step, number, lines) for step in steps for number in numbers)
            for numbers in _find_lines(expression, text)
        )
    except (TimeoutError, regex.error):
        return False


def _find_lines(expression: str, text: str) -> Iterator[range]:
    """Yield the numbers of the lines of each match."""
    for number, match in enumerate(regex.finditer(expression, text, timeout=MATCH_TIMEOUT)):
        if number >= MAX_MATCHES:
            return
        first = text.count("\n", 0, match.start())
        yield range(first, first + text.count("\n", match.start(), match.end()) + 1)


class _Step(NamedTuple):
    """A command of an editor.

    Attributes:
        start: The number of the first line, a pattern, or an empty string for all lines.
        end: The same for the last line; empty if there is only one.
        pattern: A pattern for what is replaced; ``None`` if whole lines are deleted.
    """

    start: str
    end: str
    pattern: str | None


def _find_steps(command: CommandFacts) -> list[_Step]:
    """Return the commands that change lines; none if one of them is not understood."""
    is_perl = command.effects.program == "perl"
    is_extended = is_perl or any(map(_EXTENDED.fullmatch, command.words[1:]))
    steps: list[_Step] = []
    for script in find_scripts(command.words[1:], is_perl=is_perl):
        at = 0
        while at < len(script.rstrip()):
            found = _COMMAND.match(script, at)
            if found is None or UNKNOWN in script:
                return []
            at = max(found.end(), at + 1)
            pattern = found["pattern"]
            if pattern is not None and not is_extended:
                pattern = _SWAPPED.sub(_swap_escape, pattern)
            # A command without effect on existing lines still shows that the script is understood.
            is_change = pattern is not None or found["deletes"]
            steps.append(
                _Step(found["start"] or "", found["end"] or "", pattern)
                if is_change
                else _Step("0", "", None)
            )
    return steps


def find_scripts(words: tuple[str, ...], *, is_perl: bool) -> list[str]:
    """Return the scripts among the words of an editor; an unknown option makes one unreadable.

    Args:
        words: The words after the program.
        is_perl: Whether the editor is Perl, which needs an option for a script.
    """
    scripts = [value for word, value in pairwise((*words, "")) if _OPTION.fullmatch(word)]
    scripts += [word.partition("=")[2] for word in words if word.startswith("--expression=")]
    known = [word for word in words if _OPTION.fullmatch(word) or _FLAG.fullmatch(word)]
    options = [word for word in words if word.startswith("-") and word not in scripts]
    if set(options) - set(known) - {f"--expression={script}" for script in scripts}:
        return [UNKNOWN]
    if not scripts and not is_perl:
        scripts = [word for word in words if not word.startswith("-")][:1]
    return scripts


def _may_change(step: _Step, number: int, lines: list[str]) -> bool:
    """Return whether a command may change a line.

    Args:
        step: The command.
        number: The number of the line, from 0.
        lines: The lines of the file.
    """
    if step.end:
        is_plain = step.start.isdigit() and step.end.isdigit()
        is_selected = not is_plain or int(step.start) <= number + 1 <= int(step.end)
    elif step.start.startswith("/"):
        is_selected = _matches(_SWAPPED.sub(_swap_escape, step.start[1:-1]), lines[number])
    elif step.start == "$":
        is_selected = number + 1 >= len(lines) - 1
    else:
        is_selected = not step.start or int(step.start) == number + 1
    if not is_selected or step.pattern is None:
        return is_selected
    # The flag `I`, which ignores case, need not be looked for.
    return _matches(step.pattern, lines[number])


def _matches(pattern: str, line: str) -> bool:
    return regex.search(pattern, line, regex.IGNORECASE, timeout=MATCH_TIMEOUT) is not None


# Without `-E`, `sed` writes groups and repetitions with a backslash.
_SWAPPED = re.compile(r"\\?[(){}+?|]")


def _swap_escape(found: re.Match[str]) -> str:
    text = found[0]
    return text[1:] if text.startswith("\\") else f"\\{text}"
