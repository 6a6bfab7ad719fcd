"""Writes the summary of a conversation that an agent asks for when it compacts."""

from __future__ import annotations

import re

from hilum_eval.case import Case, Edit, Read, Step, Together, Write
from hilum_eval.simulation.conversation import find_progress
from hilum_eval.simulation.draws import Draws
from hilum_eval.simulation.facts import list_needed_facts

_SUMMARY = re.compile(r"summar|compact|condense", re.IGNORECASE)
_HEADING = re.compile(r"^(#+ .+|\*\*[^*\n]+\*\*:?)$", re.MULTILINE)
_SECTIONS = (
    ("goal|intent|objective|task|request|overview", "goal"),
    ("file|code|artifact", "files"),
    ("fact|decision|context|detail|knowledge|concept", "facts"),
    ("open|next|remain|pending|todo|progress|status|current", "progress"),
)


def wants_summary(text: str) -> bool:
    """Return whether a request without tools asks for a summary."""
    return bool(_SUMMARY.search(text))


def write_summary(case: Case, instructions: str, text: str, draws: Draws, forget: float) -> str:
    """Return a summary of what a request shows.

    Args:
        case: The case.
        instructions: The system prompt or the order, whose headings are used.
        text: The conversation to summarize.
        draws: The random numbers.
        forget: Share of the facts that are left out.
    """
    facts = []
    for fact in list_needed_facts(case):
        if fact in text and not draws.happens(forget, "forget", fact):
            facts.append(fact)
    paths = [path for path in _list_paths(case) if path in text]
    progress = find_progress(text)
    contents = {
        "goal": "The user's requests, in their order; the current one follows.",
        "files": "\n".join(f"- {path}" for path in paths) or "None.",
        "facts": "\n".join(f"- {fact}" for fact in facts) or "None.",
        "progress": "\n".join(f"- {each}" for each in progress) or "None.",
    }
    headings = list(dict.fromkeys(_HEADING.findall(instructions)))
    if not headings:
        return "\n\n".join(f"{name.title()}:\n{body}" for name, body in contents.items())
    parts = []
    used: set[str] = set()
    for heading in headings:
        name = _choose_section(heading)
        body = contents[name] if name and name not in used else "None."
        used.add(name)
        parts.append(f"{heading}\n{body}")
    left = [contents[name] for name in ("facts", "progress") if name not in used]
    return "\n".join([*parts, *left])


def _choose_section(heading: str) -> str:
    for pattern, name in _SECTIONS:
        if re.search(pattern, heading, re.IGNORECASE):
            return name
    return ""


def _list_paths(case: Case) -> list[str]:
    paths: dict[str, None] = {}
    for turn in case.turns:
        for step in turn.steps:
            for path in _get_paths(step):
                paths[path] = None
    return list(paths)


def _get_paths(step: Step) -> list[str]:
    if isinstance(step, Read | Edit | Write):
        return [step.path]
    if isinstance(step, Together):
        return [path for each in step.steps for path in _get_paths(each)]
    return []
