"""Decides about which sentences a model is asked.

What *may bind* is given to the model: a sentence too many costs a few tokens, and a sentence too few
is never seen, so this filter is generous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hilum_rules.binding import has_binding_word, is_tree, sounds_binding
from hilum_rules.rule import Rule, RulesFile, RuleType

MAX_ASKED = 3_000
"""Maximum length of a text about which a model is asked."""
# A text that consists of code alone.
_CODE_ONLY = re.compile(r"(```|~~~).*\1", re.DOTALL)


def may_bind(rule: Rule) -> bool:
    """Return whether a model is asked about a sentence: all but trees and bare code.

    Half of the sentences that people call enforceable contain no binding word ("For Node: use
    `pnpm`", "After changes, run `make`"), in any language, so that no list of words would do.
    """
    if sounds_binding(rule):
        return True
    if rule.type is RuleType.IDENTITY or len(rule.content) > MAX_ASKED or is_tree(rule):
        return False
    if _CODE_ONLY.fullmatch(rule.content.strip()) and not rule.lead:
        # Commands that are only listed, unless the heading says when they must run.
        return has_binding_word(rule.section.rpartition(" > ")[2])
    return re.search(r"\w", rule.content) is not None


def needs_decision(rule: Rule) -> bool:
    """Return whether a sentence may bind, is not enforced as a whole and was not decided about."""
    is_enforced = rule.is_enforced and not rule.is_partial
    return not is_enforced and not rule.is_decided and may_bind(rule)


def find_undecided(files: Iterable[RulesFile]) -> Iterator[Rule]:
    """Yield the sentences about which ``hilum rules compile`` asks."""
    for file in files:
        yield from filter(needs_decision, file.rules)
