"""Decide whether a sentence has nothing to do with an enforced sentence of the same rule."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hilum_checks.model import (
    ChangedTogether,
    CommandBefore,
    Commands,
    Constraint,
    Messages,
    ReadFirst,
    RunFirst,
)
from hilum_checks.sentences import Sentence

# Words that may make an exception, whatever the sentence is about.
_EXCEPTIONS = frozenset(
    """
    unless except excepted exception exceptions excluding otherwise however but applies apply fine
    ok okay allowed permitted acceptable optional optionally skip skipped skipping exempt override
    """.split()
)
_REFERENCES = frozenset(
    "it its this that these those they them such same rule rules above below there so only".split()
)
# The beginnings of words for what Git and its hosts do.
_STEMS = ("commit", "push", "pull", "merg", "rebas", "branch", "stash", "amend", "releas", "tag")
_MESSAGE_STEMS = ("commit", "messag", "subject", "squash", "merg", "titl", "prefix")
_GIT = ("git", "gh", "glab", "hub")
_SITUATION = re.compile(r"(?:when|whenever|if|while|during|until|once|after|before|for|in|on|as)\b")


def is_unrelated(sentence: Sentence, constraints: Sequence[Constraint], *, is_scene: bool) -> bool:
    """Return whether a sentence cannot limit what other sentences of its rule forbid.

    Args:
        sentence: The sentence.
        constraints: What the other sentences forbid.
        is_scene: Whether the sentence may say when the next ones apply.
    """
    text = re.sub(r"\bnot optional\b", "", sentence.text)
    words = set(re.findall(r"[a-z]+(?:'[a-z]+)?", text))
    # Chinese has no spaces between words.
    if words & _EXCEPTIONS or re.search(r"[\u3040-\u9fff]", sentence.text):
        return False
    if is_scene and _SITUATION.match(sentence.text):
        return False
    if all(
        isinstance(each, CommandBefore | ReadFirst | RunFirst | ChangedTogether)
        for each in constraints
    ):
        return True  # "Run `a` before committing. If it fails, …"
    if words & _REFERENCES:
        return False
    if not all(map(_is_about_git, constraints)):
        is_later = not is_scene and not _SITUATION.match(sentence.text)
        return is_later and not words & {"may", "can"}
    if all(isinstance(each, Messages) for each in constraints):
        return not any(word.startswith(_MESSAGE_STEMS) for word in words)
    return not any(word.startswith(_STEMS) or word in ("pr", "prs") for word in words)


def _is_about_git(constraint: Constraint) -> bool:
    """Return whether a constraint is about commits and the like, and not about code."""
    if isinstance(constraint, Commands):
        return all(words[0] in _GIT for words in constraint.patterns)
    return isinstance(constraint, CommandBefore | Messages)
