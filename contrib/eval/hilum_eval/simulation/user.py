"""The user of an attempt, who answers approvals and questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hilum.errors import unknown_name_error

from hilum_eval.case import Case, Decision
from hilum_eval.simulation.decisions import take_decision
from hilum_eval.simulation.simulated_user import TEMPERS, SimulatedUser
from hilum_eval.simulation.user_reply import Reply as Reply


class User(Protocol):
    """Someone who answers approvals and questions."""

    def decide(self, tool: str, arguments: str) -> Reply:
        """Return whether a call may run.

        Args:
            tool: Name of the tool.
            arguments: Its arguments, as JSON.
        """
        ...

    def answer(self, question: str, options: Sequence[str]) -> Reply:
        """Return the answer to a question of the agent.

        Args:
            question: The question.
            options: The answers that the agent offers.
        """
        ...

    def follow_up(self, prompt: int, answer: str) -> str:
        """Return what the user types after an answer, before the next prompt; empty for nothing.

        Args:
            prompt: Number of the prompt that was answered, counted from 1.
            answer: The agent's answer.
        """
        ...


class ScriptedUser:
    """A user who makes the decisions of a case.

    Args:
        case: The case.
    """

    def __init__(self, case: Case) -> None:
        self._left = list(case.decisions)

    def decide(self, tool: str, arguments: str) -> Reply:
        """Return the next decision that matches a call; a call that none matches is allowed."""
        found = take_decision(self._left, f"{tool} {arguments}") or Decision()
        return Reply(text=found.answer, reason=found.reason)

    def answer(self, question: str, options: Sequence[str]) -> Reply:
        """Return the next decision that matches a question; by default, the first option."""
        found = take_decision(self._left, question) or Decision()
        if found.answer in ("allow", "reject"):
            return Reply(text=options[0] if options else "", reason=found.reason)
        return Reply(text=found.answer)

    def follow_up(self, prompt: int, answer: str) -> str:
        """Return nothing: only the prompts of the case are sent."""
        return ""


def make_user(case: Case, kind: str, seed: int) -> User:
    """Return the user of an attempt.

    Args:
        case: The case.
        kind: ``scripted``, ``simulated`` (with a temper that the seed chooses), ``patient``,
            ``strict`` or ``distracted``.
        seed: Number of the repetition.

    Raises:
        UsageError: There is no such kind of user.
    """
    if kind == "scripted":
        return ScriptedUser(case)
    if kind == "simulated":
        return SimulatedUser(case, seed)
    if kind in TEMPERS:
        return SimulatedUser(case, seed, kind)
    raise unknown_name_error("user", kind, ["scripted", "simulated", *TEMPERS])
