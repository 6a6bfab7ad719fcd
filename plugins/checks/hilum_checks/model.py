"""Checks, which forbid actions or require the user's approval for them."""

from __future__ import annotations

import re
from typing import Literal

import attrs

Effect = Literal["deny", "ask"]
Action = Literal["read", "create", "change", "delete", "move"]
"""Something done to a file. A move is a deletion as well; "move" alone means only moves."""
Words = tuple[str, ...]
"""The words of a command."""

WRITES: frozenset[Action] = frozenset({"create", "change", "delete"})
READS: frozenset[Action] = frozenset({"read"})
EVERYTHING = ("**",)
SOURCE_CODE = tuple(
    f"*.{ending}"
    for ending in (
        "ts tsx mts cts js jsx mjs cjs vue svelte py pyi rs go java kt kts scala sc groovy gradle cs fs vb rb"
        " php swift dart c h cc cpp cxx hh hpp hxx ipp inl m mm cu ex exs erl hrl hs ml mli clj cljs lua pl"
        " pm r jl zig nim d sh bash zsh fish ps1"
    ).split()
)
"""Files of programming languages."""
_GERUNDS = {
    "read": "reading",
    "create": "creating",
    "change": "changing",
    "delete": "deleting",
    "move": "moving",
}
MAX_LISTED = 4
"""Maximum number of commands listed in a summary."""
MAX_EXCEPTIONS = 20
"""Maximum number of exceptions listed in a summary."""


@attrs.frozen
class Paths:
    """Files and folders, and the actions on them that are forbidden.

    Attributes:
        patterns: Patterns as in ``.gitignore``, relative to the workspace. Absolute patterns begin
            with ``//`` or ``~/``; patterns that begin with ``/../`` are beside the workspace.
        actions: The forbidden actions.
        unless: Patterns of the exceptions.
        by_hand: Whether only manual editing is forbidden. A program that generates the file, such
            as a package manager, may write it.
        outside: Whether the constraint covers everything outside the workspace; ``patterns`` is
            then empty.
    """

    patterns: tuple[str, ...]
    actions: frozenset[Action] = WRITES
    unless: tuple[str, ...] = ()
    by_hand: bool = False
    outside: bool = False

    @property
    def only_existing(self) -> bool:
        """Whether the constraint is about files that exist, so that new ones may be written."""
        return "change" in self.actions and "create" not in self.actions

    def __str__(self) -> str:
        doing = self._describe_actions()
        exceptions = f", except {_list_paths(self.unless)}" if self.unless else ""
        manner = " by hand" if self.by_hand else ""
        return f"{doing} {self._describe_files(doing)}{manner}{exceptions}"

    def _describe_actions(self) -> str:
        if not self.actions >= WRITES:
            return " and ".join(_GERUNDS[name] for name in _GERUNDS if name in self.actions)
        return "reading and writing" if "read" in self.actions else "writing"

    def _describe_files(self, doing: str) -> str:
        if self.outside:
            return "files outside the workspace"
        if self.patterns == EVERYTHING:
            return "files"
        files = _list_paths(self.patterns)
        return f"files in {files}" if doing == "creating" and "." not in files else files


@attrs.frozen
class Commands:
    """Commands that must not be run.

    Attributes:
        patterns: The words with which the commands begin. Options may be between these words, and
            more words may follow. ``*`` matches any number of words.
        folder: The folder in which the commands must not run, relative to the workspace; ``.`` for
            all folders.
        new: Whether the constraint covers only commands that name a package to install, not those
            that install the project's packages.
        branches: The branches to which commits and pushes are forbidden, which may contain
            wildcards; empty for all.
        unless: The words of the exceptions, as in ``patterns``.
        new_branches: Whether the constraint covers each command that creates a branch. ``patterns``
            are then the usual ones, and each exception ends with an allowed name.
        skips_hooks: Whether the constraint covers each command that skips Git's hooks. ``patterns``
            are then those that an option or a sub-command shows.
    """

    patterns: tuple[tuple[str, ...], ...]
    folder: str = "."
    new: bool = False
    branches: tuple[str, ...] = ()
    unless: tuple[tuple[str, ...], ...] = ()
    new_branches: bool = False
    skips_hooks: bool = False

    def __str__(self) -> str:
        if self.new_branches:
            names = "` or `".join(words[-1] for words in self.unless)
            return f"creating a branch, except `{names}`" if names else "creating a branch"
        if self.skips_hooks:
            return "skipping Git's hooks"
        commands = [" ".join(words) for words in self.patterns[:MAX_LISTED]]
        listed = [f"`{command.removeprefix('* ')}`" for command in commands]
        text = f"the command {' or '.join(listed)}"
        if len(self.patterns) > MAX_LISTED:
            text += " and similar commands"
        if self.folder != ".":
            text += f" in {self.folder}"
        if self.branches:
            text += f" to the branch {' or '.join(self.branches)}"
        if self.unless:
            exceptions = [" ".join(words) for words in self.unless[:MAX_EXCEPTIONS]]
            text += f", except `{'` or `'.join(exceptions)}`"
            if len(self.unless) > MAX_EXCEPTIONS:
                text += " and similar commands"
        return text


