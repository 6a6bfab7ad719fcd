"""Todo lists and plans, built from the events that the ``plan`` plugin writes."""

from __future__ import annotations

from typing import Any

import msgspec
from hilum import events as ev

TODOS = "plan.todos"
QUESTION_ASKED = "plan.question_asked"
QUESTION_ANSWERED = "plan.question_answered"
PROPOSED = "plan.proposed"
ACCEPTED = "plan.accepted"
REJECTED = "plan.rejected"


class Todo(msgspec.Struct, frozen=True):
    """An item in a todo list.

    Attributes:
        id: Id of the item.
        content: Description of the step.
        status: Status of the item, which is ``pending``, ``in_progress``, ``completed``,
            ``failed``, ``blocked``, ``skipped`` or ``cancelled``.
    """

    id: str
    content: str = ""
    status: str = "pending"


class _Progress(msgspec.Struct):
    completed: int = 0
    total: int = 0


class _TodosData(msgspec.Struct):
    items: tuple[Todo, ...] = ()
    progress: _Progress = msgspec.field(default_factory=_Progress)


class TodoList(msgspec.Struct):
    """The todo list of an agent.

    Attributes:
        items: The items.
        completed: Number of completed items.
        total: Number of items, excluding cancelled and skipped ones.
        changed: The items added or changed by the last event.
        is_new: Whether the last event created a new list.
    """

    items: tuple[Todo, ...] = ()
    completed: int = 0
    total: int = 0
    changed: tuple[Todo, ...] = ()
    is_new: bool = False

    @property
    def current(self) -> Todo | None:
        """The item in progress."""
        return next((item for item in self.items if item.status == "in_progress"), None)

    def apply(self, data: dict[str, Any]) -> bool:
        """Apply the data of a ``plan.todos`` event, and return whether it is valid."""
        try:
            todos = msgspec.convert(data, _TodosData)
        except msgspec.ValidationError:  # any plugin can write an event with this name
            return False
        found = {item.id: item for item in todos.items}
        known = {item.id: item for item in self.items}
        # Changing a list keeps its ids, so a list that shares no id with the old one is a new list.
        self.is_new = not known.keys() & found.keys()
        self.changed = tuple(item for key, item in found.items() if known.get(key) != item)
        self.items = tuple(found.values())
        self.completed = todos.progress.completed
        self.total = todos.progress.total
        return True


class Proposal(msgspec.Struct, frozen=True):
    """A plan that is waiting for the user's decision.

    Attributes:
        run: Id of the run that wrote the plan.
        text: The plan.
        seq: Number of the event that proposed it.
    """

    run: str
    text: str
    seq: int = 0


class PlanDecision(msgspec.Struct, frozen=True):
    """The user's decision about a plan.

    Attributes:
        plan: Id of the run that wrote the plan.
        accepted: Whether the plan is carried out.
        edited: Whether the user changed it before.
        reason: Why it is rejected; empty if the user gave no reason.
    """

    plan: str
    accepted: bool = False
    edited: bool = False
    reason: str = ""


def read_plan_decision(event: ev.Event) -> PlanDecision | None:
    """Return the decision about a plan in an event, or ``None`` for any other event."""
    if not isinstance(event, ev.PluginEvent) or event.name not in (ACCEPTED, REJECTED):
        return None
    try:
        decided = msgspec.convert(event.data, PlanDecision)
    except msgspec.ValidationError:  # any plugin can write an event with this name
        return None
    return msgspec.structs.replace(decided, accepted=event.name == ACCEPTED)
