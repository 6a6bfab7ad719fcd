"""What a conversation shows of the steps of a prompt: the calls of each step, with their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import attrs

from hilum_eval.case import Case, Edit, Read, Run, Search, Write
from hilum_eval.simulation.conversation import Conversation, MadeCall
from hilum_eval.simulation.draws import Draws
from hilum_eval.simulation.outcomes import (
    Outcome,
    normalize,
    read_outcome,
)
from hilum_eval.simulation.plan import (
    Leaf,
    Place,
    PlannedStep,
    plan_turn,
)
from hilum_eval.simulation.profile import Profile
from hilum_eval.simulation.purposes import TRIES, Purpose
from hilum_eval.simulation.toolbox import PlannedCall, Role, Toolbox, encode_arguments

EDIT_KINDS = ("not_found", "unchanged", "multiple", "stale")
"""Outcomes of an edit whose old text is wrong."""


class NextCall(NamedTuple):
    """A call to make.

    Args:
        purpose: What it is for.
        tool: Name of the tool.
        arguments: Its arguments, as JSON.
    """

    purpose: Purpose
    tool: str
    arguments: str


class Finished(NamedTuple):
    """A step on which the model does nothing more.

    Args:
        how: ``done``, ``refused``, ``given_up`` or ``left_out``.
    """

    how: str


@attrs.frozen
class Entry:
    """A call of a step with its outcome."""

    made: MadeCall
    outcome: Outcome

    @property
    def purpose(self) -> str:
        """What the call is for."""
        return self.made.tag.purpose


class StepHistory:
    """The steps of one prompt, as far as a conversation shows them.

    Args:
        case: The case.
        profile: How the model behaves.
        draws: The random numbers.
        conversation: The conversation of the request.
        toolbox: The tools that the request offers.
    """

    def __init__(
        self,
        case: Case,
        profile: Profile,
        draws: Draws,
        conversation: Conversation,
        toolbox: Toolbox,
    ) -> None:
        self._case = case
        self._profile = profile
        self._draws = draws
        self._seen = conversation
        self._tools = toolbox
        self.turn = conversation.turn
        self.groups = plan_turn(case, profile, draws, self.turn)
        self._history: dict[Place, list[Entry]] = {}
        for made in conversation.calls:
            place = Place(made.tag.turn, made.tag.step, made.tag.part)
            entries = self._history.setdefault(place, [])
            entries.append(Entry(made, self._judge(made)))

    def _judge(self, made: MadeCall) -> Outcome:
        if made.result is None:
            return Outcome("other", "")
        return read_outcome(made.result, self._role_of(made))

    def _role_of(self, made: MadeCall) -> str:
        place = Place(made.tag.turn, made.tag.step, made.tag.part)
        if made.tag.purpose == Purpose.READ:
            return "read"
        if made.tag.purpose in (Purpose.FIND, Purpose.SEARCH_AGAIN, Purpose.LONG_OUTPUT):
            return "search"
        if made.tag.purpose == Purpose.REPAIR:
            return "edit"
        for group in self.groups:
            for planned in group:
                if planned.place == place:
                    return get_role(planned.leaf)
        return "run"

    def _count_failures(self, entries: Sequence[Entry]) -> int:
        return sum(entry.purpose in TRIES and entry.outcome.failed for entry in entries)

    def _is_success(self, planned: PlannedStep, outcome: Outcome) -> bool:
        if isinstance(planned.leaf, Run) and planned.leaf.fails:
            return outcome.kind in ("ok", "command")
        return not outcome.failed


def get_role(leaf: Leaf) -> Role:
    """Return the kind of tool that a step needs."""
    roles: dict[type, Role] = {
        Read: "read",
        Edit: "edit",
        Write: "write",
        Search: "search",
        Run: "run",
    }
    return roles[type(leaf)]


def get_path(leaf: Leaf) -> str:
    """Return the file of a step; empty if it has none."""
    return leaf.path if isinstance(leaf, Read | Edit | Write) else ""


def is_same(call: NextCall, entry: Entry) -> bool:
    """Return whether a call repeats a call that failed."""
    made = entry.made
    return (call.tool, call.arguments) == (made.tool, made.arguments)


def as_next(purpose: Purpose, call: PlannedCall) -> NextCall:
    """Return a planned call with its purpose."""
    return NextCall(purpose, call.tool, encode_arguments(call.arguments))


def shows_normalized(text: str, part: str) -> bool:
    """Return whether a text contains another one, apart from blanks and typography."""
    return normalize(part) in normalize(text)
