"""The model of a model's recovery: what makes the right next call likely after a failure.

The probability depends on the number of failures (the profile's ``plain``), and its odds are
multiplied for each thing that the request shows: the text or the path that is needed, the names of the
parameters, advice in the error, instructions in the system prompt, a note about repetition. All of
this is read from the request's words, whatever agent wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable

from hilum_eval.simulation.outcomes import (
    REPETITION,
    Outcome,
    find_instructions,
    gives_advice,
    names_parameters,
    shows_text,
)
from hilum_eval.simulation.profile import Recovery

# The part of a system prompt that is about a kind of failure.
_TOPICS = {
    "unchanged": "edit",
    "multiple": "edit",
    "not_found": "edit",
    "stale": "edit",
    "bad_arguments": "arguments",
    "no_file": "path",
    "outside": "path",
    "command": "command",
    "timeout": "command",
    "repeated": "repeat",
}


def find_helps(
    outcome: Outcome, system: str, noted: str, *, old: str, path: str, required: Iterable[str]
) -> frozenset[str]:
    """Return what a request offers to a model that has to recover.

    Args:
        outcome: How the call ended.
        system: The system prompt.
        noted: What the agent's program said after the result.
        old: The text that an edit needs; empty for other calls.
        path: The path that the call needs; empty for none.
        required: The parameters that the tool needs.

    Returns:
        Names of factors in ``Recovery``.
    """
    helps = set()
    if old and shows_text(outcome.text, old):
        helps.add("shows_text")
    if outcome.kind == "bad_arguments" and names_parameters(outcome.text, required):
        helps.add("names_parameters")
    if outcome.kind in ("no_file", "outside") and path and path in outcome.text:
        helps.add("shows_path")
    if gives_advice(outcome.text):
        helps.add("advice")
    if _TOPICS.get(outcome.kind, "") in find_instructions(system):
        helps.add("instructions")
    if outcome.kind == "repeated" or REPETITION.search(noted):
        helps.add("note")
    return frozenset(helps)


def compute_probability(recovery: Recovery, failures: int, helps: Iterable[str]) -> float:
    """Return the probability that the next call is the right one.

    Args:
        recovery: How the model recovers.
        failures: Number of failures of the step so far, at least 1.
        helps: What helps, as ``find_helps`` returns it.
    """
    plain = recovery.plain[min(failures, len(recovery.plain)) - 1]
    if plain >= 1:
        return 1.0
    odds = plain / (1 - plain)
    for name in helps:
        odds *= getattr(recovery, name)
    return odds / (1 + odds)
