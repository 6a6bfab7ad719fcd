"""Checks that are attached by hand: ``enforce: deny write migrations/**``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath

from hilum_rules.checks import anchors
from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.model import (
    READS,
    WRITES,
    Answers,
    Ban,
    Check,
    Commands,
    Compiled,
    Contexts,
    Hosts,
    Paths,
    Tools,
)

KINDS = ("main", "shared", "headless")
_USAGE = (
    "write enforce: deny|ask write|read|create|delete|access PATHS, command WORDS, tool NAMES, host"
    " NAMES, context NAMES in KINDS, answer /REGEX/"
)
_MAX_REGEX = 500


class Malformed(ValueError):
    """A line that is not understood.

    Attributes:
        ban: What it names all the same, so that it can be banned until the line is mended; ``None``
            if nothing.
    """

    def __init__(self, message: str, ban: Ban | None = None) -> None:
        super().__init__(message)
        self.ban = ban


def compile_line(text: str, folder: PurePosixPath) -> Compiled:
    """Create a check of what stands behind ``enforce:``.

    Where the line is malformed and says all the same what it is about, that is refused until the
    line is mended.
    """
    effect, _, rest = text.strip().strip("`").partition(" ")
    kind, _, what = rest.strip().partition(" ")
    effect = effect.lower().rstrip(":")
    kind = kind.lower()
    what = what.strip()
    problem = ""
    if effect not in ("deny", "ask"):
        problem = f"{effect!r} is neither deny nor ask; {_USAGE}"
    if kind not in _KINDS:
        near = _near(kind)
        problem = (
            problem
            or f"{kind!r} is no kind of check{f' (did you mean {near}?)' if near else ''}; {_USAGE}"
        )
        kind = near
    if not kind:
        return Compiled(None, f"not enforced: {problem}", problem)
    if not what:
        problem = f"it names nothing; {_USAGE}"
        return Compiled(None, f"not enforced: {problem}", problem)
    try:
        ban: Ban | None = _KINDS[kind](what, folder)
    except Malformed as error:
        problem = problem or str(error)
        ban = error.ban
    if ban is not None and effect == "ask" and isinstance(ban, Contexts | Answers):
        problem = (
            f"nobody can be asked about {'a context' if kind == 'context' else 'an answer'}; write"
            " deny"
        )
    if ban is None:
        return Compiled(None, f"not enforced: {problem}", problem)
    # What is malformed fails closed: it is refused, whatever it may have meant to do with it.
    check = Check((("ask" if effect == "ask" and not problem else "deny", ban),))
    if not problem:
        why = f"by hand: {check.says}"
    else:
        why = f"fails closed until mended ({problem}): {check.says}"
    return Compiled(check, why, problem)


def _near(kind: str) -> str:
    from difflib import get_close_matches

    synonyms = {
        "edit": "write",
        "path": "write",
        "modify": "write",
        "cmd": "command",
        "run": "command",
        "url": "host",
        "network": "host",
    }
    return synonyms.get(kind) or next(iter(get_close_matches(kind, _KINDS, n=1, cutoff=0.7)), "")


def _split(text: str) -> list[str]:
    """Split at commas and white space, but not inside of braces."""
    text = re.sub(
        r"\{[^}]*\}", lambda found: re.sub(r"\s", "", found[0]).replace(",", "\x00"), text
    )
    return [
        part.replace("\x00", ",").strip("`'\"")
        for part in re.split(r"[\s,]+", text)
        if part.strip("`'\"")
    ]


def _paths(does: frozenset[str]) -> Callable[[str, PurePosixPath], Ban]:
    def made(text: str, folder: PurePosixPath) -> Ban:
        text, _, but = re.sub(r"(?<!\s)\s+(?:except|but not)\s+", "\x01", text, count=1).partition(
            "\x01"
        )
        listed = _split(text)
        excepted = _split(but)
        wrong = [
            each
            for each in (*listed, *excepted)
            if each.startswith(("!", "#")) or ".." in each.split("/") or "\\" in each
        ]
        good = tuple(
            pattern
            for each in listed
            if each not in wrong
            for pattern in anchors.patterns(each, folder)
        )
        unless = tuple(
            pattern
            for each in excepted
            if each not in wrong
            for pattern in anchors.patterns(each, folder)
        )
        ban = Paths(good, does, unless) if good else None  # type: ignore[arg-type]
        if wrong:
            raise Malformed(
                f"{wrong[0]!r} is no pattern for paths; write them as in .gitignore, without !"
                " and ..",
                ban,
            )
        assert ban is not None
        return ban

    return made


def _command(text: str, folder: PurePosixPath) -> Ban:
    commands = [
        part.strip().strip("`'\"").split() for part in text.split(",") if part.strip().strip("`'\"")
    ]
    if not commands:
        raise Malformed("it names no command")
    patterns = tuple(
        dict.fromkeys(way for words in commands for way in anchors.spellings(tuple(words)))
    )
    ban = Commands(patterns, str(folder))
    odd = next(
        (word for words in commands for word in words if re.search(r"[|&;<>$()`]", word)), ""
    )
    if odd:
        program = Commands(
            tuple((words[0],) for words in commands if re.fullmatch(r"[\w./-]+", words[0])),
            str(folder),
        )
        raise Malformed(
            f"{odd!r} is shell, not a word; write the command's words, as git push",
            program if program.patterns else None,
        )
    return ban


def _tool(text: str, folder: PurePosixPath) -> Ban:
    names = _split(text)
    wrong = [name for name in names if not re.fullmatch(r"[\w.*?-]+", name)]
    good = tuple(
        dict.fromkeys(
            each
            for name in names
            if name not in wrong
            for each in v.TOOLS.get(name.lower(), (name,))
        )
    )
    ban = Tools(good) if good else None
    if wrong:
        raise Malformed(f"{wrong[0]!r} is no tool's name", ban)
    assert ban is not None
    return ban


def _host(text: str, folder: PurePosixPath) -> Ban:
    found = {each: "*" if each == "*" else v.host(each) for each in _split(text)}
    for each in found:
        if not found[each] and re.fullmatch(r"(\*\.)?[\w-]+(\.[\w-]+)*", each):
            found[each] = each.lower()
    good = tuple(dict.fromkeys(name for name in found.values() if name))
    ban = Hosts(good) if good else None
    wrong = next((each for each, name in found.items() if not name), "")
    if wrong:
        raise Malformed(f"{wrong!r} is no host; write a name, as example.com or *.example.com", ban)
    assert ban is not None
    return ban


def _context(text: str, folder: PurePosixPath) -> Ban:
    names, _, kinds = re.sub(r"(?<!\s)\s+in\s+", "\x01", text, count=1).partition("\x01")
    listed = tuple(_split(names))
    given = [kind.lower() for kind in _split(kinds)]
    wrong = [kind for kind in given if kind not in KINDS]
    if not given or wrong:
        if wrong:
            what = f"{wrong[0]!r} is no kind of session"
        else:
            what = "it names no kind of session"
        # It is not loaded where it is least trusted to be.
        ban = Contexts(
            listed, tuple(kind for kind in given if kind in KINDS) or ("shared", "headless")
        )
        raise Malformed(f"{what}; write in shared, headless", ban)
    return Contexts(listed, tuple(given))


def _answer(text: str, folder: PurePosixPath) -> Ban:
    import regex  # type: ignore[import-untyped]

    found = re.fullmatch(r"/(.*)/([imsx]*)", text)
    if found is None:
        raise Malformed(
            "an expression stands between slashes; write deny answer /regex/",
            Answers("contains", text.strip("/")),
        )
    expression = f"(?{found[2]}){found[1]}" if found[2] else found[1]
    if len(expression) > _MAX_REGEX:
        raise Malformed(f"the expression has more than {_MAX_REGEX} characters")
    try:
        regex.compile(expression)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise Malformed(f"the expression is none: {error}", Answers("contains", found[1])) from None
    return Answers("matches", expression)


_KINDS: dict[str, Callable[[str, PurePosixPath], Ban]] = {
    "write": _paths(WRITES),
    "read": _paths(READS),
    "delete": _paths(frozenset({"delete"})),
    "create": _paths(frozenset({"create"})),
    "access": _paths(READS | WRITES),
    "command": _command,
    "tool": _tool,
    "host": _host,
    "context": _context,
    "answer": _answer,
}
