"""Checks that an author writes explicitly: ``enforce: deny write migrations/**``."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from hilum_checks import WORKSPACE, quoted_names
from hilum_checks import vocabulary as v
from hilum_checks.answer_forms import with_phrase
from hilum_checks.model import (
    EVERYTHING,
    READS,
    WRITES,
    Action,
    Answers,
    ChangedTogether,
    Check,
    CommandBefore,
    Commands,
    Compiled,
    Constraint,
    Content,
    ExcludedFiles,
    Hosts,
    MessageKind,
    Messages,
    Names,
    Paths,
    ReadFirst,
    RunFirst,
    Tools,
)

SESSION_KINDS = ("main", "shared", "headless")
MAX_EXPRESSION = 500
"""Maximum length of a regular expression."""
_USAGE = (
    "write enforce: deny|ask write|change|read|create|delete|access PATHS, command WORDS, tool NAMES, host"
    " NAMES, context NAMES in KINDS, answer /REGEX/, content /REGEX/ in PATHS, name /REGEX/ in PATHS,"
    " commit-message|pr-title|pr-body /REGEX/; or require content, name, commit-message, pr-title,"
    " pr-body, branch-name NAMES, command WORDS before WORDS|answer, write PATHS before WORDS|answer, read PATHS before"
    " write PATHS|WORDS"
)


Constraints = tuple[Constraint, ...]
Reading = tuple[Constraint | Constraints | None, str]
"""What the words of a line mean, as far as they could be read, and the mistake in them."""


def compile_line(text: str, folder: PurePosixPath) -> Compiled:
    """Compile the text after ``enforce:`` into a check.

    A malformed line fails closed: everything that it names is denied until the line is corrected.

    Args:
        text: The text after ``enforce:``.
        folder: The folder that the rules file governs, relative to the workspace.
    """
    text = text.strip()
    if text.startswith("`"):
        text = text.strip("`")
    effect, _, rest = text.partition(" ")
    kind, _, target = rest.strip().partition(" ")
    effect = effect.lower().rstrip(":")
    kind, problem = _check_words(effect, kind.lower())
    target = target.strip()
    if kind and not target:
        problem = f"it names nothing; {_USAGE}"
    if not kind or not target:
        return _not_enforced(problem)
    read = _READERS[kind]
    if effect == "require":
        read = _REQUIRED.get(kind, read)
        if kind not in _REQUIRED:
            problem = problem or f"{kind} cannot be required; {_USAGE}"
    constraint, mistake = read(target, folder)
    problem = problem or mistake
    if effect == "ask" and isinstance(constraint, ExcludedFiles | Answers):
        what = "a context" if kind == "context" else "an answer"
        problem = f"{what} cannot be approved by anybody; write deny"
    if constraint is None:
        return _not_enforced(problem or f"it names nothing; {_USAGE}")
    constraints = constraint if isinstance(constraint, tuple) else (constraint,)
    if problem:
        # Fail closed: an author who mistypes `deny` wants to allow less, not more.
        check = Check(tuple(("deny", each) for each in constraints))
        return Compiled(
            check, f"fails closed until corrected ({problem}): {check.summary}", problem
        )
    check = Check(tuple(("ask" if effect == "ask" else "deny", each) for each in constraints))
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


# Words that join names in a sentence, and mean nothing in a line.
_JOINING = frozenset(
    "and or but not nor to on in the with without unless besides excluding".split()
)
_PART = re.compile(r"(?:\"[^\"]*\"|'[^']*'|`[^`]*`|\{[^}]*\}|[^\s,])++")
_QUOTED = re.compile(r"([`'\"])(.*)\1", re.DOTALL)


def _split(text: str) -> tuple[list[str], str]:
    """Return the names between commas and whitespace outside quotes and braces, and the mistake."""
    names: list[str] = []
    mistake = ""
    for part in _PART.findall(text):
        quoted = _QUOTED.fullmatch(part)
        name = quoted[2] if quoted else re.sub(r"\s", "", part).strip("`'\"")
        if not quoted and part[0] in "'\"":
            mistake = mistake or f"the quote before {name!r} is not closed"
        if not quoted and name.lower() in _JOINING:
            mistake = mistake or f"{name!r} has no meaning here; separate names with commas"
        elif not quoted and names and _is_misspelled_except(name):
            mistake = mistake or f"{name!r} has no meaning here (did you mean except?)"
        elif name:
            names.append(name)
    return names, mistake


def _is_misspelled_except(word: str) -> bool:
    return bool(get_close_matches(word.lower(), ("except", "excepting"), n=1, cutoff=0.8))


def _pick(
    text: str, read: Callable[[str], Iterable[str]], what: str
) -> tuple[tuple[str, ...], str]:
    """Return what the names in a text mean, and the mistake in them.

    Args:
        text: The text.
        read: Returns what a name means.
        what: What a name that means nothing is not.
    """
    found: dict[str, None] = {}
    names, mistake = _split(text)
    for name in names:
        meanings = tuple(read(name))
        found |= dict.fromkeys(meanings)
        if not meanings:
            mistake = mistake or f"{name!r} is not {what}"
    return tuple(found), mistake


def _paths(actions: frozenset[Action], text: str, folder: PurePosixPath) -> Reading:
    def read(name: str) -> tuple[str, ...]:
        if name.startswith(("!", "#")) or "\\" in name:
            return ()
        if ".." in name.split("/"):
            return _outside_patterns(name, folder)
        return quoted_names.path_patterns(name, folder)

    text, *rest = re.split(r"\s+(?:except|but not)\s+", text, maxsplit=1)

    def read_exception(name: str) -> tuple[str, ...]:
        return () if quoted_names.has_too_many_choices(name) else read(name)

    what = "a path pattern; write it as in .gitignore, without !"
    patterns, mistake = _pick(text, read, what)
    exceptions, other_mistake = _pick(" ".join(rest), read_exception, what)
    if any(map(quoted_names.has_too_many_choices, _split(text)[0])):
        mistake = mistake or "its braces stand for too many paths; write several lines"
    constraint = Paths(patterns, actions, exceptions) if patterns else None
    return constraint, mistake or other_mistake


def _outside_patterns(name: str, folder: PurePosixPath) -> tuple[str, ...]:
    """Return the patterns for a path such as ``../other/**``; none if it is the disk's root."""
    path = posixpath.normpath(f"{folder}/{name}")
    if not path.startswith("../"):
        return quoted_names.path_patterns(f"./{path}", PurePosixPath("."))
    # The place of the workspace is known only when a call is judged.
    return () if path.endswith("/..") else (f"/{path}",)


_TO_BRANCH = re.compile(r"\s+(?:to|on)\s+(?:the\s+)?branch(?:es)?(?:\s+|$)")


def _commands(text: str, folder: PurePosixPath) -> tuple[Commands | None, str]:
    text, *rest = re.split(r"\s+except(?:\s+|$)", text, maxsplit=1)
    text, *named = _TO_BRANCH.split(text, maxsplit=1)
    commands, mistake = _split_commands(text)
    exceptions, other_mistake = _split_commands(" ".join(rest))
    branches, branch_mistake = _split(" ".join(named))
    mistake = mistake or other_mistake or branch_mistake
    if named and not branches:
        mistake = mistake or "it does not name the branch"
    if rest and not exceptions:
        mistake = mistake or "it does not name the exception"
    if any(_TO_BRANCH.search(f" {' '.join(words)} ") for words in exceptions):
        mistake = mistake or "an exception cannot name a branch"
        exceptions = []
    if not commands:
        return None, "it does not name a command"
    odd = re.search(r"\S*[|&;<>$()`]\S*", " ".join(map(" ".join, (*commands, *exceptions))))
    if odd:
        # Fail closed: the whole program is denied, because the exact command is unclear.
        programs = tuple((words[0],) for words in commands if re.fullmatch(r"[\w./-]+", words[0]))
        mistake = (
            f"{odd[0]!r} is shell syntax, not a word; write the command's words, such as git push"
        )
        return (Commands(programs, str(folder)) if programs else None), mistake
    constraint = Commands(
        _spell(commands), str(folder), branches=tuple(branches), unless=_spell(exceptions)
    )
    return constraint, mistake


_COMMAND = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^,])++")


def _split_commands(text: str) -> tuple[list[tuple[str, ...]], str]:
    """Return the commands between commas outside quotes, each as words, and the mistake."""
    commands: list[tuple[str, ...]] = []
    mistake = ""
    for part in _COMMAND.findall(text):
        words, unclosed = _split_words(part.strip().strip("`"))
        mistake = mistake or unclosed
        start = 0
        for at, word in enumerate(words):
            other = _find_stray_word(word, words[:at])
            if not other:
                continue
            # Fail closed: the commands before and after the word are meant.
            mistake = mistake or other
            commands.append(tuple(words[start:at]))
            is_target = word in ("to", "on")
            start = len(words) if is_target else at + 1
        commands.append(tuple(words[start:]))
    return [command for command in commands if command], mistake


def _split_words(text: str) -> tuple[list[str], str]:
    """Return the words of a command without their quotes, and the mistake."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.escape = ""
    try:
        words = list(lexer)
    except ValueError:
        return re.sub(r"['\"]", "", text).split(), "a quote is not closed"
    # A whole command may be quoted.
    return (words[0].split() if len(words) == 1 else words), ""


def _find_stray_word(word: str, before: Sequence[str]) -> str:
    """Return the mistake of a word that joins commands, or introduces what a line cannot say."""
    if not before:
        return ""
    if word in ("and", "or"):
        return f"{word!r} has no meaning here; separate commands with commas"
    if word != "except" and _is_misspelled_except(word):
        return f"{word!r} has no meaning here (did you mean except?)"
    if word in ("to", "on") and tuple(before[:2]) in (("git", "commit"), ("git", "push")):
        return f"{word!r} has no meaning here; write to branch and the name of the branch"
    return ""


def _spell(commands: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Return commands with the other spellings of each."""
    patterns: dict[tuple[str, ...], None] = {}
    for words in commands:
        patterns |= dict.fromkeys(quoted_names.command_spellings(words))
    return tuple(patterns)


def _tools(text: str, folder: PurePosixPath) -> Reading:
    names, mistake = _pick(text, _read_tool, "a tool name")
    return (Tools(names) if names else None), mistake


def _read_tool(name: str) -> tuple[str, ...]:
    # Names used by other agents are accepted, because rules files are shared between agents.
    return v.TOOLS.get(name.lower(), (name,)) if re.fullmatch(r"[\w.*?-]+", name) else ()


def _hosts(text: str, folder: PurePosixPath) -> Reading:
    what = "a host; write a name such as example.com or *.example.com"
    names, mistake = _pick(text, _read_host, what)
    return (Hosts(names) if names else None), mistake


def _read_host(name: str) -> tuple[str, ...]:
    host = v.read_host(name)
    if not host and re.fullmatch(r"\*|(\*\.)?[\w-]+(\.[\w-]+)*", name):
        host = name.lower()
    return (host,) if host else ()


def _contexts(text: str, folder: PurePosixPath) -> Reading:
    text, *rest = re.split(r"\s+in\s+", text, maxsplit=1)
    names, mistake = _split(text)
    kinds, other_mistake = _pick(
        " ".join(rest).lower(), lambda kind: {kind} & set(SESSION_KINDS), "a kind of session"
    )
    if not kinds:
        other_mistake = other_mistake or "it does not name a kind of session"
    if other_mistake:
        mistake = mistake or f"{other_mistake}; write in shared, headless"
    # If the line names no kind of session, it applies to the least trusted kinds.
    return ExcludedFiles(tuple(names), kinds or ("shared", "headless")), mistake


_ORDER = re.compile(
    r"(?P<needed>.*?)(?:\s+after\s+(?:write\s+)?(?P<changed>.*?))?"
    r"(?:\s+before\s+(?:command\s+)?(?P<before>.*))?"
)


class _Order(NamedTuple):
    """What must be done after some changes and before something else.

    Attributes:
        needed: The text of what must be done.
        before: What must wait, commands or writes; ``None`` for final answers.
        changed: The files; ``None`` for all files.
        mistake: The mistake.
    """

    needed: str
    before: Commands | Paths | None
    changed: Paths | None
    mistake: str


def _read_order(text: str, folder: PurePosixPath, example: str) -> _Order:
    parts = _ORDER.fullmatch(text)
    if parts is None or not (parts["before"] or parts["changed"]):
        mistake = (
            f"it does not name what must wait; write {example} before git commit, or before answer"
        )
        return _Order("", None, None, mistake)
    before: Commands | Paths | None = None
    mistake = ""
    waiting = parts["before"] or "answer"
    # What must be done after a change must have been done when the work ends.
    if waiting.startswith("write "):
        paths, mistake = _paths(WRITES, waiting.removeprefix("write "), folder)
        before = paths if isinstance(paths, Paths) else None
    elif waiting != "answer":
        before, mistake = _commands(waiting, folder)
    changed: Paths | None = None
    if parts["changed"] and isinstance(before, Paths):
        mistake = mistake or "a write waits for a command whatever has changed; write before answer"
    if parts["changed"]:
        paths, other = _paths(WRITES, parts["changed"], folder)
        mistake = mistake or other
        changed = paths if isinstance(paths, Paths) else None
    return _Order(parts["needed"], before, changed, mistake)


def _accompanied(text: str, folder: PurePosixPath) -> Reading:
    """Read ``CHANGELOG.md before git commit``, and ``docs/** after write src/** before answer``."""
    order = _read_order(text, folder, "require write CHANGELOG.md")
    if not order.needed:
        # Fail closed: a line without an order may have meant a denial.
        return _paths(WRITES, text, folder)[0], order.mistake
    needed, mistake = _paths(WRITES, order.needed, folder)
    mistake = order.mistake or mistake
    if isinstance(order.before, Paths):
        mistake = (
            mistake or "files that change together cannot wait for a write; write before answer"
        )
    if mistake or not isinstance(needed, Paths) or isinstance(order.before, Paths):
        return order.before, mistake
    return ChangedTogether(needed, order.before, order.changed), ""


def _preceded(text: str, folder: PurePosixPath) -> Reading:
    """Read ``pytest before git commit``, and ``make docs after write docs/** before answer``."""
    needed_text, before, changed, mistake = _read_order(text, folder, "require command pytest")
    if not needed_text:
        return None, mistake
    # Each of the commands between commas must have run.
    wanted = [_commands(name, folder) for name in needed_text.split(",")]
    mistake = mistake or next((other for _, other in wanted if other), "")
    needed = [each for each, _ in wanted if each is not None]
    if mistake or not needed:
        # What must run first is unclear, so the command waits until the line is corrected.
        return before, mistake
    if isinstance(before, Paths):
        return tuple(RunFirst(each, before) for each in needed), ""
    return tuple(CommandBefore(each, before, changed) for each in needed), ""


_READ_BEFORE = re.compile(
    r"(?P<needed>.+?)\s+before\s+(?:(?P<kind>write|change|create|delete|command)\s+)?(?P<before>.+)"
)


def _read_first(text: str, folder: PurePosixPath) -> Reading:
    """Read ``docs/style.md before write src/**``, and ``RELEASE.md before command npm publish``."""
    parts = _READ_BEFORE.fullmatch(text)
    if parts is None:
        # Fail closed: a line without an order may have meant a denial.
        mistake = "it does not name what must wait; write require read A before write B"
        return _paths(READS, text, folder)[0], mistake
    before, mistake = _READERS[parts["kind"] or "command"](parts["before"], folder)
    names, other_mistake = _split(parts["needed"])
    wanted = [_paths(READS, f'"{name}"', folder) for name in names]
    mistake = mistake or other_mistake or next((other for _, other in wanted if other), "")
    needed = [each for each, _ in wanted if isinstance(each, Paths)]
    if mistake or not needed or not isinstance(before, Paths | Commands):
        # What must be read first is unclear, so the rest waits until the line is corrected.
        return before, mistake
    return tuple(ReadFirst(each, before) for each in needed), ""


# --- regular expressions --------------------------------------------------------------------------


# `^` or `$` that is probably an anchor, and not a character of a set.
_ANCHOR = re.compile(r"(?<![\\\[])\^|(?<!\\)\$")


def _read_expression(text: str, *, alone: bool = True, lines: bool = False) -> tuple[str, str, str]:
    """Return the expression at the beginning of a text, the rest of the text, and the mistake.

    Args:
        text: The text.
        alone: Whether nothing may follow the expression.
        lines: Whether `^` and `$` match at the beginning and end of each line.
    """
    found = re.fullmatch(r"/(.*?)/([imsx]*)(?:\s+(?:in\s+|(?=except\s))(.*))?", text)
    if found is None:
        return "", "", "an expression must be between slashes; write /regex/"
    flags = found[2]
    if lines and "m" not in flags and _ANCHOR.search(found[1]):
        flags += "m"
    expression = f"(?{flags}){found[1]}" if flags else found[1]
    rest = found[3] or ""
    mistake = ""
    if len(expression) > MAX_EXPRESSION:
        mistake = f"the expression has more than {MAX_EXPRESSION} characters"
    elif rest and alone:
        mistake = f"{rest!r} has no meaning here; {_USAGE}"
    try:
        # The expression is compiled now, so that a mistake is reported with its line and not only
        # when an answer is judged.
        regex.compile(expression if not mistake else "")
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        mistake = f"the expression is invalid: {error}"
    return expression, rest, mistake


def _literal(text: str) -> str:
    """Return an expression for the text of an invalid expression, so that a line fails closed."""
    return re.escape(text.strip().strip("/"))


def _answers(text: str, folder: PurePosixPath) -> Reading:
    expression, _, mistake = _read_expression(text)
    if mistake:
        is_short = len(text) <= MAX_EXPRESSION
        return (with_phrase("contain", text.strip("/")) if is_short else None), mistake
    return Answers(expression, f"that matches /{expression}/"), ""


def _is_plain(text: str) -> bool:
    """Return whether a text that was meant as an expression means only itself."""
    return not re.search(r"[\\()\[\]{}*+?|^$]", text)


def _messages(kind: MessageKind, text: str, folder: PurePosixPath) -> Reading:
    expression, _, mistake = _read_expression(text)
    if mistake:
        return Messages(_literal(text) if _is_plain(text) else ".", kind=kind), mistake
    return Messages(expression, kind=kind), ""


def _branch_names(text: str, folder: PurePosixPath) -> Reading:
    """Read ``feature/*, fix/*`` and ``/^[a-z]+-[0-9]+/``: the names that new branches may have."""
    if text.startswith("/"):
        expression, _, mistake = _read_expression(text)
        names: Sequence[str] = () if mistake else (f"/{expression}/",)
    else:
        names, mistake = _split(text)
        mistake = mistake or next(map(_find_branch_mistake, names), "")
    # Fail closed: what the names are to be is unclear, so that no branch may be created.
    allowed = () if mistake else tuple(("git", "switch", "-c", name) for name in names)
    return Commands(v.BRANCH, unless=allowed, new_branches=True), mistake


def _any_branch(text: str, folder: PurePosixPath) -> Reading:
    """Read a line that does not require the names that it lists."""
    # Fail closed: the line means that fewer branches may be created.
    mistake = "names of branches can only be required; write require branch-name feature/*"
    return Commands(v.BRANCH, new_branches=True), mistake


def _find_branch_mistake(name: str) -> str:
    """Return why a name cannot be that of a branch; empty if it can."""
    if re.fullmatch(r"(?![-/.])[^\s~^:\\<>{}@]+(?<!/)", name):
        return ""
    return (
        f"{name!r} is not the name of a branch; write names with *, such as feature/*, or /regex/"
    )


def _wanted_messages(kind: MessageKind, text: str, folder: PurePosixPath) -> Reading:
    expression, _, mistake = _read_expression(text)
    if mistake:
        return Messages(".", kind=kind), mistake
    return Messages(expression, wanted=True, kind=kind), ""


def _scoped(
    kind: type[Content] | type[Names], wanted: bool, text: str, folder: PurePosixPath
) -> Reading:
    """Read an expression for the content, or for the names, of some files."""
    expression, rest, mistake = _read_expression(text, alone=False, lines=kind is Content)
    everything = EVERYTHING if folder == WORKSPACE else (f"/{folder}/**",)
    if mistake:
        written, _, scope = text.rpartition(" in ") if " in " in text else (text, "", "")
        if not wanted and _is_plain(written):
            # Fail closed: what the line names may not be written.
            return kind(_literal(written)), mistake
        # What is forbidden or required is unclear, so that nothing may be written there.
        actions = WRITES if kind is Content else v.CREATES
        paths, _ = _paths(actions, scope, folder)
        return paths or Paths(everything, actions), mistake
    if not rest:
        return kind(expression, everything, wanted=wanted), ""
    if rest.startswith("except "):
        rest = f"** {rest}"
    paths, mistake = _paths(WRITES, rest, folder)
    if not isinstance(paths, Paths):
        return kind(expression, wanted=wanted), mistake or f"it names nothing; {_USAGE}"
    return kind(expression, paths.patterns, paths.unless, wanted=wanted), mistake


_READERS: dict[str, Callable[[str, PurePosixPath], Reading]] = {
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
    "content": partial(_scoped, Content, False),
    "name": partial(_scoped, Names, False),
    "commit-message": partial(_messages, "commit message"),
    "branch-name": _any_branch,
    "pr-title": partial(_messages, "pull request title"),
    "pr-body": partial(_messages, "pull request body"),
}
_REQUIRED: dict[str, Callable[[str, PurePosixPath], Reading]] = {
    "content": partial(_scoped, Content, True),
    "name": partial(_scoped, Names, True),
    "commit-message": partial(_wanted_messages, "commit message"),
    "branch-name": _branch_names,
    "pr-title": partial(_wanted_messages, "pull request title"),
    "pr-body": partial(_wanted_messages, "pull request body"),
    "command": _preceded,
    "write": _accompanied,
    "read": _read_first,
}
