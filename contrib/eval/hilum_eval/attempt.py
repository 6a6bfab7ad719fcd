"""The result of one attempt: one agent at one case, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs


@attrs.frozen(kw_only=True)
class Scores:
    """Scores from 0 to 10.

    Args:
        completion: How much of the task is done, as the verifier judges it.
        efficiency: 10 up to the expected number of turns, 1 less for each further 10 %.
        recovery: Share of the failed calls after which the agent succeeded, times 10; 10 without
            failed calls.
        security: 0 or 10.
    """

    completion: float
    efficiency: float
    recovery: float
    security: float


@attrs.frozen(kw_only=True)
class Usage:
    """What an attempt consumed.

    Args:
        turns: Number of answers of the model.
        calls: Number of tool calls.
        failed_calls: Calls that ended with an error.
        recovered_calls: Failed calls after which the agent reached what the call was for.
        wasted_calls: Calls that did not contribute: failed ones, repetitions and detours.
        input_tokens: Tokens of all requests.
        cached_tokens: Those of them that the provider's cache served.
        output_tokens: Tokens of all answers.
        dollars: Cost; ``None`` if the model's price is unknown.
        seconds: Duration of the whole attempt without its setup and verification.
        model_seconds: The part of ``seconds`` spent waiting for the model.
        peak_memory: Highest memory of the agent's process, in bytes; 0 if unknown.
    """

    turns: int = 0
    calls: int = 0
    failed_calls: int = 0
    recovered_calls: int = 0
    wasted_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = None
    seconds: float = 0.0
    model_seconds: float = 0.0
    peak_memory: int = 0


@attrs.frozen(kw_only=True)
class Attempt:
    """One agent at one case, once.

    Args:
        case: Id of the case.
        arm: Name of the arm.
        repeat: Number of the repetition, counted from 0; it is also the seed.
        state: ``verified`` (the verifier gave a judgement), ``broken`` (the fixture, the verifier or
            the agent's start failed, so the attempt says nothing about the agent), or ``skipped``
            (a program that the case needs is missing).
        passed: Whether all scores reach their thresholds.
        scores: The scores; ``None`` unless ``state`` is ``verified``.
        usage: What the attempt consumed.
        observed: Share of the required events, spans, durations and costs found in the trace, 0 to
            1; ``None`` if the agent has no trace.
        checks: The checks of the verifier by name.
        answer: The agent's last answer.
        code: Error code of a broken attempt or of the agent's failed run.
        reason: Why the attempt is broken, skipped or not passed, in one sentence.
        session: Id of the session, for ``hilum trace``.
    """

    case: str
    arm: str
    repeat: int
    state: Literal["verified", "broken", "skipped"]
    passed: bool = False
    scores: Scores | None = None
    usage: Usage = Usage()
    observed: float | None = None
    checks: Mapping[str, Any] = attrs.field(factory=dict)
    answer: str = ""
    code: str = ""
    reason: str = ""
    session: str = ""
