"""What a check is: what may not be done, or only with the user's yes."""

from __future__ import annotations

from typing import Literal

import attrs

Effect = Literal["deny", "ask"]
Action = Literal["read", "create", "change", "delete"]
Form = Literal[
    "contains",
    "starts",
    "ends",
    "lacks",
    "lacks_start",
    "lacks_end",
    "emoji",
    "question",
    "longer",
    "matches",
]
Unit = Literal["", "words", "characters", "lines", "sentences", "paragraphs"]

WRITES: frozenset[Action] = frozenset({"create", "change", "delete"})
READS: frozenset[Action] = frozenset({"read"})
_DONE = {"read": "reading", "create": "creating", "change": "changing", "delete": "deleting"}


@attrs.frozen
class Paths:
    """Files and folders, and what may not be done with them.

    Attributes:
        patterns: As in ``.gitignore``, relative to the workspace; absolute ones begin with two
            slashes or with ``~/``.
        actions: What may not be done.
        unless: Patterns of what is excepted.
        by_hand: Only editing is meant: a program that makes the file, such as a package manager,
            may.
        outside: Everything outside of the workspace is meant; there are no patterns then.
    """

    patterns: tuple[str, ...]
    actions: frozenset[Action] = WRITES
    unless: tuple[str, ...] = ()
    by_hand: bool = False
    outside: bool = False

    def __str__(self) -> str:
        if self.actions >= WRITES:
            what = "writing"
        else:
            what = " and ".join(_DONE[a] for a in _DONE if a in self.actions)
        if what == "writing" and "read" in self.actions:
            what = f"reading and {what}"
        else:
            what = what
        if self.outside:
            where = "files outside of the workspace"
        else:
            where = ", ".join(_plain(p) for p in self.patterns)
        where = (
            "files"
            if self.patterns == ("**",)
            else f"files in {where}"
            if what == "creating" and "." not in where
            else where
        )
        but = f", except {', '.join(_plain(p) for p in self.unless)}" if self.unless else ""
        return f"{what} {where}{but}{' by hand' if self.by_hand else ''}"


@attrs.frozen
class Commands:
    """Commands that may not be run.

    Attributes:
        patterns: Words they begin with; options may stand between, and more words follow. ``*`` is
            any number of words.
        folder: They are meant only where they run in this folder, relative to the workspace; ``.``
            for everywhere.
        new: Only ones that name something to install are meant, not those that install what the
            project already names.
        branches: Only commits and pushes to these are meant; empty for all.
    """

    patterns: tuple[tuple[str, ...], ...]
    folder: str = "."
    new: bool = False
    branches: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = "" if self.folder == "." else f" in {self.folder}"
        where += f" to the branch {' or '.join(self.branches)}" if self.branches else ""
        listed = [f"`{' '.join(words).removeprefix('* ')}`" for words in self.patterns[:4]]
        return (
            "the command"
            f" {' or '.join(listed)}{' and its like' if len(self.patterns) > 4 else ''}{where}"
        )


@attrs.frozen
class Tools:
    """Tools that may not be called, by name (``*`` and ``?`` as in file names) or by what they
    touch.
    """

    names: tuple[str, ...] = ()
    risk: str = ""

    def __str__(self) -> str:
        if self.risk:
            return f"tools that {self.risk}"
        return f"the tool {' or '.join(self.names)}"


@attrs.frozen
class Hosts:
    """Hosts that may not be contacted.

    ``*.example.com`` are those below, ``*`` all but this machine.
    """

    names: tuple[str, ...]

    def __str__(self) -> str:
        if self.names != ("*",):
            return f"contacting {', '.join(self.names)}"
        return "using the network"


@attrs.frozen
class Contexts:
    """Files, or memory, that may not be loaded in some kinds of session."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]

    def __str__(self) -> str:
        return f"loading {', '.join(self.names)} in {', '.join(self.kinds)} sessions"


@attrs.frozen
class Answers:
    """A form that a final answer must not take.

    Attributes:
        form: What of it is looked at; ``lacks…`` is that it must have the text.
        text: The text, or the expression.
        most: With ``longer``: how many units it may have.
        unit: With ``longer``: of what.
    """

    form: Form
    text: str = ""
    most: int = 0
    unit: Unit = ""

    def __str__(self) -> str:
        return {
            "contains": f"an answer that contains {self.text!r}",
            "starts": f"an answer that begins with {self.text!r}",
            "ends": f"an answer that ends with {self.text!r}",
            "lacks": f"an answer without {self.text!r}",
            "lacks_start": f"an answer that does not begin with {self.text!r}",
            "lacks_end": f"an answer that does not end with {self.text!r}",
            "emoji": "an answer with emoji",
            "question": "an answer that ends with a question",
            "longer": f"an answer of more than {self.most} {self.unit}",
            "matches": f"an answer that matches /{self.text}/",
        }[self.form]


Ban = Paths | Commands | Tools | Hosts | Contexts | Answers


@attrs.frozen
class Check:
    """What enforces a rule.

    Attributes:
        parts: What is banned, each with whether it is refused, or the user is asked each time.
    """

    parts: tuple[tuple[Effect, Ban], ...]

    @property
    def says(self) -> str:
        """What it does, for a list of rules."""
        does = {"deny": "refuses", "ask": "asks before"}
        listed = {
            effect: [str(ban) for each, ban in self.parts if each == effect] for effect in does
        }
        return "; ".join(
            f"{does[effect]} {', '.join(texts)}" for effect, texts in listed.items() if texts
        )


@attrs.frozen
class Compiled:
    """What came of a sentence.

    Attributes:
        check: What enforces it; ``None`` if it stays advice.
        why: Why it is enforced, or why not.
        problem: What is wrong with a line that was attached by hand; empty if nothing is.
    """

    check: Check | None
    why: str
    problem: str = ""


def _plain(pattern: str) -> str:
    return pattern.removeprefix("/")
