"""The dialog at a terminal in which the user accepts, edits or refuses proposals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
from hilum.command import ask_line, say
from hilum_checks import Check
from hilum_rules.counting import count, is_or_are
from hilum_rules.rule_list import INDENT, print_lines, wrap
from hilum_rules.signed_rules import hash_rule

from hilum_rules_compile.decisions import CLOSED, REFUSED, Decision, Item, find_open, sign
from hilum_rules_compile.past_calls import History, Trial, try_checks
from hilum_rules_compile.proposal import (
    MAX_LINES,
    Proposal,
    Verified,
    compile_proposed,
    find_warning,
)

if TYPE_CHECKING:
    from hilum_rules.rule_store import RuleStore

_KEYS = {
    "a": "accept",
    "e": "edit",
    "r": "refuse",
    "s": "skip",
    "q": "quit",
}
MAX_LOST = 10
"""Maximum number of sentences to list for which there is no usable answer."""


@attrs.define
class Signing:
    """The dialog about some proposals. Each decision is stored at once.

    Attributes:
        store: The rules.
        items: The sentences with their proposals.
        history: What agents did in the past, on which edited checks are tried.
        enforced: The number of sentences that the user has signed a check for.
        refused: The number of sentences that stay advice.
    """

    store: RuleStore
    items: Sequence[Item]
    history: History
    enforced: int = 0
    refused: int = 0

    def run(self, *, accept_all: bool = False) -> None:
        """Ask about each proposal, or accept all checks that can be signed.

        Args:
            accept_all: Whether to ask about nothing.
        """
        # Only proposals are shown: what a model calls advice costs the user nothing.
        checks = [item for item in self.items if item.verified.proposal.enforce]
        if accept_all:
            self._accept_all(checks)
        else:
            for index, item in enumerate(checks, 1):
                say("")
                say(f"[{index}/{len(checks)}]")
                if self._is_open(item) and not self._decide(item):
                    break
        self._report()

    def _is_open(self, item: Item) -> bool:
        """Return whether a sentence still needs a decision, or say that it does not."""
        self.store.refresh()
        is_open = (item.rule.path, hash_rule(item.rule)) in find_open(self.store)
        if not is_open:
            say(f"  {item.number}  {CLOSED}")
        return is_open

    def _accept_all(self, items: Sequence[Item]) -> None:
        for item in items:
            print_lines(["", *format_item(item)])
            verified = item.verified
            # What concerns nearly everything deserves a look of its own.
            if verified.can_be_signed and not verified.warning:
                self._sign([Decision(item, verified.proposal.enforce)])

    def _decide(self, item: Item) -> bool:
        """Ask about one proposal until the user decides; return whether to continue."""
        while True:
            print_lines(format_item(item))
            can_accept = item.verified.can_be_signed
            keys = [key for key in _KEYS if can_accept or key != "a"]
            listed = ", ".join(f"[{key}] {_KEYS[key]}" for key in keys)
            typed = ask_line(f"{listed}? Type a letter and Enter: ", "q").lower()
            # Only the whole word counts: "abort" does not mean "accept".
            key = next((key for key in keys if typed in (key, _KEYS[key])), "")
            if not key:
                say(f"{typed!r} is none of these answers; nothing was decided." if typed else "")
            elif key == "e":
                item = self._edit(item)
            elif key == "a":
                self._sign([Decision(item, item.verified.proposal.enforce)])
                return True
            elif key == "r":
                self._sign([Decision(item, advice=REFUSED)])
                return True
            else:
                return key == "s"

    def _edit(self, item: Item) -> Item:
        """Let the user change the checks; return the sentence with the changed checks."""
        old = item.verified.proposal.enforce
        say("Type a check for each line. Enter keeps it, - removes it; an empty line at the end.")
        lines: list[str] = []
        for line in old:
            typed = ask_line(f"enforce [{line}]: ")
            if typed != "-":
                lines.append(typed or line)
        while len(lines) < MAX_LINES:
            typed = ask_line("enforce: ")
            if not typed:
                break
            lines.append(typed)
        check, problem = compile_proposed(lines, item.rule)
        proposal = Proposal(item.verified.proposal.id, tuple(lines))
        warning = ""
        if check is not None:
            warning = find_warning(item.rule, check, self.store.paths.workspace)
        verified = Verified(proposal, check, problem, warning)
        return attrs.evolve(item, verified=verified, trial=self._try(item, check))

    def _try(self, item: Item, check: Check | None) -> Trial:
        root = self.store.paths.workspace
        return try_checks([item.rule], [check], self.history, root)[0]

    def _sign(self, decisions: Sequence[Decision]) -> None:
        stored = sign(self.store, decisions)
        enforced = sum(bool(each.enforce) for each in stored)
        self.enforced += enforced
        self.refused += len(stored) - enforced
        for each in decisions:
            if each not in stored:
                say(f"  {each.item.number}  {CLOSED}")

    def _report(self) -> None:
        say("")
        say(f"{count(self.enforced, 'check')} signed, {self.refused} left as advice.")
        advice = sum(item.verified.is_advice for item in self.items)
        if advice:
            have = "has" if advice == 1 else "have"
            say(
                f"{count(advice, 'other sentence')} {have} no check; hilum rules compile --json says why."
            )
        lost = [item for item in self.items if not item.verified.proposal.enforce]
        lost = [item for item in lost if not item.verified.is_advice]
        if lost:
            say(
                f"{count(len(lost), 'sentence')} without a usable answer"
                f" {is_or_are(len(lost))} asked about next time:"
            )
        for item in lost[:MAX_LOST]:
            reason = item.verified.rejected
            print_lines(wrap(f"  {item.number}  {reason}", "", INDENT, 2))


def format_item(item: Item) -> Iterator[str]:
    """Yield the lines that show a proposal beside its sentence."""
    verified = item.verified
    yield from _format_sentence(item)
    for line in verified.proposal.enforce:
        yield from wrap(f"enforce: {line}", INDENT, f"{INDENT}  ")
    if verified.check is not None:
        yield from wrap(f"It {verified.check.summary}.", INDENT, INDENT)
        yield from wrap(str(item.trial), INDENT, INDENT)
    if verified.warning:
        yield from wrap(f"Note: {verified.warning}", INDENT, INDENT)
    if verified.rejected:
        yield from wrap(f"Rejected: {verified.rejected}.", INDENT, INDENT)


def _format_sentence(item: Item) -> Iterator[str]:
    yield from wrap(f"  {item.number}  {item.rule.path}:{item.rule.line}", "", INDENT)
    yield from wrap(item.rule.sentence, INDENT, INDENT, 6)