@attrs.frozen
class Tools:
    """Tools that must not be called.

    Attributes:
        names: The names of the tools, in which ``*`` and ``?`` are wildcards as in file names.
        risk: A permission category; the constraint covers all tools in it.
    """

    names: tuple[str, ...] = ()
    risk: str = ""

    def __str__(self) -> str:
        if self.risk:
            return f"tools that {self.risk}"
        return f"the tool {' or '.join(self.names)}"


@attrs.frozen
class Hosts:
    """Hosts that must not be contacted.

    Attributes:
        names: The names of the hosts. ``*.example.com`` means all subdomains, and ``*`` means every
            host except this machine.
    """

    names: tuple[str, ...]

    def __str__(self) -> str:
        if self.names == ("*",):
            return "using the network"
        return f"contacting {', '.join(self.names)}"


@attrs.frozen
class ExcludedFiles:
    """Files, or memory, that certain kinds of sessions must not load."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]

    def __str__(self) -> str:
        return f"loading {', '.join(self.names)} in {', '.join(self.kinds)} sessions"


@attrs.frozen
class Answers:
    """Final answers that must not be given.

    Attributes:
        expression: A regular expression.
        what: What the answers are like, after the words "an answer".
        wanted: Whether each answer must match the expression.
        most: How often an answer may match the expression, unless it must.
    """

    expression: str
    what: str
    wanted: bool = False
    most: int = 0

    def __str__(self) -> str:
        return f"an answer {self.what}"


@attrs.frozen
class Content:
    """Text that must not be added to files, or that files must contain.

    Attributes:
        expression: A regular expression for the text.
        patterns: Patterns of the files, as in ``Paths``.
        unless: Patterns of the exceptions.
        wanted: Whether new files must contain such text, and files that contain it must keep it;
            otherwise, no such text may be added.
        ignored: What does not count as text, of "comments", "strings" and "blocks" (strings of several lines).
    """

    expression: str
    patterns: tuple[str, ...] = EVERYTHING
    unless: tuple[str, ...] = ()
    wanted: bool = False
    ignored: tuple[str, ...] = ()

    def __str__(self) -> str:
        files = _describe_scope(self.patterns, self.unless)
        expression = _DETAIL.sub("", self.expression)
        if self.wanted:
            return f"files without text that matches /{expression}/{files}"
        return f"writing text that matches /{expression}/{files}"


_DETAIL = re.compile(r"\(\?#<\).*?\(\?#>\)")


def mark_detail(expression: str) -> str:
    """Return a part of an expression that is left out where the expression is shown to people."""
    return f"(?#<){expression}(?#>)" if expression else ""


@attrs.frozen
class Names:
    """Names that new files must not have.

    Attributes:
        expression: A regular expression for the name without its folder.
        patterns: Patterns of the files, as in ``Paths``.
        unless: Patterns of the exceptions.
        wanted: Whether each name must match the expression; otherwise, none may match it.
    """

    expression: str
    patterns: tuple[str, ...] = EVERYTHING
    unless: tuple[str, ...] = ()
    wanted: bool = False

    def __str__(self) -> str:
        verb = "do not match" if self.wanted else "match"
        files = _describe_scope(self.patterns, self.unless)
        return f"new files whose names {verb} /{self.expression}/{files}"


MessageKind = Literal["commit message", "pull request title", "pull request body"]


@attrs.frozen
class Messages:
    """Commit messages, and texts of pull requests, that must not be used.

    Attributes:
        expression: A regular expression.
        wanted: Whether each message must match the expression; otherwise, none may match it.
        kind: The kind of text.
    """

    expression: str
    wanted: bool = False
    kind: MessageKind = "commit message"

    def __str__(self) -> str:
        verb = "does not match" if self.wanted else "matches"
        return f"a {self.kind} that {verb} /{self.expression}/"


@attrs.frozen
class CommandBefore:
    """Commands, or final answers, that must wait until another command has succeeded.

    Attributes:
        needed: The command that must have succeeded since the session last wrote a file.
        before: The commands that must not be run before; ``None`` for final answers.
        changed: The files whose change makes the command necessary; ``None`` for all files.
    """

    needed: Commands
    before: Commands | None
    changed: Paths | None = None

    def __str__(self) -> str:
        waiting = "a final answer" if self.before is None else str(self.before)
        cause = f" since {self.changed}" if self.changed else ""
        return f"{waiting} before {self.needed} has succeeded{cause}"


@attrs.frozen
class RunFirst:
    """Writes that must wait until a command has succeeded in the session.

    Attributes:
        needed: The command. A write does not make it necessary again.
        before: The files that must not be written before.
    """

    needed: Commands
    before: Paths

    def __str__(self) -> str:
        return f"{self.before} before {self.needed} has succeeded"


@attrs.frozen
class ChangedTogether:
    """Commands, or final answers, that must wait until other files have been changed, too.

    Attributes:
        needed: The files of which one must have been written since the last final answer, or
            since one of the commands has succeeded last.
        before: The commands that must not be run before; ``None`` for final answers.
        changed: The files whose change makes that necessary; ``None`` for all others.
    """

    needed: Paths
    before: Commands | None
    changed: Paths | None = None

    def __str__(self) -> str:
        waiting = "a final answer" if self.before is None else str(self.before)
        cause = f" since {self.changed}" if self.changed else ""
        return f"{waiting} without {self.needed}{cause}"


@attrs.frozen
class ReadFirst:
    """Writes, or commands, that must wait until a file has been read in the session.

    Attributes:
        needed: The file that must have been read; if it does not exist, nothing waits.
        before: The files that must not be written, or the commands that must not be run, before.
    """

    needed: Paths
    before: Paths | Commands

    def __str__(self) -> str:
        return f"{self.before} before {self.needed}"


Constraint = (
    Paths
    | Commands
    | Tools
    | Hosts
    | ExcludedFiles
    | Answers
    | Content
    | Names
    | Messages
    | CommandBefore
    | ChangedTogether
    | ReadFirst
    | RunFirst
)
ORDERS = (CommandBefore, ChangedTogether, ReadFirst, RunFirst)
"""The constraints that let something wait until something else has been done."""
CONSTRAINTS: dict[str, type[Constraint]] = {
    kind.__name__: kind
    for kind in (
        Paths,
        Commands,
        Tools,
        Hosts,
        ExcludedFiles,
        Answers,
        Content,
        Names,
        Messages,
        CommandBefore,
        ChangedTogether,
        ReadFirst,
        RunFirst,
    )
}
"""The kinds of constraints, by name."""
CheckPart = tuple[Effect, Constraint]
"""A constraint, and what happens if a call breaks it."""
CheckParts = tuple[CheckPart, ...]


@attrs.frozen
class Check:
    """The constraints that enforce a rule.

    Attributes:
        parts: Each constraint with its effect.
    """

    parts: CheckParts

    @property
    def summary(self) -> str:
        """A summary of the check, for a list of rules."""
        summaries = []
        for effect, verb in (("deny", "denies"), ("ask", "asks before")):
            listed = [str(constraint) for each, constraint in self.parts if each == effect]
            if listed:
                summaries.append(f"{verb} {', '.join(listed)}")
        return "; ".join(summaries)


@attrs.frozen
class Compiled:
    """The result of compiling a sentence or an ``enforce:`` line.

    Attributes:
        check: The check that enforces the rule; ``None`` if the rule remains advice.
        why: Why the rule is or is not enforced.
        problem: The mistake in an ``enforce:`` line; empty if there is none.
        is_partial: Whether the check leaves out a part of the sentence that hilum does not
            understand.
    """

    check: Check | None
    why: str
    problem: str = ""
    is_partial: bool = False


NOT_A_CONSTRAINT = Compiled(
    None,
    "advice: hilum does not know the form of this sentence; to enforce it, add an `enforce:` line below"
    " it, or run hilum rules compile",
)


def _describe_scope(patterns: tuple[str, ...], unless: tuple[str, ...]) -> str:
    files = "" if patterns == EVERYTHING else f" in {_list_paths(patterns)}"
    exceptions = f", except {_list_paths(unless)}" if unless else ""
    return f"{files}{exceptions}"


def _list_paths(patterns: tuple[str, ...]) -> str:
    if patterns == SOURCE_CODE:
        return "source code"
    return ", ".join(pattern.removeprefix("/") for pattern in patterns)
