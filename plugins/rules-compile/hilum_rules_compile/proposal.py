"""A model's proposal for one sentence, and the strict check that it passes before anybody sees it.

A proposal is data from a model that has read text from a repository. It can only forbid, its own
examples must behave as it says, and it never signs anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from hilum_checks import Check, compile_lines
from hilum_checks.model import ExcludedFiles, Messages
from hilum_rules.rule import Rule

from hilum_rules_compile.examples import EVERYDAY, ORDINARY, Example, find_objection

MAX_LINES = 8
"""Maximum number of checks for one sentence."""
MAX_LINE = 600
"""Maximum length of a check in the notation."""
MAX_EXAMPLES = 20


class Proposal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model proposes for one sentence.

    Attributes:
        id: The id of the sentence in the request.
        enforce: The checks, in the notation of ``enforce:`` lines; empty for advice.
        advice: Why the sentence can only be advice; empty if it has checks.
        must_match: Actions that the checks must refuse or ask about.
        must_not_match: Similar actions that the checks must not concern.
    """

    id: str
    enforce: tuple[str, ...] = ()
    advice: str = ""
    must_match: tuple[Example, ...] = ()
    must_not_match: tuple[Example, ...] = ()


class Verified(msgspec.Struct, frozen=True):
    """A proposal after its check.

    Attributes:
        proposal: The proposal.
        check: The compiled check; ``None`` for advice and for a rejected proposal.
        rejected: Why the proposal cannot be signed; empty if it can.
        warning: What the user should know before signing; empty if there is nothing.
    """

    proposal: Proposal
    check: Check | None = None
    rejected: str = ""
    warning: str = ""

    @property
    def is_advice(self) -> bool:
        """Whether the sentence would stay advice."""
        return not self.rejected and self.check is None

    @property
    def can_be_signed(self) -> bool:
        """Whether the proposal is a check that the user can sign."""
        return self.check is not None and not self.rejected


def verify(proposal: Proposal, rule: Rule, root: Path) -> Verified:
    """Check a proposal: its notation, its meaning and its own examples. Blocks.

    Args:
        proposal: The proposal.
        rule: The sentence.
        root: The workspace, to which the examples refer.
    """
    if bool(proposal.enforce) == bool(proposal.advice.strip()):
        return Verified(proposal, rejected="it gives neither a check nor a reason, or both")
    if proposal.advice:
        return Verified(proposal)
    check, problem = compile_proposed(proposal.enforce, rule)
    problem = problem or next(_find_problems(proposal, rule, check, root), "")
    if problem or check is None:
        return Verified(proposal, rejected=problem or "it names nothing")
    return Verified(proposal, check, warning=find_warning(rule, check, root))


def compile_proposed(lines: Sequence[str], rule: Rule) -> tuple[Check | None, str]:
    """Compile checks in the notation strictly; return the check, and why it is not accepted.

    Args:
        lines: The checks.
        rule: The sentence.
    """
    if not lines:
        return None, "it names nothing"
    if len(lines) > MAX_LINES:
        return None, f"it has more than {MAX_LINES} checks"
    for line in lines:
        if len(line) > MAX_LINE or not line.isprintable():
            return None, f"a check is not one line of at most {MAX_LINE} characters"
    compiled, mistakes = compile_lines(lines, folder=rule.folder)
    if mistakes:
        index, mistake = mistakes[0]
        return None, f"`{lines[index][:80]}` cannot be read: {mistake}"
    if compiled.check is None:
        return None, "it names nothing"
    return compiled.check, ""


def _find_problems(
    proposal: Proposal, rule: Rule, check: Check | None, root: Path
) -> Iterator[str]:
    """Yield why a compiled proposal is not accepted."""
    if check is None:
        return
    if any(isinstance(constraint, ExcludedFiles) for _, constraint in check.parts):
        # It would keep other rules away from the agent.
        yield "a check about context is not proposed: write it yourself below the rule"
    if not proposal.must_match or not proposal.must_not_match:
        yield "it lacks examples"
    if len(proposal.must_match) + len(proposal.must_not_match) > MAX_EXAMPLES:
        yield f"it has more than {MAX_EXAMPLES} examples"
        return
    tried = msgspec.structs.replace(rule, check=check)
    for example in proposal.must_match:
        if not find_objection(tried, example, root, certain=True):
            yield f"it does not match its own example: {example}"
    for example in proposal.must_not_match:
        if find_objection(tried, example, root):
            yield f"it matches an example that it must not match: {example}"
    for kind, examples in EVERYDAY.items():
        if kind != "write" and all(find_objection(tried, each, root) for each in examples):
            yield f"it would concern everything that an agent does: {examples[0]}"


def find_warning(rule: Rule, check: Check, root: Path) -> str:
    """Return what the user should know before signing a check; empty if there is nothing. Blocks.

    Args:
        rule: The sentence.
        check: The check.
        root: The workspace.
    """
    tried = msgspec.structs.replace(rule, check=check)
    # A rule may forbid all commits, or require its own form of messages.
    messages = any(isinstance(part, Messages) and not part.wanted for _, part in check.parts)
    for kind, examples in ORDINARY.items():
        if kind == "commit" and not messages:
            continue
        free = sum(not find_objection(tried, each, root) for each in examples)
        # A check that spares only one of them, such as `deny command * except ls`, stops an agent,
        # too.
        if free == 0 or (free == 1 and kind in _SPARED):
            return f"It concerns {'nearly ' if free else ''}every {kind}."
    return ""


# Where a check that spares one of the examples concerns nearly everything.
_SPARED = ("command", "file that an agent reads")
