"""Checks that an author writes explicitly: ``enforce: deny write migrations/**``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import partial
from pathlib import PurePosixPath

import regex  # type: ignore[import-untyped]

from hilum_rules.checks import quoted_names
from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.model import (
    EVERYTHING,
    READS,
    WRITES,
    Action,
    Answers,
    Check,
    Commands,
    Compiled,
    Constraint,
    Content,
    Contexts,
    Hosts,
    Messages,
    Paths,
    Preceded,
    Tools,
)

SESSION_KINDS = ("main", "shared", "headless")
MAX_EXPRESSION = 500
"""Maximum length of a regular expression."""
_USAGE = (
    "write enforce: deny|ask write|change|read|create|delete|access PATHS, command WORDS, tool NAMES, host"
    " NAMES, context NAMES in KINDS, answer /REGEX/, content /REGEX/ in PATHS, commit-message"
    " /REGEX/; or require commit-message /REGEX/, command WORDS before WORDS"
)


class MalformedLineError(ValueError):
    """Raised if hilum does not understand a line.

    Attributes:
        constraint: The constraint that could still be read from the malformed line, if any.
    """

    def __init__(self, message: str, constraint: Constraint | None = None) -> None:
        super().__init__(message)
        self.constraint = constraint


def compile_line(text: str, folder: PurePosixPath) -> Compiled:
    """Compile the text after ``enforce:`` into a check.

    A malformed line fails closed: everything that it names is denied until the line is corrected.

    Args:
        text: The text after ``enforce:``.
        folder: The folder that the rules file governs, relative to the workspace.
    """
    effect, _, rest = text.strip().strip("`").partition(" ")
    kind, _, target = rest.strip().partition(" ")
    effect = effect.lower().rstrip(":")
    kind, problem = _check_words(effect, kind.lower())
    target = target.strip()
    if kind and not target:
        problem = f"it names nothing; {_USAGE}"
    if not kind or not target:
        return _not_enforced(problem)
    constraint: Constraint | None = None
    read = _READERS[kind]
    if effect == "require":
        read = _REQUIRED.get(kind, read)
        if kind not in _REQUIRED:
            problem = problem or f"{kind} cannot be required; {_USAGE}"
    try:
        constraint = read(target, folder)
    except MalformedLineError as error:
        problem = problem or str(error)
        constraint = error.constraint
    if effect == "ask" and isinstance(constraint, Contexts | Answers):
        what = "a context" if kind == "context" else "an answer"
        problem = f"{what} cannot be approved by anybody; write deny"
    if constraint is None:
        return _not_enforced(problem)
    if problem:
        # Fail closed: an author who mistypes `deny` wants to allow less, not more.
        check = Check((("deny", constraint),))
        return Compiled(
            check, f"fails closed until corrected ({problem}): {check.summary}", problem
        )
    check = Check((("ask" if effect == "ask" else "deny", constraint),))
    return Compiled(check, f"by hand: {check.summary}")


def _not_enforced(problem: str) -> Compiled:
    return Compiled(None, f"not enforced: {problem}", problem)


def _check_words(effect: str, kind: str) -> tuple[str, str]:
    """Return the intended kind of check, and the mistake in the first two words of the line."""
    problem = ""
    if effect not in ("deny", "ask", "require"):
        problem = f"{effect!r} is neither deny, ask nor require; {_USAGE}"
    if kind in _READERS:
        return kind, problem
    similar = _find_similar(kind)
    question = f" (did you mean {similar}?)" if similar else ""
    return similar, problem or f"{kind!r} is not a kind of check{question}; {_USAGE}"


_SYNONYMS = v.pairs(
    "edit write|path write|modify write|cmd command|run command|url host|network host"
)


def _find_similar(kind: str) -> str:
    # The guess only decides what is denied until the author corrects the line.
    close = get_close_matches(kind, _READERS, n=1, cutoff=0.7)
    return _SYNONYMS.get(kind) or "".join(close)


# --- what a line names ----------------------------------------------------------------------------


def _split(text: str) -> list[str]:
    """Split a text at commas and whitespace outside braces."""
    parts = re.findall(r"(?:\{[^}]*\}|[^\s,])+", text)
    names = [re.sub(r"\s", "", part).strip("`'\"") for part in parts]
    return [name for name in names if name]


def _paths(actions: frozenset[Action], text: str, folder: PurePosixPath) -> Constraint:
    text, *rest = re.split(r"\s+(?:except|but not)\s+", text, maxsplit=1)
    names = _split(text)
    exceptions = _split(" ".join(rest))
    wrong = [name for name in [*names, *exceptions] if not _is_pattern(name)]
    patterns = _path_patterns(names, folder)
    constraint = Paths(patterns, actions, _path_patterns(exceptions, folder)) if patterns else None
    if wrong:
        raise MalformedLineError(
            f"{wrong[0]!r} is not a path pattern; write it as in .gitignore, without ! and ..",
            constraint,
        )
    return _require(constraint)


def _is_pattern(name: str) -> bool:
    return not name.startswith(("!", "#")) and ".." not in name.split("/") and "\\" not in name


def _path_patterns(names: Iterable[str], folder: PurePosixPath) -> tuple[str, ...]:
    patterns: list[str] = []
    for name in names:
        if _is_pattern(name):
            patterns += quoted_names.path_patterns(name, folder)
    return tuple(patterns)


def _require(constraint: Constraint | None) -> Constraint:
    """Return the constraint, or raise an error if the line names nothing."""
    if constraint is None:
        raise MalformedLineError(f"it names nothing; {_USAGE}")
    return constraint


def _commands(text: str, folder: PurePosixPath) -> Constraint:
    text, *rest = re.split(r"\s+except(?:\s+|$)", text, maxsplit=1)
    text, *branches = re.split(r"\s+(?:to|on)\s+branch\s+", text, maxsplit=1)
    commands = _split_commands(text)
    exceptions = _split_commands(" ".join(rest))
    if not commands:
        raise MalformedLineError("it does not name a command")
    odd = next(
        (
            word
            for words in (*commands, *exceptions)
            for word in words
            if re.search(r"[|&;<>$()`]", word)
        ),
        "",
    )
    if odd:
        # Fail closed: the whole program is denied, because the exact command is unclear.
        programs = tuple((words[0],) for words in commands if re.fullmatch(r"[\w./-]+", words[0]))
        raise MalformedLineError(
            f"{odd!r} is shell syntax, not a word; write the command's words, such as git push",
            Commands(programs, str(folder)) if programs else None,
        )
    constraint = Commands(
        _spell(commands),
        str(folder),
        branches=tuple(_split(" ".join(branches))),
        unless=_spell(exceptions),
    )
    if rest and not exceptions:
        raise MalformedLineError("it does not name the exception", constraint)
    return constraint


def _split_commands(text: str) -> list[tuple[str, ...]]:
    parts = [part.strip().strip("`'\"") for part in text.split(",")]
    return [tuple(part.split()) for part in parts if part]


def _spell(commands: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Return commands with the other spellings of each."""
    patterns = [
        spelling for words in commands for spelling in quoted_names.command_spellings(words)
    ]
    return tuple(dict.fromkeys(patterns))


