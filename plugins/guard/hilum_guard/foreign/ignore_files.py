"""Read the lists of files that an agent must not read, such as ``.cursorignore``."""

from __future__ import annotations

from hilum_guard.foreign.rule_list import MAX_RULES, RuleList, is_path_pattern
from hilum_guard.rules.matching import Rule

_MAX_PAIRS = 10_000
"""Maximum number of lines in all rules of one file; a longer file becomes a single rule."""


def read(text: str, rules: RuleList) -> None:
    """Add rules for the files that a list excludes: they are neither read nor edited.

    Args:
        text: The content of the file, in the syntax of ``.gitignore``.
        rules: The list to add them to.
    """
    lines = [(number, line.rstrip()) for number, line in enumerate(text.split("\n"), 1)]
    patterns = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if len(patterns) > MAX_RULES:
        rules.doubt(f"There are more than {MAX_RULES:,} entries.", patterns[MAX_RULES][0])
    patterns = patterns[:MAX_RULES]
    for number, pattern, later in _limit_to_exceptions(patterns):
        if not is_path_pattern(pattern):
            rules.doubt(f"{pattern[:80]!r} is not a pattern.", number)
            continue
        for tool in ("read_file", "write_file"):
            rules.rules.append(
                Rule(
                    "deny",
                    tool,
                    pattern,
                    rules.name_line(number),
                    everywhere=rules.place.user,
                    written=pattern,
                    agent=rules.place.agent,
                    later=later,
                    # People list what should not be indexed, such as builds; programs need that.
                    hides=False,
                )
            )


def _limit_to_exceptions(patterns: list[tuple[int, str]]) -> list[tuple[int, str, tuple[str, ...]]]:
    """Return the lines that exclude files, each with the later lines that include some again."""
    again = [(number, line) for number, line in patterns if line.startswith("!")]
    excluding = [(number, line) for number, line in patterns if not line.startswith("!")]
    if not excluding:
        return []
    if len(again) * len(excluding) > _MAX_PAIRS:
        number, first = excluding[0]
        return [(number, first, tuple(line for after, line in patterns if after > number))]
    limited = []
    for number, pattern in excluding:
        later = tuple(line for after, line in again if after > number)
        limited.append((number, pattern, later))
    return limited
