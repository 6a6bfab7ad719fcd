"""Formats rules for people: counts for each file, lists, and single rules in full."""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
from hilum.command import say

from hilum_rules.binding import is_conspicuous, is_description
from hilum_rules.counting import count, is_or_are
from hilum_rules.rule import Mode, Problem, Rule, RulesFile

if TYPE_CHECKING:
    from hilum_rules.rule_store import Snapshot

MAX_WIDTH = 80
MAX_LINES = 3
"""Maximum number of lines to show per rule in a list."""
MAX_UNFOLDED = 25
"""Maximum number of rules in a file whose advice is listed without being requested."""
INDENT = " " * 7
STATES = ("enforced", "proposed", "advice")
"""The states of rules; a long list leaves out the last one."""
DESCRIPTION = "description"
_OWNERS = {"user": "yours", "settings": "from your settings", "project": "the project's"}
_MODES = {
    Mode.ALWAYS: "",
    Mode.AUTO: "for files like {globs}",
    Mode.AGENT: "when the model requests it",
    Mode.MANUAL: "when you name it: @{name}",
}


@attrs.frozen
class RuleList:
    """The rules of a folder, as they are listed.

    Attributes:
        snapshot: The rules.
        proposed: The proposed checks that nobody has decided about, by the ids of their rules;
            none for a rule that the model calls advice.
        shown: The states of the rules to list; empty for all, with long files folded.
    """

    snapshot: Snapshot
    proposed: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    shown: Collection[str] = ()

    def state_of(self, rule: Rule) -> str:
        """Return whether a rule is enforced, proposed, advice, or only a description."""
        if rule.is_enforced:
            return "enforced"
        if is_description(rule):
            return DESCRIPTION
        return "proposed" if self.proposed.get(rule.id) else "advice"

    def count(self, rules: Iterable[Rule]) -> Counter[str]:
        """Return the number of rules in each state."""
        return Counter(map(self.state_of, rules))

    def format(self) -> Iterator[str]:
        """Yield the lines of the list: the counts first, then the rules."""
        files = [file for file in self.snapshot.files if file.rules]
        if not files:
            yield from wrap(
                "There are no rules here. Write AGENTS.md, or see docs/rules.md for the files that"
                " are read."
            )
        else:
            yield from self._format_counts(files)
        for file in files:
            yield from self._format_file(file)
        yield from format_problems(self.snapshot.problems)

    def _format_counts(self, files: Sequence[RulesFile]) -> Iterator[str]:
        rules = [rule for file in files for rule in file.rules]
        counts = self.count(rules)
        total = sum(counts[state] for state in STATES)
        yield from wrap(f"{count(total, 'rule')}: {_describe_counts(counts)}.")
        # What a model has called advice costs the user nothing more.
        undecided = sum(is_conspicuous(rule) for rule in rules if self.proposed.get(rule.id, True))
        if undecided:
            verb = "sounds" if undecided == 1 else "sound"
            yield from wrap(
                f"{count(undecided, 'sentence')} that {verb} binding {is_or_are(undecided)} not enforced:"
                " run hilum rules compile"
            )
        if any(file.folder.parts for file in files):
            yield from wrap("The rules of a nested folder apply when a file in it is first used.")
        yield ""
        for file in files:
            number = self.snapshot.numbers[file.path]
            described = _describe_counts(self.count(file.rules))
            yield from wrap(
                f"{number}. {file.path} ({describe_file(file)}): {described}", "", "   "
            )

    def _format_file(self, file: RulesFile) -> Iterator[str]:
        number = self.snapshot.numbers[file.path]
        hidden: Counter[str] = Counter()
        lines: list[str] = []
        shown = self.shown or (STATES[:-1] if len(file.rules) > MAX_UNFOLDED else STATES)
        for index, rule in enumerate(file.rules, 1):
            state = self.state_of(rule)
            if state in shown:
                lines += format_rule(f"{number}.{index}", rule, state)
            else:
                hidden[state] += 1
        if not self.shown:
            lines += _format_hidden(hidden)
        if lines:
            yield ""
            yield f"{number}. {file.path}"
            yield from lines


