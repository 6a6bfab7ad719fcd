"""Rules and rules files."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec
from hilum_checks import WORKSPACE

if TYPE_CHECKING:
    from hilum_checks import Check


class RuleType(StrEnum):
    """The type of a rule."""

    HARD_CONSTRAINT = "hard_constraint"
    """Must be followed. hilum enforces it if it can."""
    SOFT_GUIDELINE = "soft_guideline"
    """Should be followed. The model reads it."""
    IDENTITY = "identity"
    """Describes the agent's identity."""


class Mode(StrEnum):
    """When the rules of a file are active."""

    ALWAYS = "always"
    AUTO = "auto"
    """When a file that matches the globs is in use."""
    AGENT = "agent"
    """When the model reads the file, because of its description."""
    MANUAL = "manual"
    """When the user names the file: ``@name``."""


class Problem(msgspec.Struct, frozen=True):
    """A part of a rules file that hilum might not read as its author intended.

    Attributes:
        path: The displayed path of the file.
        line: The line, from 1; 0 for the whole file.
        message: The problem, in one sentence.
        fatal: Whether no part of the file was loaded.
    """

    path: str
    line: int
    message: str
    fatal: bool = False

    def __str__(self) -> str:
        if self.line:
            return f"{self.path}:{self.line}: {self.message}"
        return f"{self.path}: {self.message}"


class LockChange(Problem, frozen=True):
    """A part of a lock that is not as somebody has signed it."""


Problems = list[tuple[int, str]]
"""Problems in one file, each as a line number, from 1, and a sentence; 0 for the whole file."""


def problems_in(path: str, problems: Problems, kind: type[Problem] = Problem) -> list[Problem]:
    """Return problems with the displayed path of their file, as objects of a class."""
    return [kind(path, *each) for each in problems]


class Enforce(msgspec.Struct, frozen=True):
    """An ``enforce: …`` line, which attaches a check to a rule.

    Attributes:
        line: The line number in the file, from 1.
        text: The text after ``enforce:``.
    """

    line: int
    text: str


class Rule(msgspec.Struct, frozen=True):
    """One rule.

    Attributes:
        id: An id that depends only on the file, the section and the sentence, so that other changes
            in the file do not affect it.
        type: Hard constraint, soft guideline, or identity.
        section: The headings above the rule, outermost first, joined by `` > ``; empty for none.
        content: The text of the rule, in Markdown, with the code blocks that belong to it.
        path: The displayed path of the file that contains the rule, even if another file imports
            it.
        line: The line number in that file, from 1.
        folder: The folder that the rules govern, relative to the workspace; ``.`` for all folders.
        lead: The line that introduces the rule's list, for example ``You must never:``.
        depth: The nesting depth in lists; -1 outside lists and tables.
        enforce: The ``enforce:`` lines that belong to the rule.
        check: The check that enforces the rule; ``None`` if the rule is advice.
        why: Why the rule is enforced or is only advice.
        is_row: Whether the rule is a row of a table.
        is_decided: Whether a user has signed a check for the rule, or has decided that it stays
            advice.
        is_passing: Whether the check ends as soon as the file is corrected.
        is_partial: Whether the check leaves out a part of the sentence.
    """

    id: str
    type: RuleType
    section: str
    content: str
    path: str
    line: int
    folder: PurePosixPath = WORKSPACE
    lead: str = ""
    depth: int = 0
    enforce: tuple[Enforce, ...] = ()
    check: Check | None = None
    why: str = ""
    is_row: bool = False
    is_decided: bool = False
    is_passing: bool = False
    is_partial: bool = False

    @property
    def is_enforced(self) -> bool:
        """Whether the rule has a check."""
        return self.check is not None

    @property
    def hard(self) -> bool:
        """Whether the rule is a hard constraint."""
        return self.type is RuleType.HARD_CONSTRAINT

    @property
    def sentence(self) -> str:
        """The rule's text on one line, with its lead, without code blocks, as quoted in denials."""
        text = f"{self.lead} {self.content}"
        before_code = re.split(r"\n(?:```|~~~)", text, maxsplit=1)[0]
        return " ".join(before_code.split())


class RulesFile(msgspec.Struct, frozen=True):
    """One rules file of any format, with its imports.

    Attributes:
        path: The displayed path of the file; ``settings`` for texts from settings.
        real: The path of the file on disk; ``None`` for texts from settings.
        dialect: The format of the file, for example ``agents`` or ``mdc``.
        origin: ``user``, ``project`` or ``settings``.
        folder: The folder that the rules govern, relative to the workspace; ``.`` for all folders.
        mode: When the rules in the file are active.
        globs: Globs of files that activate the rules, in mode ``auto``.
        description: The subject of the rules, in mode ``agent``.
        name: The name that a user writes after ``@`` to activate it.
        rules: The rules in the file, in order.
        problems: The parts of files that hilum might not read as their author intended.
        source_hash: SHA-256 of all bytes read, including imports, in hexadecimal.
        sources: All files that were read: the file itself and its imports.
        base: The folder to which the file's globs are relative; ``Path()`` if it has none.
        is_excluded: Whether a rule keeps the file out of the prompt. Its checks are enforced, and
            ``rules`` contains only the rules that have one.
    """

    path: str
    real: Path | None
    dialect: str
    origin: str = "project"
    folder: PurePosixPath = WORKSPACE
    mode: Mode = Mode.ALWAYS
    globs: tuple[str, ...] = ()
    description: str = ""
    name: str = ""
    rules: tuple[Rule, ...] = ()
    problems: tuple[Problem, ...] = ()
    source_hash: str = ""
    sources: tuple[Path, ...] = ()
    base: Path = Path()
    is_excluded: bool = False


class Bundle(msgspec.Struct, frozen=True):
    """All active rules, in order of precedence: later rules win.

    Attributes:
        rules: The rules.
        source_hash: SHA-256 of all sources, in hexadecimal.
    """

    rules: tuple[Rule, ...] = ()
    source_hash: str = ""
