"""Counts words on the command line: a sub-command of hilum."""

from pathlib import Path

from hilum import UsageError


def main(argv: list[str]) -> int:
    """Count the words in text files."""
    if not argv:
        raise UsageError("No file is named.", code="E_BAD_ARGS", hint="usage: hilum words FILE …")
    for name in argv:
        words = Path(name).read_text().split()
        print(f"{len(words)} {name}")
    return 0
