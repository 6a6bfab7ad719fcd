"""The parsing code shared by both languages: tables of sentence frames, tried in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, cast

import attrs

from hilum_rules.checks import quoted_names
from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.model import (
    READS,
    WRITES,
    Action,
    Answers,
    Commands,
    Constraint,
    Contexts,
    Effect,
    Form,
    Hosts,
    Paths,
    Tools,
    Unit,
)
from hilum_rules.checks.named_objects import Sentence
from hilum_rules.checks.sentence import split_list

Meaning = tuple[Effect, tuple[Constraint, ...]]
Result = TypeVar("Result")
Reader = Callable[[re.Match[str], Sentence], "Result | None"]
ActionReader = Callable[[str, Sentence], tuple[Constraint, ...]]

ANCHOR = r"⟦\d+⟧"
_UNITS = {
    "字": "characters",
    "个字": "characters",
    "字符": "characters",
    "个字符": "characters",
    "行": "lines",
    "句": "sentences",
    "句话": "sentences",
    "段": "paragraphs",
    "个词": "words",
    "词": "words",
}
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10}


class Frame(NamedTuple):
    """One form of a sentence or an action.

    Attributes:
        pattern: A pattern that must match the whole text. Anchors are written ``⟦0⟧``.
        read: A function that returns the meaning of a match, or ``None``.
        is_final: Whether a match without a meaning ends the search; otherwise, the next frame is
            tried.
    """

    pattern: str
    read: Reader[object]
    is_final: bool = True


class CompiledFrames:
    """Frames in the order in which they are tried. Patterns are compiled on first use."""

    def __init__(self, frames: Iterable[Frame]) -> None:
        self._frames = [(re.compile(frame.pattern), frame.read, frame.is_final) for frame in frames]

    def read(self, text: str, sentence: Sentence) -> object:
        """Return the meaning that the first matching frame finds in a text, or ``None``."""
        for pattern, read, is_final in self._frames:
            # The whole text must match: a part that hilum does not understand may be an exception.
            found = pattern.fullmatch(text)
            if found is None:
                continue
            meaning = read(found, sentence)
            if meaning is not None or is_final:
                return meaning
        return None


# --- frames of sentences --------------------------------------------------------------------------


def actions_frame(pattern: str, effect: Effect, read_actions: ActionReader) -> Frame:
    """Return a frame for a sentence whose group ``act`` matches the action."""

    def read(found: re.Match[str], sentence: Sentence) -> Meaning | None:
        constraints = read_actions(found["act"], sentence)
        return (effect, constraints) if constraints else None

    return Frame(pattern, read)


def denial(constraint: Constraint | None) -> Meaning | None:
    """Return the meaning of a sentence that forbids one thing."""
    return ("deny", (constraint,)) if constraint else None


def answer_frames(table: Sequence[tuple[str, str]]) -> list[Frame]:
    """Return frames for answer forms.

    Args:
        table: Patterns with their forms. The group ``a`` matches the text; ``n`` and ``unit`` match
            the length.
    """
    return [
        Frame(pattern, partial(_read_answer, cast(Form, form)), is_final=False)
        for pattern, form in table
    ]


def _read_answer(form: Form, found: re.Match[str], sentence: Sentence) -> Meaning | None:
    groups = found.groupdict()
    if "n" in groups:
        word = groups["unit"]
        unit = _UNITS.get(word) or f"{word.rstrip('s')}s"
        limit = _NUMBERS.get(groups["n"]) or int(groups["n"].replace(",", ""))
        return denial(Answers(form, most=limit, unit=cast(Unit, unit)))
    if "a" not in groups:
        return denial(Answers(form))
    text = sentence.read_single(groups["a"])
    return denial(Answers(form, text)) if text else None


def context_frames(patterns: Sequence[str]) -> list[Frame]:
    """Return frames for files that certain kinds of sessions must not load.

    Args:
        patterns: The group ``what`` matches the files, ``kinds`` the kinds of sessions. If a
            sentence names no kinds, only main sessions load the files.
    """
    return [Frame(pattern, _read_contexts, is_final=False) for pattern in patterns]


def _read_contexts(found: re.Match[str], sentence: Sentence) -> Meaning | None:
    kinds = ["shared", "headless"]
    if "kinds" in found.groupdict():
        kinds = [kind for word in split_list(found["kinds"]) for kind in v.KINDS[word]]
    what = found["what"]
    names = sentence.names(what)
    if not names and ("memory" in what or "记忆" in what):
        names = ["memory"]
    elif not names or not all(quoted_names.is_path(name, named=True) for name in names):
        return None
    return denial(Contexts(tuple(names), tuple(dict.fromkeys(kinds))))


# --- frames of actions ----------------------------------------------------------------------------


def constraint_frames(table: Sequence[tuple[str, Constraint]]) -> list[Frame]:
    """Return frames for actions in plain words, which always mean the same constraint."""
    return [
        Frame(pattern, partial(_return_constraint, constraint)) for pattern, constraint in table
    ]


def _return_constraint(
    constraint: Constraint, found: re.Match[str], sentence: Sentence
) -> Constraint:
    return constraint


def command_frame(pattern: str, uses: Sequence[str], *, is_final: bool = True) -> Frame:
    """Return a frame for sentences about running programs and tools.

    Args:
        pattern: A pattern with the groups ``verb`` and ``list``, and optionally ``tool`` for a word
            that means a tool.
        uses: The verbs that can also refer to things other than commands.
        is_final: See ``Frame``.
    """

    def read(found: re.Match[str], sentence: Sentence) -> Constraint | None:
        names = found["list"]
        if found.groupdict().get("tool"):
            return sentence.read_tools(names)
        used = any(verb in uses for verb in split_list(found["verb"]))
        # Try tools first, because "use `web_fetch`" cannot refer to a program.
        tools = sentence.read_tools(names, known=True) if used else None
        return tools or sentence.read_commands(names, used=used)

    return Frame(pattern, read, is_final)


def branch_frame(pattern: str, verbs: dict[str, v.Phrases]) -> Frame:
    """Return a frame for Git commands that are forbidden on certain branches."""

    def read(found: re.Match[str], sentence: Sentence) -> Commands | None:
        branches = sentence.read_branches(found["list"])
        return Commands(verbs[found["verb"]], branches=branches) if branches else None

    return Frame(pattern, read)


def read_bare_commands(found: re.Match[str], sentence: Sentence) -> Commands | None:
    """Read commands without a preceding verb."""
    return sentence.read_commands(found["list"], used=True, many=True)


def read_hosts(found: re.Match[str], sentence: Sentence) -> Hosts | None:
    """Read the hosts in a sentence about contacting hosts."""
    return sentence.read_hosts(found["list"])


def read_other_paths(found: re.Match[str], sentence: Sentence) -> Paths | None:
    """Read the only folders in which a sentence allows writing."""
    return sentence.read_other_paths(found["list"])


def plain_constraints(words: dict[str, str], *, outside: Sequence[str]) -> list[Frame]:
    """Return frames for actions without a named object.

    Args:
        words: Patterns, keyed by the names in ``PLAIN_ACTIONS``.
        outside: Patterns for deleting, writing, accessing and reading files outside the workspace.
    """
    table = [(pattern, PLAIN_ACTIONS[name]) for name, pattern in words.items()]
    outside_actions: list[frozenset[Action]] = [
        frozenset({"delete"}),
        WRITES,
        READS | WRITES,
        READS,
    ]
    table += [
        (pattern, Paths((), actions, outside=True))
        for pattern, actions in zip(outside, outside_actions, strict=True)
    ]
    return constraint_frames(table)


PLAIN_ACTIONS: dict[str, Constraint] = {
    "commit": Commands(v.GIT_COMMIT),
    "push": Commands(v.GIT_PUSH),
    "force-push": Commands(v.FORCE_PUSH),
    "amend": Commands(v.AMEND),
    "stage": Commands(v.STAGE),
    "open a pull request": Commands(v.PULL_REQUEST),
    "install": Commands(v.INSTALL, new=True),
    "publish": Commands(v.PUBLISH),
    "use root": Commands(v.AS_ROOT),
    "run destructive commands": Commands(v.DESTRUCTIVE),
    "run destructive Git commands": Commands(v.DESTRUCTIVE_GIT),
    "rebase": Commands(v.REBASE),
    "delete files": Paths(("**",), frozenset({"delete"})),
    "use the network": Hosts(("*",)),
    "use the shell": Tools(risk="execute"),
    "send email": Tools(v.EMAIL_TOOLS),
    "post in public": Tools(v.TWEET_TOOLS),
}
"""The constraints of actions without a named object, by the action's name in both languages."""


