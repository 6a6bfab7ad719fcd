"""Facts that the user stated in an earlier prompt and that a later step needs.

A model that cannot see such a fact any more, because a compaction lost it, writes something else.
"""

from __future__ import annotations

import re

from hilum_eval.case import Case, Edit, Run, Say, Step, Together, Write

# Names and values, not ordinary words: with a digit, an underscore, a dot or a capital inside.
_FACT = re.compile(
    r"(?<![\w.-])"
    r"(?:[A-Za-z][\w-]*(?:[_.\d-]|[a-z][A-Z])[\w.-]*\w"  # App.jsx, KESTREL_9, retryLimit
    r"|[A-Z]{3,}[A-Z_\d]*"
    r"|\d[\d.:-]+\d)"  # 8417, 2031-05-04, 0.25
    r"(?![\w-])"
)


def find_facts(text: str) -> set[str]:
    """Return the names and values in a text."""
    return set(_FACT.findall(text))


def get_texts(step: Step) -> list[str]:
    """Return the texts of a step that the model writes from what it knows."""
    match step:
        case Edit():
            return [step.new]
        case Write():
            return [step.content]
        case Run():
            return [step.command]
        case Say():
            return [step.text]
        case Together():
            return [text for each in step.steps for text in get_texts(each)]
    return []


def list_needed_facts(case: Case) -> list[str]:
    """Return the facts of all prompts that steps need, in order of the prompts."""
    needed: set[str] = set()
    for turn in case.turns:
        for step in turn.steps:
            for text in get_texts(step):
                needed |= find_facts(text)
    facts: dict[str, None] = {}
    for turn in case.turns:
        for fact in sorted(find_facts(turn.prompt) & needed):
            facts[fact] = None
    return list(facts)


def replace_lost_facts(text: str, case: Case, turn: int, visible: str) -> str:
    """Return a text with the facts replaced that the model cannot see any more.

    Args:
        text: What a step writes.
        case: The case.
        turn: Number of the current prompt, from 0.
        visible: Everything that the model can see.
    """
    earlier: set[str] = set()
    for each in case.turns[:turn]:
        earlier |= find_facts(each.prompt)
    lost = {fact for fact in find_facts(text) & earlier if fact not in visible}
    for fact in sorted(lost, key=len, reverse=True):
        text = text.replace(fact, _forget(fact))
    return text


def _forget(fact: str) -> str:
    """Return what a model writes in place of a fact that it does not remember."""
    if fact[0].isdigit():
        # Another number of the same length, as a plausible guess would be.
        return re.sub(r"\d", "0", "1" + fact[1:]) if len(fact) > 1 else "1"
    return f"unknown_{len(fact)}"
