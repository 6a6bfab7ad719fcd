"""Read the text that a call gives to a shell: `bash -lc 'make lint && make test'`.

The shell has the exit code of its text, so that what must have succeeded in the text has succeeded
if the shell has.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache

from hilum_checks import required_forms
from hilum_checks.model import Words

_SHELL = re.compile(r"(?:/usr/bin/|/bin/)?(?:ba|z|da)?sh")
# Options after which the shell runs the text as it would without them, or ends at a failure.
_OPTION = re.compile(r"-[leux]+|--login|--noprofile|--norc")
_TEXT_OPTION = re.compile(r"-[leux]*c")
_PIPEFAIL_OPTION = re.compile(r"-[leux]*o")
# Words in which the outer shell replaces nothing.
_LITERAL = re.compile(r"""(?:'[^']*'|"[^"$`\\!]*"|[\w\s./:=,+-])*""")


@lru_cache(64)
def read_shell_text(part: str) -> tuple[str, str] | None:
    """Return the text that a command gives to a shell.

    Args:
        part: The text of the command: `CI=1 timeout 60 bash -lc 'make test'`.

    Returns:
        What the options of the shell set, as a command, and the text; ``None`` if the command does
        anything else, or if the outer shell may change the text.
    """
    if _LITERAL.fullmatch(part) is None:
        return None
    try:
        words = shlex.split(part)
    except ValueError:
        return None
    start = next((at for at, word in enumerate(words) if _SHELL.fullmatch(word)), None)
    if start is None or not required_forms.is_plain_front(
        shlex.join(words[:start]), any_variables=False
    ):
        return None
    settings = _read_options(words[start + 1 : -1])
    return None if settings is None else (settings, words[-1])


def runs_shell_text(words: Words, text: str) -> bool:
    """Return whether the words of a command are those of a shell that runs a text.

    Args:
        words: The words, perhaps with those of `timeout` in front.
        text: The text.
    """
    return words[-1:] == (text,) and any(map(_TEXT_OPTION.fullmatch, words[-2:-1]))


def _read_options(options: list[str]) -> str | None:
    """Return what the options of a shell set, as a command; ``None`` if one is not known."""
    if not options or _TEXT_OPTION.fullmatch(options[-1]) is None:
        return None
    is_strict = "e" in options[-1]
    has_pipefail = False
    waiting = options[:-1]
    while waiting:
        option = waiting.pop(0)
        if _PIPEFAIL_OPTION.fullmatch(option) and waiting[:1] == ["pipefail"]:
            has_pipefail = True
            waiting.pop(0)
        elif not _OPTION.fullmatch(option):
            return None
        is_strict = is_strict or (not option.startswith("--") and "e" in option)
    settings = ["set -e"] if is_strict else []
    settings += ["set -o pipefail"] if has_pipefail else []
    return "\n".join(settings)