# --- several things at once -----------------------------------------------------------------------


def read_each_action(
    text: str, sentence: Sentence, read: Callable[[str, Sentence], Constraint | None]
) -> tuple[Constraint, ...]:
    """Read one action, or several joined actions.

    Returns:
        The constraints; empty if hilum does not understand part of the text.
    """
    single = read(text, sentence)
    if single:
        return tuple(_split_by_hand(single))
    parts = split_list(text)
    if len(parts) < 2:
        return ()
    constraints: list[Constraint] = []
    for part in parts:
        constraint = read(part, sentence)
        # A rule is enforced as a whole or not at all; otherwise its summary would be wrong.
        if constraint is None:
            return ()
        constraints += _split_by_hand(constraint)
    return _merge_commands(constraints)


def _merge_commands(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Merge constraints on commands that differ only in their patterns."""
    commands = [each for each in constraints if isinstance(each, Commands)]
    # One constraint with many patterns is matched once for each command, and its summary is
    # shorter.
    if len(commands) < 2 or len({(each.folder, each.new) for each in commands}) > 1:
        return tuple(constraints)
    patterns = tuple(pattern for each in commands for pattern in each.patterns)
    merged = attrs.evolve(commands[0], patterns=patterns)
    return (merged, *(each for each in constraints if not isinstance(each, Commands)))


def _split_by_hand(constraint: Constraint) -> list[Constraint]:
    """Separate the paths that programs write, for which only manual editing is forbidden."""
    if not isinstance(constraint, Paths) or constraint.by_hand:
        return [constraint]
    if "read" in constraint.actions or not constraint.actions & WRITES:
        return [constraint]
    generated = tuple(
        pattern for pattern in constraint.patterns if quoted_names.is_generated(pattern)
    )
    if not generated:
        return [constraint]
    rest = tuple(pattern for pattern in constraint.patterns if pattern not in generated)
    split: list[Constraint] = [attrs.evolve(constraint, patterns=rest)] if rest else []
    return [*split, attrs.evolve(constraint, patterns=generated, by_hand=True)]
