"""A seeded user who answers late, refuses, changes their mind and types short follow-ups.

What a case decides comes first, because its verifier depends on it. Everything else depends on the
user's temper and the seed, not on the agent, so that two agents meet the same user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import attrs

from hilum_eval.case import Case
from hilum_eval.simulation.decisions import take_decision
from hilum_eval.simulation.draws import Draws
from hilum_eval.simulation.user_reply import Reply

_UNFINISHED = re.compile(r"could not|not everything|did not work|unable|remains|left to do", re.I)
_REASONS = (
    "Not like this, please.",
    "I want to look at it first.",
    "Too much at once; go on with the rest.",
)
_CHANGED_MIND = "On second thought, go ahead with it."
_REMARKS = ("ok", "thanks", "and?", "is that all?")
_MAX_FOLLOW_UPS = 2


@attrs.frozen(kw_only=True)
class Temper:
    """How a user behaves; all values but the delays are probabilities.

    Args:
        delay: The shortest and the longest time until an answer, in seconds.
        rejects: A call that the case allows is refused at first.
        changes_mind: A refusal is followed by a message that allows the call after all.
        insists: The user asks to finish what the agent says is unfinished.
        remarks: The user types something short after an answer.
    """

    delay: tuple[float, float] = (0.05, 0.2)
    rejects: float = 0.0
    changes_mind: float = 0.0
    insists: float = 0.0
    remarks: float = 0.0


TEMPERS: Mapping[str, Temper] = {
    "patient": Temper(insists=1.0, remarks=0.05),
    "strict": Temper(rejects=0.3, changes_mind=0.5, insists=0.6),
    "distracted": Temper(
        delay=(0.3, 2.0), rejects=0.15, changes_mind=0.8, insists=0.3, remarks=0.3
    ),
}


class SimulatedUser:
    """A user with a temper.

    Args:
        case: The case, whose decisions come first.
        seed: Number of the repetition.
        temper: ``patient``, ``strict`` or ``distracted``; chosen by the seed if empty.
    """

    def __init__(self, case: Case, seed: int, temper: str = "") -> None:
        self._case = case
        self._draws = Draws(f"user of {case.id}", seed)
        names = list(TEMPERS)
        self.name = temper or names[int(self._draws.draw("temper") * len(names))]
        self._temper = TEMPERS[self.name]
        self._left = list(case.decisions)
        self._asked: dict[str, int] = {}
        self._follow_ups: dict[int, int] = {}

    def decide(self, tool: str, arguments: str) -> Reply:
        """Return whether a call may run. See ``User.decide``."""
        text = f"{tool} {arguments}"
        count = self._count(text)
        delay = self._draw_delay(text, count)
        decision = take_decision(self._left, text)
        if decision is not None:
            return Reply(text=decision.answer, reason=decision.reason, delay=delay)
        # Whoever is asked for the same call again has made up their mind.
        if count or not self._draws.happens(self._temper.rejects, "reject", text):
            return Reply(delay=delay)
        reason = _REASONS[int(self._draws.draw("reason", text) * len(_REASONS))]
        message = ""
        if self._draws.happens(self._temper.changes_mind, "mind", text):
            message = _CHANGED_MIND
        return Reply(text="reject", reason=reason, delay=delay, message=message)

    def answer(self, question: str, options: Sequence[str]) -> Reply:
        """Return the answer to a question. See ``User.answer``."""
        delay = self._draw_delay(question, self._count(question))
        decision = take_decision(self._left, question)
        if decision is not None and decision.answer not in ("allow", "reject"):
            return Reply(text=decision.answer, delay=delay)
        # The agent recommends the first option.
        text = options[0] if options else "Do as you think best."
        return Reply(text=text, delay=delay)

    def follow_up(self, prompt: int, answer: str) -> str:
        """Return what the user types after an answer. See ``User.follow_up``."""
        count = self._follow_ups.get(prompt, 0)
        self._follow_ups[prompt] = count + 1
        if count >= _MAX_FOLLOW_UPS:
            return ""
        # An answer without any details sounds like an excuse.
        is_unfinished = bool(_UNFINISHED.search(answer)) or len(answer.split()) < 2
        if is_unfinished and self._draws.happens(self._temper.insists, "insist", prompt, count):
            return "Is everything done? Please finish what is left."
        if count == 0 and self._draws.happens(self._temper.remarks, "remark", prompt):
            return _REMARKS[int(self._draws.draw("words", prompt) * len(_REMARKS))]
        return ""

    def _count(self, text: str) -> int:
        """Return how often the user was asked the same before."""
        count = self._asked.get(text, 0)
        self._asked[text] = count + 1
        return count

    def _draw_delay(self, text: str, count: int) -> float:
        low, high = self._temper.delay
        return low + (high - low) * self._draws.draw("delay", text, count)
