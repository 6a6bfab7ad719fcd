"""What goes wrong with settings. An application may have errors of its own in their place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


class SettingsError(Exception):
    """Settings have mistakes.

    Args:
        problems: Every mistake, one line each, with source and key.
        hint: What to do next; may be empty.
    """

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        self.problems = list(problems)
        self.hint = hint
        super().__init__(
            "\n".join(["The settings have mistakes:", *(f"  {p}" for p in problems), hint]).rstrip()
        )


class DeclarationError(Exception):
    """Settings are declared or asked for in a wrong way; the program has to change.

    Args:
        message: What is wrong, one sentence.
        hint: What to do; may be empty.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())


class ChangeError(Exception):
    """A file of settings cannot be changed safely; it is as it was.

    Args:
        path: The file.
        reason: What stands in the way.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} cannot be changed safely: {reason}.")


def near(name: str, known: Iterable[str]) -> str:
    """Return the sentence about a name that is not known: near ones, or all there are."""
    from difflib import get_close_matches  # 2 ms, only where something went wrong

    names = sorted(known)
    found = get_close_matches(name, names, n=2)
    if found:
        return f"Did you mean {' or '.join(found)}?"
    return f"Known: {', '.join(names[:20])}." if names else ""