def _tools(text: str, folder: PurePosixPath) -> Constraint:
    tools: list[str] = []
    wrong = ""
    for name in _split(text):
        if re.fullmatch(r"[\w.*?-]+", name):
            # Names used by other agents are accepted, because rules files are shared between
            # agents.
            tools += v.TOOLS.get(name.lower(), (name,))
        else:
            wrong = wrong or name
    constraint = Tools(tuple(dict.fromkeys(tools))) if tools else None
    if wrong:
        raise MalformedLineError(f"{wrong!r} is not a tool name", constraint)
    return _require(constraint)


def _hosts(text: str, folder: PurePosixPath) -> Constraint:
    hosts: list[str] = []
    wrong = ""
    for name in _split(text):
        host = "*" if name == "*" else v.read_host(name)
        if not host and re.fullmatch(r"(\*\.)?[\w-]+(\.[\w-]+)*", name):
            host = name.lower()
        if host:
            hosts.append(host)
        else:
            wrong = wrong or name
    constraint = Hosts(tuple(dict.fromkeys(hosts))) if hosts else None
    if wrong:
        raise MalformedLineError(
            f"{wrong!r} is not a host; write a name such as example.com or *.example.com",
            constraint,
        )
    return _require(constraint)


def _contexts(text: str, folder: PurePosixPath) -> Constraint:
    text, *rest = re.split(r"\s+in\s+", text, maxsplit=1)
    names = tuple(_split(text))
    given = [kind.lower() for kind in _split(" ".join(rest))]
    kinds = tuple(kind for kind in given if kind in SESSION_KINDS)
    if given and len(kinds) == len(given):
        return Contexts(names, kinds)
    wrong = next((kind for kind in given if kind not in SESSION_KINDS), "")
    mistake = (
        f"{wrong!r} is not a kind of session" if wrong else "it does not name a kind of session"
    )
    # If the line names no kind of session, it applies to the least trusted kinds.
    raise MalformedLineError(
        f"{mistake}; write in shared, headless", Contexts(names, kinds or ("shared", "headless"))
    )


