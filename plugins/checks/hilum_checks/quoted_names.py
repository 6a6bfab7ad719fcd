"""Decide whether a quoted name is a path or a command, and return what the name matches."""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath

from hilum_checks import vocabulary as v
from hilum_checks.braces import expand_braces

# A path that begins with one of these root folders is absolute. Any other path, such as `/src`, is
# relative to the rules file.
_ROOT_FOLDERS = frozenset(
    """
    bin boot dev etc home lib lib64 mnt media opt proc root run sbin srv sys tmp usr var
    Applications Library System Users Volumes private
    """.split()
)


def is_path(text: str, *, named: bool = False) -> bool:
    """Return whether a text is certainly a path or a path pattern.

    Args:
        text: The text.
        named: Whether the sentence calls the text a file or a folder, so that a plain word is
            sufficient.
    """
    if not _has_form_of_path(text):
        return False
    has_file_name = _file_pattern().fullmatch(text) is not None
    # ``example.com`` also has the form of a file name.
    if v.is_host(text) and not has_file_name and "*" not in text:
        return False
    if named or has_file_name or "/" in text:
        return True
    return text.rstrip("*") in v.FILES or text.lower() in v.LOCKS


def _has_form_of_path(text: str) -> bool:
    if not _path_pattern().fullmatch(text) or not text.strip("./*~"):
        return False
    if "..." in text or ".." in text.split("/"):
        return False
    return not text.startswith(("-", "@", "//", "!")) and not text.endswith((".", ":"))


@cache
def _path_pattern() -> re.Pattern[str]:
    return re.compile(r"~?[\w.@/*?\[\]+=,-]*(?:\{[\w.,*-]+\}[\w.*/-]*)*")


@cache
def _file_pattern() -> re.Pattern[str]:
    """Return a pattern for names that only files can have."""
    extension = "|".join(v.EXTENSIONS)
    return re.compile(rf"(?:{v.DOTTED.pattern}|[\w.*\[\]-]*\.(?:{extension}))", re.IGNORECASE)


def path_patterns(text: str, folder: PurePosixPath) -> tuple[str, ...]:
    """Return the patterns for a path.

    Args:
        text: The path as in ``.gitignore``: relative to the folder if it contains an inner slash,
            otherwise anywhere below the folder.
        folder: The folder that the rules file governs, relative to the workspace.

    Returns:
        The patterns. If the braces of the path stand for too many, they match more than the path.
    """
    alternatives = [_widen(text)] if has_too_many_choices(text) else expand_braces(text)
    found: list[str] = []
    for alternative in alternatives:
        found += _patterns(alternative.strip(), folder)
    return tuple(dict.fromkeys(found))


_CHOICES = re.compile(r"\{[^{},]*,[^{}]*\}")


def has_too_many_choices(text: str) -> bool:
    """Return whether the braces of a path stand for more paths than are expanded."""
    return any(map(_CHOICES.search, expand_braces(text)))


def _widen(text: str) -> str:
    """Return a pattern that matches at least what a path with braces means."""
    start, _, rest = text.partition("{")
    if "/" in rest:
        return f"{start.rpartition('/')[0]}/**"
    while _CHOICES.search(text):
        text = _CHOICES.sub("*", text)
    return text


def _patterns(text: str, folder: PurePosixPath) -> list[str]:
    text = text.rstrip("/")
    if text.startswith("~/"):
        return [text]
    if text.startswith("/") and text.split("/")[1] in _ROOT_FOLDERS:
        return [f"/{text}"]
    is_anchored = "/" in text
    while text.startswith("./"):
        text = text[2:]
    text = text.lstrip("/")
    if text == "*":
        text = "**"
    # ``src/*`` in a rule means everything in the folder, not only its direct entries.
    text = re.sub(r"(/\*\*(/\*)?|/\*)$", "/**", text)
    prefix = "" if folder == PurePosixPath(".") else f"/{folder}"
    if not is_anchored:
        return [f"{prefix}/**/{text}" if prefix else text]
    if text.startswith("**/"):
        return [f"{prefix}/{text}" if prefix else text]
    if prefix and text.startswith(f"{folder}/"):
        # The second pattern is relative to the root of the workspace.
        return [f"{prefix}/{text}", f"/{text}"]
    return [f"{prefix}/{text}"]


def is_generated(pattern: str) -> bool:
    """Return whether a pattern matches files that programs write: lock files, packages, builds."""
    parts = [part for part in pattern.lower().split("/") if part not in ("", "*", "**")]
    last = parts[-1] if parts else ""
    if last in v.LOCKS or last in v.OUTPUTS or last.endswith((".lock", ".log")):
        return True
    return not v.GENERATED_FOLDERS.isdisjoint(parts)


# Placeholders for arguments at the end of a command: `...`, `<file>`, `[options]`.
_PLACEHOLDER = re.compile(r"\.\.\.|…|\*|[<\[].*|.*[>\]]")
_SCRIPT_FOLDERS = ("./", "vendor/bin/", "scripts/", "bin/", "tools/")
_PROGRAM = re.compile(r"[a-z0-9][a-z0-9._/-]*|\./[\w./-]+")
_SCRIPT = re.compile(
    r"[a-z0-9]\w*(?:[-/]\w+)*\.(?:sh|py|bash|js|rb|pl)|\./[\w./-]+"
    r"|(?:scripts|bin|tools)/[\w./-]+"
)


def command_words(text: str, *, used: bool = False) -> tuple[str, ...]:
    """Return the words of a command, or nothing if the text might not be a command.

    Args:
        text: The text.
        used: Whether the sentence says "use", which may also refer to things other than commands.
    """
    words = text.split()
    # "Never run `rm -rf <dir>`" forbids the command with any argument.
    while words and _PLACEHOLDER.fullmatch(words[-1]):
        words.pop()
    if not words or not all(re.fullmatch(r"[\w.@/:=+,~*-]+", word, re.ASCII) for word in words):
        return ()
    return tuple(words) if _is_program(words[0], alone=len(words) == 1, used=used) else ()


def _is_program(name: str, *, alone: bool, used: bool) -> bool:
    if "/" in name and not name.startswith(_SCRIPT_FOLDERS):
        return False
    if name.endswith("/") or not re.match(r"[\w.~]", name):
        return False
    if used:
        return name in (v.CERTAIN_PROGRAMS if alone else v.PROGRAMS)
    if name in v.PROGRAMS:
        return True
    pattern = _SCRIPT if alone else _PROGRAM
    return pattern.fullmatch(name) is not None


def command_spellings(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return a command and its other spellings, with other program names and option forms."""
    found = [words]
    if words[0] in v.RUN_BY_NAME:
        found += [(*runner, *words) for runner in v.NAME_RUNNERS]
    for same in v.SAME:
        # "Use the wrapper, never `gradle`" is not about the wrapper.
        if len(words) == 1 and same in v.WRAPPERS:
            continue
        for beginning in same:
            for known in list(found):
                if known[: len(beginning)] == beginning:
                    rest = known[len(beginning) :]
                    found += [(*other, *rest) for other in same if other != beginning]
    for beginning, option, spellings in v.SAME_OPTIONS:
        for known in list(found):
            if known[: len(beginning)] == beginning and option in known:
                found += [_replace(known, option, spelling) for spelling in spellings]
    return tuple(dict.fromkeys(found))


def _replace(words: tuple[str, ...], option: str, spelling: str) -> tuple[str, ...]:
    return tuple(spelling if word == option else word for word in words)
