"""What a sentence names in quotes: paths, commands, options, tools, hosts.

Only what is certain is taken for one.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath

from hilum_rules.checks import vocabulary as v

_SYSTEM = frozenset(
    "bin boot dev etc home lib lib64 mnt media opt proc root run sbin srv sys tmp usr var".split()
)
_MAC = frozenset(("Applications", "Library", "System", "Users", "Volumes", "private"))


def braces(text: str) -> list[str]:
    """Expand ``{a,b}``, the way shells do; at most 32 results."""
    found = re.search(r"\{([^{},]*,[^{}]*)\}", text)
    if found is None:
        return [text]
    parts = [
        text[: found.start()] + part.strip() + text[found.end() :] for part in found[1].split(",")
    ]
    return [each for part in parts for each in braces(part)][:32]


def path_like(text: str, *, named: bool = False) -> bool:
    """Return whether a text is certainly a path or a pattern of paths.

    Args:
        text: The text.
        named: The sentence calls it a file or a folder, so that a plain word will do.
    """
    if (
        not _path()[0].fullmatch(text)
        or "..." in text
        or ".." in text.split("/")
        or text.strip("./*~") == ""
    ):
        return False
    if v.is_host(text) and "/" not in text and "*" not in text and not _path()[1].fullmatch(text):
        return False
    if text.startswith(("-", "@", "//", "!")) or text.endswith((".", ":")):
        return False
    return (
        named
        or "/" in text
        or bool(_path()[1].fullmatch(text))
        or text in v.FILES
        or text.lower() in v.LOCKS
    )


@cache
def _path() -> tuple[re.Pattern[str], re.Pattern[str]]:
    extension = "|".join(v.EXTENSIONS)
    return (
        re.compile(r"~?[\w.@/*?\[\]+=,-]*(?:\{[\w.,*-]+\}[\w.*/-]*)*"),
        re.compile(rf"(?:{v.DOTTED.pattern}|[\w.*\[\]-]*\.(?:{extension}))", re.IGNORECASE),
    )


def patterns(text: str, folder: PurePosixPath) -> tuple[str, ...]:
    """Make of a path as an author writes it the patterns that it means.

    Args:
        text: The path, as in ``.gitignore``: with a slash inside, relative to the folder; without,
            anywhere below it.
        folder: The folder that the rules file governs, relative to the workspace.
    """
    return tuple(
        dict.fromkeys(pattern for each in braces(text) for pattern in _patterns(each, folder))
    )


def _patterns(text: str, folder: PurePosixPath) -> list[str]:
    text = text.strip()
    if text.startswith("~/"):
        return [text.rstrip("/")]
    first = text.lstrip("/").partition("/")[0]
    if text.startswith("/") and (first in _SYSTEM or first in _MAC):
        return ["/" + text.rstrip("/")]
    anchored = "/" in text.rstrip("/")
    text = text.rstrip("/")
    while text.startswith("./"):
        text = text[2:]
    text = text.lstrip("/")
    if text not in ("*", "**"):
        text = re.sub(r"(/\*\*(/\*)?|/\*)$", "/**", text)
    else:
        text = "**"
    place = "" if folder == PurePosixPath(".") else f"/{folder}"
    if not anchored:
        return [f"{place}/**/{text}"] if place else [text]
    if text.startswith("**/"):
        return [f"{place}/{text}" if place else text]
    found = [f"{place}/{text}"]
    if place and text.startswith(f"{place[1:]}/"):
        found.append(f"/{text}")  # written from the root of the workspace
    return found


def made(pattern: str) -> bool:
    """Return whether what a pattern means is written by programs: a lock file, what was installed,
    what a build puts out.
    """
    parts = [part for part in pattern.lower().split("/") if part not in ("", "*", "**")]
    last = parts[-1] if parts else ""
    return (
        last in v.LOCKS
        or last in v.OUTPUTS
        or last.endswith((".lock", ".log"))
        or not v.MADE.isdisjoint(parts)
    )


def command(text: str, *, used: bool = False) -> tuple[str, ...]:
    """Return the words of a command, none if the text is not certainly one.

    Args:
        text: The text.
        used: The sentence says "use", which is said of more than commands.
    """
    words = text.split()
    while words and (
        words[-1] in ("...", "…", "*")
        or re.fullmatch(r"[<\[][\w -]+[>\]]|[<\[].*|.*[>\]]", words[-1])
    ):
        words.pop()
    if not words or not all(re.fullmatch(r"[\w.@/:=+,~*-]+", word, re.ASCII) for word in words):
        return ()
    if "/" in words[0] and not words[0].startswith(("./", "scripts/", "bin/", "tools/")):
        return ()
    if words[0].endswith("/") or not re.match(r"[\w.~]", words[0]):
        return ()
    if used and words[0] not in (v.PROGRAMS if len(words) > 1 else v.CERTAIN_PROGRAMS):
        return ()
    if not used and words[0] not in v.PROGRAMS:
        if len(words) > 1:
            plain = r"[a-z0-9][a-z0-9._/-]*|\./[\w./-]+"
        else:
            plain = r"[a-z0-9]\w*(?:[-/]\w+)*\.(?:sh|py|bash|js|rb|pl)|\./[\w./-]+|(?:scripts|bin|tools)/[\w./-]+"
        if not re.fullmatch(plain, words[0]):
            return ()
    return tuple(words)


def spellings(words: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return a command with the other ways to write it: the same program by another name, an
    option's short form.
    """
    found = [words]
    for same in v.SAME:
        for one in same:
            for known in list(found):
                if known[: len(one)] == one:
                    found += [(*other, *known[len(one) :]) for other in same if other != one]
    for begin, option, others in v.SAME_OPTIONS:
        for known in list(found):
            if known[: len(begin)] == begin and option in known:
                found += [
                    tuple(other if word == option else word for word in known) for other in others
                ]
    return tuple(dict.fromkeys(found))