def _read_expression(text: str) -> tuple[str, str]:
    """Return the expression at the beginning of a text, and the rest of the text."""
    found = re.fullmatch(r"/(.*?)/([imsx]*)(?:\s+in\s+(.*))?", text)
    if found is None:
        raise MalformedLineError("an expression must be between slashes; write /regex/")
    expression = found[1]
    if found[2]:
        expression = f"(?{found[2]}){expression}"
    if len(expression) > MAX_EXPRESSION:
        raise MalformedLineError(f"the expression has more than {MAX_EXPRESSION} characters")
    try:
        # The expression is compiled now, so that a mistake is reported with its line and not only
        # when an answer is judged.
        regex.compile(expression)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise MalformedLineError(f"the expression is invalid: {error}") from None
    return expression, found[3] or ""


def _read_alone(text: str) -> str:
    """Return an expression after which a line must end."""
    expression, rest = _read_expression(text)
    if rest:
        raise MalformedLineError(f"{rest!r} has no meaning here; {_USAGE}")
    return expression


def _literal(text: str) -> str:
    """Return an expression for the text of an invalid expression, so that a line fails closed."""
    return re.escape(text.strip().strip("/"))


def _answers(text: str, folder: PurePosixPath) -> Constraint:
    try:
        return Answers("matches", _read_alone(text))
    except MalformedLineError as error:
        if len(text) <= MAX_EXPRESSION:
            error.constraint = Answers("contains", text.strip("/"))
        raise


def _messages(text: str, folder: PurePosixPath, *, wanted: bool = False) -> Constraint:
    try:
        return Messages(_read_alone(text), wanted)
    except MalformedLineError as error:
        error.constraint = Messages(".", False) if wanted else Messages(_literal(text))
        raise


def _content(text: str, folder: PurePosixPath) -> Constraint:
    try:
        expression, rest = _read_expression(text)
    except MalformedLineError as error:
        error.constraint = Content(_literal(text.partition(" in ")[0]))
        raise
    if not rest:
        return Content(expression, *_everything_below(folder))
    try:
        paths = _paths(WRITES, rest, folder)
    except MalformedLineError as error:
        paths = error.constraint or Paths(EVERYTHING)
        error.constraint = _content_in(expression, paths)
        raise
    return _content_in(expression, paths)


def _everything_below(folder: PurePosixPath) -> tuple[tuple[str, ...]]:
    return (EVERYTHING if folder == PurePosixPath(".") else (f"/{folder}/**",),)


def _content_in(expression: str, paths: Constraint) -> Constraint:
    assert isinstance(paths, Paths)
    return Content(expression, paths.patterns, paths.unless)


def _preceded(text: str, folder: PurePosixPath) -> Constraint:
    """Read ``pytest before command git commit``."""
    needed, *rest = re.split(r"\s+before\s+(?:command\s+)?", text, maxsplit=1)
    if not rest:
        raise MalformedLineError(
            "it does not name the command that must wait; write require command pytest before"
            " git commit"
        )
    before = _commands(rest[0], folder)
    assert isinstance(before, Commands)
    try:
        wanted = _commands(needed, folder)
    except MalformedLineError as error:
        # What must run first is unclear, so the command waits until the line is corrected.
        error.constraint = before
        raise
    assert isinstance(wanted, Commands)
    return Preceded(wanted, before)


_READERS: dict[str, Callable[[str, PurePosixPath], Constraint]] = {
    "write": partial(_paths, WRITES),
    "change": partial(_paths, WRITES - v.CREATES),
    "read": partial(_paths, READS),
    "delete": partial(_paths, v.DELETES),
    "create": partial(_paths, v.CREATES),
    "access": partial(_paths, READS | WRITES),
    "command": _commands,
    "tool": _tools,
    "host": _hosts,
    "context": _contexts,
    "answer": _answers,
    "content": _content,
    "commit-message": _messages,
}
_REQUIRED: dict[str, Callable[[str, PurePosixPath], Constraint]] = {
    "commit-message": partial(_messages, wanted=True),
    "command": _preceded,
}