def _describe_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[state]} {state}" for state in STATES)


def _format_hidden(hidden: Counter[str]) -> Iterator[str]:
    if hidden["advice"]:
        yield f"  … {hidden['advice']} more that are advice: hilum rules --advice"
    if hidden[DESCRIPTION]:
        yield f"  … {hidden[DESCRIPTION]} rows of tables or trees, which are not rules"


def show_rule(
    number: str, file: RulesFile, rule: Rule, state: str, proposed: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the lines that describe one rule in full.

    Args:
        number: The number of the rule.
        file: Its file.
        rule: The rule.
        state: Its state.
        proposed: The checks that are proposed for it.
    """
    yield from format_rule(number, rule, state)
    kind = rule.type.replace("_", " ")
    section = rule.section or "none"
    details = [
        f"Id: {rule.id}. Type: {kind}. Section: {section}.",
        f"File: {file.path} ({describe_file(file)}).",
        *(f"{rule.path}:{check.line}  enforce: {check.text}" for check in rule.enforce),
        *(f"Proposed: enforce: {line}" for line in proposed),
    ]
    if not rule.is_enforced and not proposed:
        details.append(
            "To enforce it, write a line such as `enforce: deny write PATH` below it, or run"
            " `hilum rules compile`, which asks a model for a check that you sign."
        )
    for detail in details:
        yield from wrap(detail, "", "  ")
    yield ""
    text = f"{rule.lead}\n{rule.content}" if rule.lead else rule.content
    for line in text.split("\n"):
        yield f"  {line}"


def format_rule(number: str, rule: Rule, state: str) -> Iterator[str]:
    """Yield the lines of a rule in a list.

    Args:
        number: The number of the rule.
        rule: The rule.
        state: Its state.
    """
    # A rule about a whole file has no line.
    place = f"{rule.path}:{rule.line}" if rule.line else rule.path
    yield from wrap(f"  {number}  {place}  {state}", "", INDENT)
    yield from wrap(rule.sentence, INDENT, INDENT, MAX_LINES)
    reason = rule.why
    for known in STATES:
        reason = reason.removeprefix(known)
    reason = reason.lstrip(": ")
    if state == "proposed":
        reason = "a check is proposed: run hilum rules compile"
    if reason:
        yield from wrap(f"({reason})", INDENT, f"{INDENT} ")


def format_problems(problems: Sequence[Problem]) -> Iterator[str]:
    """Yield the lines that list problems."""
    if problems:
        yield ""
        yield "Possibly not read as intended:"
    for problem in problems:
        yield from wrap(str(problem), "  ", "    ")


def describe_file(file: RulesFile) -> str:
    """Return whose rules a file contains, and when they are active."""
    scope = f"for {file.folder}/" if file.folder.parts else ""
    globs = ", ".join(file.globs[:5])
    mode = _MODES[file.mode].format(globs=globs, name=file.name)
    return ", ".join(filter(None, (_OWNERS[file.origin], scope, mode)))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on the terminal."""
    say("\n".join(lines).replace("\t", "    "))


def wrap(text: str, first: str = "", rest: str = "", most: int = 0) -> list[str]:
    """Return a text wrapped to the width of the terminal.

    Args:
        text: The text.
        first: The indent of the first line.
        rest: The indent of the other lines.
        most: The maximum number of lines; 0 for all.
    """
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH) or MAX_WIDTH
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    if wide:  # assume that double-width characters are evenly distributed
        width = max(width * len(text) // (len(text) + wide), 20)
    lines = textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    if most and len(lines) > most:
        last = lines[most - 1][: width - 4]
        lines = [*lines[: most - 1], f"{last} ..."]
    return lines or [first.rstrip()]
