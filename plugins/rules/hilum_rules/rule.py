"""What a rule is, and what a file of rules holds."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hilum_rules.checks import Check


class RuleType(StrEnum):
    """What kind of rule it is."""

    HARD_CONSTRAINT = "hard_constraint"
    """Must hold: the system enforces it where it can."""
    SOFT_GUIDELINE = "soft_guideline"
    """Should hold: the model is told."""
    IDENTITY = "identity"
    """Who the agent is."""


class Mode(StrEnum):
    """When the rules of a file are in play."""

    ALWAYS = "always"
    AUTO = "auto"
    """When a file that matches the globs is in play."""
    AGENT = "agent"
    """When the model asks for them, by their description."""
    MANUAL = "manual"
    """When the user names them: ``@name``."""


class Problem(msgspec.Struct, frozen=True):
    """What was not read as its author may have meant it.

    Attributes:
        path: The file, as it is shown.
        line: The line, counted from 1; 0 for the whole file.
        message: What happened, in one sentence.
        fatal: Whether nothing of the file was loaded.
    """

    path: str
    line: int
    message: str
    fatal: bool = False

    def __str__(self) -> str:
        if self.line:
            return f"{self.path}:{self.line}: {self.message}"
        return f"{self.path}: {self.message}"


class Enforce(msgspec.Struct, frozen=True):
    """A line with which an author attaches a check to a rule by hand: ``enforce: …``.

    Attributes:
        line: Its line in the file, counted from 1.
        text: What stands behind ``enforce:``.
    """

    line: int
    text: str


class Rule(msgspec.Struct, frozen=True):
    """One rule.

    Attributes:
        id: Stays the same while file, section and sentence do, whatever changes elsewhere in the
            file.
        type: Hard constraint, soft guideline, or identity.
        section: The headings it stands under, outermost first, joined by `` > ``; empty for none.
        content: Its text, in Markdown, with the code blocks that belong to it.
        path: The file it stands in (an imported file, not the one that imports it), as it is shown.
        line: Its line in that file, counted from 1.
        folder: The folder it governs, relative to the workspace; ``.`` for all.
        lead: The line that introduces the list it stands in, ``You must never:`` for example.
        depth: How deep it stands in nested lists.
        enforce: The ``enforce:`` lines that stand with it.
        check: What enforces it, ``None`` if it is advice.
        why: Why it is enforced, or why it is advice.
    """

    id: str
    type: RuleType
    section: str
    content: str
    path: str
    line: int
    folder: PurePosixPath = PurePosixPath(".")
    lead: str = ""
    depth: int = 0
    enforce: tuple[Enforce, ...] = ()
    check: Check | None = None
    why: str = ""

    @property
    def hard(self) -> bool:
        """Whether it must hold."""
        return self.type is RuleType.HARD_CONSTRAINT

    @property
    def sentence(self) -> str:
        """Its text in one line, with what introduces it and without code blocks: what a denial
        quotes.
        """
        plain = f"{self.lead} {self.content}".split("\n```", 1)[0].split("\n~~~", 1)[0]
        return " ".join(plain.split())

    @property
    def prompt_text(self) -> str:
        """What a model reads, without the number."""
        return self.content


class RulesFile(msgspec.Struct, frozen=True):
    """One file of rules, of any dialect, with what it imports.

    Attributes:
        path: The file, as it is shown; ``settings`` for texts from settings.
        real: Where it is on disk, ``None`` for texts from settings.
        dialect: Whose format it is, for example ``agents`` or ``mdc``.
        origin: ``user``, ``project`` or ``settings``.
        folder: The folder it governs, relative to the workspace; ``.`` for all.
        mode: When its rules are in play.
        globs: Files that bring it into play, with mode ``auto``.
        description: What it is about, with mode ``agent``.
        name: What a user writes behind ``@`` to bring it into play.
        rules: Its rules, in order.
        problems: What was not read as its author may have meant it.
        source_hash: SHA-256 over all bytes read, imports too, in hexadecimal.
        sources: All files read for it: itself and its imports.
        base: The folder that its globs are relative to.
    """

    path: str
    real: Path | None
    dialect: str
    origin: str = "project"
    folder: PurePosixPath = PurePosixPath(".")
    mode: Mode = Mode.ALWAYS
    globs: tuple[str, ...] = ()
    description: str = ""
    name: str = ""
    rules: tuple[Rule, ...] = ()
    problems: tuple[Problem, ...] = ()
    source_hash: str = ""
    sources: tuple[Path, ...] = ()
    base: Path | None = None


class Bundle(msgspec.Struct, frozen=True):
    """All rules that hold, in order of precedence: later ones win.

    Attributes:
        rules: The rules.
        source_hash: SHA-256 over all sources, in hexadecimal: the same while no source changes.
        problems: What was not read as its author may have meant it.
    """

    rules: tuple[Rule, ...] = ()
    source_hash: str = ""
    problems: tuple[Problem, ...] = ()

    def _of(self, kind: RuleType) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.type is kind)

    @property
    def hard_constraints(self) -> tuple[Rule, ...]:
        """The rules that must hold."""
        return self._of(RuleType.HARD_CONSTRAINT)

    @property
    def soft_guidelines(self) -> tuple[Rule, ...]:
        """The rules that should hold."""
        return self._of(RuleType.SOFT_GUIDELINE)

    @property
    def identity_rules(self) -> tuple[Rule, ...]:
        """The rules that say who the agent is."""
        return self._of(RuleType.IDENTITY)
